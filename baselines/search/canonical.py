"""Positions up to symmetry: the stones under every symmetry of the board, as bits, and the least of
these as a key.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ttt_envs.core.jit import Int64Array, inlined, int64
from ttt_envs.game.game import Game
from ttt_envs.game.symmetry import inverse, symmetries

MAX_WORDS = 12
"""Maximum number of words of the stones of both players."""
PERMUTATION, INVERSE = range(2)


class Planes(NamedTuple):
    """The stones of a position under the S symmetries of the board, the identity first."""

    stones: Int64Array
    """int64[S, words]: the bits of one player's stones, then those of the other's"""
    maps: Int64Array
    """int64[S, 2, cells]: the new cell of a stone under each symmetry (``PERMUTATION``), and the
    ``INVERSE``
    """

    @classmethod
    def empty(cls, game: Game) -> Planes:
        """Return the empty board of a game."""
        maps = np.stack(symmetry_tables(game), axis=1)
        return cls(np.zeros((len(maps), 2 * -(-game.cells // 64)), np.int64), maps)


@lru_cache(maxsize=16)
def symmetry_tables(game: Game) -> tuple[Int64Array, Int64Array]:
    """Return the distinct symmetries of a board, int64[S, cells]: the new cell of a stone under
    each, and the inverses.

    Of a board under a symmetry, cell j is its cell ``inverses[s, j]``.
    """
    # a board of one row has fewer than 4; the identity sorts first
    inverses = np.unique(symmetries(game), axis=0)
    return inverse(inverses), inverses


@inlined
def mark(cell: int, player: int, planes: Planes) -> None:
    """Put a stone on the board, or take it back."""
    stones = planes.stones
    num_words = planes.stones.shape[1] // 2
    for i in range(len(stones)):
        new_cell = planes.maps[i, PERMUTATION, cell]
        stones[i, player * num_words + (new_cell >> 6)] ^= int64(1) << (new_cell & 63)


@inlined
def write_key(key: Int64Array, planes: Planes) -> int:
    """Write the least board under symmetries into the first words of a key; return the symmetry
    that leads to it.
    """
    stones = planes.stones
    smallest_row = 0
    for i in range(1, len(stones)):
        word = 0
        while word < stones.shape[1] - 1 and stones[i, word] == stones[smallest_row, word]:
            word += 1
        if stones[i, word] < stones[smallest_row, word]:
            smallest_row = i
    for word in range(stones.shape[1]):
        key[word] = stones[smallest_row, word]
    return int64(smallest_row)
