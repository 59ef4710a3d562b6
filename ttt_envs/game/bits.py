"""Bitboards: the stones of one player as one integer, cell i as bit i."""

from __future__ import annotations

from typing import TypeVar

from ttt_envs.core.jit import Int8Array, Int64Array, inlined, int8, int64

Bits = TypeVar("Bits", int, Int64Array)

MAX_CELLS_IN_BITS = 63
"""Maximum number of cells for which the stones of one player fit into one integer."""
NOT_NEGATIVE = (1 << 63) - 1
"""In kernels ``bits & NOT_NEGATIVE`` is ``bits``, but tells the compiler that a shift to the right
need not copy the sign, for which AVX2 has no instruction."""


@inlined
def where(condition: int, new: int, old: int) -> int:
    """Return ``new`` if the condition is 1, ``old`` if it is 0, without a branch."""
    return old ^ ((old ^ new) & -condition)


@inlined
def all_bits(count: int) -> int:
    """Return the first ``count`` bits, all set."""
    return (int64(1) << count) - 1


@inlined
def to_bits(cells: Int8Array, stone: int) -> int:
    """Return the stones of one kind as bits, on a board up to ``MAX_CELLS_IN_BITS`` cells."""
    bits = 0
    for cell in range(len(cells)):
        bits |= int64(cells[cell] == stone) << cell
    return bits


@inlined
def bits_by_player(cells: Int8Array, player: int) -> tuple[int, int]:
    """Return the stones of a player, and those of the other, as bits."""
    return to_bits(cells, int8(player + 1)), to_bits(cells, int8(2 - player))


@inlined
def nth_bit(bits: int, n: int, size: int) -> int:
    """Return the index of the set bit number ``n``, from 0, below ``size``; beyond the last, some
    index up to 63.

    A branch-free binary search over bit counts of halves, quarters and so on, with the same work
    for all boards of one size.
    """
    by_2 = bits - ((bits >> 1) & 0x5555555555555555)
    by_4 = (by_2 & 0x3333333333333333) + ((by_2 >> 2) & 0x3333333333333333)
    by_8 = (by_4 + (by_4 >> 4)) & 0x0F0F0F0F0F0F0F0F
    by_16 = (by_8 + (by_8 >> 8)) & 0x00FF00FF00FF00FF
    by_32 = (by_16 + (by_16 >> 16)) & 0x0000FFFF0000FFFF
    index = int64(0)
    if size > 16:
        n, index = _beyond(n, index, by_32, 5)
        n, index = _beyond(n, index, by_16, 4)
    n, index = _beyond(n, index, by_8, 3)
    n, index = _beyond(n, index, by_4, 2)
    n, index = _beyond(n, index, by_2, 1)
    n, index = _beyond(n, index, bits, 0)
    return index & 63


@inlined
def count_bits(bits: Bits) -> Bits:
    """Return the number of set bits; outside of kernels also of each integer of an array, as numpy
    2 does.
    """
    bits = bits - ((bits >> 1) & 0x5555555555555555)
    bits = (bits & 0x3333333333333333) + ((bits >> 2) & 0x3333333333333333)
    return (((bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0F) * 0x0101010101010101) >> 56 & 127


@inlined
def _beyond(n: int, index: int, counts: int, width: int) -> tuple[int, int]:
    """Skip the next ``1 << width`` bits if bit ``n`` is not among them."""
    count = (counts >> index) & ((2 << width) - 1)
    skips = int64(n >= count)
    return n - count * skips, index + (skips << width)
