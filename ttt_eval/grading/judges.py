"""Judges: what a task asks of a submission, and the check of its answers against exact ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from ttt_envs.arrays import GameArrays, game_arrays
from ttt_envs.core.checks import DATA_PROBLEMS, Refusal, TypeRefusal, truncate
from ttt_envs.core.files import read_table
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
from ttt_eval.grading.wrong_searches import name_errors

Judge = Callable[..., Check]
DISCOUNT = 0.9
LAMBDA = 0.95
MAX_VALUE_ERROR = 1e-3
"""Largest error of values of value iteration."""
IMAGINED = "games that go on are taken for finished: a line that wins is none"
MAX_EVIDENCE = 3
MAX_CREDIT_ERROR = 0.004
"""Largest error of values in the probe "credit" of Q-learning: right ones have 0.000 once they have
converged, with a discount of 0.99 they have 0.005.
"""
NUM_SIMULATIONS = 200
"""Number of simulations of a search whose moves are checked in all positions: right ones block."""
MAX_FREE = 4
"""Largest number of free cells of positions whose values name an error of a search."""
NUM_ENVS = 16
"""Number of simultaneous games in the environments of submissions."""
VALUE_PROBES = {"bandit", "credit"}
"""Probes without whose moves values are not judged."""
MAX_STEPS = 1.25
"""Maximum number of moves, as a multiple of the number that a learner is given."""
TABLES = read_table(__file__)
GAMES = {name: (Game(**options), discount) for name, (options, discount) in TABLES["games"].items()}
"""Games and discounts of value iteration, by row."""
VALUE_NOTE = "the value is {:+.3f}, the truth {:+.3f}"


def judge_minimax(submission: SubmissionProcess) -> Check:
    """Check ``minimax(board)``, which returns a move and the value for the player to move."""
    answers: dict[Sequence[int], Any] = {}

    def ask(board: Sequence[int]) -> Any:
        if board not in answers:
            answers[board] = _ask(submission, "a pair (cell, value)", 2, board)
        return answers[board]

    agent = check_agent(lambda board: ask(board)[0], limit_s=None)
    values = check_values(lambda board: ask(board)[1], limit_s=None)
    num_errors = sum(not _is_exact(board, answer) for board, answer in answers.items())
    text = f"{num_errors} of {len(answers)} moves or values are not the best"
    evidence = [position for row in values.rows for position in row.evidence]
    exact = judge("exact", text, num_errors if answers else nan, 0, evidence, rule="none")
    rows = {row.name: row for row in (*values.rows, *agent.rows, exact)}
    errors = name_errors({board: pair[1] for board, pair in answers.items()}) if num_errors else []
    imagined_ends = [IMAGINED for move, _ in answers.values() if move is None]
    causes = [*errors, *imagined_ends[:1], *agent.causes, *values.causes]
    return Check(agent.subject, [*rows.values()], causes)


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
    values: dict[Sequence[int], Any] = {}

    def search(game: Any, board: Any, evaluator: None, simulations: int, seed: int) -> Any:
        visits, value = _ask(
            submission, "a pair (visits of all cells, value)", 2, board, simulations, seed
        )
        if simulations >= NUM_SIMULATIONS and board.count(0) <= MAX_FREE:
            values[board] = value
        return visits, value

    def play(board: Any) -> int:
        visits, _ = search(None, board, None, NUM_SIMULATIONS, 0)
        return int(np.argmax(visits))

    check = check_search(search, "plain", None, limit_s=None)
    agent = check_agent(play, limit_s=None)
    rows = [row for row in agent.rows if row.name == "block"]
    causes = [*agent.causes, *check.causes] if "block" in agent.failed else check.causes
    errors = name_errors(values, any_play=True) if "results" in check.failed else []
    return Check(check.subject, [*check.rows, *rows], [*errors, *causes])


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
                VALUE_NOTE.format(exact[row] + errors[row], exact[row]),
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
        agents.append(agent)
        return agent

    def limits_of(probe: LearnerProbe, kind: str) -> ProbeLimits:
        of_values = {CREDIT: ("error", MAX_CREDIT_ERROR)}.get(probe.name, ("excess", MAX_EXCESS))
        return ProbeLimits(limits[probe.name], *of_values)

    agents: list[Any] = []
    evidence: list[Evidence] = []
    checker = LearnerCheck(train, limits_of, {"error"}, range(1))
    try:
        for name in limits:
            checker.check_probe(PROBES[name])
            if values and checker.rows[-1].status == "fails":
                evidence.append(_wrong_value(PROBES[name], agents[-1]))
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
        rows.append(CheckRow("values", "; ".join(others), status, rule, tuple(evidence)))
    return Check("a learner", rows, checker.causes())


def _wrong_value(probe: LearnerProbe, agent: Any) -> Evidence:
    """Return the position in which the value of the best action is most wrong, times its visits."""
    exact = probe.exact
    learned_values = np.where(exact.model.allowed, agent(exact.observations), -np.inf)
    errors = np.abs(learned_values.max(axis=1) - exact.values)
    row = int((exact.weights(exact.greedy(learned_values)) * errors).argmax())
    action = int(learned_values[row].argmax())
    note = VALUE_NOTE.format(learned_values[row, action], exact.action_values[row, action])
    return Evidence(exact.text(row), f"cell {action}: {note}")


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
        return {
            "reset": self.reset,
            "step": self.step,
            "num_envs": NUM_ENVS,
            "num_actions": self.num_actions,
        }

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
    **TABLES["rows"],
    "value iteration": tuple(GAMES),
    "learner": (*PROBES, "values"),
}
"""Names of rows that can have weights, by judge."""
JUDGES: Mapping[str, Judge] = {
    "minimax": judge_minimax,
    "search": judge_search,
    "value iteration": judge_value_iteration,
    "advantages": judge_advantages,
    "learner": judge_learner,
}
