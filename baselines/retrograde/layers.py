"""The layers of a game: their parts, sizes and memory requirements."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import psutil
from numpy.typing import NDArray

from baselines.retrograde.ranks import IMAGES, Classes, Ranks, apply_symmetry, make_classes, make_ranks, rank_beside
from baselines.retrograde.sweep import BYTES, WON, Values
from ttt_envs.core.jit import Int64Array, inlined, int64
from ttt_envs.game.bits import count_bits
from ttt_envs.game.rules import Game, check_variants

MAX_CELLS = 21
"""Maximum number of cells for which all layers are built."""
MAX_CELLS_LAST_LAYERS = 25
"""Maximum number of cells for which the last layers are built."""
MAX_CELLS_IN_DOUBLE = 16
"""Maximum number of cells for which values in memory are float64."""
NO_LAYER = -1
"""layer number of a probe without values"""
NS_A_VALUE = 60
"""Approximate nanoseconds per value, on one core of an AMD EPYC (family 25, model 17)."""


VARIANTS_BY_LAYERS = ("exact", "wrap")
"""the rules that change only the lines"""


def check_layered(game: Game) -> None:
    """Raise ValueError for a game whose rules cannot be solved by layers."""
    check_variants(
        "a table by layers, as of boards above 16 cells",
        game,
        VARIANTS_BY_LAYERS,
        reason="its layers hold all boards, and its values count a line as a win",
        instead="mcts or expectiminimax",
    )


class Probe(NamedTuple):
    """The tables that map positions to entries, and the values of one layer, in the form that kernels read."""

    stones: int
    """number of stones of the layer, ``NO_LAYER`` without values"""
    starts: Int64Array
    """int64[stones, own stones]: start of a part in its layer"""
    widths: Int64Array
    """int64[stones, own stones]: number of ranks of a part"""
    ranks: Ranks
    classes: Classes
    plies: NDArray[np.int8]
    """int8[N]: the values without skips, see :mod:`baselines.retrograde.sweep`; empty with skips"""
    results: NDArray[np.float32]
    """float32[N]: the values with skips, else empty"""


@inlined
def find_entry(own: int, other: int, probe: Probe) -> tuple[int, int]:
    """Return the location of V(A, B), for sets without lines: the layer, and the entry in it.

    Args:
        own: A, the mover's stones.
        other: B, the other player's stones.
        probe: with or without values.
    """
    ranks, classes = probe.ranks, probe.classes
    mine, theirs = count_bits(own), count_bits(other)
    place = int64(classes.places[own])
    symmetry = place & (IMAGES - 1)
    leader = apply_symmetry(own, symmetry, ranks.low, classes.low_images, classes.high_images)
    beside = apply_symmetry(other, symmetry, ranks.low, classes.low_images, classes.high_images)
    rank = rank_beside(beside, leader, theirs, ranks)
    stones = mine + theirs
    return stones, probe.starts[stones, mine] + (place // IMAGES) * probe.widths[stones, mine] + rank


class Estimate(NamedTuple):
    """Resources needed to solve a game by layers."""

    by_stones: tuple[int, ...]
    """number of values in the layer of 0, 1, ... stones; 0 if it is not built"""
    disk: int
    """total bytes of all layers, in a folder or in memory"""
    memory: int
    """peak memory in bytes if the layers go to a folder"""
    memory_alone: int
    """peak memory in bytes if they do not"""

    @property
    def seconds(self) -> float:
        """Approximate duration in seconds."""
        return sum(self.by_stones) * NS_A_VALUE / 1e9


def set_tables(game: Game) -> tuple[Ranks, Classes]:
    """Return the tables shared by games of a board and a win length: about 20 bytes for every set of cells."""
    return _tables(Game(game.rows, game.columns, game.win_length, exact=game.exact, wrap=game.wrap))


@lru_cache(maxsize=2)
def _tables(game: Game) -> tuple[Ranks, Classes]:
    ranks = make_ranks(game.cells)
    return ranks, make_classes(game, ranks)


class Layers:
    """The layers of a game from a number of stones on, with their parts and offsets.

    Args:
        game: up to 21 cells, or 25 if the first layers are left out.
        stones: number of stones of the first layer, the last to be built.
        double: float64 instead of float32, if there are skips.

    Raises:
        ValueError: the board is larger, or the number of stones does not fit on it.
    """

    def __init__(self, game: Game, stones: int = 0, *, double: bool = False) -> None:
        check_layered(game)
        if game.cells > MAX_CELLS_LAST_LAYERS or (game.cells > MAX_CELLS and stones <= 0):
            raise ValueError(
                f"a board of {game.rows} x {game.columns} is too large to solve by layers: choose one of up to "
                f"{MAX_CELLS} cells, or the last layers of one of up to {MAX_CELLS_LAST_LAYERS}, by stones above 0; "
                f"without skips, evaluate.py prove may find the winner"
            )
        if not 0 <= stones <= game.cells:
            raise ValueError(f"stones={stones} are not on a board of {game.cells} cells: choose 0 to {game.cells}")
        self.game = game
        self.stones = stones
        self.dtype = np.dtype(np.int8 if game.skip_chance == 0 else np.float64 if double else np.float32)
        self.won = self.dtype.type(WON if game.skip_chance == 0 else 1)
        self.lost = self.dtype.type(-BYTES if game.skip_chance == 0 else -1)
        self.rounding = {"float32": 2.0**-24, "float64": 2.0**-50}.get(self.dtype.name, 0.0)
        """maximum difference, by rounding, between a value and its recomputation from its successors"""
        self.ranks, self.classes = set_tables(game)
        self.widths: Int64Array = np.zeros((game.cells + 1, game.cells + 1), np.int64)
        """int64[stones, own stones]: number of ranks of a part"""
        self.starts: Int64Array = np.zeros((game.cells + 1, game.cells + 2), np.int64)
        """int64[stones, own stones]: start of a part in its layer; the last is the length of the layer"""
        for n in range(game.cells + 1):
            for own in self.own_counts(n):
                classes, self.widths[n, own] = self.shape(n, own)
                self.starts[n, own + 1 :] += classes * self.widths[n, own]

    def own_counts(self, stones: int) -> range:
        """Return the possible numbers of the mover's stones: all with skips; without, half of them, rounded down."""
        return range(stones + 1) if self.game.skip_chance > 0 else range(stones // 2, stones // 2 + 1)

    def build_order(self) -> range:
        """Return the numbers of stones of the layers, in build order."""
        return range(self.game.cells, self.stones - 1, -1)

    def shape(self, stones: int, own: int) -> tuple[int, int]:
        """Return the shape of a part: classes of own sets x ranks of the other's sets."""
        cells = self.game.cells
        return int(self.classes.starts[own + 1] - self.classes.starts[own]), math.comb(cells - own, stones - own)

    def size(self, stones: int) -> int:
        """Return the number of entries of a layer."""
        return int(self.starts[stones, -1])

    def part(self, stones: int, own: int, layer: Values) -> Values:
        """Return a part of a layer, [classes, ranks]."""
        start, stop = self.starts[stones, own : own + 2]
        return layer[start:stop].reshape(self.shape(stones, own))

    def probe(self, stones: int = NO_LAYER, values: Values | None = None) -> Probe:
        """Return a probe of a layer with these values, float32 or int8, or without values."""
        plies, results = np.zeros(0, np.int8), np.zeros(0, np.float32)
        for empty in (plies, results):
            empty.flags.writeable = False  # as all layers, so that kernels are compiled once
        if values is not None and values.dtype == np.int8:
            plies = values
        elif values is not None:
            results = values
        return Probe(stones, self.starts, self.widths, self.ranks, self.classes, plies, results)

    def estimate(self) -> Estimate:
        """See :func:`estimate`."""
        cells, item = self.game.cells, self.dtype.itemsize
        by_stones = tuple(self.size(n) if n >= self.stones else 0 for n in range(cells + 1))
        shared = sum(array.nbytes for array in (*self.ranks[1:], *self.classes))
        # afterstates, one part at a time
        made = max(
            (math.prod(self.shape(n + 1, own + 1)) for n in range(self.stones, cells) for own in self.own_counts(n)),
            default=0,
        )
        made = max(made, 1)
        two = max(above + below for above, below in zip(by_stones, (*by_stones[1:], 0), strict=True))
        return Estimate(
            by_stones, item * sum(by_stones), shared + item * (two + made), shared + item * (sum(by_stones) + made)
        )


def estimate(game: Game, *, stones: int = 0, folder: bool = True) -> Estimate:
    """Return the number of values per layer and the bytes needed to solve a game.

    Args:
        game: as for :func:`build`.
        stones: as for :func:`build`.
        folder: whether the layers go to a folder.

    Raises:
        ValueError: the board is larger, or the number of stones is invalid.
    """
    return make_layers(game, stones, folder).estimate()


def make_layers(game: Game, stones: int, folder: bool) -> Layers:
    """Return the layers, in float64 if they are small and stay in memory."""
    return Layers(game, stones, double=not folder and game.cells <= MAX_CELLS_IN_DOUBLE)


def check_memory(game: Game, *, stones: int = 0, folder: bool = True, memory: int | None = None) -> None:
    """Raise ValueError if :func:`build` needs more memory than ``memory`` bytes, or than is free."""
    needed = estimate(game, stones=stones, folder=folder)
    wanted = needed.memory if folder else needed.memory_alone
    free = int(psutil.virtual_memory().available) if memory is None else memory
    if wanted > free:
        way_out = "give it more memory" + (
            "" if folder else f", or a folder for {estimate(game, stones=stones).disk:,} bytes"
        )
        raise ValueError(
            f"solving {game} by layers takes {wanted:,} bytes of memory, and {free:,} may be used: {way_out}"
        )
