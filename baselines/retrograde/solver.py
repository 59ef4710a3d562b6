"""Exact values of every position by backward induction over the whole game, including skips; and perfect play.

A move leads to an *afterstate*: one more stone, before chance decides the next mover. The solver stores the value of
every afterstate, ``after[m, b]``: the expected result for player_0, from -1 to 1, after player m has made board b. The
value of a move is then one table entry, and the value of a position is the best of these. Boards are numbered by their
base-3 keys. A stone only increases the key, so one sweep from the highest key to the lowest visits every board after
all its successors (Bellman, 1957; retrograde analysis in game programming).

Boards of 17 to 21 cells are too many for such a table and are solved layer by layer: :mod:`baselines.retrograde`.
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from baselines import retrograde
from baselines.connect_four import SearchedSolution, is_solvable, shared_solution
from baselines.retrograde.count import Counts, count_positions
from baselines.retrograde.layers import check_columns, check_memory, make_layers
from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.agents.specs import Named
from ttt_envs.core.array_cache import CachedArray, hash_of_sources, make_cached_folder, max_cache_bytes
from ttt_envs.core.jit import (
    Float64Array,
    Int8Array,
    Int64Array,
    Parameters,
    compiled,
    compiled_nogil_small_allocating,
    inlined,
    inlined_allocating,
    int64,
)
from ttt_envs.core.threads import Threads, count_threads, map_threads
from ttt_envs.game import bits, rules
from ttt_envs.game.bits import line_in
from ttt_envs.game.boards import Boards
from ttt_envs.game.rules import (
    DRAW,
    NOT_OVER,
    Game,
    is_legal,
    legal_bits,
    line_result,
    opened_cell,
    skip_chance_of,
    terminal_outcome_in_bits,
    value_over_skip,
    values_over_skip,
)

MAX_SOLVER_CELLS = 16
"""Maximum number of cells for a single table of all boards."""
MAX_LAYERED_CELLS = retrograde.MAX_LAYERED_CELLS
"""Maximum number of cells of a solvable game."""
FORMAT = 1
"""version of a stored table"""
MADE_BY = hash_of_sources(bits, rules, sys.modules[__name__])
NUM_CHECKED_ENTRIES = 300
"""Number of entries of a cached table that are verified against their successors."""
MIN_CACHED_BYTES = 1 << 22
"""Minimum size in bytes of a table cached on disk; computing a smaller one is faster than reading it."""
NUM_LOW_CELLS = 5
"""Number of cells whose contents make up a block of boards, the unit of the sweep."""
MAX_LAST_CELLS, MIN_CELLS_IN_PART = 6, 5
"""Of the other cells, the last ones, at most six, tell parts of the table apart that threads sweep at once; at least
five others are within a part, so that it takes a millisecond."""
MIN_CELLS_IN_THREADS = 12
"""Minimum number of cells for which several threads pay; the table is made in some milliseconds."""

Progress = Callable[[float], None]
"""called with the fraction of work done, 0 to 1"""


class Solution:
    """The exact values of all positions of a game, computed by :func:`solve`."""

    tie = VALUE_TOLERANCE
    """tolerance within which moves count as equally good"""

    def __init__(self, game: Game, after: Float64Array, cache: bool) -> None:
        self.game = game
        self.after = after
        """float64[2, 3**cells], read-only: value for player_0 of board b (second index, base-3 key) made by player m
        (first index), before chance decides the next mover"""
        self._cache = cache
        self.value = float(self.values(Boards.start(game))[0])
        """value of the empty board for player_0"""

    def values(self, boards: Boards) -> Float64Array:
        """Return the expected result under best play by both players, for the mover: float64[B] from -1 to 1.

        The value of a finished board is its result.
        """
        out = np.empty(len(boards.mover))
        _values(np.ascontiguousarray(boards.cells), boards.mover, self.after, self.game.parameters, out)
        return out

    def action_values(self, boards: Boards) -> Float64Array:
        """Return the value of each move for the mover: float64[B, rows * columns], NaN where illegal."""
        out = self.unfinished_action_values(boards)
        _clear_finished(np.ascontiguousarray(boards.cells), self.game.parameters, out)
        return out

    def unfinished_action_values(self, boards: Boards) -> Float64Array:
        """Like :meth:`action_values`, for positions that are not over, which is not checked."""
        out = np.empty(boards.cells.shape)
        _action_values(np.ascontiguousarray(boards.cells), boards.mover, self.after, self.game.parameters, out)
        return out

    def optimal_actions(self, boards: Boards) -> NDArray[np.bool_]:
        """Return bool[B, rows * columns]: moves within 1e-9 of the best, or see :class:`LayeredSolution`."""
        values = self.action_values(boards)
        best = np.max(values, axis=1, initial=-np.inf, where=~np.isnan(values), keepdims=True)
        optimal: NDArray[np.bool_] = values >= best - self.tie
        return optimal

    def distance(self, boards: Boards) -> Int64Array:
        """Return the plies to the end under best play, int64[B]: winners minimise and losers maximise this distance.

        A drawn position ends with the full board; a finished one has distance 0.

        Raises:
            ValueError: the game has skips, so that the distance is random.
        """
        retrograde.check_distance(self.game)
        cells = np.ascontiguousarray(boards.cells)
        speed = np.empty(len(cells))
        _values(cells, boards.mover, self._halved, self.game.parameters, speed)
        plies = np.count_nonzero(cells == 0, axis=1).astype(np.int64)
        plies[speed != 0] = 1 - np.log2(np.abs(speed[speed != 0])).astype(np.int64)
        over = [rules.terminal_outcome(board, self.game.parameters) != NOT_OVER for board in cells]
        return np.where(over, 0, plies)

    @cached_property
    def _halved(self) -> Float64Array:
        """The table ``after`` with results halved at every ply: 2**-d means d + 1 plies."""
        return _table(self.game, 0.5, self._cache, None)

    @cached_property
    def counts(self) -> Counts:
        """Numbers of positions, computed on first access."""
        return count_positions(self.game)

    def __repr__(self) -> str:
        return f"Solution({self.game}, value={self.value})"


class LayeredSolution(Solution):
    """A solution by layers, for boards of 17 to 21 cells: it has no table ``after`` of all boards.

    With skips, values are float32 and rounded once per layer, so they may differ from the exact ones by 7e-7; moves
    within twice this error of the best count as optimal. Without skips values are exact, but only positions of
    alternating play have one; others raise ValueError.
    """

    def __init__(self, table: retrograde.LayeredTable) -> None:
        self.game = table.game
        self._table = table
        self.tie = VALUE_TOLERANCE + 2 * table.error
        self.value = float(self.values(Boards.start(self.game))[0])

    def values(self, boards: Boards) -> Float64Array:
        """See :meth:`Solution.values`."""
        return self._table.values(boards)

    def action_values(self, boards: Boards) -> Float64Array:
        """See :meth:`Solution.action_values`."""
        return self._table.action_values(boards)

    def unfinished_action_values(self, boards: Boards) -> Float64Array:
        """See :meth:`Solution.unfinished_action_values`."""
        return self.action_values(boards)

    def distance(self, boards: Boards) -> Int64Array:
        """See :meth:`Solution.distance`."""
        return self._table.distances(boards)


_alive: WeakValueDictionary[Game, Solution] = WeakValueDictionary()
_latest: deque[Solution] = deque(maxlen=8)
"""keeps recent small tables alive, because they are not cached on disk"""


def solve(
    game: Game,
    *,
    cache: bool = True,
    memory: int | None = None,
    progress: Progress | None = None,
    threads: Threads = 1,
) -> Solution:
    """Return the exact values of all positions of a game.

    A table of more than 4 MiB is cached in the user's cache directory, or in the folder ``TTT_ENVS_CACHE``, checked by
    its hash, and memory-mapped when read. The cache takes at most ``TTT_ENVS_CACHE_BYTES`` (4 GiB); 0 disables it.
    Above 16 cells the table is a folder of layers: 3 GB for 4 x 5 with skips. An interrupted build is resumed by the
    next process. Without the cache, the layers are kept in memory.

    Args:
        game: up to 21 cells, with any skip chance; with gravity up to 6 x 5 or 5 x 6.
        cache: whether to read and store the table on disk.
        memory: maximum memory in bytes above 16 cells; None for all free memory.
        progress: called with the fraction done.
        threads: number of threads, see :mod:`ttt_envs.core.threads`; the result does not depend on it.

    Raises:
        MemoryError: memory is too small.
        ValueError: the board is larger, disk space is too small, or the number of threads is invalid.
    """
    check_size(game)
    threads = count_threads(threads)
    found = _alive.get(game) if cache else None
    if found is None:
        if game.cells > MAX_SOLVER_CELLS:
            found = LayeredSolution(_layers(game, cache, memory, progress, threads))
        else:
            found = Solution(game, _table(game, 1.0, cache, progress, threads), cache)
            if cache and found.after.nbytes < MIN_CACHED_BYTES:
                _latest.append(found)
        if cache:
            _alive[game] = found
    return found


def check_size(game: Game) -> None:
    """Raise ValueError for a board too large for :func:`solve`."""
    if game.gravity and game.cells > MAX_SOLVER_CELLS:
        check_columns(game)
    elif game.cells > MAX_LAYERED_CELLS:
        needed = 16 * 3**game.cells
        size = f"{needed:,}" if needed < 10**15 else f"{needed:.1e}"
        raise ValueError(
            f"a board of {game.rows} x {game.columns} is too large to solve: its table of 2 x 3**{game.cells} values "
            f"would take {size} bytes, and boards up to {MAX_LAYERED_CELLS} cells are solved. Without skips, "
            f"evaluate.py prove may find the winner on a larger board"
        )


def is_stored(game: Game) -> bool:
    """Return whether the layers of a game of 17 cells or more are in the disk cache, where :func:`solve` reads them."""
    return retrograde.is_finished(game, CachedArray(*_cache_entry(game)).path.with_suffix(""))


def _cache_entry(game: Game) -> tuple[str, dict[str, Any], str]:
    return f"layers-{game.slug}", {"format": retrograde.FORMAT, "game": game.to_dict()}, retrograde.MADE_BY


def _layers(
    game: Game, cache: bool, memory: int | None, progress: Progress | None, threads: int
) -> retrograde.LayeredTable:
    """Return the layers of a game, in a cache folder if the limit allows it, else in memory."""
    layers = make_layers(game, threads=threads)
    folder, size = None, layers.estimate().disk
    if not (cache and is_stored(game)):  # check before evicting others
        check_memory(layers, folder=cache and size <= max_cache_bytes(), memory=memory)
    if cache:
        folder = make_cached_folder(*_cache_entry(game), size)
    while True:
        try:
            return retrograde.build(game, folder, memory=memory, progress=progress, threads=threads, layers=layers)
        except retrograde.FolderLockedError:  # another process is building; its layers will be read
            time.sleep(1.0)


# ---------------------------------------------------------------------------------------------------------------------
# The sweep


def _table(game: Game, discount: float, cache: bool, progress: Progress | None, threads: int = 1) -> Float64Array:
    """Return ``after`` with results multiplied by ``discount`` at every ply, read-only."""
    name = f"solution-{game.rows}x{game.columns}-{game.win_length}-skip{game.skip_chance:g}"
    content = {"format": FORMAT, "game": game.to_dict(), "discount": discount}
    after = load_or_compute(
        CachedArray(name, content, MADE_BY) if cache else None,
        (2, 3**game.cells),
        lambda: sweep(game, discount=discount, progress=progress, threads=threads),
        lambda after: is_consistent(game, after, discount),
    )
    if progress is not None:
        progress(1.0)
    return after


def load_or_compute(
    cached: CachedArray | None,
    shape: tuple[int, ...],
    compute: Callable[[], Float64Array],
    is_valid: Callable[[Float64Array], bool] = lambda array: True,
) -> Float64Array:
    """Return an array float64[shape], read-only: computed, or above 4 MiB loaded from the disk cache.

    A cached array that is not valid is recomputed.
    """
    if 8 * math.prod(shape) < MIN_CACHED_BYTES:
        cached = None
    array = None if cached is None else cached.read(shape, np.float64)
    if array is None or not is_valid(array):
        array = compute()
        if cached is not None and cached.write(array):
            stored = cached.read(shape, np.float64)  # its memory is shared with other processes
            array = array if stored is None else stored
    array.flags.writeable = False
    return array


def is_consistent(game: Game, after: Float64Array, discount: float = 1.0) -> bool:
    """Return whether a sample of entries is consistent with their successors: the empty board and random others.

    Args:
        game: the game of the table.
        after: float64[2, 3**cells], as in :class:`Solution`.
        discount: factor applied to a result at every ply.
    """
    rng = np.random.default_rng(0)
    skip, powers = game.skip_chance, 3 ** np.arange(game.cells)
    cells = rng.integers(1, 3, (NUM_CHECKED_ENTRIES, game.cells), np.int8)
    cells[rng.random(cells.shape) < rng.random((NUM_CHECKED_ENTRIES, 1))] = 0
    cells[0] = 0
    for board in cells:
        key = int(board @ powers)
        if rules.terminal_outcome(board, game.parameters) != NOT_OVER or not rules.legal(game, board).any():
            continue  # with gravity, a stone in the air may leave no legal cell
        best = [-math.inf, -math.inf]
        for mover, sign in ((0, 1.0), (1, -1.0)):
            for cell in np.flatnonzero(rules.legal(game, board)):
                value = float(after[mover, key + (mover + 1) * powers[cell]])
                board[cell] = mover + 1
                outcome = rules.terminal_outcome(board, game.parameters)
                board[cell] = 0
                if outcome != NOT_OVER and value != (0.0 if outcome == DRAW else 1.0 - 2.0 * outcome):
                    return False
                best[mover] = max(best[mover], sign * value)
        for mover, (own, other) in enumerate(((best[0], -best[1]), (-best[1], best[0]))):
            if not abs(after[mover, key] - discount * values_over_skip(own, other, skip)) <= 1e-12:
                return False
    return True


def sweep(
    game: Game,
    *,
    discount: float = 1.0,
    average: bool = False,
    progress: Progress | None = None,
    threads: Threads = 1,
) -> Float64Array:
    """Compute the values of all afterstates, for player_0: float64[2, 3**cells], as in :class:`Solution`.

    Args:
        game: up to 16 cells.
        discount: factor applied to a result at every ply.
        average: whether both players move uniformly at random; else they play optimally.
        progress: called with the fraction done.
        threads: number of threads; the result does not depend on it.
    """
    low = min(NUM_LOW_CELLS, game.cells)
    after = np.empty((2, 3**game.cells))
    low_bits, high_bits = _stone_bits(game, 0, low), _stone_bits(game, low, game.cells)
    plan = _SweepPlan(low_bits, high_bits, low, game.cells - low, discount, average, game.parameters)
    count, done = 3 ** (game.cells - low), 0
    threads = 1 if game.cells < MIN_CELLS_IN_THREADS else count_threads(threads)
    for parts in _independent_parts(game.cells - low):
        map_threads(lambda _, blocks: _sweep_blocks(blocks, plan, after), parts, min(threads, len(parts)))
        done += sum(map(len, parts))
        if progress is not None:
            progress(done / count)
    return after


def _independent_parts(num_high: int) -> Iterator[list[Int64Array]]:
    """Yield lists of parts of the blocks that do not depend on each other, each in the order of its computation.

    The blocks of a part agree on the last cells. A block depends on those with one more stone on a high cell: of its
    own part, or of one with one more stone on the last cells. So those with most stones there come first. Within a
    part, the blocks run from the last to the first, in which order most of what they read is still in a core's cache.
    """
    num_last = max(0, min(MAX_LAST_CELLS, num_high - MIN_CELLS_IN_PART))
    size = 3 ** (num_high - num_last)
    contents = itertools.product(range(3), repeat=num_last)
    stones = np.array([np.count_nonzero(content) for content in contents])
    for number in range(num_last, -1, -1):
        parts = np.flatnonzero(stones == number)[::-1]
        yield [np.arange((part + 1) * size - 1, part * size - 1, -1) for part in parts]


class _SweepPlan(NamedTuple):
    """The constants of a sweep."""

    low_bits: Int64Array
    """int64[2, 3**low]: bits of both players' stones for all contents of the low cells"""
    high_bits: Int64Array
    """int64[2, 3**high]: the same for the high cells"""
    num_low: int
    """number of low cells"""
    num_high: int
    """number of high cells"""
    discount: float
    average: bool
    parameters: Parameters


def _stone_bits(game: Game, start: int, stop: int) -> Int64Array:
    """Return int64[2, 3**(stop - start)]: bits of both players' stones for all contents of the cells in the range."""
    cells = np.arange(3 ** (stop - start))
    bits = np.zeros((2, len(cells)), np.int64)
    for cell in range(start, stop):
        bit = 1 << cell
        bits[0] |= np.where(cells % 3 == 1, bit, 0)
        bits[1] |= np.where(cells % 3 == 2, bit, 0)
        cells //= 3
    return bits


@compiled_nogil_small_allocating
def _sweep_blocks(blocks: Int64Array, plan: _SweepPlan, after: Float64Array) -> None:
    """Compute blocks int64[N] in this order; all those with one more stone must be done.

    A stone on a high cell leads to the same place in another block. That maximum, or sum, runs over whole blocks and is
    vectorised, and so is the search for lines. Only stones on the few low cells are followed one by one.
    """
    low_bits, high_bits, num_low, num_high, _, average, parameters = plan
    block = low_bits.shape[1]
    first = np.empty(block)  # maximum over player_0's moves, or their sum; `second` likewise for player_1
    second = np.empty(block)
    lines = np.empty(block, np.int64)
    free, steps = _free_cells(block)
    falls = opened_cell(num_low + num_high - 1, parameters) >= 0
    for high in blocks:
        legal = int64(-1)
        if falls:
            taken = high_bits[0, high] | high_bits[1, high]
            legal = legal_bits(taken, int64(0), parameters)
            for i in range(block):
                _list_legal_steps(i, taken | low_bits[0, i] | low_bits[1, i], num_low, parameters, free, steps)
        open_high = _best_of_high_moves(high, num_high, average, legal >> num_low, after, first, second)
        for i in range(block):
            won = line_in(high_bits[0, high] | low_bits[0, i], parameters)
            lost = line_in(high_bits[1, high] | low_bits[1, i], parameters)
            lines[i] = int64(won) + 2 * int64(lost)
        by_first = after[0, high * block : (high + 1) * block]
        by_second = after[1, high * block : (high + 1) * block]
        _sweep_block((first, second), lines, open_high, (free, steps), plan, (by_first, by_second))


@inlined_allocating
def _free_cells(block: int) -> tuple[Int64Array, Int64Array]:
    """Return the number of empty low cells, int64[block], and the key increments of player_0's stones there."""
    free, steps = np.zeros(block, np.int64), np.empty((block, NUM_LOW_CELLS), np.int64)
    for i in range(block):
        step = 1
        while step < block:
            if i // step % 3 == 0:
                steps[i, free[i]] = step
                free[i] += 1
            step *= 3
    return free, steps


@inlined
def _list_legal_steps(
    i: int, taken: int, num_low: int, parameters: Parameters, free: Int64Array, steps: Int64Array
) -> None:
    """Do :func:`_free_cells` for one board, with the stones ``taken``, where stones fall."""
    legal = legal_bits(taken, int64(0), parameters)
    free[i], step = 0, 1
    for cell in range(num_low):
        if legal >> cell & 1:
            steps[i, free[i]] = step
            free[i] += 1
        step *= 3


@inlined
def _best_of_high_moves(
    high: int, count: int, average: bool, legal: int, after: Float64Array, first: Float64Array, second: Float64Array
) -> int:
    """Write the maximum or sum over stones on ``count`` high cells into ``first`` and ``second``; return the number.

    Only empty cells of the set ``legal`` are played.
    """
    block = len(first)
    base = high * block
    first[:] = 0.0 if average else -2.0
    second[:] = 0.0 if average else 2.0
    step = 1
    free = 0
    for cell in range(count):
        if high // step % 3 == 0 and legal >> cell & 1:
            free += 1
            of_first = after[0, base + step * block : base + (step + 1) * block]
            of_second = after[1, base + 2 * step * block : base + (2 * step + 1) * block]
            if average:
                for i in range(block):
                    first[i] += of_first[i]
                    second[i] += of_second[i]
            else:
                for i in range(block):
                    first[i] = of_first[i] if of_first[i] > first[i] else first[i]
                for i in range(block):
                    second[i] = of_second[i] if of_second[i] < second[i] else second[i]
        step *= 3
    return free


@inlined
def _sweep_block(
    best_high: tuple[Float64Array, Float64Array],
    lines: Int64Array,
    open_high: int,
    low_moves: tuple[Int64Array, Int64Array],
    plan: _SweepPlan,
    out: tuple[Float64Array, Float64Array],
) -> None:
    """Compute the values of a block, by last player, from the results for high cells and stones on low cells."""
    first, second = best_high
    free, steps = low_moves
    by_first, by_second = out
    discount, average, skip = plan.discount, plan.average, skip_chance_of(plan.parameters)
    line_value = 1.0 * line_result(plan.parameters)
    for i in range(len(first) - 1, -1, -1):
        if lines[i] != 0 or open_high + free[i] == 0:
            # one line: a win, in misère a loss; none on a full board: a draw; two cannot occur
            value = line_value if lines[i] == 1 else (-line_value if lines[i] == 2 else 0.0)
            by_first[i] = value
            by_second[i] = value
            continue
        best = first[i]
        worst = second[i]
        if average:
            for j in range(free[i]):
                step = steps[i, j]
                best += by_first[i + step]
                worst += by_second[i + 2 * step]
            best /= open_high + free[i]
            worst /= open_high + free[i]
        else:
            for j in range(free[i]):
                step = steps[i, j]
                best = max(best, by_first[i + step])
                worst = min(worst, by_second[i + 2 * step])
        by_first[i] = discount * value_over_skip(best, worst, skip)
        by_second[i] = discount * value_over_skip(worst, best, skip)


# ---------------------------------------------------------------------------------------------------------------------
# Table lookup


@inlined
def table_key(cells: Int8Array) -> int:
    """Return the base-3 key of a board of up to 16 cells."""
    key = 0
    for cell in range(len(cells) - 1, -1, -1):
        key = key * 3 + int64(cells[cell])
    return key


@inlined
def _best_value(cells: Int8Array, key: int, mover: int, after: Float64Array, parameters: Parameters) -> float:
    """Return the value of the best move for the mover, on a board that is not full."""
    best = -2.0
    step = (mover + 1) * int64(1)
    sign = 1.0 - 2.0 * mover
    for cell in range(len(cells)):
        if is_legal(cells, cell, parameters):
            best = max(best, sign * after[mover, key + step])
        step *= 3
    return best


@compiled
def _values(cells: Int8Array, mover: Int8Array, after: Float64Array, parameters: Parameters, out: Float64Array) -> None:
    for b in range(len(cells)):
        player = int64(mover[b])
        if terminal_outcome_in_bits(cells[b], parameters) == NOT_OVER:
            out[b] = _best_value(cells[b], table_key(cells[b]), player, after, parameters)
        else:  # results do not depend on chance: both entries are equal
            out[b] = (1.0 - 2.0 * player) * after[0, table_key(cells[b])]


@compiled
def _action_values(
    cells: Int8Array, mover: Int8Array, after: Float64Array, parameters: Parameters, out: Float64Array
) -> None:
    for b in range(len(cells)):
        player = int64(mover[b])
        key = table_key(cells[b])
        step = player + 1
        for cell in range(cells.shape[1]):
            legal = is_legal(cells[b], cell, parameters)
            out[b, cell] = (1.0 - 2.0 * player) * after[player, key + step] if legal else np.nan
            step *= 3


@compiled
def _clear_finished(cells: Int8Array, parameters: Parameters, out: Float64Array) -> None:
    """Write NaN for boards that are over."""
    for b in range(len(cells)):
        if terminal_outcome_in_bits(cells[b], parameters) != NOT_OVER:
            for cell in range(cells.shape[1]):
                out[b, cell] = np.nan


@compiled
def _optimal(
    cells: Int8Array, mover: Int8Array, after: Float64Array, epsilon: float, parameters: Parameters, out: Float64Array
) -> None:
    """Write equal shares for the best moves, mixed with equal shares for all, on boards that are not finished."""
    for b in range(len(cells)):
        player = int64(mover[b])
        sign = 1.0 - 2.0 * player
        key = table_key(cells[b])
        least = _best_value(cells[b], key, player, after, parameters) - VALUE_TOLERANCE
        optimal = 0
        legal = 0
        step = player + 1
        for cell in range(cells.shape[1]):
            out[b, cell] = 0.0
            if is_legal(cells[b], cell, parameters):
                legal += 1
                if sign * after[player, key + step] >= least:
                    optimal += 1
                    out[b, cell] = 1.0
            step *= 3
        for cell in range(cells.shape[1]):
            if is_legal(cells[b], cell, parameters):
                out[b, cell] = (1.0 - epsilon) * out[b, cell] / optimal + epsilon / legal


# ---------------------------------------------------------------------------------------------------------------------
# Perfect play


def is_searched(game: Game) -> bool:
    """Return whether positions are solved by a search for each, as Connect Four on boards of more than 16 cells."""
    return game.cells > MAX_SOLVER_CELLS and is_solvable(game)


@dataclass(frozen=True)
class Optimal(Named):
    """Perfect play, including skips: equal shares for all optimal moves; with probability epsilon any legal move.

    Connect Four without skips on more than 16 cells has no table: each position is searched, which takes seconds to
    minutes for the first moves of 6 x 7. ``book:path=FILE,then=optimal`` takes these from a file.

    Raises:
        ValueError: epsilon is outside 0 to 1, the game is too large to solve, or the database does not solve it.
    """

    name: ClassVar[str] = "optimal"
    pure: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True
    colour_blind: ClassVar[bool] = True

    game: Game
    epsilon: float = 0.0
    """probability of a random move, 0 to 1; controls the playing strength"""
    database: str | None = None
    """a folder built by evaluate.py database build for the whole game, used instead of solving"""

    def __post_init__(self) -> None:
        if self.database is None:
            if not is_searched(self.game):
                check_size(self.game)
        else:
            self.solution  # noqa: B018  # raises errors early
        if not 0 <= self.epsilon <= 1:
            raise ValueError(f"epsilon={self.epsilon} is no probability of a random move: choose 0 (perfect) to 1")

    @cached_property
    def solution(self) -> Solution | SearchedSolution:
        """The solution, computed on first access.

        Raises:
            ValueError: the database does not begin at the empty board.
        """
        if self.database is None:
            return shared_solution(self.game) if is_searched(self.game) else solve(self.game)
        table = retrograde.open_table(self.game, Path(self.database))
        if table.stones > 0:
            raise ValueError(
                f"database={self.database} begins at {table.stones} stones, and optimal plays from the empty board: "
                f"build the rest by evaluate.py database build --stones 0, or give it to a search as endgame="
            )
        return LayeredSolution(table)

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, rows * columns]."""
        if isinstance(self.solution, LayeredSolution | SearchedSolution):
            best, legal = self.solution.optimal_actions(boards), boards.legal(self.game)
            shares = (chosen / chosen.sum(axis=1, keepdims=True) for chosen in (best, legal))
            return np.asarray((1 - self.epsilon) * next(shares) + self.epsilon * next(shares))
        out = np.empty(boards.cells.shape)
        cells = np.ascontiguousarray(boards.cells)
        _optimal(cells, boards.mover, self.solution.after, self.epsilon, self.game.parameters, out)
        return out

    def values(self, boards: Boards) -> Float64Array:
        """Return the values under perfect play, float64[B], for the mover."""
        return self.solution.values(boards)

    def action_values(self, boards: Boards) -> Float64Array:
        """Return action values under perfect play, float64[B, rows * columns], for the mover, NaN where illegal."""
        return self.solution.action_values(boards)

    def __reduce__(self) -> tuple[Any, ...]:
        return Optimal, (self.game, self.epsilon, self.database)  # without the table: each process loads it itself
