"""Boards as pairs of bit sets, and their symmetry classes.

The *code* of a board of up to ``MAX_CLASS_CELLS`` cells is one number: player_0's stones as the bits from 0, player_1's
as those from 32. The *leader* of a class is its canonical board, the one with the smallest code.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baselines.retrograde.ranks import apply_symmetry, spread_all
from ttt_envs.core.jit import Int64Array, UInt32Array, UInt64Array, compiled, inlined, int64
from ttt_envs.game.rules import Game
from ttt_envs.game.symmetry import Symmetries, inverse, permutation_cycles, symmetries

MAX_CLASS_CELLS = 31
"""Maximum number of cells of a board that has a code."""
SECOND = 32
"""Bit of player_1's first cell."""


class SymmetryTables(NamedTuple):
    """Lookup tables for symmetries of bit sets, split into ``low`` cells and the rest."""

    low: int
    low_table: UInt32Array
    """uint32[S, 2**low]"""
    high_table: UInt32Array
    """uint32[S, 2**(cells - low)]"""


@cache
def symmetry_tables(game: Game, which: Symmetries = "all") -> SymmetryTables:
    """Return the tables for a board up to ``MAX_CLASS_CELLS`` cells; for ``"none"`` and larger boards, those of the
    identity, empty.
    """
    if which == "none" or game.cells > MAX_CLASS_CELLS:
        return SymmetryTables(0, np.zeros((1, 1), np.uint32), np.zeros((1, 1), np.uint32))
    to, low = inverse(symmetries(game, which)), (game.cells + 1) // 2  # target cell of each cell
    return SymmetryTables(low, spread_all(to[:, :low]), spread_all(to[:, low:]))


@inlined
def stones_in_code(code: int, player: int) -> int:
    """Return one player's stones as bits."""
    return code >> (SECOND * player) & ((int64(1) << SECOND) - 1)


@inlined
def to_code(first: int, second: int) -> int:
    """Return the code of a board."""
    return first | second << SECOND


@inlined
def canonical(first: int, second: int, tables: SymmetryTables) -> tuple[int, int]:
    """Return the canonical code of a board, and the first symmetry that maps the board to it.

    If only the identity is given, return the board's own code.
    """
    low, low_table, high_table = tables
    best, by = to_code(first, second), 0
    for symmetry in range(1, len(low_table)):
        code = to_code(
            apply_symmetry(first, symmetry, low, low_table, high_table),
            apply_symmetry(second, symmetry, low, low_table, high_table),
        )
        by = symmetry if code < best else by
        best = code if code < best else best
    return best, by


@compiled
def canonical_rows(codes: UInt64Array, tables: SymmetryTables, leaders: UInt64Array, by: Int64Array) -> None:
    """Apply :func:`canonical` to codes uint64[B]."""
    for b in range(len(codes)):
        code = int64(codes[b])
        leaders[b], by[b] = canonical(stones_in_code(code, 0), stones_in_code(code, 1), tables)


@cache
def counts_by_stones(game: Game, classes: bool) -> tuple[int, ...]:
    """Return the numbers of arrangements, or of their classes, of 0, 1, ... stones, up to a board with one empty cell.

    Without skips the players have equally many stones, or player_0 one more. With gravity no stone is above an empty
    cell. Classes are counted by the arrangements fixed by each symmetry (Burnside's lemma): each cycle of its cells is
    all empty or has stones of one kind.
    """
    cells, skips = game.cells, game.skip_chance > 0
    if not classes:
        return tuple(
            occupied * (2**stones if skips else math.comb(stones, stones // 2))
            for stones, occupied in enumerate(_occupied_sets(game)[:-1])
        )
    permutations = symmetries(game)
    total = np.zeros((cells + 1, cells + 1), object)
    for permutation in permutations:
        total += _fixed_arrangements(game, permutation)
    counts = []
    for stones in range(cells):
        of_first = range(stones + 1) if skips else (stones - stones // 2,)
        counts.append(sum(int(total[first, stones - first]) for first in of_first) // len(permutations))
    return tuple(counts)


def _occupied_sets(game: Game) -> list[int]:
    """Return the numbers of sets of 0, 1, ... cells that can hold stones."""
    if not game.gravity:
        return [math.comb(game.cells, stones) for stones in range(game.cells + 1)]
    counts = [1]
    for _ in range(game.columns):  # a column has 0 to all rows
        counts = [sum(counts[max(0, end - game.rows) : end + 1]) for end in range(len(counts) + game.rows)]
    return counts


def _fixed_arrangements(game: Game, permutation: Int64Array) -> NDArray[np.object_]:
    """Return the numbers of arrangements that a symmetry does not change, int[cells + 1, cells + 1], by the stones of
    each player.

    With gravity, stones fill each column from below, and a symmetry permutes the columns.
    """
    height, moved = 1, permutation
    if game.gravity:
        height, moved = game.rows, permutation[: game.columns] % game.columns
    fixed = np.zeros((game.cells + 1, game.cells + 1), object)
    fixed[0, 0] = 1
    for length in map(len, permutation_cycles(moved)):
        more = term = fixed  # the cycle has no stones, then one row of stones more at each turn
        for _ in range(height):
            higher = np.zeros_like(term)
            higher[length:] += term[:-length]
            higher[:, length:] += term[:, :-length]
            more, term = more + higher, higher
        fixed = more
    return fixed
