"""Exact values of every position, by backward induction over the whole game, skips included; and perfect play.

A move leads to an *afterstate*: a stone more, and chance has yet to say who moves. The solver keeps the value of every
afterstate, ``after[m, b]``: the expected result to player_0, from -1 to 1, once player m has made board b. Then a move
is worth what stands in one entry, and the best of them is the value of a position. Boards are numbered by their base-3
keys; a stone only ever increases the key, so one sweep from the highest key to the lowest meets every board after all
that can follow it (Bellman, 1957; retrograde analysis in the tongue of game programs).

Boards of 17 to 21 cells have too many boards for such a table, and are solved by layers: :mod:`baselines.layered`.
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from baselines import layered
from baselines.layered.counting import count_by_sets
from baselines.reachable import Counts, count
from ttt_envs import bits, rules
from ttt_envs.bits import line_in
from ttt_envs.boards import Boards
from ttt_envs.compiling import (
    Cells,
    Integers,
    Parameters,
    Reals,
    compiled,
    compiled_allocating,
    inlined,
    inlined_allocating,
    wide,
)
from ttt_envs.kept import Kept, kept_folder, limit, source_of
from ttt_envs.policy import TIE
from ttt_envs.rules import DRAW, NOT_OVER, Game, is_legal, skip_chance_of, standing_in_bits
from ttt_envs.specs import Named

LARGEST = 16
"""cells up to which all boards have their place in one table"""
LARGEST_BY_LAYERS = layered.LARGEST
"""cells up to which a game is solved"""
FORMAT = 1
"""version of a stored table"""
MADE_BY = source_of(bits, rules, sys.modules[__name__])
LOOKED_AT = 300
"""entries of a table from disk that are compared with those after them"""
SMALLEST_KEPT = 1 << 22
"""bytes from which a table is kept on disk; a smaller one is made faster than it is read"""
LOW = 5
"""cells in a block of boards, which the sweep works on at once"""

Progress = Callable[[float], None]
"""called with the share of the work that is done, 0 to 1"""


class Solution:
    """The exact values of all positions of a game, made by :func:`solve`."""

    _tie = TIE
    """moves that are so near to the best are as good"""

    def __init__(self, game: Game, after: Reals, cache: bool) -> None:
        self.game = game
        self.after = after
        """float64[2, 3**cells], read-only: the value to player_0 of board b (second index, by base-3 key) made by
        player m (first index), before chance says who moves next"""
        self._cache = cache
        self.value = float(self.values(Boards.start(game))[0])
        """of the empty board, to player_0"""

    def values(self, boards: Boards) -> Reals:
        """The expected result of best play by both, to the mover: float64[B] from -1 to 1.

        A finished board has the result that stands on it.
        """
        out = np.empty(len(boards.mover))
        _values(np.ascontiguousarray(boards.cells), boards.mover, self.after, self.game.parameters, out)
        return out

    def action_values(self, boards: Boards) -> Reals:
        """What each move is worth to the mover: float64[B, rows * columns], NaN where illegal."""
        out = np.empty(boards.cells.shape)
        _action_values(np.ascontiguousarray(boards.cells), boards.mover, self.after, self.game.parameters, out)
        return out

    def optimal_actions(self, boards: Boards) -> NDArray[np.bool_]:
        """bool[B, rows * columns]: the moves within 1e-9 of the best; above 16 cells see :class:`LayeredSolution`."""
        values = self.action_values(boards)
        best = np.max(values, axis=1, initial=-np.inf, where=~np.isnan(values), keepdims=True)
        optimal: NDArray[np.bool_] = values >= best - self._tie
        return optimal

    def distance(self, boards: Boards) -> Integers:
        """Plies to the end under best play, int64[B]: the winner is as fast, the loser as slow as can be.

        A drawn position ends with the full board, a finished one is at 0.

        Raises:
            ValueError: the game has skips, and then no player knows how long it takes.
        """
        layered.check_distance(self.game)
        cells = np.ascontiguousarray(boards.cells)
        speed = np.empty(len(cells))
        _values(cells, boards.mover, self._halved, self.game.parameters, speed)
        plies = np.count_nonzero(cells == 0, axis=1).astype(np.int64)
        plies[speed != 0] = 1 - np.log2(np.abs(speed[speed != 0])).astype(np.int64)
        over = [rules.standing(board, self.game.parameters) != NOT_OVER for board in cells]
        return np.where(over, 0, plies)

    @cached_property
    def _halved(self) -> Reals:
        """Of a game whose result counts half as much with every ply: 2**-d takes d + 1 plies."""
        return _table(self.game, 0.5, self._cache, None)

    @cached_property
    def counts(self) -> Counts:
        """How many positions there are, counted when first asked."""
        return count(self.game)

    def __repr__(self) -> str:
        return f"Solution({self.game}, value={self.value})"


class LayeredSolution(Solution):
    """The same by layers, as of a board of 17 to 21 cells: it has no table ``after`` of all boards.

    With skips values are float32 and rounded once a layer, so that they may be 7e-7 from the exact ones; moves that are
    twice as near to the best count as optimal. Without skips they are exact, but only positions of alternate play have
    one, and others are refused.
    """

    def __init__(self, table: layered.LayeredTable) -> None:
        self.game = table.game
        self._table = table
        self._tie = TIE + 2 * table.error
        self.value = float(self.values(Boards.start(self.game))[0])

    def values(self, boards: Boards) -> Reals:
        """As :meth:`Solution.values`."""
        return self._table.values(boards)

    def action_values(self, boards: Boards) -> Reals:
        """As :meth:`Solution.action_values`."""
        return self._table.action_values(boards)

    def distance(self, boards: Boards) -> Integers:
        """As :meth:`Solution.distance`."""
        return self._table.distances(boards)

    @cached_property
    def counts(self) -> Counts:
        """How many positions there are, counted when first asked; not how many games."""
        return count_by_sets(self.game)


_alive: WeakValueDictionary[Game, Solution] = WeakValueDictionary()
_latest: deque[Solution] = deque(maxlen=8)
"""small tables, which are not kept on disk, outlive a pause between two that ask for them"""


def solve(game: Game, *, cache: bool = True, memory: int | None = None, progress: Progress | None = None) -> Solution:
    """The exact values of all positions of a game.

    A table of more than 4 MiB is kept in the user's cache directory, or in the folder that ``TTT_ENVS_CACHE`` names,
    checked by its hash, and read back memory-mapped; all of them take at most ``TTT_ENVS_CACHE_BYTES`` (4 GiB), and
    with 0 nothing is kept. Above 16 cells it is a folder of layers: 3 GB for 4 x 5 with skips, which a process that
    was killed leaves for the next to finish; where it is not kept, it takes memory instead.

    Args:
        game: up to 21 cells, with any skip chance.
        cache: read and keep the table on disk.
        memory: bytes that may be used above 16 cells; None for what is free.
        progress: called with the share that is done.

    Raises:
        ValueError: a larger board; too little memory or disk.
    """
    check_size(game)
    found = _alive.get(game) if cache else None
    if found is None:
        if game.cells > LARGEST:
            found = LayeredSolution(_layers(game, cache, memory, progress))
        else:
            found = Solution(game, _table(game, 1.0, cache, progress), cache)
            if cache and found.after.nbytes < SMALLEST_KEPT:
                _latest.append(found)
        if cache:
            _alive[game] = found
    return found


def check_size(game: Game) -> None:
    """Raise ValueError for a board that :func:`solve` cannot tabulate."""
    if game.cells > LARGEST_BY_LAYERS:
        needed = 16 * 3**game.cells
        size = f"{needed:,}" if needed < 10**15 else f"{needed:.1e}"
        raise ValueError(
            f"a board of {game.rows} x {game.columns} is too large to solve: its table of 2 x 3**{game.cells} values "
            f"would take {size} bytes, and boards up to {LARGEST_BY_LAYERS} cells are solved. Who wins a larger one "
            f"without skips, evaluate.py prove may tell"
        )


def _layers(game: Game, cache: bool, memory: int | None, progress: Progress | None) -> layered.LayeredTable:
    """The layers of a game, in a folder where so much is kept, else in memory."""
    folder, size = None, layered.estimate(game).disk
    place = f"layers-{game.slug}", {"format": layered.FORMAT, "game": game.to_dict()}, layered.MADE_BY
    if not (cache and layered.is_finished(game, Kept(*place).path.with_suffix(""))):  # before others make room for it
        layered.check_memory(game, folder=cache and size <= limit(), memory=memory)
    if cache:
        folder = kept_folder(*place, size)
    while True:
        try:
            return layered.build(game, folder, memory=memory, progress=progress)
        except layered.InUse:  # its layers will be read
            time.sleep(1.0)


# ---------------------------------------------------------------------------------------------------------------------
# The sweep


def _table(game: Game, discount: float, cache: bool, progress: Progress | None) -> Reals:
    """``after`` of a game whose result is multiplied by ``discount`` with every ply, read-only."""
    kept = None
    if cache:
        kept = Kept(
            f"solution-{game.rows}x{game.columns}-{game.win_length}-skip{game.skip_chance:g}",
            {"format": FORMAT, "game": game.to_dict(), "discount": discount},
            MADE_BY,
        )
    after = kept_or_made(
        kept,
        (2, 3**game.cells),
        lambda: sweep(game, discount=discount, progress=progress),
        lambda after: follows(game, after, discount),
    )
    if progress is not None:
        progress(1.0)
    return after


def kept_or_made(
    kept: Kept | None,
    shape: tuple[int, ...],
    make: Callable[[], Reals],
    holds: Callable[[Reals], bool] = lambda found: True,
) -> Reals:
    """An array float64[shape], read-only: of 4 MiB or more it is read from its place on disk, or made and put there.

    What is read and does not hold is made anew.
    """
    if kept is None or 8 * math.prod(shape) < SMALLEST_KEPT:
        found = make()
    else:
        read = kept.read(shape, np.float64)
        if read is None or not holds(read):
            found = make()
            # from here on other processes share its memory
            read = kept.read(shape, np.float64) if kept.write(found) else None
        if read is not None:
            found = read
    found.flags.writeable = False
    return found


def follows(game: Game, after: Reals, discount: float = 1.0) -> bool:
    """Whether some entries of a table are what those after them say: the empty board's, and :data:`LOOKED_AT` others.

    Args:
        game: whose table.
        after: float64[2, 3**cells], as :class:`Solution` keeps it.
        discount: what a result is multiplied by with every ply.
    """
    rng = np.random.default_rng(0)
    skip, powers = game.skip_chance, 3 ** np.arange(game.cells)
    cells = rng.integers(1, 3, (LOOKED_AT, game.cells), np.int8)
    cells[rng.random(cells.shape) < rng.random((LOOKED_AT, 1))] = 0
    cells[0] = 0
    for board in cells:
        key = int(board @ powers)
        if rules.standing(board, game.parameters) != NOT_OVER:
            continue
        best = [-math.inf, -math.inf]
        for mover, sign in ((0, 1.0), (1, -1.0)):
            for cell in np.flatnonzero(rules.legal(game, board)):
                value = float(after[mover, key + (mover + 1) * powers[cell]])
                board[cell] = mover + 1
                outcome = rules.standing(board, game.parameters)
                board[cell] = 0
                if outcome != NOT_OVER and value != (0.0 if outcome == DRAW else sign):
                    return False
                best[mover] = max(best[mover], sign * value)
        for mover, (own, other) in enumerate(((best[0], -best[1]), (-best[1], best[0]))):
            if not abs(after[mover, key] - discount * (skip * own + (1 - skip) * other)) <= 1e-12:
                return False
    return True


def sweep(game: Game, *, discount: float = 1.0, average: bool = False, progress: Progress | None = None) -> Reals:
    """The values of all afterstates, to player_0: float64[2, 3**cells], as :class:`Solution` keeps them.

    Args:
        game: up to 16 cells.
        discount: what a result is multiplied by with every ply.
        average: both players move at random; else they move at their best.
        progress: called with the share that is done.
    """
    size = game.cells
    low = min(LOW, size)
    after = np.empty((2, 3**size))
    low_bits, high_bits = _bits(game, 0, low), _bits(game, low, size)
    blocks = high_bits.shape[1]
    stretch = max(1, blocks // 100) if size > 12 else blocks  # so that progress is seen and an interrupt is heard
    for stop in range(blocks, 0, -stretch):
        start = max(0, stop - stretch)
        _sweep_blocks(start, stop, size, low, low_bits, high_bits, discount, average, game.parameters, after)
        if progress is not None:
            progress(1 - start / blocks)
    return after


def _bits(game: Game, start: int, stop: int) -> Integers:
    """int64[2, 3**(stop - start)]: the bits of player_0's and player_1's stones for all contents of some cells."""
    cells = np.arange(3 ** (stop - start))
    bits = np.zeros((2, len(cells)), np.int64)
    for cell in range(start, stop):
        bit = 1 << cell
        bits[0] |= np.where(cells % 3 == 1, bit, 0)
        bits[1] |= np.where(cells % 3 == 2, bit, 0)
        cells //= 3
    return bits


@compiled_allocating
def _sweep_blocks(
    start: int,
    stop: int,
    size: int,
    low: int,
    low_bits: Integers,
    high_bits: Integers,
    discount: float,
    average: bool,
    parameters: Parameters,
    after: Reals,
) -> None:
    """Blocks ``stop - 1`` down to ``start``; all blocks above are done.

    A stone on a high cell leads to the same place in another block: that maximum, or sum, runs over whole blocks, which
    the compiler vectorises, as it does the search for lines. Only stones on the few low cells are followed one by one.
    """
    block = 3**low
    first = np.empty(block)  # the best of player_0's moves, or their sum, then of player_1's
    second = np.empty(block)
    lines = np.empty(block, np.int64)
    free, steps = _free_cells(low)
    for high in range(stop - 1, start - 1, -1):
        open_high = _follow_high(high, size - low, average, after, first, second)
        for i in range(block):
            won = line_in(high_bits[0, high] | low_bits[0, i], parameters)
            lost = line_in(high_bits[1, high] | low_bits[1, i], parameters)
            lines[i] = wide(won) + 2 * wide(lost)
        by_first = after[0, high * block : (high + 1) * block]
        by_second = after[1, high * block : (high + 1) * block]
        _follow_low(first, second, lines, open_high, free, steps, discount, average, parameters, by_first, by_second)


@inlined_allocating
def _free_cells(low: int) -> tuple[Integers, Integers]:
    """int64[3**low], how many low cells are empty; int64[3**low, low], what a stone of player_0 there adds to a key."""
    block = 3**low
    free, steps = np.zeros(block, np.int64), np.empty((block, low), np.int64)
    for i in range(block):
        step = 1
        for _ in range(low):
            if i // step % 3 == 0:
                steps[i, free[i]] = step
                free[i] += 1
            step *= 3
    return free, steps


@inlined
def _follow_high(high: int, count: int, average: bool, after: Reals, first: Reals, second: Reals) -> int:
    """What stones on ``count`` high cells lead to, the best or the sum, into ``first`` and ``second``; how many."""
    block = len(first)
    base = high * block
    first[:] = 0.0 if average else -2.0
    second[:] = 0.0 if average else 2.0
    step = 1
    free = 0
    for _ in range(count):
        if high // step % 3 == 0:
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
def _follow_low(
    first: Reals,
    second: Reals,
    lines: Integers,
    open_high: int,
    free: Integers,
    steps: Integers,
    discount: float,
    average: bool,
    parameters: Parameters,
    by_first: Reals,
    by_second: Reals,
) -> None:
    """The values of a block, by who has just moved, from what stones on high cells lead to, and stones on low ones."""
    skip = skip_chance_of(parameters)
    for i in range(len(first) - 1, -1, -1):
        if lines[i] != 0 or open_high + free[i] == 0:
            # one line: won; none on a full board: drawn; two cannot occur
            value = 1.0 if lines[i] == 1 else (-1.0 if lines[i] == 2 else 0.0)
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
        by_first[i] = discount * (skip * best + (1.0 - skip) * worst)
        by_second[i] = discount * (skip * worst + (1.0 - skip) * best)


# ---------------------------------------------------------------------------------------------------------------------
# Reading the table


@inlined
def table_key(cells: Cells) -> int:
    """The base-3 key of a board of few cells."""
    key = 0
    for cell in range(len(cells) - 1, -1, -1):
        key = key * 3 + wide(cells[cell])
    return key


@inlined
def _best(cells: Cells, key: int, mover: int, after: Reals, parameters: Parameters) -> float:
    """The value of the best move to the mover, on a board that is not full."""
    best = -2.0
    step = (mover + 1) * wide(1)
    sign = 1.0 - 2.0 * mover
    for cell in range(len(cells)):
        if is_legal(cells, cell, parameters):
            best = max(best, sign * after[mover, key + step])
        step *= 3
    return best


@compiled
def _values(cells: Cells, mover: Cells, after: Reals, parameters: Parameters, out: Reals) -> None:
    for b in range(len(cells)):
        player = wide(mover[b])
        if standing_in_bits(cells[b], parameters) == NOT_OVER:
            out[b] = _best(cells[b], table_key(cells[b]), player, after, parameters)
        else:  # chance has no part in a result: both entries hold it
            out[b] = (1.0 - 2.0 * player) * after[0, table_key(cells[b])]


@compiled
def _action_values(cells: Cells, mover: Cells, after: Reals, parameters: Parameters, out: Reals) -> None:
    for b in range(len(cells)):
        player = wide(mover[b])
        over = standing_in_bits(cells[b], parameters) != NOT_OVER
        key = table_key(cells[b])
        step = player + 1
        for cell in range(cells.shape[1]):
            legal = is_legal(cells[b], cell, parameters) and not over
            out[b, cell] = (1.0 - 2.0 * player) * after[player, key + step] if legal else np.nan
            step *= 3


@compiled
def _optimal(cells: Cells, mover: Cells, after: Reals, epsilon: float, parameters: Parameters, out: Reals) -> None:
    """Equal shares for the best moves, mixed with equal shares for all, on boards that are not finished."""
    for b in range(len(cells)):
        player = wide(mover[b])
        sign = 1.0 - 2.0 * player
        key = table_key(cells[b])
        least = _best(cells[b], key, player, after, parameters) - TIE
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


@dataclass(frozen=True)
class Optimal(Named):
    """Perfect play, skips included: equal shares for all optimal moves; with probability epsilon any legal move."""

    name: ClassVar[str] = "optimal"
    pure: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True
    colour_blind: ClassVar[bool] = True

    game: Game
    epsilon: float = 0.0
    """probability of a random move, 0 to 1: a dial of strength"""
    database: str | None = None
    """a folder that evaluate.py database build has made of the whole game, which is then not solved"""

    def __post_init__(self) -> None:
        if self.database is None:
            check_size(self.game)
        else:
            self.solution  # noqa: B018  # what is wrong with it is told now
        if not 0 <= self.epsilon <= 1:
            raise ValueError(f"epsilon={self.epsilon} is no probability of a random move: choose 0 (perfect) to 1")

    @cached_property
    def solution(self) -> Solution:
        """What it plays by, solved when first asked."""
        if self.database is None:
            return solve(self.game)
        table = layered.open_table(self.game, Path(self.database))
        if table.stones > 0:
            raise ValueError(
                f"database={self.database} begins at {table.stones} stones, and optimal plays from the empty board: "
                f"build the rest by evaluate.py database build --stones 0, or give it to a search as endgame="
            )
        return LayeredSolution(table)

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B, rows * columns]."""
        if isinstance(self.solution, LayeredSolution):
            best, legal = self.solution.optimal_actions(boards), boards.legal(self.game)
            shares = (chosen / chosen.sum(axis=1, keepdims=True) for chosen in (best, legal))
            return np.asarray((1 - self.epsilon) * next(shares) + self.epsilon * next(shares))
        out = np.empty(boards.cells.shape)
        cells = np.ascontiguousarray(boards.cells)
        _optimal(cells, boards.mover, self.solution.after, self.epsilon, self.game.parameters, out)
        return out

    def values(self, boards: Boards) -> Reals:
        """Of perfect play, float64[B], to the mover."""
        return self.solution.values(boards)

    def action_values(self, boards: Boards) -> Reals:
        """Of perfect play after the move, float64[B, rows * columns], to the mover, NaN where illegal."""
        return self.solution.action_values(boards)

    def __reduce__(self) -> tuple[Any, ...]:
        return Optimal, (
            self.game,
            self.epsilon,
            self.database,
        )  # without its table, which every process finds for itself
