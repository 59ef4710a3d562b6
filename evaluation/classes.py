"""Boards as pairs of sets of cells, and the classes of those that are images of each other.

A *code* is a board of up to ``LARGEST`` cells as one number: player_0's stones as the bits from 0, player_1's as those
from 32. The *leader* of a class is the image with the smallest code.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from baselines.layered.ranks import Sets, image, spread_all
from ttt_envs.compiling import Integers, Keys, compiled, inlined, wide
from ttt_envs.rules import Game
from ttt_envs.symmetry import Symmetries, inverse, symmetries

LARGEST = 31
"""cells up to which a board has a code"""
SECOND = 32
"""the bit of player_1's first cell"""


class Images(NamedTuple):
    """What the symmetries of a board make of a set of cells, cut in ``low`` cells and the rest."""

    low: int
    low_images: Sets
    """uint32[S, 2**low]"""
    high_images: Sets
    """uint32[S, 2**(cells - low)]"""


@cache
def images_of(game: Game, which: Symmetries = "all") -> Images:
    """The tables for a board up to ``LARGEST`` cells; with ``"none"``, and of larger boards, the identity's, empty."""
    if which == "none" or game.cells > LARGEST:
        return Images(0, np.zeros((1, 1), np.uint32), np.zeros((1, 1), np.uint32))
    to, low = inverse(symmetries(game, which)), (game.cells + 1) // 2  # where a cell goes
    return Images(low, spread_all(to[:, :low]), spread_all(to[:, low:]))


@inlined
def stones_of(code: int, player: int) -> int:
    """One player's stones as bits."""
    return code >> (SECOND * player) & ((wide(1) << SECOND) - 1)


@inlined
def code_of(first: int, second: int) -> int:
    """The code of a board."""
    return first | second << SECOND


@inlined
def leader_of(first: int, second: int, low: int, low_images: Sets, high_images: Sets) -> tuple[int, int]:
    """The code of the leader of a board's class, and the first symmetry that turns the board into it.

    Those of the board itself where there is the identity alone.
    """
    best, by = code_of(first, second), 0
    for symmetry in range(1, len(low_images)):
        code = code_of(
            image(first, symmetry, low, low_images, high_images), image(second, symmetry, low, low_images, high_images)
        )
        by = symmetry if code < best else by
        best = min(best, code)
    return best, by


@compiled
def led(codes: Keys, low: int, low_images: Sets, high_images: Sets, leaders: Keys, turned: Integers) -> None:
    """:func:`leader_of` for codes uint64[B]."""
    for b in range(len(codes)):
        code = wide(codes[b])
        first, second = stones_of(code, 0), stones_of(code, 1)
        leaders[b], turned[b] = leader_of(first, second, low, low_images, high_images)


@cache
def counts_by_stones(game: Game, classes: bool) -> tuple[int, ...]:
    """How many arrangements of 0, 1, ... stones there are, or classes of them, up to a board with one empty cell.

    Without skips the players have as many stones, or player_0 one more. Classes are counted by the arrangements that
    each symmetry leaves as they are (Burnside's lemma): its cycles of cells have stones of one kind, or none.
    """
    cells, skips = game.cells, game.skip_chance > 0
    if not classes:
        return tuple(
            math.comb(cells, stones) * (2**stones if skips else math.comb(stones, stones // 2))
            for stones in range(cells)
        )
    permutations = symmetries(game)
    total = np.zeros((cells + 1, cells + 1), object)
    for permutation in permutations:
        ways = np.zeros((cells + 1, cells + 1), object)  # by stones of either player
        ways[0, 0] = 1
        for length in _cycles(permutation):
            more = ways.copy()
            more[length:] += ways[:-length]
            more[:, length:] += ways[:, :-length]
            ways = more
        total += ways
    counts = []
    for stones in range(cells):
        pairs = range(stones + 1) if skips else (stones - stones // 2,)
        counts.append(sum(int(total[first, stones - first]) for first in pairs) // len(permutations))
    return tuple(counts)


def _cycles(permutation: Integers) -> list[int]:
    """The lengths of the cycles of a permutation."""
    left, lengths = set(range(len(permutation))), []
    while left:
        at, length = left.pop(), 1
        while int(permutation[at]) in left:
            at = int(permutation[at])
            left.remove(at)
            length += 1
        lengths.append(length)
    return lengths
