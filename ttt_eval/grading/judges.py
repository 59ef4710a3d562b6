"""Judges: what a task asks of a submission, and the check of its answers against exact ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode

from ttt_envs.arrays import GameArrays, game_arrays
from ttt_envs.core.checks import DATA_PROBLEMS, Refusal, find_named
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
from ttt_eval.checks.check import judge
from ttt_eval.checks.learner import LearnerRun, measure_agent
from ttt_eval.checks.probes import ERRORS, LearnerProbe, MakeEnv
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
NEAR_SCORE = 0.1
"""Scores within this distance are those of an error."""
NEAR_VALUES = 0.02
"""Values within this distance are those of an error."""
MAX_VALUE = 1.05
"""Largest value of a right learner: results are -1 to 1."""
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
            answers[board] = submission.call(0, board)
        return answers[board]

    agent = check_agent(lambda board: ask(board)[0], limit_s=None)
    values = check_values(lambda board: ask(board)[1], limit_s=None)
    rows = {row.name: row for row in (*values.rows, *agent.rows)}
    wrong = sum(not _is_exact(board, answer) for board, answer in answers.items())
    text = f"{wrong} of {len(answers)} moves or values are not the best"
    exact = judge("exact", text, wrong if answers else nan, 0, rule="none")
    return Check(agent.subject, [*rows.values(), exact], [*agent.causes, *values.causes])


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
        return tuple(submission.call(0, board, simulations, seed))

    return check_search(search, "plain", None, limit_s=None)


def judge_advantages(submission: SubmissionProcess) -> Check:
    """Check ``gae(rewards, values, dones, next_value, next_done, discount, lam)``."""

    def gae(rewards: Any, values: Any, dones: Any, next_value: Any, next_done: Any) -> Any:
        arrays = rewards, values, dones, next_value, next_done
        return submission.call(0, *arrays, DISCOUNT, LAMBDA)

    check = check_advantages(gae, gamma=DISCOUNT, cpu=10.0, limit_s=None)
    right = f"GAE({DISCOUNT}, {LAMBDA})"
    wrong = float(check.recognised != right)
    row = judge("lambda", f"recognised: {check.recognised or 'nothing'}", wrong, 0, rule=right)
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
            answer = submission.call(0, *_game(arrays), discount)
            errors = np.ravel(np.asarray(answer, np.float64))[: len(exact)] - exact
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
        largest = np.abs(errors).max()
        text = f"largest error of {len(exact)} values: {largest:.4f}"
        rule = f"at most {MAX_VALUE_ERROR}"
        rows.append(judge(name, text, largest, MAX_VALUE_ERROR, evidence, rule=rule))
    return Check("value iteration", rows, ["values are not those of perfect play"])


class Attempt(NamedTuple):
    """What a learner reached in a probe."""

    steps: int
    run: LearnerRun
    largest: float
    """largest absolute value where its best actions lead; 0 if values are not judged"""
    wrong_target: str
    """error of :data:`ttt_eval.checks.probes.ERRORS` whose values it has there; else empty"""


def judge_learner(
    submission: SubmissionProcess, limits: Mapping[str, float], values: bool = False
) -> Check:
    """Check ``train(environment, steps, seed)``, which returns a function of observations; in
    self-play ``train(game, observations, num_starts, seed)``, which learns from arrays.

    A learner that does not reach a limit has a second attempt, with another seed and twice the
    steps: slow is not wrong. Values fail only if they cannot be those of a right learner that has
    not converged.

    Args:
        submission: that has the function.
        limits: least scores by name of the probe, see :data:`ttt_eval.checks.PROBES`.
        values: whether scores of actions are their values, which are judged in the row "values".
    """
    attempts: dict[str, list[Attempt]] = {}
    try:
        for name, limit in limits.items():
            probe = find_named("probe", name, PROBES)
            attempts[name] = []
            for seed in range(NUM_ATTEMPTS):
                attempt = train_in_probe(submission, probe, (seed + 1) * probe.steps, seed, values)
                attempts[name].append(attempt)
                is_right = attempt.largest <= MAX_VALUE and not attempt.wrong_target
                if attempt.run.score >= limit and is_right:
                    break
    except (CallError, SubmissionError, *DATA_PROBLEMS) as error:
        row = CheckRow("answers", str(error), "fails", "a function of observations")
        return Check("a learner", [row], [str(error)])
    rows = [_score_row(PROBES[name], attempts[name], limit) for name, limit in limits.items()]
    largest = max(min(attempt.largest for attempt in row) for row in attempts.values())
    wrong_targets = {row[-1].wrong_target for row in attempts.values()} - {""}
    if values:
        errors = [f"{name} {row[-1].run.error:.2f}" for name, row in attempts.items()]
        text = f"mean errors: {', '.join(errors)}; largest value {largest:.2f}"
        holds = largest <= MAX_VALUE and not wrong_targets
        rule = f"at most {MAX_VALUE}, and not those of a known error: they need not have converged"
        rows.append(CheckRow("values", text, "holds" if holds else "fails", rule))
    scores = {name: max(attempt.run.score for attempt in row) for name, row in attempts.items()}
    causes = [error for error in ERRORS if _explains(error, scores, wrong_targets)]
    if largest > MAX_VALUE:
        text = "next values count after the end of a game, or rewards are rescaled"
        causes.insert(0, f"values reach {largest:.1f}, where results are -1 to 1: {text}")
    return Check("a learner", rows, causes)


def train_in_probe(
    submission: Any, probe: LearnerProbe, steps: int, seed: int, values: bool
) -> Attempt:
    """Train a submission in a probe, and return what it reached.

    Raises:
        CallError, SubmissionError: it raised something, or has ended.
        TypeError, ValueError: it returned no function, or its answers have another shape.
    """
    agent = submission.call(0, *_task(probe.make_env, steps, seed), seed)
    answers = agent(probe.exact.observations.copy()) if callable(agent) else agent
    run = measure_agent(probe, (lambda _: answers) if callable(agent) else agent)
    if not values:
        return Attempt(steps, run, 0.0, "")
    exact = probe.exact
    policy = exact.greedy(answers)
    learned = exact.model.best(answers)
    visited = exact.weights(policy) > 0

    def distance(others: Any) -> float:
        return float(np.abs(others - learned)[visited].max())

    distances = {
        name: distance(exact.learned_values(wrong)[0])
        for name, wrong in ERRORS.items()
        if not wrong.at_cuts
    }
    nearest = min(distances, key=lambda name: distances[name])
    is_near = distances[nearest] < NEAR_VALUES < distance(exact.values) / 2
    run = run._replace(error=exact.value_error(policy, learned))
    return Attempt(steps, run, distance(0.0), nearest if is_near else "")


def _score_row(probe: LearnerProbe, attempts: Sequence[Attempt], limit: float) -> CheckRow:
    """Return the row about scores."""
    best = max((attempt.run for attempt in attempts), key=lambda run: run.score)
    texts = [f"{attempt.run.score:.2f} with {attempt.steps:,} steps" for attempt in attempts]
    evidence = [] if best.mistake is None else [best.mistake]
    rule = f"at least {limit:.2f} in one of {NUM_ATTEMPTS} attempts"
    text = f"score {', '.join(texts)}"
    return judge(probe.name, text, best.score, limit, evidence, minimum=True, rule=rule)


def _explains(error: str, scores: Mapping[str, float], wrong_targets: Collection[str]) -> bool:
    """Return whether an error has the scores of a learner, where chance does not change them, and
    is seen in scores or values.
    """
    errors = {name: PROBES[name].power(error).score for name in SURE_PROBES if name in scores}
    is_seen = error in wrong_targets or any(score < 1 - NEAR_SCORE for score in errors.values())
    return is_seen and all(abs(errors[name] - scores[name]) < NEAR_SCORE for name in errors)


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
        self.envs: Any = make_env(NUM_ENVS, autoreset_mode=AutoresetMode.SAME_STEP)
        self.envs.reset(seed=seed)
        space: Any = self.envs.single_action_space
        self.num_actions = int(space.n)
        self.has_masks = make_env.masks
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
        if self.has_masks and len(illegal):
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


JUDGES: Mapping[str, Judge] = {
    "minimax": judge_minimax,
    "search": judge_search,
    "value iteration": judge_value_iteration,
    "advantages": judge_advantages,
    "learner": judge_learner,
}
