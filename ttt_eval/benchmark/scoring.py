"""Exact scores of policies on the tasks of the benchmark: 0 is uniformly random play, 1 the best
possible.

A score is (value - random) / (best - random), where all three are computed by the same exact
measure. Policies may come from anywhere, also from tables that somebody has submitted: nothing is
sampled and no game is played.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from statistics import fmean
from typing import NamedTuple

import numpy as np

from baselines.exact import solve
from ttt_envs.agents.adapters import as_policy
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.array_cache import load_or_compute
from ttt_envs.core.checks import Refusal, TypeRefusal
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.work import DEFAULT_WORK, Work
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_eval.benchmark.submission import list_positions
from ttt_eval.benchmark.tasks import MAX_CELLS_OF_CHECKPOINTS, Task, split_openings
from ttt_eval.exact.critics import critic_error
from ttt_eval.exact.dynamic_programming import best_response, expected_losses
from ttt_eval.exact.measurement import Measurement
from ttt_eval.exact.proved_positions import SETS, read_proved
from ttt_eval.store.result_store import RESULT_VERSION


class TaskScore(NamedTuple):
    """Score of a policy on a task."""

    value: float
    """the measure, see ``Task.measure``"""
    random: float
    """the measure of uniformly random play"""
    best: float
    """the best possible measure"""

    @property
    def score(self) -> float:
        """0 for ``random``, 1 for ``best``, below 0 if worse than random play."""
        if self.best == self.random:  # a critic of a policy whose results are all 0
            return float(self.value == self.best)
        return (self.value - self.random) / (self.best - self.random)


def score_policies(task: Task, policies: Sequence[Policy], steps: int | None = None) -> TaskScore:
    """Return the exact score of what an agent has learned.

    Args:
        task: the task.
        policies: for each of ``task.games`` the agent's pure policy. In the measure
            ``illegal-moves`` it reports ``illegal_mass``, as those of ``as_policy`` do, or its
            probabilities are those before masking, over all cells; in ``critic-error`` it has
            ``values``.
        steps: environment steps after which it was stored, by default all; they determine the
            opponent where it changes.

    Raises:
        TypeError, ValueError: a wrong number of policies, one that is not pure, or that does not
            play by the rules, or has no values.
    """
    if len(policies) != len(task.games):
        raise Refusal(
            f"the task {task.name} is scored in {len(task.games)} games: hand in a policy for each"
        )
    if task.measure == "critic-error":
        return _score_critic(task, policies[0])
    stage = task.stage(task.steps if steps is None else steps)
    return TaskScore(measure_task(task, policies, stage), *references(task, stage))


def combine_scores(task: Task, scores: Sequence[float]) -> float:
    """Return the score of a run from those of its checkpoints: the last, or the mean if the
    opponent changes.
    """
    return float(np.mean(scores)) if len(task.stages) > 1 else scores[-1]


@cache
def references(task: Task, stage: int = 0) -> tuple[float, float]:
    """Return the measures of random and of best play, computed once and cached on disk; not those
    of ``critic-error``, which depend on the policy.
    """
    content = {"results": RESULT_VERSION, "task": asdict(task), "stage": stage}

    def measure() -> Float64Array:
        is_unmasked = task.measure == "illegal-moves"
        random = [
            uniform_over_cells(game) if is_unmasked else make_policy("random", game)
            for game in task.games
        ]
        return np.array([measure_task(task, random, stage), _best(task, stage)])

    random, best = load_or_compute(
        f"benchmark-{task.name}-{stage}", content, measure, min_bytes=0
    ).tolist()
    return random, best


# --------------------------------------------------------------------------------------------------
# Measures


def measure_task(task: Task, policies: Sequence[Policy], stage: int) -> float:
    """Return the measure of ``policies``, one for each game."""
    opponent = task.stages[stage][0]
    results: list[float] = []
    for game, policy in zip(task.games, policies, strict=True):
        # large queries read a large table in the order of its positions
        is_large = game.cells > MAX_CELLS_OF_CHECKPOINTS
        exact = Measurement(game, policy, Work(chunk=1 << 17) if is_large else DEFAULT_WORK)
        if task.measure == "value":
            results += [exact.outcome(opponent, seat).value for seat in task.seats]
        elif task.measure == "illegal-moves":
            unmasked = Measurement(game, Unmasked(policy))
            results += [unmasked.illegal_share(opponent, seat) for seat in task.seats]
        elif task.measure == "exploitability":
            results.append(exact.exploitability())
        elif task.measure == "regret":
            results.append(exact.regret())
        else:
            boards, values, weights = measured_moves(task, game)
            results.append(float(expected_losses(values, policy.probabilities(boards)) @ weights))
    return fmean(results)


def _best(task: Task, stage: int) -> float:
    """Return the best possible measure."""
    if task.measure != "value":
        return 0.0
    return fmean(
        best_response(game, task.stages[stage][0], seat).value
        for game in task.games
        for seat in task.seats
    )


@cache
def measured_moves(task: Task, game: Game) -> tuple[Boards, Float64Array, Float64Array]:
    """Return the positions in which moves of one of the games of a task are compared with the best
    ones: the held-out openings, ``task.positions``, or all.

    Returns:
        The positions, the values float64[B, cells] of their moves, and the weights float64[B],
        which sum to 1. In proved positions a move has the value 0 if it keeps the result, else -1.
    """
    if task.holds_out_openings:
        _, boards, weights = split_openings(game)
        return boards, solve(game).action_values(boards), weights
    if task.positions in SETS:
        proved = read_proved(task.positions)
        boards = proved.boards
        values = np.where(proved.keeps, 0.0, -1.0)
    else:
        boards = list_positions(game, positions=task.positions)
        values = solve(game).action_values(boards)
    return boards, values, np.full(len(values), 1 / len(values))


def _score_critic(task: Task, policy: Policy) -> TaskScore:
    """Return the score of a policy's values; values that are all 0 score 0."""
    if policy.values is None:
        raise TypeRefusal(
            f"{policy} has no values to measure: the task {task.name} needs a policy with "
            "values(boards)"
        )
    error = critic_error(task.games[0], policy, task.stages[0][0], policy)
    of_zeros = replace(error, predicted=np.zeros(len(error.predicted)))
    return TaskScore(error.root_mean_square, of_zeros.root_mean_square, 0.0)


def uniform_over_cells(game: Game) -> Policy:
    """Return a uniformly random action among all cells, legal or not."""
    return Unmasked(
        as_policy(lambda observation: np.ones(game.cells), game, returns="probabilities")
    )


class Unmasked(Policy):
    """A policy before masking: its illegal mass is spread evenly over the occupied cells.

    Which occupied cell is chosen makes no difference, for any of them ends the game.

    Args:
        policy: a policy that reports ``illegal_mass``, such as those of ``as_policy``; any other
            never moves illegally.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.pure = policy.pure

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells], over all cells."""
        legal_probabilities = self.policy.probabilities(boards, rng)
        if self.policy.illegal_mass is None:
            return legal_probabilities
        mass = self.policy.illegal_mass(boards)[:, None]
        is_occupied = boards.cells != 0
        count = is_occupied.sum(axis=1, keepdims=True)
        probabilities: Float64Array = legal_probabilities * (
            1 - mass
        ) + mass * is_occupied / np.maximum(count, 1)
        return probabilities
