"""The transposition table: bounds that searches have found, one entry for a board up to symmetry and the plies left.

An entry holds the whole key, so that none is taken for another, and serves both players (Veness and Blair, "Effective
use of transposition tables in stochastic game tree search", 2007).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from baselines.expectiminimax.path import Chance, Records
from ttt_envs.compiling import Cells, Integers, Keys, Reals, compiled_nogil, inlined, wide
from ttt_envs.rules import Game, splitmix64
from ttt_envs.symmetry import inverse, symmetries

BUCKET = 4
"""entries among which a position may stand"""
NO_MOVE = 511


class Table(NamedTuple):
    """What is known of boards with so many plies left; N entries, none or a power of two."""

    keys: Keys
    """uint64[N, 2 * words]: the board, the least of its images"""
    meta: Integers
    """int64[N]: plies left, then 9 bits for a good move of either player, ``NO_MOVE`` for none; 0 for no entry"""
    bounds: Reals
    """float64[N, 4]: what the position is worth to player_0, at least and at most, where player_0 is to move; and where
    player_1 is"""


def table_of(size: int, words: int) -> Table:
    """A table of nothing; see :class:`Table`."""
    return Table(np.zeros((size, 2 * words), np.uint64), np.zeros(size, np.int64), np.zeros((size, 4)))


def bytes_of(size: int, words: int) -> int:
    """What a table takes."""
    return 8 * size * (2 * words + 5)


@inlined
def _bucket(keys: Keys, row: int, depth: int, known: Integers) -> int:
    """Where the entries of ``keys[row]`` begin."""
    mixed = splitmix64(np.uint64(depth), 0)
    for word in range(keys.shape[1]):
        mixed = splitmix64(mixed ^ keys[row, word], 0)
    return BUCKET * wide(mixed & np.uint64(len(known) // BUCKET - 1))


@compiled_nogil
def _found_entry(keys: Keys, row: int, depth: int, table: Table) -> int:
    """The entry of the board ``keys[row]`` with so many plies left, -1 where there is none."""
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
def _entry_for(keys: Keys, row: int, depth: int, table: Table) -> int:
    """Where to write: the board's entry, else a free one, else that with the fewest plies left."""
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
    """Write all entries of one table into another; returns how many are there now."""
    count = 0
    for entry in range(len(old.meta)):
        if old.meta[entry] != 0:
            to = _entry_for(old.keys, entry, old.meta[entry] >> 18, new)
            count += wide(new.meta[to] == 0)
            new.meta[to] = old.meta[entry]
            for word in range(old.keys.shape[1]):
                new.keys[to, word] = old.keys[entry, word]
            for bound in range(4):
                new.bounds[to, bound] = old.bounds[entry, bound]
    return count


# ---------------------------------------------------------------------------------------------------------------------
# Keys


class Images(NamedTuple):
    """The symmetries of a board, and the position being looked at as those see it that matter."""

    images: Integers
    """int64[S, cells]: where a stone goes, for each symmetry, the identity first"""
    back: Integers
    """int64[S, cells]: the way back"""
    used: Integers
    """int64[1 + S]: how many symmetries leave the root as it is, and which: only they make equals of what follows"""
    planes: Keys
    """uint64[S, 2, words]: the stones of both players in these images, as bits"""

    @classmethod
    def of(cls, game: Game) -> Images:
        """Those of the empty board."""
        images, back = _ways(game)
        planes = np.zeros((len(back), 2, words_of(game)), np.uint64)
        return cls(images, back, np.zeros(1 + len(back), np.int64), planes)


@lru_cache(maxsize=16)
def _ways(game: Game) -> tuple[Integers, Integers]:
    """``images`` and ``back``."""
    back = np.unique(symmetries(game), axis=0)  # a board of one row has fewer than 4; the identity is the least
    return inverse(back), back


def words_of(game: Game) -> int:
    """How many words of 64 bits hold a set of cells."""
    return -(-game.cells // 64)


@inlined
def use_images(cells: Cells, of_board: Images) -> None:
    """Choose the symmetries that leave a root as it is; no stone is marked yet."""
    images, _, used, planes = of_board
    used[0] = 0
    for image in range(len(images)):
        same = True
        for cell in range(len(cells)):
            if cells[cell] != cells[images[image, cell]]:
                same = False
                break
        if same:
            used[0] += 1
            used[used[0]] = image
    planes[:] = np.uint64(0)


@inlined
def mark(cell: int, mover: int, of_board: Images) -> None:
    """Put a stone into the planes, or take it out of them."""
    images, _, used, planes = of_board
    for i in range(used[0]):
        to = images[used[1 + i], cell]
        planes[i, mover, to >> 6] ^= np.uint64(1) << np.uint64(to & 63)


@compiled_nogil
def write_key(depth: int, of_board: Images, keys: Keys) -> int:
    """Write the least image of the board into ``keys[depth]``; returns which symmetry leads to it."""
    _, _, used, planes = of_board
    words = planes.shape[2]
    least = 0
    for image in range(1, used[0]):
        for i in range(2 * words):
            new, old = planes[image, i // words, i % words], planes[least, i // words, i % words]
            if new != old:
                if new < old:
                    least = image
                break
    for i in range(2 * words):
        keys[depth, i] = planes[least, i // words, i % words]
    return wide(used[1 + least])


# ---------------------------------------------------------------------------------------------------------------------
# What a chance node reads and writes


@inlined
def look_up(depth: int, chance: Chance, turns: Records, keys: Keys, of_board: Images, table: Table) -> None:
    """What the table knows of a chance node: bounds, and good moves; a shallower search knows these, but no bounds."""
    for plies in range(depth, depth - 2, -1):
        entry = _found_entry(keys, depth, plies, table)
        if entry >= 0:
            for player in range(2):
                turn = turns[depth, wide(player == chance.maker)]
                move = table.meta[entry] >> 9 * player & NO_MOVE
                if move != NO_MOVE:
                    turn.move = of_board.back[chance.image, move]
                if plies == depth:
                    low, high = table.bounds[entry, 2 * player], table.bounds[entry, 2 * player + 1]
                    if chance.maker == 1:
                        low, high = -high, -low
                    turn.low = max(turn.low, low)
                    turn.high = min(turn.high, high)
            break


@inlined
def keep(depth: int, chance: Chance, turns: Records, keys: Keys, of_board: Images, table: Table) -> int:
    """Write what is known of a chance node into the table; returns whether that is an entry more."""
    entry = _entry_for(keys, depth, depth, table)
    more = wide(table.meta[entry] == 0)
    for word in range(keys.shape[1]):
        table.keys[entry, word] = keys[depth, word]
    meta = wide(depth)
    for player in range(1, -1, -1):
        turn = turns[depth, wide(player == chance.maker)]
        low, high = turn.low, turn.high
        if chance.maker == 1:
            low, high = -high, -low
        table.bounds[entry, 2 * player], table.bounds[entry, 2 * player + 1] = low, high
        meta = meta << 9 | (NO_MOVE if turn.move < 0 else of_board.images[chance.image, turn.move])
    table.meta[entry] = meta
    return more
