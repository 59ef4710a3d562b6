"""Exact values of positions, from layers or by search; and the base of both."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from threading import Lock
from typing import Protocol, cast

import numpy as np

from baselines.connect_four import Solver
from baselines.connect_four import to_bits as to_column_bits
from baselines.exact.count import Counts, count_positions
from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import (
    BoolArray,
    Float64Array,
    Int8Array,
    Int64Array,
    inlined,
    int8,
    int64,
    kernel,
)
from ttt_envs.game.bits import count_bits, to_bits
from ttt_envs.game.boards import Boards, to_text
from ttt_envs.game.game import Game
from ttt_envs.game.lines import has_line
from ttt_envs.game.parameters import Parameters, line_sign
from ttt_envs.game.rules import DRAW, NOT_OVER, legal_bits, outcome_of_bits
from ttt_envs.graph.numbering import (
    WON,
    NumberedLayer,
    Numbering,
    SetTables,
    Values,
    after_ply,
    plies_of,
    rank,
)

Table = tuple[NumberedLayer, Values]
"""a layer and its values"""


class Solution(Protocol):
    """Exact values of positions under best play by both players.

    Attributes:
        game: the game.
        tie: tolerance within which moves count as equally good.
    """

    game: Game
    tie: float = VALUE_TOLERANCE

    def values(self, boards: Boards) -> Float64Array:
        """Return the expected result for the mover: float64[B] from -1 to 1; of a finished board
        its result.

        Raises:
            ValueError: a position that is not in the solution.
        """

    def action_values(self, boards: Boards) -> Float64Array:
        """Return the value of each move for the mover: float64[B, rows * columns], NaN where
        illegal.

        Raises:
            ValueError: a position that is not in the solution.
        """

    def distance(self, boards: Boards) -> Int64Array:
        """Return the plies to the end under best play, int64[B]: winners minimise and losers
        maximise this distance.

        A drawn position ends with the full board; a finished one has distance 0.

        Raises:
            ValueError: the game has skips, so that the distance is random; or a position is not in
                the solution.
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


# --------------------------------------------------------------------------------------------------
# From layers


class LayeredSolution(Solution):
    """Values from layers, in memory or in a folder, of all positions from some number of stones on.

    Without skips, boards of more than 16 cells have the positions of alternating play only. There,
    and in folders, values with skips are float32, rounded once per layer; moves within twice this
    error of the best are equally good.

    Args:
        numbering: of the game.
        stones: number of stones of the first layer.
        dtype: of the layers.
        layer: returns the values W of the layer with a number of stones, read-only, see
            :mod:`ttt_envs.graph.numbering`; raises ValueError if its file is damaged.
    """

    def __init__(
        self, numbering: Numbering, stones: int, dtype: np.dtype, layer: Callable[[int], Values]
    ) -> None:
        self.game = numbering.game
        self.numbering = numbering
        self.stones = stones
        self.dtype = dtype
        self.layer = layer
        self.error = (self.game.cells + 1) * 2.0**-25 if dtype == np.float32 else 0.0
        """maximum difference of a value from the exact one, apart from float64 rounding"""
        self.tie = VALUE_TOLERANCE + 2 * self.error
        # a kernel call pays more for a named tuple than for a tuple
        self._parameters = cast(Parameters, tuple(self.game.parameters))

    def values(self, boards: Boards) -> Float64Array:
        """See :meth:`Solution.values`; with a stone less than the first layer, too."""
        values = self._look_up(boards, of_moves=False)[:, -1]
        return np.sign(values) if self.game.skip_chance == 0 else values

    def action_values(self, boards: Boards) -> Float64Array:
        """See :meth:`Solution.action_values`; with a stone less than the first layer, too."""
        values = self._look_up(boards)[:, :-1]
        return np.sign(values) if self.game.skip_chance == 0 else values

    def distance(self, boards: Boards) -> Int64Array:
        """See :meth:`Solution.distance`."""
        return self._to_plies(boards, self._look_up(boards, of_moves=False)[:, -1:])[:, 0]

    def action_distances(self, boards: Boards) -> Int64Array:
        """Return the plies to the end with each move, including it: int64[B, rows * columns], -1
        where illegal.
        """
        return self._to_plies(boards, self._look_up(boards)[:, :-1])

    def _to_plies(self, boards: Boards, values: Float64Array) -> Int64Array:
        """Return the plies to the end by byte values [B, K], -1 for NaN; a draw fills the empty
        cells.
        """
        if self.game.skip_chance > 0:
            raise Refusal(
                f"distance is a number of plies only without skips: solve {self.game} with "
                "skip_chance=0"
            )
        num_empty = (boards.cells == 0).sum(axis=1, keepdims=True)
        plies = np.where(values == 0, num_empty, plies_of(values))
        return np.where(np.isnan(values), -1, plies).astype(np.int64)

    def _look_up(self, boards: Boards, *, of_moves: bool = True) -> Float64Array:
        """Return the values of moves and then of positions in the units of the layers, see
        :func:`_look_up`.
        """
        game = self.game
        cells, mover = boards.carrays()
        out = np.empty((len(cells), game.cells + 1))
        stone_counts = _stone_counts(cells)
        for stones in [count for count in range(game.cells + 1) if stone_counts >> count & 1]:
            # without skips, a position has the negative value of its last player's
            is_own = not of_moves and game.skip_chance == 0 and stones >= self.stones
            number = min(max(stones + (not is_own), self.stones), game.cells)
            layer = self.numbering.layer(number)
            fields = layer.stones, layer.sets, layer.words, tuple(layer.tables)
            table = cast(Table, (fields, self.layer(number)))
            row = _look_up(cells, mover, stones, self._parameters, table, out)
            if row >= 0:
                raise Refusal(
                    f"{to_text(boards.position(row), game)!r} is not in {self}, which begins at "
                    f"{self.stones} stones: choose a position of a game by these rules, build the "
                    "layers from fewer stones, or solve the game with a skip chance, such as 0.25"
                )
        return out


@inlined
def entry_value(own: int, other: int, table: Table, parameters: Parameters) -> float:
    """Return W(own, other) in the units of a layer; of a line its result; NaN of other positions
    without an entry.
    """
    layer, values = table
    entry = rank(own, other, layer)
    if entry >= 0:
        return float(values[entry])
    won = line_sign(parameters) * (WON if values.itemsize == 1 else 1)
    return float(won) if has_line(own, parameters) else np.nan


@inlined
def best_move_value(
    own: int, other: int, next_table: Table, parameters: Parameters, out: Float64Array | None
) -> float:
    """Return V(own, other) in the units of the next layer; NaN if a move has no value.

    ``out`` float64[cells] is written where there is a move: its value.
    """
    moves = legal_bits(own, other, parameters)
    best = -np.inf if moves else 0.0
    while moves:
        stone = moves & -moves
        moves ^= stone
        value = entry_value(own | stone, other, next_table, parameters) + 0.0  # no -0.0
        best = value if value > best or value != value else best  # NaN stays
        if out is not None:
            out[count_bits(stone - 1)] = value
    return best


@kernel
def _stone_counts(cells: Int8Array) -> int:
    """Return the numbers of stones that boards have, as bits."""
    counts = 0
    for b in range(len(cells)):
        stones = 0
        for cell in range(cells.shape[1]):
            stones += cells[b, cell] != 0
        counts |= int64(1) << stones
    return counts


@kernel
def _look_up(
    cells: Int8Array,
    mover: Int8Array,
    stones: int,
    rules: Parameters,
    fields: Table,
    out: Float64Array,
) -> int:
    """Look up the positions with so many stones, in the next layer or their own.

    Args:
        cells, mover: of the boards.
        stones: number of stones.
        rules: the fields of ``Game.parameters``, as a tuple.
        fields: those of the layer, as a tuple, and its values.
        out: float64[B, cells + 1], written: values of the moves, NaN where illegal or not looked
            up, and of the position. They are in the units of the layer; a board that is over has
            its result, in bytes one above a win in one ply.

    Returns:
        The first position in progress without a value; -1 for none.
    """
    (number, sets, words, tables), values = fields
    parameters = Parameters(*rules)
    table = NumberedLayer(number, sets, words, SetTables(*tables)), values
    win = float(WON + 1) if values.itemsize == 1 else 1.0
    size = cells.shape[1]
    for b in range(len(cells)):
        first = to_bits(cells[b], int8(1))
        second = to_bits(cells[b], int8(2))
        if count_bits(first | second) != stones:
            continue
        own = first if mover[b] == 0 else second
        other = second if mover[b] == 0 else first
        out[b] = np.nan
        outcome = outcome_of_bits(first, second, parameters)
        if outcome == DRAW:
            out[b, size] = 0.0
        elif outcome != NOT_OVER:
            out[b, size] = win if outcome == mover[b] else -win
        elif number == stones:
            out[b, size] = after_ply(entry_value(other, own, table, parameters))
        elif number == stones + 1:
            out[b, size] = best_move_value(own, other, table, parameters, out[b])
        if np.isnan(out[b, size]):
            return b
    return -1


# --------------------------------------------------------------------------------------------------
# By search


class SearchedSolution(Solution):
    """Values of Connect Four without skips, by a search for each position.

    A position with 10 stones or more takes less than a second, the empty board of 6 x 7 some
    minutes. Positions that are asked for together or in turn share the solver's table. May be used
    by several threads, one at a time.

    Attributes:
        solver: the solver; its ``progress`` may be set.

    Raises:
        ValueError: as for :class:`~baselines.connect_four.Solver`.
    """

    def __init__(self, game: Game, *, memory: int = 1 << 28) -> None:
        self.game = game
        self.solver = Solver(game, memory=memory)
        self._lock = Lock()

    def values(self, boards: Boards) -> Float64Array:
        """See :meth:`Solution.values`; positions must not be over."""
        return np.asarray(np.nanmax(self.action_values(boards), axis=1))

    def action_values(self, boards: Boards) -> Float64Array:
        """See :meth:`Solution.action_values`; positions must not be over."""
        out = np.full(boards.cells.shape, np.nan)
        own, mask = to_column_bits(self.solver.board, boards)
        for row in range(len(out)):
            with self._lock:
                values = self.solver.values(int(own[row]), int(mask[row]))
            out[row, list(values)] = list(values.values())
        return out

    def distance(self, boards: Boards) -> Int64Array:
        """See :meth:`Solution.distance`; positions must not be over."""
        out = np.zeros(len(boards.mover), np.int64)
        for row in range(len(out)):
            position = boards.position(row)
            with self._lock:
                score = self.solver.score(position).low
            out[row] = self.solver.distance(score, int(np.count_nonzero(position.cells)))
        return out


shared_solution = lru_cache(maxsize=1)(SearchedSolution)
"""a solution whose table is shared by all callers of this process"""
