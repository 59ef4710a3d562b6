"""A search without pruning, whose leaves are evaluated by another policy instead of the heuristic."""

from __future__ import annotations

import numpy as np

from baselines.exact.tablebase import NO_LAYER, Tablebase
from baselines.expectiminimax.order import key_after, key_of_turn, write_moves
from ttt_envs.agents.policy import Values
from ttt_envs.core.hash_index import KeyIndex
from ttt_envs.core.jit import BoolArray, Float64Array, UInt64Array
from ttt_envs.game.boards import Boards, keys, play_moves
from ttt_envs.game.game import Game
from ttt_envs.game.parameters import line_sign
from ttt_envs.game.rules import DRAW, NOT_OVER, values_over_skip

BATCH = 1 << 14
"""Maximum number of positions expanded at once; the leaf policy evaluates up to twice as many per call."""


class SearchByLeaves:
    """Expectiminimax without pruning, with the values of a policy instead of the heuristic."""

    def __init__(
        self, game: Game, leaf: Values, width: int | None, endgame: Tablebase | None = None, stones: int = NO_LAYER
    ) -> None:
        self._game, self._leaf, self._width = game, leaf, width
        self._endgame, self._stones = endgame, stones  # positions of this number of stones are looked up
        self._by_result = endgame is not None and game.skip_chance > 0
        self.nodes = 0
        """number of positions created"""

    def move_values(
        self, boards: Boards, random_keys: UInt64Array, depth: int, width: int | None = None
    ) -> Float64Array:
        """Return float64[B, rows * columns], for the mover, NaN where illegal or not drawn; ``width`` is the root's."""
        values, step = [np.empty((0, self._game.cells))], max(1, BATCH // self._game.cells)
        for start in range(0, len(random_keys), step):
            part = slice(start, start + step)
            values.append(self._expand(Boards(boards.cells[part], boards.mover[part]), random_keys[part], depth, width))
        return np.concatenate(values)

    def _expand(self, boards: Boards, random_keys: UInt64Array, depth: int, width: int | None) -> Float64Array:
        """Do :meth:`move_values` for one batch."""
        values = np.full(boards.cells.shape, np.nan)
        row, cell = np.nonzero(boards.legal(self._game) if width is None else self._draw(boards, random_keys, width))
        cells, outcomes = play_moves(self._game, boards, row, cell)
        win = (1 if self._by_result else depth) * line_sign(self._game.parameters)
        values[row, cell] = np.where(outcomes == DRAW, 0.0, win)
        going = np.flatnonzero(outcomes == NOT_OVER)
        self.nodes += len(going)
        if len(going):
            row, cell, cells = row[going], cell[going], cells[going]
            maker, skip = boards.mover[row], self._game.skip_chance
            turn_keys = np.zeros((2, len(row)), np.uint64)  # of the other player's turn, and of the maker's own
            if self._width is not None:
                nodes = [np.uint64(key_after(random_keys[b], int(c))) for b, c in zip(row, cell, strict=True)]
                for turn, movers in zip(turn_keys, (1 - maker, maker), strict=True):
                    turn[:] = [key_of_turn(node, int(mover)) for node, mover in zip(nodes, movers, strict=True)]
            if skip > 0:  # all leaves in one batch
                both = Boards(np.concatenate([cells, cells]), np.concatenate([1 - maker, maker]))
                other, own = np.split(self._values(both, turn_keys.ravel(), depth - 1), 2)
                values[row, cell] = values_over_skip(own, -other, skip)
            else:
                values[row, cell] = -self._values(Boards(cells, 1 - maker), turn_keys[0], depth - 1)
        return values

    def _draw(self, boards: Boards, random_keys: UInt64Array, width: int) -> BoolArray:
        """Return bool[B, rows * columns]: ``width`` moves drawn at random in each position."""
        out, moves = np.zeros(boards.cells.shape, np.bool_), np.empty(self._game.cells, np.int64)
        for row, cells in enumerate(np.ascontiguousarray(boards.cells)):
            out[row, moves[: write_moves(width, random_keys[row], cells, moves, self._game.parameters)]] = True
        return out

    def _values(self, boards: Boards, random_keys: UInt64Array, depth: int) -> Float64Array:
        """Return float64[B], for the mover."""
        if self._width is None:  # equal positions have equal values: evaluate them once
            state_keys = np.column_stack([keys(boards.cells), boards.mover.astype(np.uint64)])
            index = KeyIndex(state_keys.shape[1])
            index.reserve(len(state_keys))
            rows = index.rows(state_keys)
            _, first = np.unique(rows, return_index=True)
            boards, random_keys = boards.take(first), random_keys[first]
        else:
            rows = np.arange(len(random_keys))
        if self._endgame is None:
            return self._search_distinct(boards, random_keys, depth)[rows]
        values, stored = np.empty(len(random_keys)), np.count_nonzero(boards.cells, axis=1) == self._stones
        values[stored] = self._endgame.scores(boards.take(stored), depth)
        values[~stored] = self._search_distinct(boards.take(~stored), random_keys[~stored], depth)
        return values[rows]

    def _search_distinct(self, boards: Boards, random_keys: UInt64Array, depth: int) -> Float64Array:
        """Return float64[B], for the mover, of distinct positions."""
        if depth == 0 and len(random_keys):
            return self._leaf.values(boards)
        return np.asarray(np.nanmax(self.move_values(boards, random_keys, depth, self._width), axis=1))
