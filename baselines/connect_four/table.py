"""The transposition table: bounds of scores by position, one 64-bit word per entry.

The key of a position is multiplied by an odd constant modulo a power of two, which loses nothing. The high bits of the
product choose a bucket of entries, and an entry holds the other bits; so equal entries are equal positions.
"""

from __future__ import annotations

import numpy as np

from baselines.connect_four.bitboards import Board, mirror
from ttt_envs.core.jit import Int64Array, inlined, int64

BUCKET = 4
"""Number of entries in a bucket."""
OFFSET = 32
"""Added to a score, so that it fits into 6 bits, and no entry in use is 0."""
_FACTOR = 0x1E3779B97F4A7C15
_BOUND_BITS = 6
_WORK_BITS = 5
_INFO_BITS = 2 * _BOUND_BITS + _WORK_BITS


def empty_table(board: Board, memory: int) -> Int64Array:
    """Return a table of free entries, int64[size]: the largest power of two of at most ``memory`` bytes.

    It has never less than the entries, up to 4 MiB of them, whose index leaves few enough bits of the key.
    """
    bits = num_key_bits(board)
    least = max(BUCKET, BUCKET << max(0, bits + _INFO_BITS - 63))
    size = least
    while 2 * size * 8 <= memory:
        size *= 2
    return np.zeros(size, np.int64)


@inlined
def num_key_bits(board: Board) -> int:
    """Return the number of bits of a key."""
    return board.columns * (board.rows + 1)


@inlined
def position_key(mine: int, mask: int, board: Board) -> int:
    """Return a key of a position: the mover's stones and those of both players, the same for mirrored positions.

    Adding the two marks the height of every column by a carry into its lowest empty cell.
    """
    key = mine + mask
    other = mirror(key, board)
    return min(key, other)


@inlined
def locate(key: int, shift: int, board: Board) -> tuple[int, int]:
    """Return the index of the first entry of a key's bucket, and the part of the key that its entry holds.

    ``shift`` is :func:`index_shift` of the table.
    """
    mixed = (key * _FACTOR) & ((int64(1) << num_key_bits(board)) - 1)
    return (mixed >> shift) * BUCKET, (mixed & ((int64(1) << shift) - 1)) << _INFO_BITS


def index_shift(table: Int64Array, board: Board) -> int:
    """Return the number of bits of a mixed key that are not part of the index."""
    return max(0, num_key_bits(board) - (len(table) // BUCKET).bit_length() + 1)


@inlined
def look_up(start: int, rest: int, table: Int64Array) -> tuple[int, int]:
    """Return the lower and the upper bound of a score, ``-OFFSET`` and ``OFFSET`` if there is no entry."""
    for i in range(start, start + BUCKET):
        entry = table[i]
        if entry >> _INFO_BITS == rest >> _INFO_BITS and entry != 0:
            return (entry & 63) - OFFSET, ((entry >> _BOUND_BITS) & 63) - OFFSET
    return -OFFSET, OFFSET


@inlined
def store(start: int, rest: int, low: int, high: int, work: int, table: Int64Array) -> None:
    """Write the bounds of a score; if the bucket is full, the entry of the least work is replaced.

    ``work`` is the number of positions visited for it. All other entries of a full bucket age: their work counts half.
    """
    info = (low + OFFSET) | (high + OFFSET) << _BOUND_BITS
    place, least = start, int64(1) << _WORK_BITS
    for i in range(start, start + BUCKET):
        entry = table[i]
        if entry == 0 or entry >> _INFO_BITS == rest >> _INFO_BITS:
            place = i
            break
        of_entry = (entry >> 2 * _BOUND_BITS) & ((1 << _WORK_BITS) - 1)
        if of_entry < least:
            place, least = i, of_entry
    magnitude = int64(0)
    while work > 1 and magnitude < (1 << _WORK_BITS) - 1:
        work >>= 1
        magnitude += 1
    table[place] = rest | magnitude << 2 * _BOUND_BITS | info
