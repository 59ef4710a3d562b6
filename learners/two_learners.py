"""Two learners trained on the games they play against each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from learners.base import Arrays, Learner, Transition, with_prefix
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import Boards


class TwoLearners(Learner):
    """One learner for player_0 and another for player_1, combined into a single self-playing learner.

    Args:
        first: the learner that plays player_0 and learns from its own moves.
        second: the learner that plays player_1.

    Raises:
        ValueError: a learner that learns ply by ply (it would learn from the other's moves), or one of another game.
    """

    def __init__(self, first: Learner, second: Learner) -> None:
        for learner in (first, second):
            if learner.backup != "agent":
                raise ValueError(f"{learner} learns from both players' plies: two learners need backup='agent'")
        if first.game != second.game:
            raise ValueError(f"{first} plays {first.game} and {second} {second.game}: let them learn the same game")
        self.game = first.game
        self.players = (first, second)
        self.on_policy = first.on_policy or second.on_policy

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: the policy of the mover's learner."""
        out = np.empty((len(boards.mover), self.game.cells))
        for _, learner, rows in self._parts(boards):
            out[rows] = learner.probabilities(boards.take(rows), rng)
        return out

    def explore(self, boards: Boards, rng: np.random.Generator) -> Int64Array:
        """Return int64[B]: moves of each mover's learner in training."""
        out = np.empty(len(boards.mover), np.int64)
        for _, learner, rows in self._parts(boards):
            out[rows] = learner.explore(boards.take(rows), rng)
        return out

    def update(self, transition: Transition) -> dict[str, float]:
        """Update each learner from its own moves."""
        logged: dict[str, float] = {}
        for player, learner, rows in self._parts(transition.boards):
            of_player = Transition(
                transition.game[rows],
                transition.boards.take(rows),
                transition.action[rows],
                transition.reward[rows],
                transition.discount[rows],
                transition.next_boards.take(rows),
                transition.next_action[rows] if learner.on_policy else np.full(len(rows), -1),
            )
            logged |= {f"{player}.{name}": number for name, number in learner.update(of_player).items()}
        return logged

    @property
    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Both learners' arrays."""
        return {f"{i}.{name}": array for i in range(2) for name, array in self.players[i].state.items()}

    @state.setter
    def state(self, arrays: Arrays) -> None:
        for player, learner in enumerate(self.players):
            learner.state = with_prefix(f"{player}.", arrays)

    def _parts(self, boards: Boards) -> Iterator[tuple[int, Learner, Int64Array]]:
        """Yield the players to move, their learners, and the rows of their positions."""
        for player, learner in enumerate(self.players):
            rows = np.flatnonzero(boards.mover == player)
            if len(rows):
                yield player, learner, rows
