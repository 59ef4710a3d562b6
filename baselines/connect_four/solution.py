"""Results of the moves of Connect Four positions."""

from __future__ import annotations

import numpy as np

from baselines.connect_four.solver import Solver
from ttt_envs.core.jit import Int64Array
from ttt_envs.game.game import Game, Position


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
