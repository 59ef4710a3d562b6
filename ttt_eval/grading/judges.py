"""Judges: what a task asks of a submission, and the check of its answers against exact ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import nan
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from ttt_envs.arrays import GameArrays, game_arrays
from ttt_envs.core.checks import DATA_PROBLEMS, Refusal, TypeRefusal, truncate
from ttt_envs.game.boards import to_text
from ttt_envs.game.game import Game
from ttt_eval.checks import (
    PROBES,
    Check,
    CheckRow,
    Evidence,
    check_advantages,
    check_agent,
    check_search,
    check_values,
)
from ttt_eval.checks.calls import CallError
from ttt_eval.checks.check import Status, judge
from ttt_eval.checks.learner import CREDIT, MAX_EXCESS, LearnerCheck, ProbeLimits
from ttt_eval.checks.probes import LearnerProbe, MakeEnv
from ttt_eval.checks.tables import TIE, make_table
from ttt_eval.exact.decision_values import SelfPlayValues
from ttt_eval.grading.submission import SubmissionError, SubmissionProcess

Judge = Callable[..., Check]
DISCOUNT = 0.9
LAMBDA = 0.95
MAX_VALUE_ERROR = 1e-3
"""Largest error of values of value iteration."""
NO_MINUS = "the value of the next position has no minus sign: it is the other player's"
IMAGINED = "games that go on are taken for finished: a line that wins is none"
MAX_EVIDENCE = 3
MAX_CREDIT_ERROR = 0.004
"""Largest error of values in the probe "credit" of Q-learning: right ones have 0.000 once they have
converged, with a discount of 0.99 they have 0.005.
"""
NUM_SIMULATIONS = 200
"""Number of simulations of a search whose moves are checked in all positions: right ones block."""
NUM_ENVS = 16
"""Number of simultaneous games in the environments of submissions."""
VALUE_PROBES = {"bandit", "credit"}
"""Probes without whose moves values are not judged."""
MAX_STEPS = 1.25
"""Maximum number of moves, as a multiple of the number that a learner is given."""
GAMES = {
    "one move": (Game(2, 3, 3), 0.0),
    "skips": (Game(2, 3, 3, skip_chance=0.25), 1.0),
    "discount": (Game(2, 3, 3, skip_chance=0.25), 0.9),
    "3 x 3": (Game(3, 3, 3, skip_chance=0.25), 0.9),
}
"""Games and discounts of value iteration, by row."""


def judge_minimax(submission: SubmissionProcess) -> Check:
    """Check ``minimax(board)``, which returns a move and the value for the player to move."""
    answers: dict[Sequence[int], Any] = {}

    def ask(board: Sequence[int]) -> Any:
        if board not in answers:
            answers[board] = _ask(submission, "a pair (cell, value)", 2, board)
        return answers[board]

    agent = check_agent(lambda board: ask(board)[0], limit_s=None)
    values = check_values(lambda board: ask(board)[1], limit_s=None)
    rows = {row.name: row for row in (*values.rows, *agent.rows)}
    num_errors = sum(not _is_exact(board, answer) for board, answer in answers.items())
    text = f"{num_errors} of {len(answers)} moves or values are not the best"
    exact = judge("exact", text, num_errors if answers else nan, 0, rule="none")
    causes = [*_minimax_errors(answers), *agent.causes, *values.causes]
    return Check(agent.subject, [*rows.values(), exact], causes)


def _minimax_errors(answers: Mapping[Sequence[int], Any]) -> list[str]:
    """Return the errors that explain all values of a submission; none of right ones."""
    lines = [line.cells for line in Game().lines]
    fits = {
        f"the line of cells {line} is not seen": _fits(answers, {*lines} - {line}) for line in lines
    }
    fits[NO_MINUS] = _fits(answers, lines, 1) or _fits(answers, lines, 1, loss=1)
    fits[IMAGINED] = any(answer[0] is None for answer in answers.values())
    return [error for error, fit in fits.items() if fit]


def _fits(
    answers: Mapping[Sequence[int], Any],
    lines: Collection[Sequence[int]],
    sign: int = -1,
    loss: int = -1,
) -> bool:
    """Return whether all values of a submission are those of minimax with an error.

    Args:
        answers: moves and values by board.
        lines: cells of those that win.
        sign: of the next position's value.
        loss: value of a lost game.
    """

    @cache
    def search(board: tuple[int, ...]) -> int:
        if any(all(board[cell] == -1 for cell in line) for line in lines):
            return loss
        values = [
            sign * search(tuple(-stone for stone in (*board[:cell], 1, *board[cell + 1 :])))
            for cell, stone in enumerate(board)
            if stone == 0
        ]
        return max(values, default=0)

    boards = sorted(map(tuple, answers), key=lambda board: board.count(0))  # the cheapest first
    try:
        return all(abs(answers[board][1] - search(board)) < TIE for board in boards)
    except DATA_PROBLEMS:
        return False


def _ask(submission: SubmissionProcess, form: str, length: int, *arguments: Any) -> Any:
    """Return an answer that is a list or an array.

    Raises:
        CallError: it has another form, or the function raised something.
        SubmissionError: the submission has ended.
    """
    answer = submission.call(0, *arguments)
    if isinstance(answer, list | np.ndarray) and len(answer) == length:
        return answer
    problem = f"return {form}; yours returned {truncate(answer)}"
    submission.error = submission.error or problem
    raise CallError(problem)


def _is_exact(board: Sequence[int], answer: Any) -> bool:
    """Return whether the move is one of the best, and the value right."""
    table = make_table("plain")
    row = table.index(board)
    try:
        move, value = answer
        return bool(max(table.losses[row, move], abs(value - table.values[row])) < TIE)
    except DATA_PROBLEMS:
        return False


def judge_search(submission: SubmissionProcess) -> Check:
    """Check ``search(board, simulations, seed)``, which returns visits and the root's value."""

    def search(game: Any, board: Any, evaluator: None, simulations: int, seed: int) -> Any:
        form = "a pair (visits of all cells, value)"
        return tuple(_ask(submission, form, 2, board, simulations, seed))

    def play(board: Any) -> int:
        visits, _ = search(None, board, None, NUM_SIMULATIONS, 0)
        return int(np.argmax(visits))

    check = check_search(search, "plain", None, limit_s=None)
    agent = check_agent(play, limit_s=None)
    rows = [row for row in agent.rows if row.name == "block"]
    causes = [*agent.causes, *check.causes] if "block" in agent.failed else check.causes
    return Check(check.subject, [*check.rows, *rows], causes)


def judge_advantages(submission: SubmissionProcess) -> Check:
    """Check ``gae(rewards, values, dones, next_value, next_done, discount, lam)``."""

    def gae(rewards: Any, values: Any, dones: Any, next_value: Any, next_done: Any) -> Any:
        arrays = rewards, values, dones, next_value, next_done
        return submission.call(0, *arrays, DISCOUNT, LAMBDA)

    check = check_advantages(gae, gamma=DISCOUNT, cpu=10.0, limit_s=None)
    estimator = f"GAE({DISCOUNT}, {LAMBDA})"
    is_other = float(check.recognised != estimator)
    text = f"recognised: {check.recognised or 'nothing'}"
    row = judge("lambda", text, is_other, 0, rule=estimator)
    return replace(check, rows=[*check.rows, row])


def judge_value_iteration(submission: SubmissionProcess) -> Check:
    """Check ``value_iteration(legal, next_states, rewards, skip_chance, discount)``, which returns
    the values of all states if both players play perfectly.
    """
    rows: list[CheckRow] = []
    for name, (game, discount) in GAMES.items():
        arrays = game_arrays(game)
        model = SelfPlayValues(arrays)
        exact, _ = model.fixed_point(model.best, discount=discount)
        try:
            size = len(arrays.rewards)
            answer = _ask(submission, f"{size} values", size, *_game(arrays), discount)
            errors = np.asarray(answer, np.float64)[: len(exact)] - exact
        except (CallError, SubmissionError, *DATA_PROBLEMS) as error:
            rows.append(CheckRow("answers", str(error), "fails", "values of all states"))
            break
        boards = arrays.boards(0)
        evidence = [
            Evidence(
                to_text(boards.position(row), game),
                f"the value is {exact[row] + errors[row]:+.3f}, the truth {exact[row]:+.3f}",
            )
            for row in np.argsort(-np.abs(errors))[:MAX_EVIDENCE]
        ]
        max_error = np.abs(errors).max()
        text = f"largest error of {len(exact)} values: {max_error:.4f}"
        rule = f"at most {MAX_VALUE_ERROR}"
        rows.append(judge(name, text, max_error, MAX_VALUE_ERROR, evidence, rule=rule))
    return Check("value iteration", rows, ["values are not those of perfect play"])


def judge_learner(
    submission: SubmissionProcess, limits: Mapping[str, float], values: bool = False
) -> Check:
    """Check ``train(environment, steps, seed)``, which returns a function of observations; in
    self-play ``train(game, observations, num_starts, seed)``, which learns from arrays.

    A learner that does not reach a limit has a second attempt, with another seed and twice the
    steps: slow is not wrong. Values fail if they are not possible, or if those of the probe
    "credit" do not become right, or better with each doubling of the steps. A table of the own
    stones alone has all points: in these probes they nearly tell the positions apart, and right
    learners with other settings have the same scores.

    Args:
        submission: that has the function.
        limits: least scores by name of the probe, see :data:`ttt_eval.checks.PROBES`.
        values: whether scores of actions are their values, which are judged in the row "values".
    """

    def train(make_env: MakeEnv, steps: int, seed: int) -> Any:
        agent = submission.call(0, *_task(make_env, steps, seed + steps), seed + steps)
        if agent is None:
            raise TypeRefusal("train returned None: return a function of observations")
        if values and callable(agent):
            agent.values = agent
        return agent

    def limits_of(probe: LearnerProbe, kind: str) -> ProbeLimits:
        of_values = {CREDIT: ("error", MAX_CREDIT_ERROR)}.get(probe.name, ("excess", MAX_EXCESS))
        return ProbeLimits(limits[probe.name], *of_values)

    checker = LearnerCheck(train, limits_of, {"error"}, range(1))
    try:
        for name in limits:
            checker.check_probe(PROBES[name])
    except (CallError, SubmissionError, *DATA_PROBLEMS) as error:
        submission.error = submission.error or str(error)
        row = CheckRow("answers", str(error), "fails", "a function of observations")
        return Check("a learner", [row], [str(error)])
    rows = [row for row in checker.rows if row.name in limits]
    if values:
        others = [f"{row.name}: {row.measured}" for row in checker.rows if row.name not in limits]
        failed = {row.name for row in checker.rows if row.status == "fails"}
        status: Status = "no evidence" if failed & VALUE_PROBES else "holds"
        if not failed <= limits.keys():
            status = "fails"
        rule = "right in credit, or better with each doubling of the steps; possible elsewhere"
        rows.append(CheckRow("values", "; ".join(others), status, rule))
    return Check("a learner", rows, checker.causes())


def _task(make_env: MakeEnv, steps: int, seed: int) -> tuple[Any, ...]:
    """Return what a learner is given beside its seed."""
    if not make_env.self_play:
        return ServedEnvironment(make_env, steps, seed).message(), steps
    model: Any = PROBES["self-play"].exact.model
    return (*_game(model.arrays), model.arrays.observations, model.starts)


def _game(arrays: GameArrays) -> tuple[Any, ...]:
    return arrays.legal, arrays.next, arrays.rewards, arrays.skip_chance


class ServedEnvironment:
    """The environment of a submission, see ``task.md``.

    Args:
        make_env: makes the games.
        steps: number of moves in all games that a submission is given; :data:`MAX_STEPS` times as
            many are allowed, to end a rollout.
        seed: of games that the submission begins without one.
    """

    def __init__(self, make_env: MakeEnv, steps: int, seed: int) -> None:
        envs: Any = make_env(NUM_ENVS, autoreset_mode=AutoresetMode.SAME_STEP)
        envs.reset(seed=seed)
        self.envs = envs
        self.num_actions = int(envs.single_action_space.n)
        self.steps = steps
        self.num_moves = 0
        self.mask = np.ones((NUM_ENVS, self.num_actions), np.int8)

    def message(self) -> dict[str, Any]:
        """Return what the submission's environment is made of."""
        numbers = {"num_envs": NUM_ENVS, "num_actions": self.num_actions}
        return {"reset": self.reset, "step": self.step, **numbers}

    def reset(self, seed: int | None = None) -> list[Any]:
        """Begin all games."""
        observations, info = self.envs.reset(seed=seed)
        self.mask = info["action_mask"].copy()
        return [observations, {"action_mask": self.mask}]

    def step(self, actions: Any) -> list[Any]:
        """Make a move in each game.

        Raises:
            ValueError: an action is illegal, or there were too many moves.
        """
        self.num_moves += NUM_ENVS
        if self.num_moves > MAX_STEPS * self.steps:
            raise Refusal(
                f"it makes more than {MAX_STEPS} times the {self.steps:,} moves that it is given: "
                f"call environment.step {self.steps // NUM_ENVS:,} times"
            )
        actions = np.asarray(actions)
        observations, rewards, terminated, truncated, info = self.envs.step(actions)
        illegal = np.flatnonzero(self.mask[np.arange(NUM_ENVS), actions] == 0)
        if len(illegal):
            raise Refusal(
                f"game {illegal[0]}: action {actions[illegal[0]]} is illegal: choose actions for "
                'which info["action_mask"] is 1'
            )
        self.mask = info["action_mask"].copy()
        next_observations = observations.copy()
        next_mask = self.mask.copy()
        for game in np.flatnonzero(terminated | truncated):
            next_observations[game] = info["final_obs"][game]
            next_mask[game] = info["final_info"]["action_mask"][game]
        infos = {
            "action_mask": self.mask,
            "next_observations": next_observations,
            "next_action_mask": next_mask,
        }
        return [observations, rewards, terminated, truncated, infos]


ROWS: Mapping[str, Sequence[str]] = {
    "minimax": (
        "rules", "win at once", "win, not draw", "block", "win later", "hold a draw", "players",
        "directions", "mean loss", "sign, even", "sign, odd", "scale", "draws", "symmetry", "error",
        "exact",
    ),
    "search": ("rules", "results", "near the end", "without knowledge", "rollouts", "block"),
    "value iteration": tuple(GAMES),
    "advantages": (
        "ends", "next_done", "cut", "past", "last row", "discount", "own reward", "gradient",
        "lambda",
    ),
    "learner": (*PROBES, "values"),
}  # fmt: skip
"""Names of rows that can have weights, by judge."""
JUDGES: Mapping[str, Judge] = {
    "minimax": judge_minimax,
    "search": judge_search,
    "value iteration": judge_value_iteration,
    "advantages": judge_advantages,
    "learner": judge_learner,
}
