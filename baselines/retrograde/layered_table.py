"""Reads the values of positions from layers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from baselines.retrograde.layers import Layers
from baselines.retrograde.ranks import Classes, Ranks, entry_of
from baselines.retrograde.sweep import BYTES, Values
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array, compiled_at_once
from ttt_envs.game.boards import Boards
from ttt_envs.game.rules import Game


class LayeredTable:
    """The values of all positions with at least some number of stones, from :func:`build` or a folder.

    Without skips it has the positions of alternating play only: the mover has as many stones as the other, or one
    fewer.
    """

    def __init__(self, layers: Layers, read: Callable[[int], Values]) -> None:
        self.game = layers.game
        self.stones = layers.stones
        """number of stones of its first layer"""
        self.dtype = layers.dtype
        """int8 without skips, else float32, or float64 in memory up to 16 cells"""
        self.error = (self.game.cells + 1) * 2.0**-25 if layers.dtype == np.float32 else 0.0
        """maximum difference of a value from the exact one, apart from float64 rounding: each layer rounds once"""
        self.layers = layers
        self._read = read

    def layer(self, stones: int) -> Values:
        """Return all values of the positions with ``stones`` stones, read-only, the parts concatenated.

        Raises:
            ValueError: the layer is not in the table, or its file is damaged.
        """
        if not self.stones <= stones <= self.game.cells:
            raise ValueError(
                f"a position of {stones} stones is not in {self}, which begins at {self.stones}: build the layers "
                f"from {max(stones, 0)} stones on"
            )
        return self._read(stones)

    def part(self, stones: int, own: int) -> Values:
        """Return V of the positions with ``stones`` stones, ``own`` of them the mover's, read-only: [classes, ranks].

        Raises:
            ValueError: as for :meth:`layer`.
        """
        return self.layers.part(stones, own, self.layer(stones))

    def values(self, boards: Boards) -> Float64Array:
        """Return the expected result under best play by both players, for the mover: float64[B] from -1 to 1.

        The value of a finished board is its result.

        Raises:
            ValueError: without skips, a position is unreachable by alternating play; or one has too few stones.
        """
        found = self._values(boards)
        return np.sign(found) if self.game.skip_chance == 0 else found

    def action_values(self, boards: Boards) -> Float64Array:
        """Return the value of each move for the mover: float64[B, rows * columns], NaN where illegal.

        Raises:
            ValueError: as for :meth:`values`; only the successors must be in the table.
        """
        found = self._action_values(boards)
        return np.sign(found) if self.game.skip_chance == 0 else found

    def distances(self, boards: Boards) -> Int64Array:
        """Return the plies to the end under best play, int64[B]: winners minimise and losers maximise this distance.

        A drawn position ends with the full board; a finished one has distance 0.

        Raises:
            ValueError: as for :meth:`values`; or the game has skips, so that the distance is random.
        """
        check_distance(self.game)
        empty = np.count_nonzero(boards.cells == 0, axis=1)
        found = self._values(boards)
        goes_on = self._sets(boards)[2]
        return np.where(goes_on, _plies(found, empty), 0)

    def action_distances(self, boards: Boards) -> Int64Array:
        """Return the plies to the end with each move, including it: int64[B, rows * columns], -1 where illegal.

        Raises:
            ValueError: as for :meth:`distances`.
        """
        check_distance(self.game)
        empty = np.count_nonzero(boards.cells == 0, axis=1, keepdims=True)
        found = self._action_values(boards)
        return np.where(np.isnan(found), -1, _plies(np.nan_to_num(found), empty))

    def _values(self, boards: Boards) -> Float64Array:
        """Return values in the units of the table."""
        own, other, goes_on = self._sets(boards)
        places = self.layers.classes.places
        made, met = places[own] < 0, places[other] < 0
        out = np.where(made & ~met, float(self.layers.won), np.where(met & ~made, float(self.layers.lost), 0.0))
        out[goes_on] = self._look_up(own[goes_on], other[goes_on])
        return out

    def _action_values(self, boards: Boards) -> Float64Array:
        """Return action values in the units of the table."""
        own, other, goes_on = self._sets(boards)
        places, skip = self.layers.classes.places, self.game.skip_chance
        legal = boards.legal(self.game) & goes_on[:, None]
        out = np.full(legal.shape, np.nan)
        row, cell = np.nonzero(legal)
        made, theirs = own[row] | np.left_shift(1, cell), other[row]
        worth = np.full(len(row), float(self.layers.won))
        left = places[made] >= 0
        made, theirs = made[left], theirs[left]
        turned = self._look_up(theirs, made)
        if skip > 0:
            worth[left] = skip * self._look_up(made, theirs) - (1 - skip) * turned
        else:
            worth[left] = np.sign(turned) - turned  # one ply further away
        out[row, cell] = worth + 0.0  # no -0.0
        return out

    def _sets(self, boards: Boards) -> tuple[Int64Array, Int64Array, BoolArray]:
        """Return the mover's stones and the other's, int64[B] each, and whether the game is in progress, bool[B]."""
        places, cells = self.layers.classes.places, self.game.cells
        seen = boards.own_first()
        powers = np.left_shift(1, np.arange(cells))
        own, other = (seen == 1) @ powers, (seen == 2) @ powers
        goes_on: BoolArray = (places[own] >= 0) & (places[other] >= 0) & ((own | other) != (1 << cells) - 1)
        if self.game.skip_chance == 0:
            ahead = (seen == 1).sum(axis=1) - (seen == 2).sum(axis=1)
            wrong = ahead[goes_on & ((ahead > 0) | (ahead < -1))]
            if len(wrong):
                raise ValueError(
                    f"a position in which the mover has {abs(wrong[0])} stones {'more' if wrong[0] > 0 else 'less'} "
                    f"than the other player comes from no game without skips: choose one of alternate play, or solve "
                    f"the game with a skip_chance above 0"
                )
        return own, other, goes_on

    def _look_up(self, own: Int64Array, other: Int64Array) -> Float64Array:
        """Return V of pairs of sets without lines, int64[K] each, in the units of the table."""
        stones = np.empty(len(own), np.int64)
        entries = np.empty(len(own), np.int64)
        layers = self.layers
        _find(own, other, layers.ranks, layers.classes, layers.starts, layers.widths, stones, entries)
        out = np.empty(len(own))
        for count in np.unique(stones).tolist():
            rows = stones == count
            out[rows] = self.layer(count)[entries[rows]]
        return out

    def __repr__(self) -> str:
        return f"LayeredTable({self.game})"


def check_distance(game: Game) -> None:
    """Raise ValueError for a game with skips, in which the number of plies left is random."""
    if game.skip_chance > 0:
        raise ValueError(
            f"distance is a number of plies only without skips, and this game has skip_chance="
            f"{game.skip_chance:g}: solve the game with skip_chance=0"
        )


def _plies(found: Float64Array, empty: Int64Array) -> Int64Array:
    """Return the plies to the end by byte values; a draw fills the empty cells."""
    return np.where(found == 0, empty, BYTES - np.abs(found).astype(np.int64))


@compiled_at_once
def _find(
    own: Int64Array,
    other: Int64Array,
    ranks: Ranks,
    classes: Classes,
    starts: Int64Array,
    widths: Int64Array,
    stones: Int64Array,
    entries: Int64Array,
) -> None:
    """Find the locations of V(A, B): the layer, and the entry in it."""
    for i in range(len(own)):
        stones[i], entries[i] = entry_of(own[i], other[i], ranks, classes, starts, widths)
