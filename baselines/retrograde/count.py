"""Counts the positions of a game by sets of stones, without a list of all boards."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from baselines.retrograde.layers import tables_of
from baselines.retrograde.reachable import Counts
from ttt_envs.core.jit import BoolArray, Int64Array
from ttt_envs.game.rules import Game
from ttt_envs.game.symmetry import symmetries


def count_by_sets(game: Game) -> Counts:
    """Return :func:`baselines.retrograde.reachable.count` without the number of games, up to 21 cells within seconds.

    A board is reachable if neither player has a line, in any order of its stones; or if exactly one player has a line,
    and had none before the last stone. Without skips the number of stones determines the last player.
    """
    cells = game.cells
    sets = np.arange(1 << cells)
    ranks, classes = tables_of(game)
    sizes = np.empty(1 << cells, np.int64)
    sizes[ranks.sets] = np.repeat(np.arange(cells + 1), np.diff(ranks.starts))
    open_sets = classes.places >= 0
    made = np.zeros(1 << cells, np.bool_)  # sets with a line that one stone has just completed
    for cell in range(cells):
        made |= open_sets[sets & ~(1 << cell)] & ~open_sets
    beside = _subsets(open_sets, sizes, cells)  # number of subsets without a line, by size and set
    of_open, of_made = (_pairs(kind, sizes, beside) for kind in (open_sets, made))
    kinds = [np.zeros((cells + 1, cells + 1), np.int64) for _ in range(3)]  # by stones of player_0 and of player_1
    for o in range(cells + 1):
        for x in range(cells + 1 - o):
            skips = game.skip_chance > 0
            begun = o > 0 or x == 0  # player_0 moves first
            if begun and (skips or o - x in (0, 1)):
                kinds[0][o, x] = of_open[o, x]
            if begun and (skips or o - x == 1):
                kinds[1][o, x] = of_made[o, x]
            if begun and (skips or o == x):
                kinds[2][o, x] = of_made[x, o]
    stones = np.add.outer(np.arange(cells + 1), np.arange(cells + 1))
    drawn = int(kinds[0][stones == cells].sum())
    going_on = int(kinds[0].sum()) - drawn
    total = sum(kinds)
    fixed = sum(_fixed(game, image, open_sets, made, sizes, int(np.sum(total))) for image in symmetries(game))
    return Counts(
        positions_not_over=going_on if game.skip_chance == 0 else 2 * going_on - 1,  # the empty board has one mover
        boards_not_over=going_on,
        boards_over=int(kinds[1].sum() + kinds[2].sum()) + drawn,
        won_by_player_0=int(kinds[1].sum()),
        won_by_player_1=int(kinds[2].sum()),
        drawn=drawn,
        by_stones=tuple(int(np.sum(total, where=stones == n)) for n in range(cells + 1)),
        classes=fixed // len(symmetries(game)),
        games=None,
    )


def _subsets(kind: BoolArray, sizes: Int64Array, cells: int) -> NDArray[np.int32]:
    """Return int32[cells + 1, 2**cells]: number of subsets of a size and kind of every set, summed cell by cell."""
    found = np.zeros((cells + 1, 1 << cells), np.int32)
    found[sizes[kind], np.flatnonzero(kind)] = 1
    for cell in range(cells):
        halves = found.reshape(cells + 1, -1, 2, 1 << cell)
        halves[:, :, 1] += halves[:, :, 0]
    return found


def _pairs(kind: BoolArray, sizes: Int64Array, beside: NDArray[np.int32]) -> Int64Array:
    """Return int64[size of a set of the kind, size of a disjoint set without a line]: the number of pairs."""
    found = np.empty((len(beside), len(beside)), np.int64)
    for size in range(len(beside)):
        left = len(kind) - 1 - np.flatnonzero(kind & (sizes == size))
        found[size] = beside[:, left].sum(axis=1, dtype=np.int64)
    return found


def _fixed(
    game: Game, image: Int64Array, open_sets: BoolArray, made: BoolArray, sizes: Int64Array, everything: int
) -> int:
    """Return the number of reachable boards that a symmetry leaves unchanged."""
    cycles, left = [], set(range(game.cells))
    while left:
        cycle, cell = 0, min(left)
        while cell in left:
            left.remove(cell)
            cycle |= 1 << cell
            cell = int(image[cell])
        cycles.append(cycle)
    if len(cycles) == game.cells:
        return everything
    colours = np.arange(3 ** len(cycles))
    first, second = np.zeros_like(colours), np.zeros_like(colours)
    for cycle in cycles:
        first |= np.where(colours % 3 == 1, cycle, 0)
        second |= np.where(colours % 3 == 2, cycle, 0)
        colours //= 3
    ahead = sizes[first] - sizes[second]
    skips = game.skip_chance > 0
    begun = (sizes[first] > 0) | (sizes[second] == 0)
    both = open_sets[first] & open_sets[second] & (skips | (ahead == 0) | (ahead == 1))
    won = made[first] & open_sets[second] & (skips | (ahead == 1))
    lost = open_sets[first] & made[second] & (skips | (ahead == 0))
    return int(np.count_nonzero(begun & (both | won | lost)))
