"""The transposition table of bounds: one entry for a board up to symmetry and the plies left.

An entry holds the whole key, so there are no collisions, and serves both players (Veness and Blair, "Effective use of
transposition tables in stochastic game tree search", 2007).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from baselines.expectiminimax.search_stack import Chance
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, UInt64Array, compiled_nogil, inlined, int64
from ttt_envs.core.random import splitmix64
from ttt_envs.core.records import Records
from ttt_envs.game.game import Game
from ttt_envs.game.symmetry import inverse, symmetries

BUCKET = 4
"""Number of entries in a bucket."""
NO_MOVE = 511


class Table(NamedTuple):
    """Bounds for boards and plies left; N entries, zero or a power of two."""

    keys: UInt64Array
    """uint64[N, 2 * words]: the canonical board"""
    meta: Int64Array
    """int64[N]: plies left, then 9 bits for a good move of either player, ``NO_MOVE`` for none; 0 for no entry"""
    bounds: Float64Array
    """float64[N, 4]: lower and upper bound on the value for player_0, with player_0 to move; and the same with player_1
    to move"""


def empty_table(size: int, words: int) -> Table:
    """Return an empty table; see :class:`Table`."""
    return Table(np.zeros((size, 2 * words), np.uint64), np.zeros(size, np.int64), np.zeros((size, 4)))


def table_bytes(size: int, words: int) -> int:
    """Return the size of a table in bytes."""
    return 8 * size * (2 * words + 5)


@inlined
def _bucket(keys: UInt64Array, row: int, depth: int, known: Int64Array) -> int:
    """Return the first entry of the bucket of ``keys[row]``."""
    mixed = splitmix64(np.uint64(depth), 0)
    for word in range(keys.shape[1]):
        mixed = splitmix64(mixed ^ keys[row, word], 0)
    return BUCKET * int64(mixed & np.uint64(len(known) // BUCKET - 1))


@compiled_nogil
def _found_entry(keys: UInt64Array, row: int, depth: int, table: Table) -> int:
    """Return the entry of the board ``keys[row]`` with ``depth`` plies left, -1 if there is none."""
    boards, known, _ = table
    found = -1
    start = _bucket(keys, row, depth, known)
    for entry in range(start, start + BUCKET):
        same = known[entry] >> 18 == depth
        for word in range(keys.shape[1] if same else 0):
            same &= boards[entry, word] == keys[row, word]
        if same:
            found = entry
    return found


@compiled_nogil
def _entry_for(keys: UInt64Array, row: int, depth: int, table: Table) -> int:
    """Return the entry to write: the board's own, else a free one, else the one with the fewest plies left."""
    _, known, _ = table
    entry = _found_entry(keys, row, depth, table)
    if entry < 0:
        start = _bucket(keys, row, depth, known)
        entry = start
        for other in range(start + 1, start + BUCKET):
            if known[other] >> 18 < known[entry] >> 18:
                entry = other
    return entry


@compiled_nogil
def refill(old: Table, new: Table) -> int:
    """Write all entries of one table into another; return the resulting number of entries."""
    count = 0
    for entry in range(len(old.meta)):
        if old.meta[entry] != 0:
            to = _entry_for(old.keys, entry, old.meta[entry] >> 18, new)
            count += int64(new.meta[to] == 0)
            new.meta[to] = old.meta[entry]
            for word in range(old.keys.shape[1]):
                new.keys[to, word] = old.keys[entry, word]
            for bound in range(4):
                new.bounds[to, bound] = old.bounds[entry, bound]
    return count


# ---------------------------------------------------------------------------------------------------------------------
# Keys


class SymmetryState(NamedTuple):
    """The symmetries of a board, and the current position under those that matter."""

    permutations: Int64Array
    """int64[S, cells]: new cell of a stone under each symmetry, the identity first"""
    inverses: Int64Array
    """int64[S, cells]: the inverse"""
    used: Int64Array
    """int64[1 + S]: number of symmetries that leave the root unchanged, and their indices: only these make successors
    equivalent"""
    planes: UInt64Array
    """uint64[S, 2, words]: the stones of both players under these symmetries, as bits"""

    @classmethod
    def from_game(cls, game: Game) -> SymmetryState:
        """Return the tables for an empty board."""
        permutations, inverses = _symmetry_tables(game)
        planes = np.zeros((len(inverses), 2, num_set_words(game)), np.uint64)
        return cls(permutations, inverses, np.zeros(1 + len(inverses), np.int64), planes)


@lru_cache(maxsize=16)
def _symmetry_tables(game: Game) -> tuple[Int64Array, Int64Array]:
    """Return ``permutations`` and ``inverses``."""
    inverses = np.unique(symmetries(game), axis=0)  # a board of one row has fewer than 4; the identity sorts first
    return inverse(inverses), inverses


def num_set_words(game: Game) -> int:
    """Return the number of 64-bit words of a set of cells."""
    return -(-game.cells // 64)


@inlined
def use_symmetries(cells: Int8Array, of_board: SymmetryState) -> None:
    """Select the symmetries that leave a root unchanged, and clear the planes."""
    permutations, _, used, planes = of_board
    used[0] = 0
    for symmetry in range(len(permutations)):
        same = True
        for cell in range(len(cells)):
            if cells[cell] != cells[permutations[symmetry, cell]]:
                same = False
                break
        if same:
            used[0] += 1
            used[used[0]] = symmetry
    planes[:] = np.uint64(0)


@inlined
def mark(cell: int, mover: int, of_board: SymmetryState) -> None:
    """Toggle a stone in the planes."""
    permutations, _, used, planes = of_board
    for i in range(used[0]):
        to = permutations[used[1 + i], cell]
        planes[i, mover, to >> 6] ^= np.uint64(1) << np.uint64(to & 63)


@compiled_nogil
def write_key(depth: int, of_board: SymmetryState, keys: UInt64Array) -> int:
    """Write the canonical board, the least under symmetries, into ``keys[depth]``; return the symmetry used."""
    _, _, used, planes = of_board
    words = planes.shape[2]
    least = 0
    for symmetry in range(1, used[0]):
        for i in range(2 * words):
            new, old = planes[symmetry, i // words, i % words], planes[least, i // words, i % words]
            if new != old:
                if new < old:
                    least = symmetry
                break
    for i in range(2 * words):
        keys[depth, i] = planes[least, i // words, i % words]
    return int64(used[1 + least])


# ---------------------------------------------------------------------------------------------------------------------
# Access by chance nodes


@inlined
def look_up(
    depth: int, chance: Chance, turns: Records, keys: UInt64Array, of_board: SymmetryState, table: Table
) -> None:
    """Read bounds and good moves of a chance node; entries of a search one ply shallower give moves only."""
    for plies in range(depth, depth - 2, -1):
        entry = _found_entry(keys, depth, plies, table)
        if entry >= 0:
            for player in range(2):
                turn = turns[depth, int64(player == chance.maker)]
                move = table.meta[entry] >> 9 * player & NO_MOVE
                if move != NO_MOVE:
                    turn.move = of_board.inverses[chance.symmetry, move]
                if plies == depth:
                    low, high = table.bounds[entry, 2 * player], table.bounds[entry, 2 * player + 1]
                    if chance.maker == 1:
                        low, high = -high, -low
                    turn.low = max(turn.low, low)
                    turn.high = min(turn.high, high)
            break


@inlined
def store(depth: int, chance: Chance, turns: Records, keys: UInt64Array, of_board: SymmetryState, table: Table) -> int:
    """Write the bounds and moves of a chance node into the table; return the number of entries gained, 0 or 1."""
    entry = _entry_for(keys, depth, depth, table)
    more = int64(table.meta[entry] == 0)
    for word in range(keys.shape[1]):
        table.keys[entry, word] = keys[depth, word]
    meta = int64(depth)
    for player in range(1, -1, -1):
        turn = turns[depth, int64(player == chance.maker)]
        low, high = turn.low, turn.high
        if chance.maker == 1:
            low, high = -high, -low
        table.bounds[entry, 2 * player], table.bounds[entry, 2 * player + 1] = low, high
        meta = meta << 9 | (NO_MOVE if turn.move < 0 else of_board.permutations[chance.symmetry, turn.move])
    table.meta[entry] = meta
    return more
