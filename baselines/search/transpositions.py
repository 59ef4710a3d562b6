"""One transposition table for all tree searches: rows of int64, in buckets of four.

A row has the whole key of a position first, so that there are no collisions, and then what is known
of it. The first word behind the key has the worth of the row in its upper 16 bits: plies left, or
the number of positions visited for it, at least 1. Free rows are 0, so no position may have the
key 0. A table has no rows, or a power of two of them.

A search stops when the table is half full, and goes on once it has been moved into a larger one
(:func:`grow`).
"""

from __future__ import annotations

import numpy as np

from ttt_envs.core.jit import Int64Array, inlined, int64, kernel

BUCKET = 4
"""Number of rows in a bucket."""
WORTH_SHIFT = 48
MIN_ROWS = 1 << 10
FOREVER = int(np.iinfo(np.int64).max)
_FACTOR = int64(0x9E3779B97F4A7C15 - (1 << 64))


@inlined
def _slot(keys: Int64Array, row: int, words: int, table: Int64Array) -> tuple[int, int]:
    """Return the row of a key and -1; or, where the table lacks it, the row of least worth in its
    bucket, and that.
    """
    slot = 0
    min_worth = FOREVER
    hash_value = 0
    for word in range(words):
        hash_value = (hash_value ^ keys[row, word]) * _FACTOR
        hash_value ^= hash_value >> 32
    start = BUCKET * (hash_value & (len(table) // BUCKET - 1))
    for entry in range(start, start + BUCKET):
        is_equal = True
        for word in range(words):
            is_equal &= table[entry, word] == keys[row, word]
        if is_equal:
            return entry, int64(-1)
        worth = table[entry, words] >> WORTH_SHIFT
        if worth < min_worth:
            slot = entry
            min_worth = worth
    return slot, min_worth


@inlined
def find(keys: Int64Array, row: int, words: int, table: Int64Array) -> int:
    """Return the row of the table with the key ``keys[row, :words]``, -1 if there is none."""
    slot, worth = _slot(keys, row, words, table) if len(table) > 0 else (0, 0)
    return slot if worth < 0 else -1


@inlined
def store(keys: Int64Array, row: int, words: int, info: int, table: Int64Array) -> tuple[int, int]:
    """Write a key and ``info``, the word behind it, in place of the key's old row, or else of the
    least worth.

    Returns:
        The row, and the number of rows that are no longer free, 0 or 1. The table must have rows.
    """
    slot, worth = _slot(keys, row, words, table)
    for word in range(words):
        table[slot, word] = keys[row, word]
    table[slot, words] = info
    return slot, int64(worth == 0)


@inlined
def worth_of(nodes: int) -> int:
    """Return the worth of a row for which ``nodes`` positions were visited: their number, up to the
    largest.
    """
    return min(nodes, (1 << 63 - WORTH_SHIFT) - 1) << WORTH_SHIFT


@kernel(interpreted=False, nogil=True)
def _refill(old: Int64Array, words: int, new: Int64Array) -> int:
    """Write all rows of one table, with keys of ``words`` words, into another; return the number of
    rows in it.
    """
    count = 0
    for entry in range(len(old)):
        if old[entry, words] != 0:
            slot, num_new = store(old, entry, words, old[entry, words], new)
            count += num_new
            for word in range(words + 1, old.shape[1]):
                new[slot, word] = old[entry, word]
    return count


def empty_table(rows: int, words: int) -> Int64Array:
    """Return zeros, int64[rows, words], that begin with a cache line: then a bucket of 64 bytes is
    in one only.
    """
    memory = np.zeros(rows * words + 7, np.int64)
    start = -(memory.ctypes.data // 8) % 8
    return memory[start : start + rows * words].reshape(rows, words)


def grow(
    table: Int64Array, num_stored: int, key_words: int, memory: int
) -> tuple[Int64Array, int, int]:
    """Move a table that is half full into a larger one, if ``memory`` bytes hold both.

    Returns:
        The table, the number of rows stored in it, and the number at which to grow it again.
    """
    size = len(table)
    row_bytes = 8 * table.shape[1]
    new_size = max(4 * size, MIN_ROWS)
    if 2 * num_stored >= size and (size + new_size) * row_bytes <= memory:
        new_table = empty_table(new_size, table.shape[1])
        num_stored = int(_refill(table, key_words, new_table))
        table = new_table
        size = new_size
    return table, num_stored, size // 2 if size and 5 * size * row_bytes <= memory else FOREVER


def num_visits(nodes: int, min_nodes: int, table: Int64Array) -> int:
    """Return the number of positions that a search visits until its next stop, after ``nodes``
    positions.

    A stopped search begins again, and the table holds its results. The smaller the table, the more
    of them are lost.
    """
    return max(min_nodes, nodes * min_nodes // max(len(table), min_nodes))
