"""Sets of cells, one bit a cell, and what stays the same for all positions of a game."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ttt_envs.compiling import Integers, Keys, inlined, wide
from ttt_envs.rules import Game, windows
from ttt_envs.symmetry import symmetries

# Kernels count in uint64 throughout, because numba makes floats of a mixture of uint64 and int64.
NONE = np.uint64(0)
ONE = np.uint64(1)


class Board(NamedTuple):
    """What stays the same for all positions of a game, and scratch memory for looking at one."""

    win_length: int
    lines: Keys
    """uint64[W]: the cells of every line, as sets"""
    images: Integers
    """int64[S, cells]: where a stone goes, for each symmetry, the identity first"""
    weight: Integers
    """int64[2, cells]: what the open lines through a cell weigh together, the mover's and the other player's"""
    total: Integers
    """int64[2]: what all open lines weigh together"""
    partners: Keys
    """uint64[2, cells]: with which cell a stone on this cell threatens to complete a line"""
    shared: Keys
    """uint64[cells]: the empty cells that every live line through a cell holds"""
    left: Keys
    """uint64[W]: in `holds`, the cells still free of the lines that no pair stops"""
    heavy: Integers
    """int64[cells]: in `holds`, what the lines left weigh together"""
    common: Integers
    """int64[cells, cells]: in `holds`, what the lines left through two cells weigh together"""


def board_of(game: Game) -> Board:
    """The board of a game."""
    cells, lines = game.cells, np.bitwise_or.reduce(ONE << windows(game).astype(np.uint64), axis=1)
    return Board(
        win_length=game.win_length,
        lines=lines,
        images=np.unique(symmetries(game), axis=0),  # a board of one row has fewer than 4; the identity is the least
        weight=np.zeros((2, cells), np.int64),
        total=np.zeros(2, np.int64),
        partners=np.zeros((2, cells), np.uint64),
        shared=np.zeros(cells, np.uint64),
        left=np.zeros(len(lines), np.uint64),
        heavy=np.zeros(cells, np.int64),
        common=np.zeros((cells, cells), np.int64),
    )


@inlined
def set_of(cell: int) -> np.uint64:
    """The set of one cell."""
    return ONE << np.uint64(cell)


@inlined
def size_of(cells: np.uint64) -> int:
    """How many cells a set has."""
    cells = cells - ((cells >> ONE) & np.uint64(0x5555555555555555))
    cells = (cells & np.uint64(0x3333333333333333)) + ((cells >> np.uint64(2)) & np.uint64(0x3333333333333333))
    cells = (cells + (cells >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return wide((cells * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inlined
def least_of(cells: np.uint64) -> int:
    """The least cell of a set that is not empty."""
    return size_of((cells - ONE) & ~cells)


@inlined
def several(cells: np.uint64) -> bool:
    """Whether a set that is not empty has more than one cell."""
    return bool((cells & (cells - ONE)) != NONE)
