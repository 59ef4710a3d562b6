"""Bitboards with gravity: columns of ``rows + 1`` bits each, lowest cell first; the top bit of a column stays empty.

The empty bit separates columns, so that no line of set bits continues from one column into another. Kernels use signed
integers: left shifts may leave garbage above the board, which callers remove with ``board.cells``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ttt_envs.core.jit import Int64Array, inlined, int64
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game, Position
from ttt_envs.game.lines import completing_bits
from ttt_envs.game.parameters import Parameters

MAX_BITS = 63
"""Maximum number of bits of a board, ``columns * (rows + 1)``."""


class Board(NamedTuple):
    """A size of board, as integers for kernels."""

    rows: int
    columns: int
    win_length: int
    cells: int
    """the bits of all cells"""
    bottom: int
    """the bits of the lowest cells"""

    @classmethod
    def from_game(cls, game: Game) -> Board:
        """Return the constants of a game on a board of up to :data:`MAX_BITS` bits."""
        bottom = sum(1 << column * (game.rows + 1) for column in range(game.columns))
        return cls(game.rows, game.columns, game.win_length, bottom * ((1 << game.rows) - 1), bottom)


def to_bits(board: Board, boards: Boards) -> tuple[Int64Array, Int64Array]:
    """Return the stones of the mover and those of both players, as bits: int64[B] each."""
    rows, columns = np.divmod(np.arange(board.rows * board.columns), board.columns)
    bits = np.int64(1) << (columns * (board.rows + 1) + board.rows - 1 - rows)
    mine = (boards.cells == boards.mover[:, None] + 1) @ bits
    return mine, (boards.cells != 0) @ bits


def landing_cells(game: Game, position: Position) -> Int64Array:
    """Return int64[columns]: the lowest empty cell of each column; negative if there is none."""
    empty = (position.cells == 0).reshape(game.rows, game.columns).sum(axis=0)
    return np.asarray((empty - 1) * game.columns + np.arange(game.columns) * (empty > 0), np.int64)


@inlined
def column_bits(board: Board, column: int) -> int:
    """Return the bits of the cells of a column."""
    return ((int64(1) << board.rows) - 1) << (column * (board.rows + 1))


@inlined
def winning_cells(stones: int, board: Board) -> int:
    """Return the empty cells, as bits, where one more stone completes a line; bits of taken cells may be set too.

    For lines of four the shifts are written out, as :func:`ttt_envs.game.lines.completing_bits` takes several times as
    long. To that, the columns are rows, and no line leaves one over its top bit, which is empty.
    """
    height = board.rows + 1
    if board.win_length != 4:
        rules = Parameters(board.columns, height, board.win_length, 0.0, 0, int64(-1), int64(-1), int64(-1), None)
        return completing_bits(stones, rules) & board.cells
    above = (stones << 1) & (stones << 2) & (stones << 3)  # cells above the highest stone only
    return (above | _fours(stones, height - 1) | _fours(stones, height) | _fours(stones, height + 1)) & board.cells


@inlined
def _fours(stones: int, step: int) -> int:
    """Return the cells of which the other three cells of a line of four hold stones."""
    up = (stones << step) & (stones << 2 * step)  # two stones before the cell
    down = (stones >> step) & (stones >> 2 * step)
    return (up & ((stones << 3 * step) | (stones >> step))) | (down & ((stones << step) | (stones >> 3 * step)))


@inlined
def mirror(bits: int, board: Board) -> int:
    """Return the bits with the order of columns reversed."""
    height = board.rows + 1
    column = (int64(1) << height) - 1
    out = int64(0)
    for _ in range(board.columns):
        out = (out << height) | (bits & column)
        bits >>= height
    return out
