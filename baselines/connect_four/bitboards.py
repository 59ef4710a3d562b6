"""Bitboards with gravity: columns of ``rows + 1`` bits each, lowest cell first; the top bit of a column stays empty.

The empty bit separates columns, so that no line of set bits continues from one column into another. Kernels use signed
integers: left shifts may leave garbage above the board, which callers remove with ``board.cells``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ttt_envs.core.jit import Int64Array, inlined, int64
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game

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


@inlined
def column_bits(board: Board, column: int) -> int:
    """Return the bits of the cells of a column."""
    return ((int64(1) << board.rows) - 1) << (column * (board.rows + 1))


@inlined
def completing_bits(stones: int, board: Board) -> int:
    """Return the cells, as bits, where one more stone completes a line; ignore the bits of cells that are not empty."""
    height = board.rows + 1
    if board.win_length != 4:
        found = int64(0)
        for direction in range(4):
            if _fits(direction, board):
                found |= _completing_along(stones, _step(direction, board), board.win_length)
        return found
    found = (stones << 1) & (stones << 2) & (stones << 3)  # cells above the highest stone only
    return found | _fours(stones, height - 1) | _fours(stones, height) | _fours(stones, height + 1)


@inlined
def _step(direction: int, board: Board) -> int:
    """Return the number of bits between neighbours in a line: upwards, falling, across, rising."""
    return int64(1) if direction == 0 else board.rows + direction - 1


@inlined
def _fits(direction: int, board: Board) -> bool:
    """Return whether there are lines in a direction; for those that do not fit, shifts may exceed 63 bits."""
    return (direction == 2 or board.win_length <= board.rows) and (direction == 0 or board.win_length <= board.columns)


@inlined
def _fours(stones: int, step: int) -> int:
    """Return the cells of which the other three cells of a line of four hold stones."""
    up = (stones << step) & (stones << 2 * step)  # two stones before the cell
    down = (stones >> step) & (stones >> 2 * step)
    return (
        (up & (stones << 3 * step))
        | (up & (stones >> step))
        | (down & (stones << step))
        | (down & (stones >> 3 * step))
    )


@inlined
def _completing_along(stones: int, step: int, win_length: int) -> int:
    """Return the cells of which all other cells of a line hold stones, for lines of any length."""
    found = int64(0)
    for gap in range(win_length):
        line = int64(-1)
        for place in range(win_length):
            shift = (place - gap) * step
            if shift > 0:
                line &= stones >> shift
            elif shift < 0:
                line &= stones << -shift
        found |= line
    return found


@inlined
def has_line(stones: int, board: Board) -> bool:
    """Return whether stones contain a line."""
    found = int64(0)
    for direction in range(4):
        if _fits(direction, board):
            run = stones
            for place in range(1, board.win_length):
                run &= stones >> (place * _step(direction, board))
            found |= run
    return found != 0


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
