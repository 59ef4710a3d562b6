"""The transposition table: records `Entry`[N], N zero or a power of two. The empty board is never stored."""

from __future__ import annotations

import numpy as np

from baselines.proof_number.bitsets import NONE
from ttt_envs.core.jit import compiled_at_once, inlined, int64
from ttt_envs.core.records import Records, records

BUCKET = 4
"""Number of entries in a bucket."""
SOLVED = (1 << 28) - 1
"""infinity for proof and disproof numbers of solved positions; other numbers stay far below, see ``search.run``"""


class Entry:
    """A position with its numbers."""

    attacker: np.uint64
    """stones, as a set"""
    defender: np.uint64
    numbers: np.uint64
    """28 bits each for the proof and the disproof number, then the magnitude of the subtree; 0 if the entry is free"""


def empty_table(size: int) -> Records:
    """Return a table of free entries."""
    return records(Entry, (size,))


NO_TABLE = empty_table(0)


@inlined
def pack_numbers(proof: int, disproof: int, cost: int) -> np.uint64:
    """Return the numbers of an entry; ``cost`` is the number of positions visited in the subtree."""
    return np.uint64(proof) | np.uint64(disproof) << np.uint64(28) | np.uint64(_magnitude(cost)) << np.uint64(56)


@inlined
def unpack_numbers(numbers: np.uint64) -> tuple[int, int]:
    """Return the proof number and the disproof number of an entry."""
    return int64(numbers & np.uint64(SOLVED)), int64((numbers >> np.uint64(28)) & np.uint64(SOLVED))


@inlined
def _magnitude(count: int) -> int:
    """Return the number of binary digits."""
    digits = 0
    while count > 0:
        count >>= 1
        digits += 1
    return digits


@inlined
def _bucket(first: np.uint64, second: np.uint64, table: Records) -> int:
    mixed = (first ^ (second * np.uint64(0x9E3779B97F4A7C15)) ^ (second >> np.uint64(31))) * np.uint64(
        0xBF58476D1CE4E5B9
    )
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    return BUCKET * int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(len(table) // BUCKET - 1))


@inlined
def lookup(first: np.uint64, second: np.uint64, table: Records) -> np.uint64:
    """Return the numbers stored for a position, 0 if there are none."""
    if len(table) > 0:
        start = _bucket(first, second, table)
        for i in range(start, start + BUCKET):
            entry = table[i]
            if entry.attacker == first and entry.defender == second:
                numbers: np.uint64 = entry.numbers
                return numbers
    return NONE


@inlined
def store(first: np.uint64, second: np.uint64, numbers: np.uint64, table: Records) -> int:
    """Write an entry, replacing the cheapest one if the bucket is full; return the number of entries gained, 0 or 1."""
    if len(table) == 0:
        return 0
    start = _bucket(first, second, table)
    place = start
    for i in range(start, start + BUCKET):
        if table[i].attacker == first and table[i].defender == second:
            place = i
            break
        if table[i].numbers >> np.uint64(56) < table[place].numbers >> np.uint64(56):
            place = i
    entry = table[place]
    gained = 1 if entry.numbers == NONE else 0
    entry.attacker = first
    entry.defender = second
    entry.numbers = numbers
    return gained


@compiled_at_once
def refill(old: Records, new: Records) -> int:
    """Write all entries of one table into another; return the resulting number of entries."""
    count = 0
    for i in range(len(old)):
        entry = old[i]
        if entry.numbers != NONE:
            count += store(entry.attacker, entry.defender, entry.numbers, new)
    return count


def grow(table: Records, entries: int, room: int, memory: int) -> tuple[Records, int]:
    """Move the table into a larger one if it would be more than half full and the memory limit holds both.

    Args:
        table: the current table.
        entries: number of entries in it.
        room: maximum number of new entries before the next call.
        memory: maximum bytes of both tables.

    Returns:
        The table and the number of entries in it.
    """
    size = max(len(table), BUCKET)
    while size < 2 * (entries + room) and (len(table) + 2 * size) * table.itemsize <= memory:
        size *= 2
    if size == len(table) or (len(table) + size) * table.itemsize > memory:
        return table, entries
    larger = empty_table(size)
    return larger, int(refill(table, larger))
