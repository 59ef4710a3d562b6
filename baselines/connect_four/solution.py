"""Perfect play of Connect Four for many positions: values are searched when they are asked for."""

from __future__ import annotations

from functools import lru_cache
from threading import Lock

import numpy as np

from baselines.connect_four.bitboards import to_bits
from baselines.connect_four.solver import Solver
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.rules import Game, Position


class SearchedSolution:
    """Values of positions under perfect play, by a search for each; with the methods of a solution by a table.

    A position with 10 stones or more takes less than a second, the empty board of 6 x 7 some minutes. Positions that
    are asked for together or in turn share the solver's table. May be used by several threads, one at a time.

    Raises:
        ValueError: as for :class:`Solver`.
    """

    def __init__(self, game: Game, *, memory: int = 1 << 28) -> None:
        self.game = game
        self._solver = Solver(game, memory=memory)
        self._lock = Lock()

    def values(self, boards: Boards) -> Float64Array:
        """Return float64[B]: for the mover, 1 a win, 0 a draw, -1 a loss. Positions must not be over."""
        return np.asarray(np.nanmax(self.action_values(boards), axis=1))

    def action_values(self, boards: Boards) -> Float64Array:
        """Return float64[B, rows * columns]: the values of moves for the mover, NaN where illegal."""
        out = np.full(boards.cells.shape, np.nan)
        empty = (boards.cells == 0).reshape(len(out), self.game.rows, self.game.columns)
        landing = (empty.sum(axis=1) - 1) * self.game.columns + np.arange(self.game.columns)
        for row, (mine, mask) in enumerate(zip(*to_bits(self._solver.board, boards), strict=True)):
            with self._lock:
                found = self._solver.values(int(mine), int(mask))
            for cell, value in zip(landing[row], found, strict=True):
                if value is not None:
                    out[row, cell] = value
        return out

    def optimal_actions(self, boards: Boards) -> BoolArray:
        """Return bool[B, rows * columns]: the moves of the highest value."""
        values = self.action_values(boards)
        return np.asarray(values == np.nanmax(values, axis=1, keepdims=True))

    def distance(self, boards: Boards) -> Int64Array:
        """Return int64[B]: the number of plies to the end, if the winner wins fast and the loser loses late."""
        out = np.zeros(len(boards.mover), np.int64)
        for row in range(len(out)):
            position = boards.position(row)
            with self._lock:
                score = self._solver.score(position).low
            out[row] = self._solver.distance(score, int(np.count_nonzero(position.cells)))
        return out


class MoveResults:
    """The results of all moves of positions, each within a number of nodes, independent of other positions.

    Raises:
        ValueError: as for :class:`Solver`.
    """

    def __init__(self, game: Game, nodes: int) -> None:
        """Make it, for a maximum number of positions visited for a position; further ones are given up."""
        self.game, self.nodes = game, nodes
        self._solver = Solver(game, memory=1 << 23)

    def scores(self, position: Position) -> list[int | None] | None:
        """Return for each column the score of a stone there, None if it is full; or None if ``nodes`` are not enough.

        Raises:
            ValueError: the position is over or unreachable.
        """
        self._solver.clear()
        found = self._solver.scores(position, nodes=self.nodes)
        if any(bounds is not None and bounds.score is None for bounds in found):
            return None
        return [bounds and bounds.score for bounds in found]

    def distance(self, score: int, stones: int) -> int:
        """Return the number of plies to the end, as :meth:`Solver.distance`."""
        return self._solver.distance(score, stones)


def landing_cells(game: Game, position: Position) -> Int64Array:
    """Return int64[columns]: the lowest empty cell of each column; negative if there is none."""
    empty = (position.cells == 0).reshape(game.rows, game.columns).sum(axis=0)
    return np.asarray((empty - 1) * game.columns + np.arange(game.columns) * (empty > 0), np.int64)


@lru_cache(maxsize=1)
def shared_solution(game: Game) -> SearchedSolution:
    """Return a solution whose table is shared by all callers of this process."""
    return SearchedSolution(game)
