"""Bitboards: the stones of one player as one integer, cell i as bit i.

Lines are found for the whole board at once, by shifts without data-dependent branches; so loops over many games are
vectorised.
"""

from __future__ import annotations

from typing import Final

from ttt_envs.core.jit import Int8Array, Parameters, inlined, int64

MAX_CELLS_IN_BITS = 63
"""Maximum number of cells for which the stones of one player fit into one integer."""
NUM_STANDARD: Final = 7
NUM_LISTED: Final = 6
"""Lengths of ``Game.parameters`` of the standard game and of games whose lines are listed; other games have 8 parts.

They select code by type, so that numba compiles only what a kind of game needs.
"""


@inlined
def _runs(bits: int, step: int, one: int, two: int) -> int:
    """Return the starts of runs longer by ``one``, then by ``two``, than the runs that start at the set ``bits``."""
    bits &= bits >> (one * step)
    return bits & bits >> (two * step)


@inlined
def line_in(bits: int, parameters: Parameters) -> bool:
    """Return whether the stones of a player contain a line, on a board up to ``MAX_CELLS_IN_BITS`` cells.

    The tested run length doubles with every step: two steps reach 4, five reach 32. Lines of unusual rules are tested
    one by one.
    """
    if len(parameters) == NUM_LISTED:
        lines = parameters[5]
        found = False
        for i in range(lines.shape[1]):
            found |= (bits & lines[0, i] == lines[0, i]) & (bits & lines[1, i] == 0)
        return found
    columns, win_length, across, falling, rising = (
        parameters[1],
        parameters[2],
        parameters[4],
        parameters[5],
        parameters[6],
    )
    # conditional expressions, because numba compiles functions of its own for `min` and `max`
    one = win_length - 1 if win_length - 1 < 1 else 1
    two = win_length - 1 - one if win_length - 1 - one < 1 + one else 1 + one
    rows = _runs(bits, 1, one, two)
    uprights = _runs(bits, columns, one, two)
    downs = _runs(bits, columns + 1, one, two)
    ups = _runs(bits, columns - 1, one, two)
    if win_length > 4:
        three = win_length - 4 if win_length - 4 < 4 else 4
        rest = win_length - 8 if win_length - 8 > 0 else 0
        four = rest if rest < 8 else 8
        rows = _runs(rows, 1, three, four)
        uprights = _runs(uprights, columns, three, four)
        downs = _runs(downs, columns + 1, three, four)
        ups = _runs(ups, columns - 1, three, four)
        five = win_length - 16 if win_length - 16 > 0 else 0
        rows &= rows >> five
        uprights &= uprights >> (five * columns)
        downs &= downs >> (five * (columns + 1))
        ups &= ups >> (five * (columns - 1))
    return ((rows & across) | uprights | (downs & falling) | (ups & rising)) != 0


@inlined
def to_bits(cells: Int8Array, stone: int) -> int:
    """Return the stones of one kind as bits, on a board up to ``MAX_CELLS_IN_BITS`` cells."""
    bits = int64(0)
    for cell in range(len(cells)):
        bits |= int64(cells[cell] == stone) << cell
    return bits


@inlined
def nth_bit(bits: int, n: int) -> int:
    """Return the index of the set bit number ``n``, from 0; beyond the last set bit, some index up to 63.

    A branch-free binary search over bit counts of halves, quarters and so on, with the same work for all boards.
    """
    by_2 = bits - ((bits >> 1) & 0x5555555555555555)
    by_4 = (by_2 & 0x3333333333333333) + ((by_2 >> 2) & 0x3333333333333333)
    by_8 = (by_4 + (by_4 >> 4)) & 0x0F0F0F0F0F0F0F0F
    by_16 = (by_8 + (by_8 >> 8)) & 0x00FF00FF00FF00FF
    by_32 = (by_16 + (by_16 >> 16)) & 0x0000FFFF0000FFFF
    at = int64(0)
    n, at = _beyond(n, at, by_32, 5)
    n, at = _beyond(n, at, by_16, 4)
    n, at = _beyond(n, at, by_8, 3)
    n, at = _beyond(n, at, by_4, 2)
    n, at = _beyond(n, at, by_2, 1)
    n, at = _beyond(n, at, bits, 0)
    return at & 63


@inlined
def count_bits(bits: int) -> int:
    """Return the number of set bits."""
    bits = bits - ((bits >> 1) & 0x5555555555555555)
    bits = (bits & 0x3333333333333333) + ((bits >> 2) & 0x3333333333333333)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0F
    bits += bits >> 8
    bits += bits >> 16
    return (bits + (bits >> 32)) & 127


@inlined
def _beyond(n: int, at: int, counts: int, width: int) -> tuple[int, int]:
    """Skip the next ``1 << width`` bits if bit ``n`` is not among them."""
    here = (counts >> at) & ((2 << width) - 1)
    further = int64(n >= here)
    return n - here * further, at + (further << width)


@inlined
def completing_bits(bits: int, parameters: Parameters) -> int:
    """Return the cells, as bits, where one more stone completes a line; ignore the bits of cells that are not empty."""
    found = int64(0)
    if len(parameters) == NUM_LISTED:
        listed = parameters[5]
        for i in range(listed.shape[1]):
            missing = listed[0, i] & ~bits
            if missing & (missing - 1) == 0 and bits & listed[1, i] == 0:
                found |= missing
        return found
    columns, win_length, across, falling, rising = (
        parameters[1],
        parameters[2],
        parameters[4],
        parameters[5],
        parameters[6],
    )
    for direction in range(4):
        if direction == 0:
            step, starts = 1, across
        elif direction == 1:
            step, starts = columns, int64(-1)
        elif direction == 2:
            step, starts = columns + 1, falling
        else:
            step, starts = columns - 1, rising
        for gap in range(win_length):
            lines = starts
            for place_in_line in range(win_length):
                if place_in_line != gap:
                    lines &= bits >> (place_in_line * step)
            found |= lines << (gap * step)
    return found
