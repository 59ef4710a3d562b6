"""Episodes of the benchmark as learners of this package see them: positions, and the skip chance that may be shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttt_envs.agents.policy import Policy, best_shares
from ttt_envs.core.jit import Float64Array
from ttt_envs.envs.config import SELF
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_eval.benchmark.tasks import Task

OBSERVATION = "flat"
"""the observation that is read here"""


def read_boards(task: Task, observation: NDArray[np.float32], info: Mapping[str, Any]) -> Boards:
    """Return the position in which the agent moves, a batch of one."""
    cells = task.games[0].cells
    mover = info["mover"] if task.opponent == SELF else info["seat"]
    own, other = observation[:cells] > 0, observation[cells : 2 * cells] > 0
    stones = own * np.int8(1 + mover) + other * np.int8(2 - mover)
    return Boards(stones.astype(np.int8)[None], np.array([mover], np.int8))


def games_to_learn(task: Task) -> tuple[Game, ...]:
    """Return the games for which an agent of this package has a learner each.

    There is one for each skip chance of the episodes if the task shows it. If it does not, there is one learner, whose
    game has the mean skip chance.
    """
    [*skips] = task.skip_chance if isinstance(task.skip_chance, tuple) else (task.skip_chance,)
    shown = sorted(set(skips)) if task.observe_skip_chance else [float(np.mean(skips))]
    return tuple(replace(task.games[0], skip_chance=skip) for skip in shown)


def episode_skip_chance(task: Task, skip_chances: Collection[float], observation: NDArray[np.float32]) -> float:
    """Return the one of ``skip_chances`` that the observation shows; the first if none is shown."""
    if not task.observe_skip_chance:
        return next(iter(skip_chances))
    shown = float(observation[2 * task.games[0].cells])  # float32, so it is not exactly one of them
    return min(skip_chances, key=lambda skip: abs(skip - shown))


def combine_learners(game: Game, learners: Mapping[float, Policy]) -> Policy:
    """Return the policy in a game of learners by skip chance: the only one's, or one that is interpolated."""
    if len(learners) == 1:
        return next(iter(learners.values()))
    return InterpolatedPolicy(game, learners)


class InterpolatedPolicy(Policy):
    """Greedy play by action values, which are interpolated linearly between learners of other skip chances.

    Below the lowest skip chance and above the highest one it plays by the action values of that learner.

    Args:
        game: the game to play.
        learners: policies with action values, by the skip chance at which they learned.
    """

    colour_blind = True

    def __init__(self, game: Game, learners: Mapping[float, Policy]) -> None:
        skips = sorted(learners)
        weights = [float(np.interp(game.skip_chance, skips, unit)) for unit in np.eye(len(skips))]
        self._parts = [(learners[skip], weight) for skip, weight in zip(skips, weights, strict=True) if weight > 0]

    def __str__(self) -> str:
        return " + ".join(f"{weight:.3g} {learner}" for learner, weight in self._parts)

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: equal shares for the moves of highest value."""
        return best_shares(self.action_values(boards))

    def action_values(self, boards: Boards) -> Float64Array:
        """Return float64[B, cells] from the mover's view, NaN where illegal."""
        total = np.zeros(boards.cells.shape)
        for learner, weight in self._parts:
            assert learner.action_values is not None
            total += weight * learner.action_values(boards)
        return total

    def values(self, boards: Boards) -> Float64Array:
        """Return float64[B] from the mover's view."""
        return np.asarray(np.nanmax(self.action_values(boards), axis=1))
