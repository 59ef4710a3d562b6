"""The table of positions: uint64[N, 3], rows (attacker's stones, defender's stones, numbers).

The empty board is never in it.
"""

from __future__ import annotations

import numpy as np

from baselines.proof.sets import NONE
from ttt_envs.compiling import Keys, compiled_at_once, inlined, wide

ENTRY = 24
"""bytes of an entry: two sets of cells; proof number, disproof number and size of the tree below"""
BUCKET = 4
"""entries among which a position may stand"""
NO_TABLE = np.zeros((0, 3), np.uint64)


@inlined
def _bucket(first: np.uint64, second: np.uint64, table: Keys) -> int:
    mixed = (first ^ (second * np.uint64(0x9E3779B97F4A7C15)) ^ (second >> np.uint64(31))) * np.uint64(
        0xBF58476D1CE4E5B9
    )
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    return BUCKET * wide((mixed ^ (mixed >> np.uint64(32))) & np.uint64(len(table) // BUCKET - 1))


@inlined
def stored(first: np.uint64, second: np.uint64, table: Keys) -> np.uint64:
    """What the table has of a position, 0 where nothing."""
    if len(table) > 0:
        start = _bucket(first, second, table)
        for i in range(start, start + BUCKET):
            if table[i, 0] == first and table[i, 1] == second:
                found: np.uint64 = table[i, 2]
                return found
    return NONE


@inlined
def store(first: np.uint64, second: np.uint64, numbers: np.uint64, table: Keys) -> int:
    """Write an entry, in place of the one that cost least where the bucket is full; returns entries gained, 0 or 1."""
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
def refill(old: Keys, new: Keys) -> int:
    """Write all entries of one table into another; returns how many are there now."""
    count = 0
    for i in range(len(old)):
        if old[i, 2] != NONE:
            count += store(old[i, 0], old[i, 1], old[i, 2], new)
    return count


def grown(table: Keys, entries: int, room: int, memory: int) -> tuple[Keys, int]:
    """The table, moved into a larger one where it would be more than half full, and the memory holds both.

    Args:
        table: as it is.
        entries: in it.
        room: entries that may come before this is asked again.
        memory: bytes that both may take.

    Returns:
        The table and the entries in it.
    """
    size = max(len(table), BUCKET)
    while size < 2 * (entries + room) and (len(table) + 2 * size) * ENTRY <= memory:
        size *= 2
    if size == len(table) or (len(table) + size) * ENTRY > memory:
        return table, entries
    larger = np.zeros((size, 3), np.uint64)
    return larger, int(refill(table, larger))
