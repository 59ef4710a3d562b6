"""Information sets of phantom games: what a player with perfect recall remembers when it is to move.

An information set is the sequence of the player's own attempts with an observation after each: the attempt failed; it
put a stone and the other player moved; it put a stone, the other player's turn was skipped, and the player moves again.
Nothing else is told, see :mod:`ttt_envs.game.phantom`. A view is an information set without the order of events.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ttt_envs.core.jit import Int8Array, Int64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.phantom import JointViews

FAILED, SUCCEEDED, SKIPPED = range(3)
"""Observations after an attempt: it failed; it put a stone and the other player moved; it put one and moves again."""
OBSERVATIONS = 3
"""Number of different observations."""
NO_ATTEMPT = -1
"""Cell and observation after the last attempt."""


class InformationSets(NamedTuple):
    """A batch of B information sets of players to move."""

    attempts: Int8Array
    """int8[B, cells]: the cells that the player attempted, in order; then ``NO_ATTEMPT``"""
    observations: Int8Array
    """int8[B, cells]: FAILED, SUCCEEDED or SKIPPED for each attempt; then ``NO_ATTEMPT``"""
    player: Int8Array
    """int8[B]: the player, 0 or 1"""

    def take(self, rows: Int64Array) -> InformationSets:
        """Return the selected rows, copied."""
        return InformationSets(*(array[rows] for array in self))

    def views(self, start: JointViews | None = None) -> Boards:
        """Return the views: boards with the player's own stones and those that it has found.

        Args:
            start: one row: the state in which the games began; None for an empty board.
        """
        cells = np.zeros_like(self.attempts)
        if start is not None:
            for player in (0, 1):
                cells[self.player == player] = start.player_view(player)
        rows, at = np.nonzero(self.attempts != NO_ATTEMPT)
        own = self.player[rows] + 1
        cells[rows, self.attempts[rows, at]] = np.where(self.observations[rows, at] == FAILED, 3 - own, own)
        return Boards(cells, self.player)
