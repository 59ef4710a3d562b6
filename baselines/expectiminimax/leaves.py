"""A search whose horizon a policy values: one ply ahead, again and again, over distinct
positions.
"""

from __future__ import annotations

import numpy as np

from ttt_envs.agents.policy import Values
from ttt_envs.core.hash_index import distinct_rows
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import Boards, one_ply_ahead, position_words
from ttt_envs.game.game import Game

BATCH = 1 << 17
"""Maximum number of moves that are made at once, unless one position has more."""


class LeafSearch:
    """A search as :class:`baselines.expectiminimax.search.Search`, which prunes nothing and does
    not stop early.

    Args:
        game: the game.
        boards: positions that are not over.
        leaf: a policy, whose values are those of the positions at the horizon.

    Attributes:
        move_values: float64[B, rows * columns], for the mover, NaN where illegal or not yet
            searched.
        nodes: int64[B], in each row the distinct positions visited so far in the search of all B
            positions.
    """

    def __init__(self, game: Game, boards: Boards, leaf: Values) -> None:
        self._game = game
        self._boards = boards
        self._leaf = leaf
        self.move_values = np.full(boards.cells.shape, np.nan)
        self.nodes = np.zeros(len(boards.mover), np.int64)

    def run(self, depth: int, nodes: int | None = None) -> bool:
        """Search to ``depth``, and return that the search is finished: ``nodes`` has no effect."""
        self.move_values = self._move_values(self._boards, depth)
        return True

    def _move_values(self, boards: Boards, depth: int) -> Float64Array:
        """Return float64[B, cells], the values of moves, for the mover."""

        def values_after(next_boards: Boards) -> Float64Array:
            return self._values(next_boards, depth - 1)

        return one_ply_ahead(self._game, boards, values_after, win=depth)

    def _values(self, boards: Boards, depth: int) -> Float64Array:
        """Return float64[B], for the mover, with ``depth`` plies left; each distinct position is
        evaluated once.
        """
        first, rows = distinct_rows(position_words(boards))
        self.nodes += len(first)
        values = np.zeros(len(first))
        num_parts = 1 + len(first) * self._game.cells // BATCH
        for part in np.array_split(np.arange(len(first)), num_parts):
            if len(part) == 0:
                continue
            group = boards.take(first[part])
            if depth > 0:
                values[part] = np.nanmax(self._move_values(group, depth), axis=1)
            else:
                values[part] = self._leaf.values(group)
        return values[rows]
