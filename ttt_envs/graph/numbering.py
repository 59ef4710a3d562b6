"""Numbers all positions of a game by layers, and computes their values by one backward induction,
for all rules.

The stones of a position are a set T of cells. A layer lists the sets of n cells that stones can
fill, one *canonical* set of each class of symmetric sets. A position is such a set and, among its n
stones, those of the player who moved last: a pattern of n bits. Gravity only leaves out sets T.
Positions with a line are left out, too: they are over, so a move to a position that is not in the
next layer completes a line.

A table holds W(A, B), the value for the player with the stones A who has just moved, before chance
decides who is next:

    V(A, B) = max over legal cells c of W(A + c, B), or their mean; W is the result of a line or of
    a full board W(A, B) = skip_chance * V(A, B) - (1 - skip_chance) * V(B, A)

So the value of a move is one entry. W of all patterns of T is computed together: two small tables
per move carry them to the next layer, and symmetries are found per set and not per position.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Float64Array, Int32Array, Int64Array, inlined, int64, kernel, pasted
from ttt_envs.core.work import map_threads
from ttt_envs.game.bits import all_bits, count_bits
from ttt_envs.game.game import Game
from ttt_envs.game.lines import line_masks
from ttt_envs.game.rules import legal_bits
from ttt_envs.game.symmetry import inverse, symmetries

Number = TypeVar("Number", float, Float64Array)
Values = NDArray[Any]
"""float64, float32 or int8[N]: entries of a layer"""

WON = 127
"""The byte of a stone that wins. A win d plies away, that stone included, is 128 - d, and a loss
d - 128.
"""
MAX_UNPAIRED_CELLS = 16
"""Maximum number of cells of a board whose numbering without skips has positions of no alternating
play, too.
"""
MAX_CODED_CELLS = 21
"""Maximum number of cells of a board with a table of all sets of cells, which makes look-ups
faster.
"""
MAX_ENTRIES = 1 << 32
"""Maximum number of entries of a layer."""
MAX_INDEX_BYTES = 1 << 30
"""Maximum size in bytes of kept layers, apart from the two numbered last."""
MAX_SAMPLED_WORDS = 1 << 18
"""Number of words of a layer up to which its size is counted, and beyond which it is estimated by a
sample.
"""
BLOCKS_PER_THREAD = 64
"""Number of blocks of a layer for each thread."""
MIN_BLOCK_SETS = 8
"""Minimum number of sets in a block."""


class SetTables(NamedTuple):
    """Symmetries of sets of cells, which are split into ``low`` cells and the rest."""

    low: int
    low_images: Int64Array
    """int64[S, 2**low]: the lower part of a set under each symmetry"""
    high_images: Int64Array
    """int64[S, 2**(cells - low)]: the rest under each symmetry"""
    codes: Int32Array
    """int32[2**cells]: S times the index of a set's canonical set in its layer, plus the symmetry
    that leads to it; -1 for sets that no stones fill; of length 0 on boards above
    ``MAX_CODED_CELLS``"""


class NumberedLayer(NamedTuple):
    """The numbering of the positions with n stones in which nobody has a line.

    A bit set over (canonical set, pattern of the last mover's stones) marks them; the rank of a bit
    is the entry (Jacobson, "Space-efficient static trees and graphs", 1989). It follows from the
    rules and is never stored.
    """

    stones: int
    sets: Int64Array
    """int64[L]: canonical sets of n cells, ascending"""
    words: Int64Array
    """int64[L * words_per_set]: 32 patterns of a set in the lower half of a word, marked if they
    are numbered; in the upper half the number of marks in earlier words"""
    tables: SetTables

    @property
    def size(self) -> int:
        """Number of entries."""
        last = int(self.words[-1]) & (1 << 64) - 1 if len(self.words) else 0
        return (last >> 32) + (last & 0xFFFFFFFF).bit_count()


class Numbering:
    """The layers of a game.

    Without skips, boards of more than ``MAX_UNPAIRED_CELLS`` cells have only positions of
    alternating play: the last mover has half of the stones, rounded up. Otherwise all divisions of
    the stones are numbered.

    Args:
        game: up to 31 cells; the caller bounds the number of positions.
    """

    def __init__(self, game: Game) -> None:
        self.game = game
        self.alternates = game.skip_chance == 0 and game.cells > MAX_UNPAIRED_CELLS
        self._lines = np.array(line_masks(game.lines).T, order="C")
        targets = inverse(symmetries(game))
        low = (game.cells + 1) // 2
        self._tables = SetTables(
            low,
            spread_all(targets[:, :low]).astype(np.int64),
            spread_all(targets[:, low:]).astype(np.int64),
            np.zeros(0, np.int32),
        )
        self._canonical_sets: Int64Array | None = None
        if game.gravity or game.cells <= MAX_CODED_CELLS:
            self._canonical_sets = self._number_sets()
        self._lock = Lock()  # so that two threads do not number one layer
        self._layers: dict[int, NumberedLayer] = {}  # those numbered last
        self._sizes: dict[int, int] = {}

    def sets(self, stones: int) -> Int64Array:
        """Return the canonical sets of a number of cells that stones can fill, int64[L],
        ascending.
        """
        if self._canonical_sets is not None:
            return np.asarray(self._canonical_sets[count_bits(self._canonical_sets) == stones])
        sets = _sets_of_size(self.game.cells, stones)
        return np.asarray(sets[self._canonical(sets)[1] == 0])

    def _canonical(self, sets: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the smallest symmetric set of each, and the first symmetry that leads to it."""
        low, low_images, high_images, _ = self._tables
        smallest = sets.copy()
        symmetry_of_set = np.zeros(len(sets), np.int64)
        for symmetry in range(1, len(low_images)):
            image = low_images[symmetry, sets & (1 << low) - 1] | high_images[symmetry, sets >> low]
            symmetry_of_set[image < smallest] = symmetry
            np.minimum(smallest, image, out=smallest)
        return smallest, symmetry_of_set

    def _number_sets(self) -> Int64Array:
        """Return the canonical sets of all sizes, ascending; fill the table of all sets of cells of
        a small board.
        """
        sets = _sets_of_columns(self.game) if self.game.gravity else np.arange(1 << self.game.cells)
        parts = np.array_split(sets, 1 + len(sets) // 2**15)  # which the processor's cache holds
        results = [self._canonical(part) for part in parts]
        smallest = np.concatenate([result[0] for result in results])
        symmetry = np.concatenate([result[1] for result in results])
        canonical: Int64Array = sets[symmetry == 0]
        if self.game.cells > MAX_CODED_CELLS:
            return canonical
        sizes = count_bits(canonical)
        index = np.empty(len(canonical), np.int64)  # of a set among those of its size
        for size in range(self.game.cells + 1):
            rows = np.flatnonzero(sizes == size)
            index[rows] = np.arange(len(rows))
        codes = np.full(1 << self.game.cells, -1, np.int32)
        num_symmetries = len(self._tables.low_images)
        codes[sets] = index[np.searchsorted(canonical, smallest)] * num_symmetries + symmetry
        self._tables = self._tables._replace(codes=codes)
        return canonical

    def layer(self, stones: int) -> NumberedLayer:
        """Return a layer, numbered now or kept.

        Raises:
            ValueError: the layer has more than 2**32 entries.
        """
        layer = self._layers.get(stones)
        if layer is not None:
            return layer
        with self._lock:
            if stones not in self._layers:
                layer = self._make_layer(stones)
                self._layers[stones] = layer
                self._sizes[stones] = layer.size
                num_bytes = sum(layer.words.nbytes for layer in self._layers.values())
                while len(self._layers) > 2 and num_bytes > MAX_INDEX_BYTES:
                    num_bytes -= self._layers.pop(next(iter(self._layers))).words.nbytes
            return self._layers[stones]

    def _make_layer(self, stones: int) -> NumberedLayer:
        sets = self.sets(stones)
        marks = self._mark(sets, stones)
        counts = count_bits(marks)
        ends = np.cumsum(counts)
        if len(ends) and ends[-1] >= MAX_ENTRIES:
            raise Refusal(
                f"{self.game} has {ends[-1]:,} positions of {stones} stones, and {MAX_ENTRIES:,} "
                "are numbered: choose a smaller board"
            )
        return NumberedLayer(stones, sets, marks | (ends - counts) << 32, self._tables)

    def _mark(self, sets: Int64Array, stones: int) -> Int64Array:
        """Return words in which the open patterns of sets are marked, int64[L * words_per_set]."""
        words = np.empty(len(sets) * words_per_set(stones), np.int64)
        last_mover = stones - stones // 2 if self.alternates else -1
        _mark_open(sets, stones, last_mover, self._lines, _words_of_patterns(), words)
        return words

    def size(self, stones: int) -> int:
        """Return the number of entries of a layer."""
        if stones not in self._sizes:
            self.layer(stones)
        return self._sizes[stones]

    def estimate(self, stones: int) -> tuple[int, int]:
        """Return the number of entries of a layer, and the bytes of its numbering.

        Entries are counted in a small layer, else estimated by a sample of its sets.
        """
        sets = self.sets(stones)
        size = self._sizes.get(stones)
        words = len(sets) * words_per_set(stones)
        if size is None:
            sample = sets[:: max(1, words // MAX_SAMPLED_WORDS)]
            marks = int(count_bits(self._mark(sample, stones)).sum())
            size = marks * len(sets) // max(1, len(sample))
        return size, 8 * words

    def legal_cells(self, stones: int) -> Int64Array:
        """Return the cells where a stone may be put beside each of the layer's sets, as bits:
        int64[L].
        """
        sets = self.layer(stones).sets
        return legal_bits(sets, sets, self.game.parameters)

    def positions(self, stones: int) -> tuple[Int64Array, Int64Array]:
        """Return the stones of the last mover and of the other player in every position of a layer:
        int64[N] each.
        """
        layer = self.layer(stones)
        marks = (layer.words[:, None] >> np.arange(32)).astype(np.int8) & 1
        rows, patterns = np.divmod(np.flatnonzero(marks), 32 * words_per_set(stones))
        sets = layer.sets[rows]
        own = np.zeros(len(rows), np.int64)
        remaining = sets.copy()
        for index in range(stones):
            stone = remaining & -remaining
            own |= stone * (patterns >> index & 1)
            remaining ^= stone
        return own, sets ^ own

    def compute(
        self,
        stones: int,
        next_values: Values | None,
        out: Values,
        *,
        threads: int = 1,
        average: bool = False,
        of_positions: bool = False,
    ) -> None:
        """Compute the values of a layer from those of the next.

        Args:
            stones: the layer.
            next_values: of the next layer, read-only, of the same type as ``out``; None on a full
                board.
            out: written: float64 or float32[N], or in a game without skips int8[N] with distances,
                see ``WON``.
            threads: number of threads; the values do not depend on it.
            average: whether the players move at random; else they play optimally.
            of_positions: write V(B, A) in place of W(A, B).
        """
        if not len(out):
            return
        game = self.game
        layer = self.layer(stones)
        if next_values is None:  # no cell is empty on a full board
            next_layer = layer
            next_values = np.empty(0, out.dtype)
            next_values.flags.writeable = False  # as all others: one type, compiled once
        else:
            next_layer = self.layer(stones + 1)
        begins = layer.words[:: words_per_set(stones)] >> 32 & 0xFFFFFFFF
        task = SweepTask(
            legal=self.legal_cells(stones),
            max_entries=int(np.diff(begins, append=layer.size).max(initial=0)),
            skip=game.skip_chance,
            line_value=-1.0 if game.misere else 1.0,
            average=average,
            of_positions=of_positions,
        )
        count = max(1, min(len(layer.sets) // MIN_BLOCK_SETS, BLOCKS_PER_THREAD * threads))
        edges = np.linspace(0, len(layer.sets), count + 1).astype(int).tolist()

        def compute_block(block: int) -> None:
            first, last = edges[block : block + 2]
            sweep(first, last, layer, next_layer, task, next_values, out)

        map_threads(compute_block, range(count), threads)


@inlined
def words_per_set(stones: int) -> int:
    """Return the number of words of a set's patterns."""
    return max(1, (1 << stones) >> 5)


@inlined
def sign(value: float) -> int:
    """Return 1, 0 or -1."""
    return int64(value > 0) - int64(value < 0)


@inlined
def before_ply(value: float) -> float:
    """Return the byte value W of a stone, given that of the next mover, V: see ``WON``."""
    return sign(value) - value


@inlined
def after_ply(value: float) -> float:
    """Return the byte value V of the next mover, given that of the last stone, W."""
    return 0.0 - value - sign(value)


def plies_of(value: Number) -> Number:
    """Return the number of plies to the end by byte values that are not 0."""
    return WON + 1 - abs(value)


plies_to_end = inlined(plies_of)
"""in kernels: :func:`plies_of` of a number"""


def spread_all(targets: Int64Array) -> NDArray[np.uint32]:
    """Return uint32[S, 2**n]: all sets of n cells, with cell i moved to ``targets[s, i]``."""
    out = np.zeros((len(targets), 1), np.uint32)
    for bits in np.uint32(1) << targets.T.astype(np.uint32):
        out = np.concatenate([out, out | bits[:, None]], axis=1)
    return np.ascontiguousarray(out)


def _sets_of_size(cells: int, size: int) -> Int64Array:
    """Return all sets of ``size`` cells, ascending."""
    by_size: dict[int, Int64Array] = {0: np.zeros(1, np.int64)}
    none: Int64Array = np.zeros(0, np.int64)
    for cell in range(cells):
        sizes = range(max(0, size - (cells - 1 - cell)), min(size, cell + 1) + 1)
        by_size = {
            n: np.concatenate([by_size.get(n, none), by_size.get(n - 1, none) | 1 << cell])
            for n in sizes
        }
    return by_size[size]


def _sets_of_columns(game: Game) -> Int64Array:
    """Return all sets of cells that stones fill from below, ascending."""
    sets: Int64Array = np.zeros(1, np.int64)
    for column in range(game.columns):
        bits = [1 << (row * game.columns + column) for row in reversed(range(game.rows))]
        sets = (sets[:, None] | np.cumsum([0, *bits])).ravel()
    return np.sort(sets)


class PatternWords(NamedTuple):
    """Sets of patterns of 5 bits, as words of 32 marks."""

    contain: Int64Array
    """int64[32]: the patterns that contain x"""
    avoid: Int64Array
    """int64[32]: those that have no bit of x"""
    of_size: Int64Array
    """int64[6]: those of x bits"""


def _words_of_patterns() -> PatternWords:
    patterns = np.arange(32)
    x = patterns[:, None]
    contain = patterns & x == x
    avoid = patterns & x == 0
    of_size = count_bits(patterns) == x[:6]
    return PatternWords(*((marks << patterns).sum(axis=1) for marks in (contain, avoid, of_size)))


@kernel(nogil=True, allocates=True)
def _mark_open(
    sets: Int64Array,
    stones: int,
    last_mover: int,
    lines: Int64Array,
    patterns: PatternWords,
    words: Int64Array,
) -> None:
    """Mark the patterns in which nobody has a line, 32 at a time.

    Args:
        sets: int64[L]: the sets.
        stones: number of stones of each.
        last_mover: number of ones of the patterns, -1 for any.
        lines: int64[N, 2]: of :func:`ttt_envs.game.lines.line_masks`.
        patterns: the sets of patterns of 5 bits.
        words: int64[L * words_per_set], written.
    """
    row = words_per_set(stones)
    all_marks = (int64(1) << min(32, 1 << stones)) - 1
    runs = np.empty(len(lines), np.int64)
    ends = np.empty(len(lines), np.int64)
    for i in range(len(sets)):
        cell_set = sets[i]
        count = 0
        for line in range(len(lines)):
            if lines[line, 0] & ~cell_set == 0:
                runs[count] = squeeze(lines[line, 0], cell_set)
                ends[count] = squeeze(lines[line, 1] & cell_set, cell_set)
                count += 1
        for word in range(row):
            high = int64(word) << 5
            marks = all_marks
            if last_mover >= 0:
                ones = last_mover - count_bits(high)
                marks &= patterns.of_size[ones] if 0 <= ones <= 5 else int64(0)
            for j in range(count):
                run = runs[j]
                end = ends[j]
                if run & ~high < 32 and end & high == 0:  # the high bits of the line are all ones
                    marks &= ~(patterns.contain[run & 31] & patterns.avoid[end & 31])
                if run & high == 0 and end & ~high < 32:  # and all zeros, the other player's
                    marks &= ~(patterns.avoid[run & 31] & patterns.contain[end & 31])
            words[i * row + word] = marks


# --------------------------------------------------------------------------------------------------
# Look-ups


@inlined
def squeeze(bits: int, cell_set: int) -> int:
    """Return a subset of ``cell_set`` as a pattern: bit k for the k-th cell of ``cell_set``."""
    pattern = 0
    while bits:
        stone = bits & -bits
        bits ^= stone
        pattern |= int64(1) << count_bits(cell_set & (stone - 1))
    return pattern


@inlined
def expand(pattern: int, cell_set: int) -> int:
    """Return the cells of a pattern, the inverse of :func:`squeeze`."""
    own = 0
    while cell_set:
        stone = cell_set & -cell_set
        cell_set ^= stone
        own |= stone * (pattern & 1)
        pattern >>= 1
    return own


@inlined
def move_set(bits: int, symmetry: int, tables: SetTables) -> int:
    """Return a set of cells under a symmetry."""
    low = tables.low_images[symmetry, bits & all_bits(tables.low)]
    return int64(low | tables.high_images[symmetry, bits >> tables.low])


@inlined
def find_set(cell_set: int, layer: NumberedLayer) -> tuple[int, int]:
    """Return the index of a set's canonical set in its layer, -1 for none, and the symmetry that
    leads to it.
    """
    tables = layer.tables
    if len(tables.codes):
        code = int64(tables.codes[cell_set])
        count = len(tables.low_images)
        return (code // count, code % count) if code >= 0 else (int64(-1), int64(0))
    smallest = cell_set
    symmetry_to_smallest = 0
    for symmetry in range(1, len(tables.low_images)):
        image = move_set(cell_set, symmetry, tables)
        if image < smallest:
            smallest = image
            symmetry_to_smallest = int64(symmetry)
    first = 0
    last = int64(len(layer.sets))
    while first < last:
        middle = (first + last) // 2
        if layer.sets[middle] < smallest:
            first = middle + 1
        else:
            last = middle
    if first == len(layer.sets) or layer.sets[first] != smallest:
        return int64(-1), symmetry_to_smallest
    return first, symmetry_to_smallest


@inlined
def find_entry(row: int, pattern: int, index: Int64Array) -> int:
    """Return the entry of a pattern, -1 if it is not numbered; ``row`` is the first word of its
    set.
    """
    word = index[row + (pattern >> 5)]
    bit = int64(1) << (pattern & 31)
    if word & bit == 0:
        return int64(-1)
    return int64((word >> 32 & 0xFFFFFFFF) + count_bits(word & (bit - 1)))


@kernel(forceinline=True)
def rank(own: int, other: int, layer: NumberedLayer) -> int:
    """Return the entry of W(own, other) in the layer of their number of stones; -1 if it is not
    numbered.
    """
    i, symmetry = find_set(own | other, layer)
    if i < 0:
        return int64(-1)
    pattern = squeeze(move_set(own, symmetry, layer.tables), layer.sets[i])
    return find_entry(i * words_per_set(layer.stones), pattern, layer.words)


@kernel(forceinline=True)
def unrank(entry: int, layer: NumberedLayer) -> tuple[int, int]:
    """Return the stones of the last mover and of the other player in an entry's position."""
    first = 0
    last = int64(len(layer.words)) - 1
    while first < last:  # the last word with at most so many marks before it
        middle = (first + last + 1) // 2
        if layer.words[middle] >> 32 & 0xFFFFFFFF <= entry:
            first = middle
        else:
            last = middle - 1
    marks = layer.words[first] & 0xFFFFFFFF
    for _ in range(entry - (layer.words[first] >> 32 & 0xFFFFFFFF)):
        marks &= marks - 1
    row = words_per_set(layer.stones)
    pattern = (first % row << 5) + count_bits((marks & -marks) - 1)
    cell_set = layer.sets[first // row]
    own = expand(pattern, cell_set)
    return own, cell_set ^ own


# --------------------------------------------------------------------------------------------------
# The sweep


class CarryTables(NamedTuple):
    """Two tables that carry the patterns of a set of n cells to the next layer: one of their lower
    ``(n + 1) // 2`` bits, one of the rest.
    """

    low: Int32Array
    high: Int32Array
    bits: Int64Array
    """int64[n], scratch"""


@pasted
def empty_carry_tables(stones: int) -> CarryTables:
    """Allocate the tables of sets of ``stones`` cells."""
    low_bits = (stones + 1) // 2
    return CarryTables(
        np.empty(1 << low_bits, np.int32),
        np.empty(1 << (stones - low_bits), np.int32),
        np.empty(stones, np.int64),
    )


@inlined
def _spread(bits: Int64Array, start: int, stop: int, out: Int32Array) -> None:
    """Write all patterns of ``stop - start`` bits into out[2**n], bit k replaced by ``bits[start +
    k]``.
    """
    out[0] = 0
    for k in range(stop - start):
        for lower in range(1 << k):
            out[(1 << k) + lower] = out[lower] | bits[start + k]


@inlined
def carry(
    cell_set: int, target: int, symmetry: int, tables: SetTables, carried: CarryTables
) -> None:
    """Write the tables that carry patterns of a set to the set ``target``, which it reaches by a
    symmetry.

    Bits of stones that ``target`` lacks must not be used.
    """
    remaining = cell_set
    count = 0
    while remaining:
        stone = remaining & -remaining
        carried.bits[count] = squeeze(move_set(stone, symmetry, tables) & target, target)
        remaining ^= stone
        count += 1
    low_bits = (count + 1) // 2
    _spread(carried.bits, 0, low_bits, carried.low)
    _spread(carried.bits, low_bits, count, carried.high)


@inlined
def carry_pattern(pattern: int, stones: int, carried: CarryTables) -> int:
    """Return a pattern of a set of ``stones`` cells, carried."""
    low_bits = (stones + 1) // 2
    low = carried.low[pattern & all_bits(low_bits)]
    return int64(low | carried.high[pattern >> low_bits])


@inlined
def list_patterns(words: Int64Array, start: int, stop: int, out: Int32Array) -> int:
    """Write the numbered patterns of a set, whose words are ``start`` to ``stop - 1``; return their
    number.
    """
    count = 0
    for word in range(start, stop):
        marks = words[word] & 0xFFFFFFFF
        while marks:
            out[count] = (word - start << 5) + count_bits((marks & -marks) - 1)
            marks &= marks - 1
            count += 1
    return count


class SweepTask(NamedTuple):
    """What the values of a layer are computed by, see :meth:`Numbering.compute`."""

    legal: Int64Array
    """int64[L]: the cells where a stone may be put beside each set, as bits"""
    max_entries: int
    """maximum number of entries of a set"""
    skip: float
    """the skip chance"""
    line_value: float
    """result of a player who completes a line"""
    average: bool
    of_positions: bool


@kernel(nogil=True, allocates=True)
def sweep(
    first: int,
    last: int,
    layer: NumberedLayer,
    next_layer: NumberedLayer,
    task: SweepTask,
    next_values: Values,
    out: Values,
) -> None:
    """Compute the values of a layer's sets ``first`` to ``last - 1``."""
    stones = layer.stones
    row = words_per_set(stones)
    full = all_bits(stones)
    won = WON if out.itemsize == 1 else 1
    by_line = np.full(1, task.line_value * won).astype(out.dtype)[0]  # of a move that makes a line
    carried = empty_carry_tables(stones)
    patterns = np.empty(task.max_entries, np.int32)
    values = np.empty(task.max_entries, out.dtype)
    for i in range(first, last):
        moves = task.legal[i]
        size = list_patterns(layer.words, i * row, (i + 1) * row, patterns)
        values[:size] = 0 if task.average or moves == 0 else -won
        count = 0
        while moves and size:
            stone = moves & -moves
            moves ^= stone
            count += 1
            j, symmetry = find_set(layer.sets[i] | stone, next_layer)
            target = next_layer.sets[j]
            carry(layer.sets[i], target, symmetry, layer.tables, carried)
            new_bit = squeeze(move_set(stone, symmetry, layer.tables), target)
            start = j * words_per_set(stones + 1)
            for k in range(size):
                mover = carry_pattern(full ^ int64(patterns[k]), stones, carried)
                entry = find_entry(start, mover | new_bit, next_layer.words)
                value = next_values[entry] if entry >= 0 else by_line
                values[k] = values[k] + value if task.average else max(values[k], value)
        begin = layer.words[i * row] >> 32 & 0xFFFFFFFF
        for k in range(size):
            switch_value = values[k]
            stay_value = values[size - 1 - k]  # of the complement; without skips not read
            if task.average:
                switch_value = switch_value / max(count, 1)
                stay_value = stay_value / max(count, 1)
            if task.of_positions:
                out[begin + k] = switch_value
            elif out.itemsize == 1:
                out[begin + k] = before_ply(switch_value)
            else:
                out[begin + k] = task.skip * stay_value - (1.0 - task.skip) * switch_value
