"""The transposition table: uint64[N, 3], rows (attacker's stones, defender's stones, numbers).

The empty board is never stored.
"""

from __future__ import annotations

import numpy as np

from baselines.proof_number.bitsets import NONE
from ttt_envs.core.jit import UInt64Array, compiled_at_once, inlined, int64

ENTRY = 24
"""Size of an entry in bytes: two sets of cells; proof number, disproof number and magnitude of the subtree."""
BUCKET = 4
"""Number of entries in a bucket."""
NO_TABLE = np.zeros((0, 3), np.uint64)


@inlined
def _bucket(first: np.uint64, second: np.uint64, table: UInt64Array) -> int:
    mixed = (first ^ (second * np.uint64(0x9E3779B97F4A7C15)) ^ (second >> np.uint64(31))) * np.uint64(
        0xBF58476D1CE4E5B9
    )
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    return BUCKET * int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(len(table) // BUCKET - 1))


@inlined
def lookup(first: np.uint64, second: np.uint64, table: UInt64Array) -> np.uint64:
    """Return the numbers stored for a position, 0 if there are none."""
    if len(table) > 0:
        start = _bucket(first, second, table)
        for i in range(start, start + BUCKET):
            if table[i, 0] == first and table[i, 1] == second:
                found: np.uint64 = table[i, 2]
                return found
    return NONE


@inlined
def store(first: np.uint64, second: np.uint64, numbers: np.uint64, table: UInt64Array) -> int:
    """Write an entry, replacing the cheapest one if the bucket is full; return the number of entries gained, 0 or 1."""
    if len(table) == 0:
        return 0
    start = _bucket(first, second, table)
    place = start
    for i in range(start, start + BUCKET):
        if table[i, 0] == first and table[i, 1] == second:
            place = i
            break
        if table[i, 2] >> np.uint64(56) < table[place, 2] >> np.uint64(56):
            place = i
    gained = 1 if table[place, 2] == NONE else 0
    table[place, 0] = first
    table[place, 1] = second
    table[place, 2] = numbers
    return gained


@compiled_at_once
def refill(old: UInt64Array, new: UInt64Array) -> int:
    """Write all entries of one table into another; return the resulting number of entries."""
    count = 0
    for i in range(len(old)):
        if old[i, 2] != NONE:
            count += store(old[i, 0], old[i, 1], old[i, 2], new)
    return count


def grow(table: UInt64Array, entries: int, room: int, memory: int) -> tuple[UInt64Array, int]:
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
    while size < 2 * (entries + room) and (len(table) + 2 * size) * ENTRY <= memory:
        size *= 2
    if size == len(table) or (len(table) + size) * ENTRY > memory:
        return table, entries
    larger = np.zeros((size, 3), np.uint64)
    return larger, int(refill(table, larger))
