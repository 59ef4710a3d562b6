"""Judges: what a task asks of a submission, and the check of its answers against exact ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import nan
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from ttt_envs.arrays import GameArrays, game_arrays
from ttt_envs.core.checks import DATA_PROBLEMS, Refusal, truncate
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
from ttt_eval.checks.learner import DISCOUNTS, MAX_SHOWN_SCORE, LearnerRun, measure_agent
from ttt_eval.checks.probes import PREDICTED_ERRORS, LearnerProbe, MakeEnv
from ttt_eval.checks.tables import TIE, make_table
from ttt_eval.exact.decision_values import SelfPlayValues
from ttt_eval.grading.submission import SubmissionError, SubmissionProcess

Judge = Callable[..., Check]
DISCOUNT = 0.9
LAMBDA = 0.95
MAX_VALUE_ERROR = 1e-3
"""Largest error of values of value iteration."""
MAX_EVIDENCE = 3
NUM_ENVS = 16
"""Number of simultaneous games in the environments of submissions."""
NUM_ATTEMPTS = 2
SURE_PROBES = ("bandit", "credit", "defence", "truncation")
"""Probes in which errors have sure scores, because nothing there is by chance."""
NEAR_SCORE = 0.04
"""Scores within this distance are those of an error."""
VALUE_PROBES = ("bandit", "credit")
"""Probes without whose moves values are not judged."""
NEAR_ERROR = 0.005
"""Mean errors of values within this distance are those of an error, such as a discount, whose mean
error in the probe "credit" is known.
"""
MAX_BANDIT_ERROR = 1.0
"""Values of 0 to 1, whose truth is 1, have no larger mean error."""
NO_END = "next values count after the end of a game (or values are rescaled): values grow above 1"
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
    return Check(agent.subject, [*rows.values(), exact], [*agent.causes, *values.causes])


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

    return check_search(search, "plain", None, limit_s=None)


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
    steps: slow is not wrong. Values fail only if they show an error clearly.

    Args:
        submission: that has the function.
        limits: least scores by name of the probe, see :data:`ttt_eval.checks.PROBES`.
        values: whether scores of actions are their values, which are judged in the row "values".
    """
    rows: list[CheckRow] = []
    scores: dict[str, float] = {}
    errors: dict[str, str] = {}
    causes: list[str] = []
    try:
        for name, limit in limits.items():
            probe = PROBES[name]
            runs: list[LearnerRun] = []
            cause = ""
            for seed in range(NUM_ATTEMPTS):
                runs.append(train_in_probe(submission, probe, seed, values))
                cause = _wrong_values(name, runs[-1])
                if runs[-1].score >= limit and not cause:
                    break
            rows.append(_score_row(probe, runs, limit))
            scores[name] = max(run.score for run in runs)
            errors[name] = f"{name} {runs[-1].error:.2f}"
            if cause:
                causes.append(cause)
    except (CallError, SubmissionError, *DATA_PROBLEMS) as error:
        submission.error = submission.error or str(error)
        row = CheckRow("answers", str(error), "fails", "a function of observations")
        return Check("a learner", [row], [str(error)])
    if values:
        text = f"mean errors: {', '.join(errors.values())}"
        unlearned = [row for row in rows if row.name in VALUE_PROBES and row.status == "fails"]
        status: Status = "no evidence" if unlearned else "holds"
        if causes:
            status = "fails"
        rows.append(CheckRow("values", text, status, "none of a known error; any that converge"))
    return Check(
        "a learner", rows, [*causes, *filter(partial(_explains, scores), PREDICTED_ERRORS)]
    )


def train_in_probe(submission: Any, probe: LearnerProbe, seed: int, values: bool) -> LearnerRun:
    """Train a submission in a probe, and return what it reached; a higher seed has more steps.

    Raises:
        CallError, SubmissionError: it raised something, or has ended.
        TypeError, ValueError: it returned no function, or its answers have another shape.
    """
    agent = submission.call(0, *_task(probe, seed), seed)
    if values and callable(agent):
        agent.values = agent
    return measure_agent(probe, agent)


def _score_row(probe: LearnerProbe, runs: Sequence[LearnerRun], limit: float) -> CheckRow:
    best = max(runs, key=lambda run: run.score)
    evidence = [] if best.mistake is None else [best.mistake]
    text = f"score {runs[0].score:.2f} with {probe.steps:,} steps"
    if len(runs) > 1:
        text += f", {runs[1].score:.2f} with twice as many"
    return judge(probe.name, text, best.score, limit, evidence, minimum=True)


def _wrong_values(name: str, run: LearnerRun) -> str:
    """Return the error of a learner whose moves are right, but not its values; "" if a right one
    that has not converged may have them too.
    """
    if name == "bandit" and run.error > MAX_BANDIT_ERROR and run.score > MAX_SHOWN_SCORE:
        return NO_END
    causes = [
        discount
        for discount in DISCOUNTS
        if abs(run.error - PROBES["credit"].power(discount).value_error) < NEAR_ERROR
    ]
    return causes[0] if causes and name == "credit" else ""


def _explains(scores: Mapping[str, float], error: str) -> bool:
    """Return whether an error, and no right learner, has scores like these."""
    predictions = {name: PROBES[name].power(error).score for name in SURE_PROBES if name in scores}
    is_near = all(abs(scores[name] - score) < NEAR_SCORE for name, score in predictions.items())
    return is_near and any(score < MAX_SHOWN_SCORE for score in predictions.values())


def _task(probe: LearnerProbe, seed: int) -> tuple[Any, ...]:
    """Return what a learner is given beside its seed."""
    steps = (seed + 1) * probe.steps
    if not probe.make_env.self_play:
        return ServedEnvironment(probe.make_env, steps, seed).message(), steps
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
    "search": ("rules", "results", "near the end", "without knowledge", "rollouts"),
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
