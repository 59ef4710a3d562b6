"""The layers of a game: their parts, sizes and memory requirements."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import Final, NamedTuple

import numpy as np
import psutil
from numpy.typing import NDArray

from baselines.retrograde import columns
from baselines.retrograde.columns import ColumnProbe, LayerIndex, find_column_entry
from baselines.retrograde.ranks import IMAGES, Classes, Ranks, apply_symmetry, make_classes, make_ranks, rank_beside
from baselines.retrograde.sweep import BYTES, WON, Part, Values, afterstates, best_values, write_ranks_with
from ttt_envs.core.jit import BoolArray, Int64Array, compiled_at_once, inlined, int64
from ttt_envs.core.threads import map_threads, split_rows
from ttt_envs.game.bits import count_bits
from ttt_envs.game.rules import Game

MAX_LAYERED_CELLS = 21
"""Maximum number of cells for which all layers are built."""
MAX_CELLS_LAST_LAYERS = 25
"""Maximum number of cells for which the last layers are built."""
MAX_CELLS_IN_DOUBLE = 16
"""Maximum number of cells for which values in memory are float64."""
MAX_INDEX_BYTES = 1 << 30
"""Maximum size of the numberings of layers kept for a game with gravity, apart from the two used last."""
CHUNK_SIZE = 1 << 22
"""Maximum number of entries computed between two calls of ``progress``, where interrupts are handled."""
MIN_BLOCK_SIZE = 1 << 13
"""Minimum number of entries for each thread: with fewer, starting the thread takes longer."""
BLOCKS_PER_THREAD = 4
"""Number of blocks of rows for each thread, so that no thread waits long for the last one."""
NO_LAYER = -1
"""layer number of a probe without values"""
NS_PER_VALUE, NS_PER_VALUE_WITH_GRAVITY = 60, 120
"""Approximate nanoseconds per value, on one core of an AMD EPYC (family 25, model 17)."""


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


AnyProbe = Probe | ColumnProbe
NUM_PROBE_FIELDS: Final = 7
"""Length of a :class:`Probe`, which selects code by type, like the lengths in :mod:`ttt_envs.game.bits`."""


@inlined
def find_entry(own: int, other: int, probe: AnyProbe) -> tuple[int, int]:
    """Return the location of V(A, B), for sets without lines: the layer, and the entry in it.

    Args:
        own: A, the mover's stones.
        other: B, the other player's stones.
        probe: with or without values; with gravity, of the layer of the position.
    """
    if len(probe) != NUM_PROBE_FIELDS:
        return probe.stones, find_column_entry(own, other, probe)
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
    seconds: float
    """approximate duration in seconds"""


def set_tables(game: Game) -> tuple[Ranks, Classes]:
    """Return the tables shared by games of a board and a win length: about 20 bytes for every set of cells."""
    return _tables(Game(game.rows, game.columns, game.win_length, exact=game.exact, wrap=game.wrap))


@lru_cache(maxsize=2)
def _tables(game: Game) -> tuple[Ranks, Classes]:
    ranks = make_ranks(game.cells)
    return ranks, make_classes(game, ranks)


class Layers(ABC):
    """The layers of a game from a number of stones on: sizes, and the entries of positions.

    Args:
        game: the game.
        stones: number of stones of the first layer, the last to be built.
        double: float64 instead of float32, if there are skips.

    Raises:
        ValueError: the number of stones does not fit on the board.
    """

    def __init__(self, game: Game, stones: int, double: bool) -> None:
        if not 0 <= stones <= game.cells:
            raise ValueError(f"stones={stones} are not on a board of {game.cells} cells: choose 0 to {game.cells}")
        self.game = game
        self.stones = stones
        self.dtype = np.dtype(np.int8 if game.skip_chance == 0 else np.float64 if double else np.float32)
        self.won = self.dtype.type(WON if game.skip_chance == 0 else 1)
        self.lost = self.dtype.type(-BYTES if game.skip_chance == 0 else -1)
        self.line_value = -float(self.won) if game.misere else float(self.won)
        """value of a stone that completes a line, for its player"""
        self.rounding = {"float32": 2.0**-24, "float64": 2.0**-50}.get(self.dtype.name, 0.0)
        """maximum difference, by rounding, between a value and its recomputation from its successors"""

    def build_order(self) -> range:
        """Return the numbers of stones of the layers, in build order."""
        return range(self.game.cells, self.stones - 1, -1)

    @abstractmethod
    def size(self, stones: int) -> int:
        """Return the number of entries of a layer."""

    def max_size(self, stones: int) -> int:
        """Return an upper bound on the number of entries of a layer, without numbering its positions."""
        return self.size(stones)

    def is_empty(self, stones: int) -> bool:
        """Return whether a layer has no entries."""
        return self.size(stones) == 0

    @abstractmethod
    def has_line(self, sets: Int64Array) -> BoolArray:
        """Return whether each set of stones has a line."""

    @abstractmethod
    def locate(self, own: Int64Array, other: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the locations of V(A, B), int64[K] each, for sets without lines: the layers, and the entries in them.

        Raises:
            ValueError: a position that the rules exclude.
        """

    @abstractmethod
    def sets_at(self, stones: int, entry: int) -> tuple[int, int]:
        """Return the mover's stones and the other player's stones in an entry's position."""

    @abstractmethod
    def probe(self, stones: int = NO_LAYER, values: Values | None = None) -> AnyProbe:
        """Return a probe of a layer with these values, float32 or int8, or without values."""

    @abstractmethod
    def compute(
        self,
        stones: int,
        above: Values | None,
        out: Values,
        *,
        threads: int = 1,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        """Compute the values of a layer from those of the next, None for the full board.

        Args:
            stones: the layer.
            above: values of the next layer.
            out: written.
            threads: number of threads; the values do not depend on it.
            progress: called with the fraction done.
        """

    @abstractmethod
    def estimate(self) -> Estimate:
        """See :func:`estimate`."""

    def _estimate(self, shared: int, ns_per_value: float) -> Estimate:
        """Return the estimate for tables of ``shared`` bytes besides the values."""
        item = self.dtype.itemsize
        by_stones = tuple(self.size(n) if n >= self.stones else 0 for n in range(self.game.cells + 1))
        two = max(above + below for above, below in zip(by_stones, (*by_stones[1:], 0), strict=True))
        return Estimate(
            by_stones,
            disk=item * sum(by_stones),
            memory=shared + item * two,
            memory_alone=shared + item * sum(by_stones),
            seconds=sum(by_stones) * ns_per_value / 1e9,
        )

    def _by_type(self, values: Values | None) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        """Return the values as the last two fields of a probe."""
        plies, results = np.zeros(0, np.int8), np.zeros(0, np.float32)
        for empty in (plies, results):
            empty.flags.writeable = False  # as all layers, so that kernels are compiled once
        if values is not None and values.dtype == np.int8:
            plies = values
        elif values is not None:
            results = values
        return plies, results


class SetLayers(Layers):
    """The layers of a game without gravity, with their parts and offsets.

    Raises:
        ValueError: the board has more than 21 cells, or 25 if the first layers are left out; or see :class:`Layers`.
    """

    def __init__(self, game: Game, stones: int = 0, *, double: bool = False) -> None:
        if game.cells > MAX_CELLS_LAST_LAYERS or (game.cells > MAX_LAYERED_CELLS and stones <= 0):
            raise ValueError(
                f"a board of {game.rows} x {game.columns} is too large to solve by layers: choose one of up to "
                f"{MAX_LAYERED_CELLS} cells, or the last layers of one of up to {MAX_CELLS_LAST_LAYERS}, by stones "
                f"above 0; without skips, evaluate.py prove may find the winner"
            )
        super().__init__(game, stones, double)
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

    def has_line(self, sets: Int64Array) -> BoolArray:
        """See :meth:`Layers.has_line`."""
        found: BoolArray = self.classes.places[sets] < 0
        return found

    def locate(self, own: Int64Array, other: Int64Array) -> tuple[Int64Array, Int64Array]:
        """See :meth:`Layers.locate`."""
        stones, entries = np.empty(len(own), np.int64), np.empty(len(own), np.int64)
        _find_entries(own, other, self.probe(), stones, entries)
        return stones, entries

    def sets_at(self, stones: int, entry: int) -> tuple[int, int]:
        """See :meth:`Layers.sets_at`."""
        own = int(np.searchsorted(self.starts[stones], entry, side="right")) - 1
        row, rank = divmod(entry - int(self.starts[stones, own]), int(self.widths[stones, own]))
        mine = int(self.classes.leaders[self.classes.starts[own] + row])
        others = int(self.ranks.sets[self.ranks.starts[stones - own] + rank])
        left = [cell for cell in range(self.game.cells) if not mine >> cell & 1]
        return mine, sum(1 << cell for place, cell in enumerate(left) if others >> place & 1)

    def probe(self, stones: int = NO_LAYER, values: Values | None = None) -> Probe:
        """See :meth:`Layers.probe`."""
        return Probe(stones, self.starts, self.widths, self.ranks, self.classes, *self._by_type(values))

    def compute(
        self,
        stones: int,
        above: Values | None,
        out: Values,
        *,
        threads: int = 1,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        """See :meth:`Layers.compute`; part by part."""
        done = 0
        for own in self.own_counts(stones):
            part = self.part(stones, own, out)
            if above is None:
                self._write_full_boards(own, part)
            else:
                self._compute_part(stones, own, above, part, threads)
            done += part.size
            if progress is not None and own != self.own_counts(stones)[-1]:
                progress(done / len(out))

    def _write_full_boards(self, own: int, out: Values) -> None:
        classes, full = self.classes, (1 << self.game.cells) - 1
        mine = classes.leaders[classes.starts[own] : classes.starts[own + 1]].astype(np.int64)
        out[:, 0] = np.where(classes.places[full & ~mine] < 0, self.lost, 0)

    def _compute_part(self, stones: int, own: int, above: Values, out: Values, threads: int) -> None:
        """Compute one part from those of the next layer."""
        other, parameters = stones - own, self.game.parameters
        after = np.empty(self.shape(stones + 1, own + 1), self.dtype)
        turned = self.part(stones + 1, other, above)
        same = self.part(stones + 1, own + 1, above) if self.game.skip_chance > 0 else turned  # not read
        ranks, classes, results = self.ranks, self.classes, (self.dtype.type(self.line_value), self.lost)

        def write_afterstates(_: int, rows: slice) -> None:
            part = Part(rows.start, rows.stop, own + 1, other)
            afterstates(part, ranks, classes, parameters, same, turned, after)

        _map_rows(write_afterstates, after, threads)
        ranks_with = np.empty((self.game.cells - own, after.shape[1]), np.uint32)
        write_ranks_with(other, ranks, ranks_with)

        def write_best_values(_: int, rows: slice) -> None:
            part = Part(rows.start, rows.stop, own, other)
            best_values(part, ranks, classes, parameters, results, ranks_with, after, out)

        _map_rows(write_best_values, out, threads)

    def estimate(self) -> Estimate:
        """See :func:`estimate`."""
        cells = self.game.cells
        shared = sum(array.nbytes for array in (*self.ranks[1:], *self.classes))
        # afterstates, one part at a time
        made = max(
            (math.prod(self.shape(n + 1, own + 1)) for n in range(self.stones, cells) for own in self.own_counts(n)),
            default=0,
        )
        return self._estimate(shared + self.dtype.itemsize * max(made, 1), NS_PER_VALUE)


def _map_rows(compute: Callable[[int, slice], None], array: Values, threads: int) -> None:
    """Call ``compute`` for blocks of rows of an array, in threads where that pays."""
    count, width = array.shape
    threads = min(threads, max(1, array.size // MIN_BLOCK_SIZE))
    rows = max(1, CHUNK_SIZE // max(1, width))
    if threads > 1:
        rows = min(rows, -(-count // (BLOCKS_PER_THREAD * threads)))
    map_threads(compute, split_rows(count, rows), threads)


def fits_columns(game: Game) -> bool:
    """Return whether a game with gravity is small enough to be solved by layers."""
    return columns.bound_colourings(game) <= columns.MAX_COLOURINGS


def check_columns(game: Game, stones: int = 0) -> None:
    """Raise ValueError for a game with gravity that has too many positions from a number of stones on."""
    found = columns.bound_colourings(game, stones)
    if found > columns.MAX_COLOURINGS:
        raise ValueError(
            f"a board of {game.rows} x {game.columns} with gravity is too large to solve by layers: its columns can be "
            f"coloured in some {found:.1e} ways, and up to {columns.MAX_COLOURINGS:.1e} are numbered, as on 6 x 5. "
            f"Without skips, evaluate.py solve finds the value of a position"
        )


class ColumnLayers(Layers):
    """The layers of a game with gravity, see :mod:`~baselines.retrograde.columns`.

    Raises:
        ValueError: the board has too many positions, or see :class:`Layers`.
    """

    def __init__(self, game: Game, stones: int = 0, *, double: bool = False, threads: int = 1) -> None:
        super().__init__(game, stones, double)
        check_columns(game, stones)
        self._threads = threads  # of numbering
        self.board = columns.make_board(game)
        self._heights = columns.heights_by_stones(self.board)
        self._colourings = [int(columns.count_colourings(self.board, heights).sum()) for heights in self._heights]
        self._lock = Lock()  # one for all layers, so that two threads do not number one
        self._sizes: dict[int, int] = {}
        self._indices: OrderedDict[int, LayerIndex] = OrderedDict()  # those used last, up to `MAX_INDEX_BYTES`

    def index(self, stones: int) -> LayerIndex:
        """Return the numbering of a layer, computed or among those used last."""
        with self._lock:
            found = self._indices.get(stones)
            if found is None:
                found = columns.make_index(self.game, self.board, self._heights[stones], stones, self._threads)
                self._sizes[stones] = columns.index_size(found)
                self._indices[stones] = found
            self._indices.move_to_end(stones)
            while len(self._indices) > 2 and sum(map(self._index_bytes, self._indices)) > MAX_INDEX_BYTES:
                self._indices.popitem(last=False)
            return found

    def _index_bytes(self, stones: int) -> int:
        """Return the size of a numbering: one bit per colouring, and 32 per word."""
        return self._colourings[stones] * 12 // 64

    def size(self, stones: int) -> int:
        """See :meth:`Layers.size`."""
        if stones not in self._sizes:
            self.index(stones)
        return self._sizes[stones]

    def max_size(self, stones: int) -> int:
        """See :meth:`Layers.max_size`."""
        return self._sizes.get(stones, self._colourings[stones])

    def is_empty(self, stones: int) -> bool:
        """See :meth:`Layers.is_empty`."""
        if stones in self._sizes:
            return self._sizes[stones] == 0
        own = -1 if self.game.skip_chance > 0 else stones // 2
        return not columns.has_position(self.game, self.board, self._heights[stones], own)

    def has_line(self, sets: Int64Array) -> BoolArray:
        """See :meth:`Layers.has_line`."""
        found = np.empty(len(sets), np.bool_)
        columns.find_lines(sets, self.game.parameters, found)
        return found

    def locate(self, own: Int64Array, other: Int64Array) -> tuple[Int64Array, Int64Array]:
        """See :meth:`Layers.locate`."""
        taken, width = own | other, self.game.columns
        floor = ((1 << width) - 1) << (self.game.cells - width)
        if (taken & ~(taken >> width | floor)).any():
            raise ValueError("a stone above an empty cell comes from no game with gravity: choose another position")
        stones = sum((taken >> cell & 1 for cell in range(self.game.cells)), np.zeros(len(own), np.int64))
        entries = np.empty(len(own), np.int64)
        for count in np.unique(stones).tolist():
            rows = np.flatnonzero(stones == count)
            found = np.empty(len(rows), np.int64)
            columns.find_column_entries(own[rows], other[rows], self.probe(count), found)
            entries[rows] = found
        return stones, entries

    def sets_at(self, stones: int, entry: int) -> tuple[int, int]:
        """See :meth:`Layers.sets_at`."""
        return columns.find_column_position(entry, self.probe(stones))

    def probe(self, stones: int = NO_LAYER, values: Values | None = None) -> ColumnProbe:
        """See :meth:`Layers.probe`."""
        return ColumnProbe(stones, self.board, self.index(stones), *self._by_type(values))

    def compute(
        self,
        stones: int,
        above: Values | None,
        out: Values,
        *,
        threads: int = 1,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        """See :meth:`Layers.compute`."""
        if above is None:
            out[:] = 0
            return
        here, there = self.index(stones), self.index(stones + 1)
        columns.compute_layer(self.game, self.board, here, there, above, out, threads, progress)

    def estimate(self) -> Estimate:
        """See :func:`estimate`. It numbers all positions, which takes a share of the time of solving."""
        indices = list(map(self._index_bytes, range(self.stones, self.game.cells + 1)))
        shared = max(min(sum(indices), MAX_INDEX_BYTES), 2 * max(indices)) + max(indices)
        return self._estimate(shared, NS_PER_VALUE_WITH_GRAVITY)


def estimate(game: Game, *, stones: int = 0, folder: bool = True) -> Estimate:
    """Return the number of values per layer and the bytes needed to solve a game.

    Args:
        game: as for :func:`build`.
        stones: as for :func:`build`.
        folder: whether the layers go to a folder.

    Raises:
        ValueError: the board is larger, or the number of stones is invalid.
    """
    return make_layers(game, stones, double=not folder and game.cells <= MAX_CELLS_IN_DOUBLE).estimate()


def make_layers(game: Game, stones: int = 0, *, double: bool = False, threads: int = 1) -> Layers:
    """Return the layers of a game, see :class:`Layers`.

    Args:
        game, stones: as for :func:`estimate`.
        double: float64 instead of float32, if there are skips.
        threads: number of threads that number the positions of a game with gravity.

    Raises:
        ValueError: the board is too large, or the number of stones is invalid.
    """
    if game.gravity:
        return ColumnLayers(game, stones, double=double, threads=threads)
    return SetLayers(game, stones, double=double)


@compiled_at_once
def _find_entries(own: Int64Array, other: Int64Array, probe: Probe, stones: Int64Array, entries: Int64Array) -> None:
    """Find the locations of V(A, B): the layer, and the entry in it."""
    for i in range(len(own)):
        stones[i], entries[i] = find_entry(own[i], other[i], probe)


def check_memory(layers: Layers, *, folder: bool = True, memory: int | None = None) -> None:
    """Raise MemoryError if :func:`build` needs more memory than ``memory`` bytes, or than is free."""
    needed, game = layers.estimate(), layers.game
    wanted = needed.memory if folder else needed.memory_alone
    free = free_memory(memory)
    if wanted > free:
        way_out = "" if folder else f" or give it a folder for {estimate(game, stones=layers.stones).disk:,} bytes"
        raise MemoryError(
            f"solving {game} by layers takes {wanted:,} bytes of memory, and {free:,} may be used: allow more with "
            f"memory={way_out}"
        )


def free_memory(memory: int | None) -> int:
    """Return the bytes of memory that may be used: all free ones for None."""
    return int(psutil.virtual_memory().available) if memory is None else memory
