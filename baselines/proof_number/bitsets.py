"""Sets of cells as bitboards, and the constants of a game."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ttt_envs.core.jit import Int64Array, UInt64Array, inlined, int64
from ttt_envs.game.game import Game
from ttt_envs.game.symmetry import symmetries

# Kernels use uint64 throughout, because numba converts mixtures of uint64 and int64 to floats.
NONE = np.uint64(0)
ONE = np.uint64(1)


class Board(NamedTuple):
    """Constants of a game, and scratch memory for one position."""

    win_length: int
    lines: UInt64Array
    """uint64[W]: the cells of every line, as sets"""
    permutations: Int64Array
    """int64[S, cells]: new cell of a stone under each symmetry, the identity first"""
    weight: Int64Array
    """int64[2, cells]: total weight of the open lines through a cell, the mover's and the other player's"""
    total: Int64Array
    """int64[2]: total weight of all open lines"""
    partners: UInt64Array
    """uint64[2, cells]: cells that together with this cell complete a line"""
    shared: UInt64Array
    """uint64[cells]: the empty cells common to all live lines through a cell"""
    left: UInt64Array
    """uint64[W]: in `holds`, the free cells of the lines that no pair stops"""
    heavy: Int64Array
    """int64[cells]: in `holds`, total weight of the remaining lines through a cell"""
    common: Int64Array
    """int64[cells, cells]: in `holds`, total weight of the remaining lines through two cells"""


def make_board(game: Game) -> Board:
    """Return the board of a game."""
    cells, lines = game.cells, np.bitwise_or.reduce(ONE << game.line_cells.astype(np.uint64), axis=1)
    return Board(
        win_length=game.win_length,
        lines=lines,
        permutations=np.unique(
            symmetries(game), axis=0
        ),  # a board of one row has fewer than 4; the identity sorts first
        weight=np.zeros((2, cells), np.int64),
        total=np.zeros(2, np.int64),
        partners=np.zeros((2, cells), np.uint64),
        shared=np.zeros(cells, np.uint64),
        left=np.zeros(len(lines), np.uint64),
        heavy=np.zeros(cells, np.int64),
        common=np.zeros((cells, cells), np.int64),
    )


@inlined
def cell_bit(cell: int) -> np.uint64:
    """Return the set of one cell."""
    return ONE << np.uint64(cell)


@inlined
def count_cells(cells: np.uint64) -> int:
    """Return the number of cells in a set."""
    cells = cells - ((cells >> ONE) & np.uint64(0x5555555555555555))
    cells = (cells & np.uint64(0x3333333333333333)) + ((cells >> np.uint64(2)) & np.uint64(0x3333333333333333))
    cells = (cells + (cells >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int64((cells * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inlined
def lowest_bit(cells: np.uint64) -> int:
    """Return the smallest cell of a non-empty set."""
    return count_cells((cells - ONE) & ~cells)


@inlined
def has_several(cells: np.uint64) -> bool:
    """Return whether a non-empty set has more than one cell."""
    return bool((cells & (cells - ONE)) != NONE)
