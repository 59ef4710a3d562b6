"""Computes the values of a layer from those of the next: the hot loop of the layered solver.

A position is a pair of sets (A, B): the mover's stones and the other player's. By exchanging the colours, one table
serves both movers. V(A, B) is its value for the mover: 1 if A has a line, -1 if B has one, 0 on a full board, and else
the maximum over stones on an empty cell c of W(A + c, B). In misère, a move that completes a line has the value -1. The
afterstate value W(A, B) is the value for the player who has just moved, before chance decides the next mover:

    W(A, B) = skip_chance * V(A, B) - (1 - skip_chance) * V(B, A)

Positions with n stones form a *layer*, those of them with a own stones a *part*, which is an array [classes of sets A
without a line, ranks of B beside A]. So a layer follows from the next one, part by part. W is read far more often than
it has entries, and V(B, A) is scattered in memory; so W is computed first, for one part at a time.

Without skips a value is one signed byte that includes the distance: 128 - d if the mover wins in d plies, d - 128 if he
loses in d plies, 0 for a draw. So a better result is a larger number: winners minimise and losers maximise the
distance, and W is V with its sign changed, one nearer to 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baselines.retrograde.ranks import (
    IMAGES,
    Classes,
    Halves,
    Ranks,
    apply_symmetry,
    join_halves,
    rank_in,
    spread_halves,
)
from ttt_envs.core.jit import (
    Int32Array,
    Int64Array,
    Parameters,
    UInt32Array,
    compiled_nogil,
    compiled_nogil_allocating,
    inlined,
    inlined_allocating,
    int64,
)
from ttt_envs.game.bits import count_bits
from ttt_envs.game.rules import legal_bits, skip_chance_of, value_over_skip

Values = NDArray[Any]
"""float64 or float32; int8 without skips"""
WON = 127
"""byte value of a stone that wins; a lost position that is over has -128"""
BYTES = 128
"""absolute byte value of a decisive result, before its distance in plies is subtracted"""


class _OtherSets(NamedTuple):
    """Tables for the ranks beside the leaders of sets of the other's stones: see :func:`_find_swapped_entries`."""

    low_keys: UInt32Array
    """uint32[leaders]: the keys of their lower halves"""
    high_keys: UInt32Array
    """uint32[leaders]: the keys of their upper halves"""
    low_left: NDArray[np.uint8]
    """uint8[leaders]: number of cells outside their lower halves"""
    of_high: UInt32Array
    """uint32[low + 1, 2**(cells - low)]: contribution of the upper half of an own set to its rank, by the number of
    remaining cells in the lower half"""
    image_low_keys: UInt32Array
    """uint32[IMAGES]: contributions to keys of the lower halves of an own set under each symmetry"""
    image_high_keys: UInt32Array
    """uint32[IMAGES]: contributions of the upper halves"""


class Part(NamedTuple):
    """Positions to compute: classes ``start`` to ``stop - 1`` of sets of ``own`` stones, beside sets of ``other``."""

    start: int
    stop: int
    own: int
    other: int


@compiled_nogil_allocating
def afterstates(
    part: Part, ranks: Ranks, classes: Classes, parameters: Parameters, same: Values, turned: Values, out: Values
) -> None:
    """Compute W of a part, ``own`` stones being those of the last player.

    If the other set has a line, W is meaningless, because the game was over before.

    Args:
        part: the positions.
        ranks: of the board.
        classes: of the game.
        parameters: ``Game.parameters``.
        same: V[classes of own, ranks of other], read with skips only.
        turned: V[classes of other, ranks of own].
        out: written, of the shape of ``same``.
    """
    start, stop, own, other = part
    leaders, leader_starts = classes.leaders, classes.starts
    skip = skip_chance_of(parameters)
    if len(turned) == 0:  # all sets of the other player's stones have lines
        out[start:stop] = 0.0
        return
    beside = _prepare_neighbours(own, other, len(turned), ranks, classes)
    cells = len(ranks.starts) - 2
    left = cells - own
    empty, halves = np.zeros(cells, np.int64), _allocate_halves(left)
    others = ranks.sets[ranks.starts[other] :]
    everywhere = turned.reshape(-1)
    at = np.zeros(out.shape[1], np.uint32)
    for row in range(start, stop):
        mine = int64(leaders[leader_starts[own] + row])
        _empty_cells(mine, parameters, empty)
        spread_halves(empty, left, halves)
        _set_own_keys(mine, ranks, classes, beside)
        # a separate loop before the reads, so that many of these scattered reads are in flight at once
        _find_swapped_entries(left, halves, others, turned.shape[1], ranks, classes, beside, at)
        _expected_values(skip, same, row, everywhere, at, out[row])


@compiled_nogil_allocating
def best_values(
    part: Part,
    ranks: Ranks,
    classes: Classes,
    parameters: Parameters,
    results: tuple[float, float],
    ranks_with: UInt32Array,
    after: Values,
    out: Values,
) -> None:
    """Compute V of a part, ``own`` stones being the mover's. The board must not be full.

    Args:
        part: the positions.
        ranks: of the board.
        classes: of the game.
        parameters: ``Game.parameters``.
        results: the values of a line of the mover, in misère a loss, and of the other player, of the type of all
            values.
        ranks_with: from :func:`write_ranks_with`, for the part.
        after: W[classes of own + 1, ranks of other].
        out: written, [classes of own, ranks of other].
    """
    start, stop, own, other = part
    won, lost = results
    places, leaders, leader_starts = classes.places, classes.leaders, classes.starts
    cells = len(ranks.starts) - 2
    count = cells - own  # cells outside the mover's stones
    others = ranks.sets[ranks.starts[other] :]
    empty, to = np.zeros(cells, np.int64), np.zeros(cells, np.int64)
    halves, moved = _allocate_halves(count), _allocate_halves(count - 1)
    for row in range(start, stop):
        mine = int64(leaders[leader_starts[own] + row])
        _empty_cells(mine, parameters, empty)
        values = out[row]
        values[:] = lost
        for gap in range(count):
            place = int64(places[mine | int64(1) << empty[gap]])
            at = ranks_with[gap]
            if place < 0:  # a line
                for i in range(len(at)):
                    values[at[i]] = max(values[at[i]], won)
                continue
            move_values = after[place // IMAGES]
            symmetry = place & (IMAGES - 1)
            if symmetry == 0:  # the leader itself: its sets have the same order
                for i in range(len(at)):
                    values[at[i]] = max(values[at[i]], move_values[i])
                continue
            leader = int64(leaders[leader_starts[own + 1] + place // IMAGES])
            _renumber_cells(leader, empty[:count], gap, symmetry, ranks, classes, to)
            spread_halves(to, count - 1, moved)
            _raise_values(move_values, others, other, count - 1, moved, ranks, at, values)
        spread_halves(empty, count, halves)
        _mark_lost(lost, others, count, halves, places, values)


# ---------------------------------------------------------------------------------------------------------------------
# Sets beside sets


@inlined
def _empty_cells(bits: int, parameters: Parameters, out: Int64Array) -> None:
    """Write the cells outside a set into ``out``."""
    left = legal_bits(bits, int64(0), parameters)
    count = 0
    for cell in range(len(out)):
        if left >> cell & 1:
            out[count] = cell
            count += 1


@inlined_allocating
def _allocate_halves(count: int) -> Halves:
    """Allocate for all sets of ``count`` cells."""
    half = (count + 1) // 2
    return Halves(np.zeros(1 << half, np.uint32), np.zeros(1 << (count - half), np.uint32))


# ---------------------------------------------------------------------------------------------------------------------
# Afterstates


@inlined_allocating
def _prepare_neighbours(own: int, other: int, count: int, ranks: Ranks, classes: Classes) -> _OtherSets:
    """Return the tables for ``own`` stones and the ``count`` leaders of ``other``, not yet for a specific own set."""
    low, first, thirds = ranks.low, ranks.starts, ranks.thirds
    leaders, leader_starts = classes.leaders, classes.starts
    low_ones = (int64(1) << low) - 1
    low_keys, high_keys = np.zeros(count, np.uint32), np.zeros(count, np.uint32)
    low_left = np.zeros(count, np.uint8)
    for i in range(count):
        leader = int64(leaders[leader_starts[other] + i])
        low_keys[i] = thirds[leader & low_ones]
        high_keys[i] = thirds[leader >> low]
        low_left[i] = low - count_bits(leader & low_ones)
    highs = 1 << (len(first) - 2 - low)
    of_high = np.zeros((low + 1, highs), np.uint32)
    for left in range(low + 1):
        for bits in range(highs):
            below = own - count_bits(int64(bits))
            if 0 <= below <= left:  # the lowest cells contribute nothing
                lowest = (int64(1) << below) - 1
                of_high[left, bits] = rank_in(int64(bits) << left | lowest, own, ranks)
    return _OtherSets(low_keys, high_keys, low_left, of_high, np.zeros(IMAGES, np.uint32), np.zeros(IMAGES, np.uint32))


@inlined
def _set_own_keys(mine: int, ranks: Ranks, classes: Classes, beside: _OtherSets) -> None:
    """Store the keys of an own set under all symmetries."""
    low, thirds = ranks.low, ranks.thirds
    for s in range(len(classes.low_images)):
        moved = apply_symmetry(mine, s, low, classes.low_images, classes.high_images)
        beside.image_low_keys[s] = 2 * thirds[moved & ((int64(1) << low) - 1)]
        beside.image_high_keys[s] = 2 * thirds[moved >> low]


@inlined
def _find_swapped_entries(
    count: int,
    halves: Halves,
    others: UInt32Array,
    width: int,
    ranks: Ranks,
    classes: Classes,
    beside: _OtherSets,
    at: UInt32Array,
) -> None:
    """Find the entries of V(B, A) for one set A, set by :func:`_set_own_keys`, and all sets B beside it.

    The entry is in the row of the leader of B, at the rank beside it of A under the same symmetry, computed as in
    :func:`.ranks.rank_beside`. Most of its parts are the same for many B.

    ``others`` are the sets B, by rank among the ``count`` cells outside A, and ``halves`` all sets of these cells;
    ``width`` is the length of a row. ``at`` is written by rank of B; 0 if B has a line.
    """
    low_rank, squeezed, places = ranks.low_rank, ranks.squeezed, classes.places
    low_keys, high_keys, low_left, of_high, image_low_keys, image_high_keys = beside
    for i in range(len(at)):
        found = int64(places[join_halves(int64(others[i]), count, halves)])
        place = found if found >= 0 else 0
        symmetry = place & (IMAGES - 1)
        leader = place // IMAGES
        of_low_half = int64(squeezed[int64(low_keys[leader]) + int64(image_low_keys[symmetry])])
        of_high_half = int64(squeezed[int64(high_keys[leader]) + int64(image_high_keys[symmetry])])
        rank = int64(low_rank[of_low_half]) + int64(of_high[low_left[leader], of_high_half])
        at[i] = leader * width + rank if found >= 0 else 0


@inlined
def _expected_values(skip: float, same: Values, row: int, everywhere: Values, at: UInt32Array, out: Values) -> None:
    """Compute W(A, B) for one set A and all sets B, from V(A, B) in ``same[row]`` and V(B, A) in ``everywhere[at]``."""
    if skip > 0:
        skipped = same[row]
        for i in range(len(out)):
            out[i] = value_over_skip(np.float64(skipped[i]), -np.float64(everywhere[at[i]]), skip)
    else:
        for i in range(len(out)):
            value = int64(everywhere[at[i]])
            out[i] = int64(value > 0) - int64(value < 0) - value


# ---------------------------------------------------------------------------------------------------------------------
# Moves


@compiled_nogil
def write_ranks_with(size: int, ranks: Ranks, out: UInt32Array) -> None:
    """Write uint32[count, width]: for each of ``count`` cells, the ranks of the sets of ``size`` that avoid it.

    In a part, these are the cells outside the mover's stones, and the sets of the other player's.
    """
    for gap in range(out.shape[0]):
        below = (int64(1) << gap) - 1
        for i in range(out.shape[1]):
            bits = int64(ranks.sets[ranks.starts[size] + i])
            out[gap, i] = rank_in((bits & ~below) << 1 | bits & below, size, ranks)


@inlined
def _renumber_cells(
    leader: int, empty: Int64Array, gap: int, symmetry: int, ranks: Ranks, classes: Classes, to: Int64Array
) -> None:
    """Find the new indices of the empty cells except ``empty[gap]`` under a symmetry, outside the leader."""
    left = int64(0)
    for i in range(len(empty)):
        if i != gap:
            goes = apply_symmetry(int64(1) << empty[i], symmetry, ranks.low, classes.low_images, classes.high_images)
            to[left] = count_bits(~leader & (goes - 1))
            left += 1


@inlined
def _raise_values(
    move_values: Values,
    others: UInt32Array,
    size: int,
    count: int,
    moved: Halves,
    ranks: Ranks,
    at: UInt32Array,
    values: Values,
) -> None:
    """Raise values to those of a move, for sets of a size by their ranks after their cells are moved.

    ``others`` are sets of ``size`` of the ``count`` cells outside the stones, ``moved`` all such sets after the move,
    ``at`` the index of each set in ``values``.
    """
    for i in range(len(at)):
        rank = rank_in(join_halves(int64(others[i]), count, moved), size, ranks)
        values[at[i]] = max(values[at[i]], move_values[rank])


@inlined
def _mark_lost(
    lost: float, others: UInt32Array, count: int, halves: Halves, places: Int32Array, values: Values
) -> None:
    """Set the values of positions in which the other player has a line."""
    for i in range(len(values)):
        theirs = join_halves(int64(others[i]), count, halves)
        values[i] = lost if places[theirs] < 0 else values[i]
