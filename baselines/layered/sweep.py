"""The values of a layer from those of the next: what the solver by layers spends its time on.

A position is a pair of sets (A, B): the mover's stones and the other player's. Exchanging the colours makes one table
serve both movers. V(A, B) is its value to the mover: 1 where A has a line, -1 where B has one, 0 on a full board, and
else the best of what a stone on an empty cell c leads to, W(A + c, B). W(A, B) is what the position that a mover has
just made is worth to him, before chance says who moves next:

    W(A, B) = skip_chance * V(A, B) - (1 - skip_chance) * V(B, A)

Positions with n stones are a *layer*, those of them with a own stones a *part*, which is an array [classes of sets A
without a line, ranks of B beside A]. So a layer follows from the next one, part by part. W is read far more often than
it has entries, and V(B, A) is anywhere in memory: that is why W is computed first, for one part at a time.

Without skips a value is one signed byte that tells the distance, too: 128 - d where the mover wins in d plies, d - 128
where he loses in d plies, 0 for a draw. So a better result is a larger number: the winner is as fast, the loser as slow
as can be, and W is V with its sign turned, one nearer to 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from baselines.layered.ranks import IMAGES, Classes, Ranks, image, rank_in, spread
from ttt_envs.bits import count_bits
from ttt_envs.compiling import Integers, Parameters, compiled, inlined, wide
from ttt_envs.rules import legal_bits, skip_chance_of

Values = NDArray[Any]
"""float64 or float32; int8 without skips"""
WON = 127
"""in bytes: what a stone is worth that wins; a lost position that is over is at -128"""
BYTES = 128
"""in bytes: a result is so far from 0, less its distance in plies"""


@inlined
def _empty_cells(bits: int, parameters: Parameters, out: Integers) -> None:
    """The cells that a set leaves, into ``out``."""
    left = legal_bits(bits, wide(0), parameters)
    count = 0
    for cell in range(len(out)):
        if left >> cell & 1:
            out[count] = cell
            count += 1


@compiled
def afterstates(
    start: int,
    stop: int,
    own: int,
    other: int,
    ranks: Ranks,
    classes: Classes,
    parameters: Parameters,
    same: Values,
    turned: Values,
    out: Values,
) -> None:
    """W of the classes ``start`` to ``stop - 1`` of sets of ``own`` stones, beside sets of ``other``.

    Where the other set has a line, W has no meaning: the game was over before.

    Args:
        start: the first class.
        stop: the class after the last.
        own: stones of who has just moved.
        other: stones of the other player.
        ranks: of the board.
        classes: of the game.
        parameters: ``Game.parameters``.
        same: V[classes of own, ranks of other], where turns may be skipped.
        turned: V[classes of other, ranks of own].
        out: written, as ``same``.
    """
    low, sets, first, low_rank, high_rank, thirds, squeezed = ranks
    places, leaders, leader_starts, low_images, high_images = classes
    skip = skip_chance_of(parameters)
    cells = len(first) - 2
    if len(turned) == 0:  # all sets of the other player's stones have lines
        out[start:stop] = 0.0
        return
    # of the leaders of the other's sets: the keys of their halves, and how many cells the lower one leaves
    low_ones = (wide(1) << low) - 1
    low_keys = np.zeros(len(turned), np.uint32)
    high_keys = np.zeros(len(turned), np.uint32)
    low_left = np.zeros(len(turned), np.uint8)
    for i in range(len(turned)):
        leader = wide(leaders[leader_starts[other] + i])
        low_keys[i] = thirds[leader & low_ones]
        high_keys[i] = thirds[leader >> low]
        low_left[i] = low - count_bits(leader & low_ones)
    # what the upper half of an own set adds to its rank, by how many cells are left in the lower half
    of_high = np.zeros((low + 1, 1 << (cells - low)), np.uint32)
    for left in range(low + 1):
        for bits in range(1 << (cells - low)):
            below = own - count_bits(wide(bits))
            if 0 <= below <= left:  # the lowest cells add nothing
                of_high[left, bits] = rank_in(
                    wide(bits) << left | (wide(1) << below) - 1, own, low, low_rank, high_rank
                )
    empty = np.zeros(cells, np.int64)
    image_low_keys = np.zeros(IMAGES, np.uint32)
    image_high_keys = np.zeros(IMAGES, np.uint32)
    half = (cells - own + 1) // 2
    low_spread = np.zeros(1 << half, np.uint32)
    high_spread = np.zeros(1 << (cells - own - half), np.uint32)
    ones = (wide(1) << half) - 1
    others = sets[first[other] :]
    everywhere = turned.reshape(-1)
    at = np.zeros(out.shape[1], np.uint32)
    for row in range(start, stop):
        mine = wide(leaders[leader_starts[own] + row])
        _empty_cells(mine, parameters, empty)
        spread(empty, half, 0, low_spread)
        spread(empty, cells - own - half, half, high_spread)
        for s in range(len(low_images)):
            moved = image(mine, s, low, low_images, high_images)
            image_low_keys[s] = 2 * thirds[moved & low_ones]
            image_high_keys[s] = 2 * thirds[moved >> low]
        for i in range(out.shape[1]):
            bits = wide(others[i])
            theirs = wide(low_spread[bits & ones]) | wide(high_spread[bits >> half])
            found = wide(places[theirs])
            place = found if found >= 0 else 0
            symmetry = place & (IMAGES - 1)
            leader = place // IMAGES
            of_low_half = wide(squeezed[wide(low_keys[leader]) + wide(image_low_keys[symmetry])])
            of_high_half = wide(squeezed[wide(high_keys[leader]) + wide(image_high_keys[symmetry])])
            rank = wide(low_rank[of_low_half]) + wide(of_high[low_left[leader], of_high_half])
            at[i] = leader * turned.shape[1] + rank if found >= 0 else 0
        # apart, so that many of these entries, which are anywhere, are under way at once
        to = out[row]
        if skip > 0:
            skipped = same[row]
            for i in range(len(to)):
                to[i] = skip * skipped[i] - (1.0 - skip) * everywhere[at[i]]
        else:
            for i in range(len(to)):
                value = wide(everywhere[at[i]])
                to[i] = wide(value > 0) - wide(value < 0) - value


@compiled
def best(
    start: int,
    stop: int,
    own: int,
    other: int,
    ranks: Ranks,
    classes: Classes,
    parameters: Parameters,
    won: float,
    lost: float,
    after: Values,
    out: Values,
) -> None:
    """V of the classes ``start`` to ``stop - 1`` of sets of ``own`` stones, beside sets of ``other``; not all cells.

    Args:
        start: the first class.
        stop: the class after the last.
        own: stones of the mover.
        other: stones of the other player.
        ranks: of the board.
        classes: of the game.
        parameters: ``Game.parameters``.
        won, lost: the values of a line of the mover's and of the other player's, of the type of all values.
        after: W[classes of own + 1, ranks of other].
        out: written, [classes of own, ranks of other].
    """
    low, sets, first, low_rank, high_rank, _, _ = ranks
    places, leaders, leader_starts, low_images, high_images = classes
    cells = len(first) - 2
    count = cells - own  # cells that the mover's stones leave
    others = sets[first[other] :]
    width = after.shape[1]  # sets of the others' stones that leave the cell of a move
    # where a set that leaves a cell stands among all
    ranks_with = np.zeros((count, width), np.uint32)
    for gap in range(count):
        below = (wide(1) << gap) - 1
        for i in range(width):
            bits = wide(others[i])
            ranks_with[gap, i] = rank_in((bits & ~below) << 1 | bits & below, other, low, low_rank, high_rank)
    rank_of_high = high_rank[other]
    low_ones = (wide(1) << low) - 1
    empty = np.zeros(cells, np.int64)
    to = np.zeros(cells, np.int64)
    half = (count + 1) // 2
    ones = (wide(1) << half) - 1
    low_spread = np.zeros(1 << half, np.uint32)
    high_spread = np.zeros(1 << (count - half), np.uint32)
    moved_half = count // 2
    moved_ones = (wide(1) << moved_half) - 1
    low_moved = np.zeros(1 << moved_half, np.uint32)
    high_moved = np.zeros(1 << (count - 1 - moved_half), np.uint32)
    for row in range(start, stop):
        mine = wide(leaders[leader_starts[own] + row])
        _empty_cells(mine, parameters, empty)
        values = out[row]
        values[:] = lost
        for gap in range(count):
            made = mine | wide(1) << empty[gap]
            place = wide(places[made])
            at = ranks_with[gap]
            if place < 0:  # a line
                for i in range(width):
                    values[at[i]] = won
                continue
            worth = after[place // IMAGES]
            symmetry = place & (IMAGES - 1)
            if symmetry == 0:  # the leader itself: its sets stand in the same order
                for i in range(width):
                    values[at[i]] = max(values[at[i]], worth[i])
                continue
            # where the cells that are left go, among those that the leader leaves
            leader = wide(leaders[leader_starts[own + 1] + place // IMAGES])
            others_left = wide(0)
            for i in range(count):
                if i != gap:
                    goes = image(wide(1) << empty[i], symmetry, low, low_images, high_images)
                    to[others_left] = count_bits(~leader & (goes - 1))
                    others_left += 1
            spread(to, moved_half, 0, low_moved)
            spread(to, count - 1 - moved_half, moved_half, high_moved)
            for i in range(width):
                bits = wide(others[i])
                moved = wide(low_moved[bits & moved_ones]) | wide(high_moved[bits >> moved_half])
                rank = wide(low_rank[moved & low_ones]) + wide(rank_of_high[moved >> low])
                values[at[i]] = max(values[at[i]], worth[rank])
        spread(empty, half, 0, low_spread)
        spread(empty, count - half, half, high_spread)
        for i in range(len(values)):
            bits = wide(others[i])
            theirs = wide(low_spread[bits & ones]) | wide(high_spread[bits >> half])
            values[i] = lost if places[theirs] < 0 else values[i]
