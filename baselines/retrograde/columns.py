"""Layers of games with gravity: positions numbered by the contents of their columns.

A column of height h holds one of at most 2**h colourings. The heights of all columns are a *profile*; the positions of
a profile are numbered in mixed radix, one digit per column. In a bit set over these numbers, the positions without a
line are marked, and the rank of a bit is the entry of its position (Jacobson, "Space-efficient static trees and
graphs", 1989). So a layer holds only positions that stones can fall into and in which no player has a line. The bit
sets follow from the rules and are not stored. Of a profile and its mirror image, one is numbered.

As in :mod:`~baselines.retrograde.sweep`, a position is a pair (A, B) of the mover's stones and the other player's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baselines.retrograde.sweep import WON, Values
from ttt_envs.core.jit import (
    BoolArray,
    Int8Array,
    Int32Array,
    Int64Array,
    Parameters,
    UInt32Array,
    compiled_nogil,
    compiled_nogil_allocating,
    inlined,
    int64,
)
from ttt_envs.core.threads import map_threads, split_rows
from ttt_envs.game.bits import MAX_CELLS_IN_BITS, count_bits, line_in
from ttt_envs.game.rules import Game, skip_chance_of, value_over_skip

MAX_COLOURINGS = 1 << 35
"""Maximum number of colourings of the columns, mirror images aside, of all layers of a table."""
MAX_PROFILES = 1 << 20
"""Maximum number of profiles of a board."""
PROFILES_AT_ONCE = 8
"""Number of profiles that a thread numbers at a time."""
UNITS_AT_ONCE = 64
"""Number of units of :func:`_compute_units` that a thread computes at a time."""
WORST = -1000.0
"""less than any value"""


class ColumnBoard(NamedTuple):
    """The columns of a board, and their colourings without a line.

    A colouring of a column of height h is the number with bit j for a stone of the mover at height j. It is stored with
    bit h set too, which makes it unique among the heights.
    """

    rows: int
    columns: int
    num_states: Int64Array
    """int64[rows + 1]: number of colourings of a column, by its height"""
    first: Int64Array
    """int64[rows + 1]: index of the first of these in ``colourings``"""
    colourings: Int32Array
    """int32[N]: colourings, by their height, in increasing order"""
    numbers: Int32Array
    """int32[2**(rows + 1)]: number of a colouring among those of its height, -1 for one with a line"""
    profiles: Int32Array
    """int32[(rows + 1)**columns]: by the heights as digits, the first column's lowest: the number of a profile among
    those of its layer; of the mirror image of one, -1 - number"""


class LayerIndex(NamedTuple):
    """The numbering of a layer's positions."""

    heights: Int8Array
    """int8[profiles, columns]"""
    starts: Int64Array
    """int64[profiles + 1]: the bit of the first colouring of a profile"""
    words: Int64Array
    """int64[W]: the bits of positions in progress"""
    before: UInt32Array
    """uint32[W]: number of set bits in earlier words"""


class ColumnProbe(NamedTuple):
    """A layer in the form that kernels read, like :class:`~baselines.retrograde.layers.Probe` of other games."""

    stones: int
    """number of stones of the layer"""
    board: ColumnBoard
    numbering: LayerIndex
    plies: NDArray[np.int8]
    """int8[N]: the values without skips; empty with skips"""
    results: NDArray[np.float32]
    """float32[N]: the values with skips, else empty"""


# ---------------------------------------------------------------------------------------------------------------------
# Numbering


def bound_colourings(game: Game, stones: int = 0) -> float:
    """Return a bound on the number of colourings with ``stones`` stones or more; infinity for too many profiles."""
    if game.cells > MAX_CELLS_IN_BITS or (game.rows + 1) ** game.columns > MAX_PROFILES:
        return math.inf
    board = make_board(game)
    by_stones = np.ones(1)
    for _ in range(game.columns):
        by_stones = np.convolve(by_stones, board.num_states)
    return float(by_stones[max(stones, 0) :].sum()) / 2


@lru_cache(maxsize=4)
def make_board(game: Game) -> ColumnBoard:
    """Return the columns of a game with gravity, see :func:`bound_colourings` for those too large."""
    rows, columns = game.rows, game.columns
    all_colourings = np.arange(2, dtype=np.int32)[1:]
    parts, numbers = [], np.full(2 << rows, -1, np.int32)
    for height in range(rows + 1):
        has_line = np.zeros(len(all_colourings), np.bool_)
        if not game.exact:  # else the stones beside a line decide whether it counts
            _find_lines_of_column(all_colourings, height, rows, columns, game.parameters, has_line)
        parts.append(all_colourings[~has_line])
        numbers[parts[-1]] = np.arange(len(parts[-1]))
        all_colourings = np.arange(2 << height, 4 << height, dtype=np.int32)
    num_states = np.array([len(part) for part in parts])
    profiles = np.full((rows + 1) ** columns, -1, np.int32)
    _number_profiles(rows, columns, np.zeros(rows * columns + 1, np.int64), profiles)
    first = np.concatenate([[0], np.cumsum(num_states)[:-1]])
    return ColumnBoard(rows, columns, num_states, first, np.concatenate(parts), numbers, profiles)


def heights_by_stones(board: ColumnBoard) -> list[NDArray[np.int8]]:
    """Return the numbered profiles of each layer, int8[P, columns] each, by their number."""
    rows, columns = board.rows, board.columns
    codes = np.flatnonzero(board.profiles >= 0)
    heights = np.stack([codes // (rows + 1) ** column % (rows + 1) for column in range(columns)], axis=1)
    stones = heights.sum(axis=1)
    found = []
    for count in range(rows * columns + 1):
        here = np.flatnonzero(stones == count)
        here = here[np.argsort(board.profiles[codes[here]])]
        found.append(np.ascontiguousarray(heights[here].astype(np.int8)))
    return found


def count_colourings(board: ColumnBoard, heights: NDArray[np.int8]) -> Int64Array:
    """Return int64[P]: number of colourings of each profile, rounded up to whole words."""
    exact = np.prod(board.num_states[heights], axis=1, dtype=np.int64)
    return np.asarray((exact + 63) // 64 * 64)


def make_index(game: Game, board: ColumnBoard, heights: NDArray[np.int8], stones: int, threads: int = 1) -> LayerIndex:
    """Number the positions of a layer: those in progress, and full boards without a line.

    Without skips these are the positions of alternating play.
    """
    starts = np.concatenate([[0], np.cumsum(count_colourings(board, heights))])
    words = np.zeros(int(starts[-1]) // 64, np.int64)
    own = -1 if game.skip_chance > 0 else stones // 2

    def mark(_: int, rows: slice) -> None:
        _mark_positions(rows.start, rows.stop, own, not game.exact, board, heights, starts, words, game.parameters)

    map_threads(mark, split_rows(len(heights), PROFILES_AT_ONCE), threads)
    before = np.zeros(len(words), np.uint32)
    _sum_bits(words, before)
    for array in (words, before):
        array.flags.writeable = False
    return LayerIndex(heights, starts, words, before)


def has_position(game: Game, board: ColumnBoard, heights: NDArray[np.int8], own_count: int) -> bool:
    """Return whether a layer has a position; see :func:`_mark_positions`."""
    starts = np.zeros(len(heights) + 1, np.int64)
    return bool(
        _mark_positions(
            0, len(heights), own_count, not game.exact, board, heights, starts, np.zeros(0, np.int64), game.parameters
        )
    )


def index_size(index: LayerIndex) -> int:
    """Return the number of positions of a layer."""
    last = len(index.words) - 1
    return int(index.before[last]) + int(np.uint64(index.words[last]).item().bit_count()) if last >= 0 else 0


@compiled_nogil
def _find_lines_of_column(
    colourings: Int32Array, height: int, rows: int, columns: int, parameters: Parameters, out: BoolArray
) -> None:
    """Write whether a player has a line in a column of a colouring."""
    for i in range(len(colourings)):
        own, other = _column_bits(int64(colourings[i]), height, 0, rows, columns)
        out[i] = line_in(own, parameters) or line_in(other, parameters)


@inlined
def _column_bits(colouring: int, height: int, column: int, rows: int, columns: int) -> tuple[int, int]:
    """Return the mover's stones and the other player's in a column, as bits of the board."""
    own, other = int64(0), int64(0)
    for level in range(height):
        bit = int64(1) << ((rows - 1 - level) * columns + column)
        if colouring >> level & 1:
            own |= bit
        else:
            other |= bit
    return own, other


@compiled_nogil
def _number_profiles(rows: int, columns: int, counts: Int64Array, out: Int32Array) -> None:
    """Number the profiles of each layer, see :class:`ColumnBoard`; ``counts`` are zeros int64[rows * columns + 1]."""
    for code in range(len(out)):
        left, mirrored, stones = int64(code), int64(0), int64(0)
        for _ in range(columns):
            mirrored = mirrored * (rows + 1) + left % (rows + 1)
            stones += left % (rows + 1)
            left //= rows + 1
        if mirrored < code:
            out[code] = -1 - out[mirrored]
        else:
            out[code] = counts[stones]
            counts[stones] += 1


@compiled_nogil_allocating
def _mark_positions(
    start: int,
    stop: int,
    own_count: int,
    prune: bool,
    board: ColumnBoard,
    heights: Int8Array,
    starts: Int64Array,
    words: Int64Array,
    parameters: Parameters,
) -> bool:
    """Set the bits of positions without lines of the profiles ``start`` to ``stop - 1``, column by column.

    With ``prune``, a line on some columns is one on the whole board. ``own_count`` is the number of the mover's stones,
    -1 for any. Returns whether there are any; without ``words``, it stops at the first.
    """
    found = False
    rows, columns = board.rows, board.columns
    own, other = np.zeros(columns + 1, np.int64), np.zeros(columns + 1, np.int64)
    number, state = np.zeros(columns + 1, np.int64), np.zeros(columns, np.int64)
    for profile in range(start, stop):
        column = 0
        state[0] = 0
        while column >= 0:
            height = int64(heights[profile, column])
            if state[column] == board.num_states[height]:
                column -= 1
                if column >= 0:
                    state[column] += 1
                continue
            colouring = int64(board.colourings[board.first[height] + state[column]])
            mine, theirs = _column_bits(colouring, height, column, rows, columns)
            mine |= own[column]
            theirs |= other[column]
            last = column == columns - 1
            here = number[column] * board.num_states[height] + state[column]
            if (last or (prune and column > 0)) and (line_in(mine, parameters) or line_in(theirs, parameters)):
                state[column] += 1
            elif last:
                if own_count < 0 or count_bits(mine) == own_count:
                    found = True
                    if len(words) == 0:
                        return found
                    bit = starts[profile] + here
                    words[bit >> 6] |= int64(1) << (bit & 63)
                state[column] += 1
            else:
                column += 1
                own[column], other[column], number[column] = mine, theirs, here
                state[column] = 0
    return found


@compiled_nogil
def _sum_bits(words: Int64Array, before: UInt32Array) -> None:
    """Write the number of set bits in earlier words."""
    count = int64(0)
    for i in range(len(words)):
        before[i] = count
        count += count_bits(words[i])


@inlined
def _rank(bit: int, index: LayerIndex) -> int:
    """Return the number of positions before a bit."""
    word = bit >> 6
    earlier = index.words[word] & ((int64(1) << (bit & 63)) - 1)
    return int64(index.before[word]) + count_bits(earlier)


@inlined
def _column_colouring(own: int, taken: int, column: int, board: ColumnBoard) -> tuple[int, int]:
    """Return the height and the colouring of a column."""
    height, colouring = int64(0), int64(0)
    cell = (board.rows - 1) * board.columns + column
    while cell >= 0 and taken >> cell & 1:
        colouring |= (own >> cell & 1) << height
        height += 1
        cell -= board.columns
    return height, colouring | int64(1) << height


@inlined
def find_column_entry(own: int, other: int, probe: ColumnProbe) -> int:
    """Return the entry of a position of the layer, in progress or a full board without a line."""
    board, index, taken = probe.board, probe.numbering, own | other
    code, power = int64(0), int64(1)
    for column in range(board.columns):
        height, _ = _column_colouring(own, taken, column, board)
        code += height * power
        power *= board.rows + 1
    profile = int64(board.profiles[code])
    mirrored = profile < 0
    number = int64(0)
    for i in range(board.columns):
        height, colouring = _column_colouring(own, taken, board.columns - 1 - i if mirrored else i, board)
        number = number * board.num_states[height] + int64(board.numbers[colouring])
    return _rank(index.starts[-1 - profile if mirrored else profile] + number, index)


@inlined
def _last_up_to(ascending: UInt32Array | Int64Array, size: int, bound: int) -> int:
    """Return the index of the last of the first ``size`` numbers that is not above ``bound``; the first is not."""
    low, high = int64(0), int64(size)
    while high - low > 1:
        middle = (low + high) >> 1
        if int64(ascending[middle]) <= bound:
            low = middle
        else:
            high = middle
    return low


@inlined
def column_position(entry: int, probe: ColumnProbe) -> tuple[int, int]:
    """Return the mover's stones and the other player's stones in an entry's position."""
    board, index = probe.board, probe.numbering
    word = _last_up_to(index.before, len(index.words), entry)
    left, rest = index.words[word], entry - int64(index.before[word])
    for _ in range(rest):
        left &= left - 1
    bit = (word << 6) + count_bits((left & -left) - 1)
    profile = _last_up_to(index.starts, len(index.starts) - 1, bit)
    number = bit - index.starts[profile]
    own, other = int64(0), int64(0)
    for i in range(board.columns):
        column = board.columns - 1 - i
        height = int64(index.heights[profile, column])
        colouring = int64(board.colourings[board.first[height] + number % board.num_states[height]])
        number //= board.num_states[height]
        mine, theirs = _column_bits(colouring, height, column, board.rows, board.columns)
        own |= mine
        other |= theirs
    return own, other


@compiled_nogil
def find_column_entries(own: Int64Array, other: Int64Array, probe: ColumnProbe, out: Int64Array) -> None:
    """Write the entries of positions of a layer, int64[K] each."""
    for i in range(len(own)):
        out[i] = find_column_entry(own[i], other[i], probe)


@compiled_nogil
def find_column_position(entry: int, probe: ColumnProbe) -> tuple[int, int]:
    """Do :func:`column_position`, for callers in Python."""
    return column_position(entry, probe)


@compiled_nogil
def find_lines(sets: Int64Array, parameters: Parameters, out: BoolArray) -> None:
    """Write whether each set of stones has a line."""
    for i in range(len(sets)):
        out[i] = line_in(sets[i], parameters)


# ---------------------------------------------------------------------------------------------------------------------
# The sweep


def compute_layer(
    game: Game,
    board: ColumnBoard,
    here: LayerIndex,
    there: LayerIndex,
    above: Values,
    out: Values,
    threads: int,
    progress: Callable[[float], None] | None = None,
) -> None:
    """Compute the values of a layer, which is not that of the full board, from those of the next.

    Args:
        game: a game with gravity.
        board: its columns.
        here, there: the numberings of the layer and of the next.
        above: values of the next layer, int8[N] without skips, else float32[N] or float64[N].
        out: values of the layer, of the same type: written.
        threads: number of threads; the values do not depend on it.
        progress: called with the fraction done.
    """
    states = board.num_states[here.heights[:, 0]]
    profiles = np.repeat(np.arange(len(states)), states)
    units = np.stack([profiles, np.arange(len(profiles)) - np.repeat(np.cumsum(states) - states, states)], axis=1)
    parts = split_rows(len(units), UNITS_AT_ONCE)
    won = float(WON if game.skip_chance == 0 else 1)
    line_value = won if not game.misere else -won
    done = 0

    def compute(_: int, rows: slice) -> None:
        _compute_units(units[rows], board, here, there, above, line_value, game.parameters, out)

    step = max(1, 16 * threads)  # interrupts are handled between steps
    for start in range(0, len(parts), step):
        some = parts[start : start + step]
        map_threads(compute, some, min(threads, len(some)))
        done += len(some)
        if progress is not None:
            progress(done / len(parts))


@compiled_nogil_allocating
def _compute_units(
    units: Int64Array,
    board: ColumnBoard,
    here: LayerIndex,
    there: LayerIndex,
    above: Values,
    line_value: float,
    parameters: Parameters,
    out: Values,
) -> None:
    """Compute the values of units: the positions of a profile with one colouring of the first column.

    A move changes the digit of its column, and may lead to the mirror image of a numbered profile. So for each move the
    number of the successor is a sum over the columns, which is updated column by column.

    Args:
        units: int64[U, 2], profile and number of the colouring.
        board: of the game.
        here, there: the layer and the next.
        above: values of the next layer.
        line_value: value of a completed line for the player who completes it.
        parameters: ``Game.parameters``.
        out: written.
    """
    rows, columns = board.rows, board.columns
    skips = skip_chance_of(parameters) > 0
    moves, stones = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
    bases, weights = np.zeros(columns, np.int64), np.zeros((columns, columns), np.int64)
    own, other, number = (
        np.zeros(columns + 1, np.int64),
        np.zeros(columns + 1, np.int64),
        np.zeros(columns + 1, np.int64),
    )
    turned, same = np.zeros((columns + 1, columns), np.int64), np.zeros((columns + 1, columns), np.int64)
    state = np.zeros(columns, np.int64)
    for unit in range(len(units)):
        profile = units[unit, 0]
        heights = here.heights[profile]
        count = _list_moves(heights, board, there, moves, stones, bases, weights)
        rest = int64(1)
        for column in range(1, columns):
            rest *= board.num_states[heights[column]]
        entry = _rank(here.starts[profile] + units[unit, 1] * rest, here)
        column = int64(0)
        state[0] = units[unit, 1]
        while column >= 0:
            height = int64(heights[column])
            limit = units[unit, 1] + 1 if column == 0 else board.num_states[height]
            if state[column] == limit:
                column -= 1
                if column >= 0:
                    state[column] += 1
                continue
            digit = number[column] * board.num_states[height] + state[column]
            last = column == columns - 1
            if last:
                bit = here.starts[profile] + digit
                if here.words[bit >> 6] >> (bit & 63) & 1 == 0:
                    state[column] += 1
                    continue
            colouring = int64(board.colourings[board.first[height] + state[column]])
            mine, theirs = _column_bits(colouring, height, column, rows, columns)
            own[column + 1], other[column + 1] = own[column] | mine, other[column] | theirs
            number[column + 1] = digit
            _add_digits(colouring, height, column, count, moves, weights, board, turned, same)
            if not last:
                column += 1
                state[column] = 0
                continue
            made = own[columns]
            best = WORST
            for i in range(count):
                if line_in(made | stones[i], parameters):
                    best = max(best, line_value)
            if best <= 0.0:  # no move wins at once
                for i in range(count):
                    if line_in(made | stones[i], parameters):
                        continue
                    value = float(above[_rank(bases[i] + turned[columns, i], there)])
                    if skips:
                        after_skip = float(above[_rank(bases[i] + same[columns, i], there)])
                        value = value_over_skip(after_skip, -value, skip_chance_of(parameters))
                    else:
                        value = (1.0 if value > 0 else 0.0) - (1.0 if value < 0 else 0.0) - value
                    best = max(best, value)
            out[entry] = best
            entry += 1
            state[column] += 1


@inlined
def _list_moves(
    heights: Int8Array,
    board: ColumnBoard,
    there: LayerIndex,
    moves: Int64Array,
    stones: Int64Array,
    bases: Int64Array,
    weights: Int64Array,
) -> int:
    """List the columns that a stone may fall into; return their number.

    ``stones`` are the stones as bits, ``bases`` the first bits of the profiles after them, and ``weights`` int64[move,
    column] the weights of the digits of each column in these.
    """
    rows, columns = board.rows, board.columns
    code, power = int64(0), int64(1)
    for column in range(columns):
        code += heights[column] * power
        power *= rows + 1
    count, power = int64(0), int64(1)
    for column in range(columns):
        if heights[column] < rows:
            profile = int64(board.profiles[code + power])
            mirrored = profile < 0
            moves[count] = column
            stones[count] = int64(1) << ((rows - 1 - int64(heights[column])) * columns + column)
            bases[count] = there.starts[-1 - profile if mirrored else profile]
            weight = int64(1)
            for i in range(columns):
                at = i if mirrored else columns - 1 - i
                weights[count, at] = weight
                weight *= board.num_states[heights[at] + (1 if at == column else 0)]
            count += 1
        power *= rows + 1
    return count


@inlined
def _add_digits(
    colouring: int,
    height: int,
    column: int,
    count: int,
    moves: Int64Array,
    weights: Int64Array,
    board: ColumnBoard,
    turned: Int64Array,
    same: Int64Array,
) -> None:
    """Add the digit of a column to the numbers of each move's successors, of both players to move."""
    top = int64(1) << height
    swapped = colouring ^ (top - 1)
    mine, theirs = int64(board.numbers[colouring]), int64(board.numbers[swapped])
    for i in range(count):
        with_turned, with_same = theirs, mine
        if moves[i] == column:
            with_turned = int64(board.numbers[swapped + top])  # the new stone is not the next mover's
            with_same = int64(board.numbers[colouring | 2 * top])
        turned[column + 1, i] = turned[column, i] + weights[i, column] * with_turned
        same[column + 1, i] = same[column, i] + weights[i, column] * with_same
