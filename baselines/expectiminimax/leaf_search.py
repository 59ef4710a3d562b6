"""A search without pruning, whose leaves are evaluated by another policy instead of the heuristic."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baselines.exact.tablebase import NO_LAYER, Tablebase
from baselines.expectiminimax.order import key_after, key_of_turn, write_moves
from ttt_envs.agents.policy import Values
from ttt_envs.core.hash_index import KeyIndex
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, UInt64Array, compiled_at_once_allocating, int64
from ttt_envs.game.boards import Boards, keys
from ttt_envs.game.game import Game
from ttt_envs.game.parameters import Parameters, line_sign
from ttt_envs.game.rules import DRAW, NOT_OVER, place, values_over_skip

BATCH = 1 << 14
"""Maximum number of positions expanded at once; the leaf policy evaluates up to twice as many per call."""


class _Children(NamedTuple):
    """The M positions after the moves of B positions, one for each move that does not end the game."""

    row: Int64Array
    """int64[B, cells]: the move's row in the other arrays, -1 for none"""
    after: Int8Array
    """int8[M, cells]"""
    maker: Int8Array
    """int8[M]: the last player"""
    turns: UInt64Array
    """uint64[M, 2]: random keys of the other player's turn, and of the same player's after a skip"""

    @classmethod
    def empty(cls, positions: int, size: int, count: int) -> _Children:
        """Return ``count`` unwritten children of ``positions`` boards of ``size`` cells."""
        return cls(
            np.full((positions, size), -1),
            np.empty((count, size), np.int8),
            np.empty(count, np.int8),
            np.empty((count, 2), np.uint64),
        )


@compiled_at_once_allocating
def _expand(
    cells: Int8Array,
    mover: Int8Array,
    random_keys: UInt64Array,
    width: int,
    depth: int,
    parameters: Parameters,
    values: Float64Array,
    children: _Children,
) -> int:
    """Make all moves of every position, or ``width`` random ones.

    Args:
        cells: int8[B, cells]; mover: int8[B]; random_keys: uint64[B], the positions and their random keys.
        width: number of moves to draw, 0 for all.
        depth: the score of a win: plies left, or 1.
        parameters: ``Game.parameters``.
        values: float64[B, cells], written if a move ends the game, for the mover.
        children: written otherwise.

    Returns:
        The number of successors written.
    """
    row, after, maker, turns = children
    size = cells.shape[1]
    moves = np.empty((1, size), np.int64)
    made = 0
    for b in range(len(cells)):
        player = int64(mover[b])
        count = write_moves(width, random_keys[b], cells[b], 0, moves, parameters)
        stones = 0
        for cell in range(size):
            stones += int64(cells[b, cell] != 0)
        for i in range(count):
            cell = moves[0, i]
            for at in range(size):
                after[made, at] = cells[b, at]
            outcome = place(after[made], player, cell, stones, parameters)
            if outcome == NOT_OVER:
                node = key_after(random_keys[b], cell)
                turns[made, 0], turns[made, 1] = key_of_turn(node, 1 - player), key_of_turn(node, player)
                maker[made] = player
                row[b, cell] = made
                made += 1
            else:
                values[b, cell] = 0.0 if outcome == DRAW else float(depth * line_sign(parameters))
    return made


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
        values = np.full(boards.cells.shape, np.nan)
        empty = boards.legal(self._game).sum(axis=1)
        children = _Children.empty(
            len(values), self._game.cells, int(np.minimum(empty, width or self._game.cells).sum())
        )
        made = _expand(
            np.ascontiguousarray(boards.cells),
            boards.mover,
            random_keys,
            width or 0,
            1 if self._by_result else depth,
            self._game.parameters,
            values,
            children,
        )
        row, after, maker, turns = children.row, children.after[:made], children.maker[:made], children.turns[:made]
        self.nodes += made
        if made:
            skip = self._game.skip_chance
            if skip > 0:  # all leaves in one batch
                both = Boards(np.concatenate([after, after]), np.concatenate([1 - maker, maker]))
                other, own = np.split(self._values(both, turns.T.ravel(), depth - 1), 2)
                child_values = values_over_skip(own, -other, skip)
            else:
                child_values = -self._values(Boards(after, 1 - maker), turns[:, 0].copy(), depth - 1)
            values[row >= 0] = child_values[row[row >= 0]]
        return values

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
        values = np.empty(len(random_keys))
        if self._endgame is not None:
            known = np.count_nonzero(boards.cells, axis=1) == self._stones
            values[known] = self._endgame.scores(boards.take(known), depth)
            values[~known] = self._search_distinct(boards.take(~known), random_keys[~known], depth)
            return values[rows]
        return self._search_distinct(boards, random_keys, depth)[rows]

    def _search_distinct(self, boards: Boards, random_keys: UInt64Array, depth: int) -> Float64Array:
        """Return float64[B], for the mover, of distinct positions."""
        if depth == 0:
            return self._leaf.values(boards) if len(random_keys) else np.empty(0)
        values = np.empty(len(random_keys))
        for start in range(0, len(random_keys), max(1, BATCH // self._game.cells)):
            part = slice(start, start + max(1, BATCH // self._game.cells))
            moves = self.move_values(
                Boards(boards.cells[part], boards.mover[part]), random_keys[part], depth, self._width
            )
            values[part] = np.nanmax(moves, axis=1)
        return values
