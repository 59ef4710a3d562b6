"""Boards as bits: the stones of one player as one number, cell i its bit i.

Lines are found for the whole board at once, by shifts and without a branch that depends on a stone; so in a loop over
many games it all becomes vector instructions.
"""

from __future__ import annotations

from ttt_envs.compiling import Cells, Parameters, inlined, wide

LARGEST_IN_BITS = 63
"""cells up to which the stones of one player are the bits of one number"""


@inlined
def _runs(bits: int, step: int, one: int, two: int) -> int:
    """Where runs begin that are longer by ``one``, then by ``two``, than those that begin where ``bits`` are set."""
    bits &= bits >> (one * step)
    return bits & bits >> (two * step)


@inlined
def line_in(bits: int, parameters: Parameters) -> bool:
    """Whether the stones of a player hold a line, on a board up to ``LARGEST_IN_BITS`` cells.

    The length of the runs that are looked for doubles with every step: two steps reach 4, five reach 32.
    """
    _, columns, win_length, _, across, falling, rising = parameters
    one = min(1, win_length - 1)
    two = min(1 + one, win_length - 1 - one)
    rows = _runs(bits, 1, one, two)
    uprights = _runs(bits, columns, one, two)
    downs = _runs(bits, columns + 1, one, two)
    ups = _runs(bits, columns - 1, one, two)
    if win_length > 4:
        three = min(4, win_length - 4)
        four = min(8, max(0, win_length - 8))
        rows = _runs(rows, 1, three, four)
        uprights = _runs(uprights, columns, three, four)
        downs = _runs(downs, columns + 1, three, four)
        ups = _runs(ups, columns - 1, three, four)
        five = max(0, win_length - 16)
        rows &= rows >> five
        uprights &= uprights >> (five * columns)
        downs &= downs >> (five * (columns + 1))
        ups &= ups >> (five * (columns - 1))
    return ((rows & across) | uprights | (downs & falling) | (ups & rising)) != 0


@inlined
def bits_of(cells: Cells, stone: int) -> int:
    """The stones of one kind as bits, on a board up to ``LARGEST_IN_BITS`` cells."""
    bits = wide(0)
    for cell in range(len(cells)):
        bits |= wide(cells[cell] == stone) << cell
    return bits


@inlined
def nth_bit(bits: int, n: int) -> int:
    """The place of the set bit number ``n``, from 0; of a bit beyond the last, some place up to 63.

    By how many bits are set in halves, quarters and so on: no branch, and the same work for all boards.
    """
    by_2 = bits - ((bits >> 1) & 0x5555555555555555)
    by_4 = (by_2 & 0x3333333333333333) + ((by_2 >> 2) & 0x3333333333333333)
    by_8 = (by_4 + (by_4 >> 4)) & 0x0F0F0F0F0F0F0F0F
    by_16 = (by_8 + (by_8 >> 8)) & 0x00FF00FF00FF00FF
    by_32 = (by_16 + (by_16 >> 16)) & 0x0000FFFF0000FFFF
    at = wide(0)
    n, at = _beyond(n, at, by_32, 5)
    n, at = _beyond(n, at, by_16, 4)
    n, at = _beyond(n, at, by_8, 3)
    n, at = _beyond(n, at, by_4, 2)
    n, at = _beyond(n, at, by_2, 1)
    n, at = _beyond(n, at, bits, 0)
    return at & 63


@inlined
def count_bits(bits: int) -> int:
    """How many bits are set."""
    bits = bits - ((bits >> 1) & 0x5555555555555555)
    bits = (bits & 0x3333333333333333) + ((bits >> 2) & 0x3333333333333333)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0F
    bits += bits >> 8
    bits += bits >> 16
    return (bits + (bits >> 32)) & 127


@inlined
def _beyond(n: int, at: int, counts: int, width: int) -> tuple[int, int]:
    """Step over the next ``1 << width`` bits where bit ``n`` is not among them."""
    here = (counts >> at) & ((2 << width) - 1)
    further = wide(n >= here)
    return n - here * further, at + (further << width)


@inlined
def winning_bits(bits: int, parameters: Parameters) -> int:
    """Where one stone more would complete a line, as bits; those that are taken or off the board mean nothing."""
    _, columns, win_length, _, across, falling, rising = parameters
    found = wide(0)
    for direction in range(4):
        if direction == 0:
            step, starts = 1, across
        elif direction == 1:
            step, starts = columns, wide(-1)
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
