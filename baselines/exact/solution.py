"""Exact values of positions, from layers or by search; and the base of both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, lru_cache
from threading import Lock

import numpy as np

from baselines.connect_four.bitboards import to_bits as to_column_bits
from baselines.connect_four.solver import Solver
from baselines.exact.count import Counts, count_positions
from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array, compiled, int8, int64
from ttt_envs.game.bits import count_bits, to_bits
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.parameters import Parameters, has_gravity, line_sign
from ttt_envs.game.rules import DRAW, NOT_OVER, legal_bits, terminal_outcome_inline
from ttt_envs.graph.numbering import WON, Layer, Numbering, Values, rank


class Solution(ABC):
    """Exact values of positions under best play by both players.

    Attributes:
        game: the game.
        tie: tolerance within which moves count as equally good.
    """

    game: Game
    tie = VALUE_TOLERANCE

    @abstractmethod
    def values(self, boards: Boards) -> Float64Array:
        """Return the expected result for the mover: float64[B] from -1 to 1; of a finished board its result.

        Raises:
            ValueError: a position that is not in the solution.
        """

    @abstractmethod
    def action_values(self, boards: Boards) -> Float64Array:
        """Return the value of each move for the mover: float64[B, rows * columns], NaN where illegal.

        Raises:
            ValueError: a position that is not in the solution.
        """

    @abstractmethod
    def distance(self, boards: Boards) -> Int64Array:
        """Return the plies to the end under best play, int64[B]: winners minimise and losers maximise this distance.

        A drawn position ends with the full board; a finished one has distance 0.

        Raises:
            ValueError: the game has skips, so that the distance is random; or a position is not in the solution.
        """

    def optimal_actions(self, boards: Boards) -> BoolArray:
        """Return bool[B, rows * columns]: the moves within ``tie`` of the best."""
        values = self.action_values(boards)
        best = np.max(values, axis=1, initial=-np.inf, where=~np.isnan(values), keepdims=True)
        return np.asarray(values >= best - self.tie)

    @cached_property
    def value(self) -> float:
        """Value of the empty board for player_0."""
        return float(self.values(Boards.start(self.game))[0])

    @cached_property
    def counts(self) -> Counts:
        """Numbers of positions, computed on first access."""
        return count_positions(self.game)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.game})"


# ---------------------------------------------------------------------------------------------------------------------
# From layers


class LayeredSolution(Solution):
    """Values from layers, in memory or in a folder, of all positions from some number of stones on.

    Without skips, boards of more than 16 cells have the positions of alternating play only. There, and in folders,
    values with skips are float32, rounded once per layer; moves within twice this error of the best are equally good.

    Args:
        numbering: of the game.
        stones: number of stones of the first layer.
        dtype: of the layers.
        read: returns the values of a layer, read-only.
    """

    def __init__(self, numbering: Numbering, stones: int, dtype: np.dtype, read: Callable[[int], Values]) -> None:
        self.game, self.numbering, self.stones, self.dtype = numbering.game, numbering, stones, dtype
        self.error = (self.game.cells + 1) * 2.0**-25 if dtype == np.float32 else 0.0
        """maximum difference of a value from the exact one, apart from float64 rounding"""
        self.tie = VALUE_TOLERANCE + 2 * self.error
        self._read = read

    def layer(self, stones: int) -> Values:
        """Return W of the positions with ``stones`` stones, read-only, see :mod:`ttt_envs.graph.numbering`.

        Raises:
            ValueError: the layer is not in the solution, or its file is damaged.
        """
        if not self.stones <= stones <= self.game.cells:
            raise ValueError(
                f"{self} begins at {self.stones} stones, and a move to {stones} was looked up: build the layers from "
                f"{max(stones, 0)} stones on"
            )
        return self._read(stones)

    def values(self, boards: Boards) -> Float64Array:
        """See :meth:`Solution.values`; with a stone less than the first layer, too."""
        values = self._read_values(boards)[0]
        return np.sign(values) if self.game.skip_chance == 0 else values

    def action_values(self, boards: Boards) -> Float64Array:
        """See :meth:`Solution.action_values`; with a stone less than the first layer, too."""
        values = self._read_values(boards)[1]
        return np.sign(values) if self.game.skip_chance == 0 else values

    def distance(self, boards: Boards) -> Int64Array:
        """See :meth:`Solution.distance`."""
        check_distance(self.game)
        return _to_plies(self._read_values(boards)[0], np.count_nonzero(boards.cells == 0, axis=1))

    def action_distances(self, boards: Boards) -> Int64Array:
        """Return the plies to the end with each move, including it: int64[B, rows * columns], -1 where illegal."""
        check_distance(self.game)
        values = self._read_values(boards)[1]
        empty = np.count_nonzero(boards.cells == 0, axis=1, keepdims=True)
        return np.where(np.isnan(values), -1, _to_plies(np.nan_to_num(values), empty))

    def _read_values(self, boards: Boards) -> tuple[Float64Array, Float64Array]:
        """Return values and action values in the units of the layers, see :func:`_read_values`."""
        cells = np.ascontiguousarray(boards.cells)
        best, of_moves = np.empty(len(cells)), np.empty(cells.shape)
        # counting along an axis takes as long as the look-up of a single position
        counts = [int(np.count_nonzero(cells))] if len(cells) == 1 else set((cells != 0).sum(axis=1).tolist())
        for stones in counts:
            number = min(max(stones + 1, self.stones), self.game.cells)
            layer, values = self.numbering.layer(number), self.layer(number)
            parameters, alternates = self.game.parameters, self.numbering.alternates
            row = _read_values(cells, boards.mover, stones, alternates, parameters, layer, values, best, of_moves)
            if row >= 0:
                self._refuse(boards.own_first()[row], stones)
        return best, of_moves

    def _refuse(self, own_first: Int8Array, stones: int) -> None:
        """Raise ValueError for a position in progress that is not numbered."""
        game, taken = self.game, own_first != 0
        if game.gravity and (taken[: -game.columns] & ~taken[game.columns :]).any():
            raise ValueError("a stone above an empty cell comes from no game with gravity: choose another position")
        ahead = 2 * np.count_nonzero(own_first == 1) - stones
        if self.numbering.alternates and ahead not in (-1, 0):
            raise ValueError(
                f"a position in which the mover has {abs(ahead)} stones {'more' if ahead > 0 else 'less'} than the "
                f"other player comes from no game without skips: choose one of alternate play, or solve the game with "
                f"a skip chance, such as skip_chance=0.25"
            )
        self.layer(stones + 1)  # is not in the solution


def check_distance(game: Game) -> None:
    """Raise ValueError for a game with skips, in which the number of plies to the end is random."""
    if game.skip_chance > 0:
        raise ValueError(
            f"distance is a number of plies only without skips, and this game has skip_chance="
            f"{game.skip_chance:g}: solve the game with skip_chance=0"
        )


def _to_plies(values: Float64Array, empty: Int64Array) -> Int64Array:
    """Return the plies to the end by byte values; a draw fills the empty cells."""
    return np.where(values == 0, empty, WON + 1 - np.abs(values).astype(np.int64))


@compiled
def _read_values(
    cells: Int8Array,
    mover: Int8Array,
    stones: int,
    alternates: bool,
    parameters: Parameters,
    layer: Layer,
    values: Values,
    best: Float64Array,
    of_moves: Float64Array,
) -> int:
    """Write the values of the positions with so many stones, and those of their moves, NaN where illegal.

    They are in the units of the layer. A board that is over has its result, in bytes one above a win in one ply.

    Returns:
        The first position in progress that is not numbered, or whose moves do not lead to the layer; -1 for none.
    """
    won, over = (WON, WON + 1) if values.itemsize == 1 else (1, 1)
    columns, size = parameters.columns, cells.shape[1]
    floor = ((int64(1) << columns) - 1) << (size - columns) if has_gravity(parameters) else int64(-1)
    for b in range(len(cells)):
        own, other = to_bits(cells[b], int8(mover[b] + 1)), to_bits(cells[b], int8(2 - mover[b]))
        taken = own | other
        if count_bits(taken) != stones:
            continue
        of_moves[b] = np.nan
        outcome = terminal_outcome_inline(cells[b], parameters)
        if outcome != NOT_OVER:
            best[b] = 0.0 if outcome == DRAW else float(over) if outcome == mover[b] else -float(over)
            continue
        floats = taken & ~(taken >> columns | floor) != 0
        if floats or (alternates and count_bits(own) != stones // 2) or layer.stones != stones + 1:
            return b
        best[b], moves = -np.inf, legal_bits(own, other, parameters)
        for cell in range(size):
            if moves >> cell & 1:
                entry = rank(own | int64(1) << cell, other, layer)
                value = float(values[entry]) if entry >= 0 else float(won * line_sign(parameters))
                of_moves[b, cell] = value + 0.0  # no -0.0
                best[b] = max(best[b], of_moves[b, cell])
    return -1


# ---------------------------------------------------------------------------------------------------------------------
# By search


class SearchedSolution(Solution):
    """Values of Connect Four without skips, by a search for each position.

    A position with 10 stones or more takes less than a second, the empty board of 6 x 7 some minutes. Positions that
    are asked for together or in turn share the solver's table. May be used by several threads, one at a time.

    Raises:
        ValueError: as for :class:`~baselines.connect_four.Solver`.
    """

    def __init__(self, game: Game, *, memory: int = 1 << 28) -> None:
        self.game = game
        self._solver = Solver(game, memory=memory)
        self._lock = Lock()

    def values(self, boards: Boards) -> Float64Array:
        """See :meth:`Solution.values`; positions must not be over."""
        return np.asarray(np.nanmax(self.action_values(boards), axis=1))

    def action_values(self, boards: Boards) -> Float64Array:
        """See :meth:`Solution.action_values`; positions must not be over."""
        out = np.full(boards.cells.shape, np.nan)
        empty = (boards.cells == 0).reshape(len(out), self.game.rows, self.game.columns)
        landing = (empty.sum(axis=1) - 1) * self.game.columns + np.arange(self.game.columns)
        for row, (own, mask) in enumerate(zip(*to_column_bits(self._solver.board, boards), strict=True)):
            with self._lock:
                values = self._solver.values(int(own), int(mask))
            for cell, value in zip(landing[row], values, strict=True):
                if value is not None:
                    out[row, cell] = value
        return out

    def distance(self, boards: Boards) -> Int64Array:
        """See :meth:`Solution.distance`; positions must not be over."""
        out = np.zeros(len(boards.mover), np.int64)
        for row in range(len(out)):
            position = boards.position(row)
            with self._lock:
                score = self._solver.score(position).low
            out[row] = self._solver.distance(score, int(np.count_nonzero(position.cells)))
        return out


@lru_cache(maxsize=1)
def shared_solution(game: Game) -> SearchedSolution:
    """Return a solution whose table is shared by all callers of this process."""
    return SearchedSolution(game)
