"""Numbering of sets of cells: their ranks, and their classes under the symmetries of the board.

A set of cells is an integer with bit i for cell i. The *rank* of a set is its index among the sets of its size, in
order of these integers: the sum of C(p_j, j + 1) over its cells p_0 < p_1 < ... (the combinatorial number system;
Knuth, The Art of Computer Programming 4A, 7.2.1.3). It does not depend on the number of cells. The rank of a set
*beside* another is its rank among the cells outside the other, renumbered from 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.jit import Int32Array, Int64Array, Parameters, UInt32Array, compiled_at_once, inlined, int64
from ttt_envs.game.bits import count_bits, line_in
from ttt_envs.game.rules import Game
from ttt_envs.game.symmetry import inverse, symmetries

IMAGES = 8
"""a class and a symmetry are stored as one integer, class * IMAGES + symmetry"""


class Ranks(NamedTuple):
    """Tables that map sets of up to ``cells`` cells to ranks; sets are split into ``low`` cells and the rest."""

    low: int
    """number of cells in the lower part of a set"""
    sets: UInt32Array
    """uint32[2**cells]: all sets, by their size and then their rank"""
    starts: Int64Array
    """int64[cells + 2]: start of the sets of a size in ``sets``"""
    low_rank: UInt32Array
    """uint32[2**low]: contribution of a lower part to the rank of its set"""
    high_rank: UInt32Array
    """uint32[cells + 1, 2**(cells - low)]: contribution of a higher part to the rank of a set of this size"""
    thirds: UInt32Array
    """uint32[2**low]: a part of a set with its bits read as digits in base 3"""
    squeezed: NDArray[np.uint16]
    """uint16[3**(low + 1) // 2]: by the key of a half board, with 1 for a removed cell and 2 for a cell of a set: the
    set renumbered among the remaining cells. The keys of any two sets, disjoint or not, are within this range"""


class Classes(NamedTuple):
    """The sets of a game without a line, up to the symmetries of its board.

    The leader of a class is its canonical set, the one with the smallest number.
    """

    places: Int32Array
    """int32[2**cells]: for every set its class, from 0 among those of its size, times ``IMAGES``, plus the symmetry
    that maps it to its leader, 0 for the leader; -1 for a set with a line"""
    leaders: UInt32Array
    """uint32[classes]: the leaders, by their size"""
    starts: Int64Array
    """int64[cells + 2]: start of the leaders of a size in ``leaders``"""
    low_images: UInt32Array
    """uint32[S, 2**low]: the lower part of a set under each symmetry"""
    high_images: UInt32Array
    """uint32[S, 2**(cells - low)]: its higher part under each symmetry"""


class Halves(NamedTuple):
    """All sets of some cells after these are moved, split into the lower (count + 1) // 2 cells and the rest."""

    low: UInt32Array
    """uint32[2**lower cells], or longer"""
    high: UInt32Array
    """uint32[2**other cells], or longer"""


def make_ranks(cells: int) -> Ranks:
    """Return the tables for boards of ``cells`` cells, 1 to 25."""
    low = (cells + 1) // 2
    numbers = np.arange(1 << cells, dtype=np.uint32)
    sizes = _sizes(numbers)
    starts = np.concatenate([[0], np.cumsum(np.bincount(sizes, minlength=cells + 1))])
    sets = np.argsort(sizes, kind="stable").astype(np.uint32)
    ranks = np.empty(1 << cells, np.uint32)
    ranks[sets] = numbers - starts[sizes[sets]].astype(np.uint32)
    high_rank = np.zeros((cells + 1, 1 << (cells - low)), np.uint32)
    for high in range(1 << (cells - low)):
        above = int(high).bit_count()
        for below in range(min(low, cells - above) + 1):
            first = (1 << below) - 1  # of rank 0, so that the rank is entirely the higher part's
            high_rank[above + below, high] = ranks[high << low | first]
    thirds = np.zeros(1 << low, np.uint32)
    for cell in range(low):
        thirds += (np.arange(1 << low, dtype=np.uint32) >> np.uint32(cell) & np.uint32(1)) * np.uint32(3**cell)
    squeezed = np.zeros(3 ** (low + 1) // 2 + 1, np.uint16)
    left = np.zeros(3**low, np.uint16)
    for cell in range(low):
        digits = np.arange(3**low) // 3**cell % 3
        squeezed[: 3**low] |= np.where(digits == 2, 1 << left, 0).astype(np.uint16)
        left += (digits != 1).astype(np.uint16)
    return Ranks(low, sets, starts, ranks[: 1 << low].copy(), high_rank, thirds, squeezed)


def make_classes(game: Game, ranks: Ranks) -> Classes:
    """Return the classes of all sets without a line, in a second for 20 cells."""
    cells, low = game.cells, ranks.low
    # where a cell goes; without translations, because a place has room for `IMAGES` symmetries
    images = inverse(symmetries(replace(game, wrap=False)))
    low_images = spread_all(images[:, :low])
    high_images = spread_all(images[:, low:])
    sets = 1 << cells
    places, leaders, starts = np.empty(sets, np.int32), np.empty(sets, np.uint32), np.zeros(cells + 2, np.int64)
    classes = Classes(places, leaders, starts, low_images, high_images)
    found = _classify(ranks, game.parameters, classes)
    return classes._replace(leaders=leaders[:found].copy())


def _sizes(sets: UInt32Array) -> NDArray[np.uint8]:
    sizes = np.zeros(len(sets), np.uint8)  # narrow, because numpy sorts such integers in linear time
    for cell in range(32):
        sizes += (sets >> np.uint32(cell) & np.uint32(1)).astype(np.uint8)
    return sizes


def spread_all(to: Int64Array) -> UInt32Array:
    """Return uint32[S, 2**n]: all sets of n cells, with cell i moved to ``to[s, i]``."""
    out = np.zeros((len(to), 1), np.uint32)
    for moved in np.uint32(1) << to.T.astype(np.uint32):
        out = np.concatenate([out, out | moved[:, None]], axis=1)
    return np.ascontiguousarray(out)


@inlined
def spread(to: Int64Array, count: int, first: int, out: UInt32Array) -> None:
    """Write all sets of the cells ``first`` to ``first + count - 1``, with cell i moved to ``to[i]``: out[2**count]."""
    out[0] = 0
    for i in range(count):
        moved = np.uint32(int64(1) << to[first + i])
        for rest in range(int64(1) << i):
            out[(int64(1) << i) + rest] = out[rest] | moved


@inlined
def spread_halves(to: Int64Array, count: int, out: Halves) -> None:
    """Do :func:`spread` for the first ``count`` cells, in halves as :func:`join_halves` reads them."""
    half = (count + 1) // 2
    spread(to, half, 0, out.low)
    spread(to, count - half, half, out.high)


@inlined
def join_halves(bits: int, count: int, halves: Halves) -> int:
    """Return a set of ``count`` cells after its cells are moved."""
    half = (count + 1) // 2
    return int64(halves.low[bits & ((int64(1) << half) - 1)]) | int64(halves.high[bits >> half])


@inlined
def rank_in(bits: int, size: int, ranks: Ranks) -> int:
    """Return the rank of a set of ``size`` cells."""
    return int64(ranks.low_rank[bits & ((int64(1) << ranks.low) - 1)]) + int64(ranks.high_rank[size, bits >> ranks.low])


@inlined
def rank_beside(bits: int, other: int, size: int, ranks: Ranks) -> int:
    """Return the rank of a set of ``size`` cells beside another."""
    low, thirds, squeezed = ranks.low, ranks.thirds, ranks.squeezed
    ones = (int64(1) << low) - 1
    below = other & ones
    of_low = squeezed[int64(thirds[below]) + 2 * int64(thirds[bits & ones])]
    of_high = squeezed[int64(thirds[other >> low]) + 2 * int64(thirds[bits >> low])]
    return rank_in(int64(of_low) | int64(of_high) << (low - count_bits(below)), size, ranks)


@inlined
def apply_symmetry(bits: int, symmetry: int, low: int, low_images: UInt32Array, high_images: UInt32Array) -> int:
    """Return a set under a symmetry."""
    return int64(low_images[symmetry, bits & ((int64(1) << low) - 1)]) | int64(high_images[symmetry, bits >> low])


@compiled_at_once
def _classify(ranks: Ranks, parameters: Parameters, classes: Classes) -> int:
    """Fill the arrays of ``classes``, with room for a class per set; return the number of classes."""
    places, leaders, starts, low_images, high_images = classes
    sets, first = ranks.sets, ranks.starts
    cells = len(first) - 2
    places[:] = -1
    found = 0
    for size in range(cells + 1):
        starts[size] = found
        for i in range(first[size], first[size + 1]):
            bits = int64(sets[i])
            if places[bits] >= 0 or line_in(bits, parameters):
                continue
            place = (found - starts[size]) * IMAGES
            for s in range(len(low_images)):
                places[apply_symmetry(bits, s, ranks.low, low_images, high_images)] = place
            leaders[found] = bits
            found += 1
    starts[cells + 1] = found
    for bits in range(len(places)):
        if places[bits] < 0:
            continue
        size = count_bits(int64(bits))
        leader = int64(leaders[starts[size] + places[bits] // IMAGES])
        for s in range(len(low_images)):
            if apply_symmetry(int64(bits), s, ranks.low, low_images, high_images) == leader:
                places[bits] += s
                break
    return found
