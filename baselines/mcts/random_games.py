"""The evaluator of UCT: random games, and equal priors."""

from __future__ import annotations

import math

import numpy as np

from baselines.mcts.select import SelectionParams
from baselines.mcts.simulate import backup, probe_value, simulate
from baselines.mcts.tree import Tree
from ttt_envs.core.jit import Int64Array, int64, kernel, pasted
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game.rules import (
    DRAW,
    NOT_OVER,
    STREAM_OPPONENT,
    is_legal,
    mover_after,
    opened_cell,
    place,
)


class RandomGames:
    """Evaluates a position by the result of one game of random moves."""

    def run_simulations(
        self, considered_visit: Int64Array, params: SelectionParams, tree: Tree
    ) -> None:
        """See :class:`~baselines.mcts.FusedEvaluator`."""
        run_random_games(considered_visit, params, tree, np.zeros(tree.cells.shape[1], np.int64))


@kernel(interpreted=False, nogil=True)
def run_random_games(
    considered_visit: Int64Array, params: SelectionParams, tree: Tree, cells: Int64Array
) -> None:
    """Run simulations ``considered_visit`` int64[S, B] in one tree after another; ``cells``
    int64[cells] is scratch.
    """
    for b in range(len(tree.cells)):
        for simulation in range(len(considered_visit)):
            for leaf in range(simulate(b, considered_visit[simulation, b], params, tree, int64(0))):
                tree.values[leaf] = _play_random_game(b, leaf, tree, cells)
            backup(b, tree, int64(0))


@pasted
def _play_random_game(b: int, leaf: int, tree: Tree, cells: Int64Array) -> float:
    """Return the mover's result of random play from a leaf, on its board, to the end or into the
    database.
    """
    board, mover, parameters = tree.leaves[leaf], int64(tree.movers[leaf]), tree.parameters
    edge = tree.reached[b] // tree.turns_per_move
    key = splitmix64(tree.keys[b], 2 * edge + int64(mover == tree.edges[b][edge].player))
    first, count, stones = mover, int64(0), int64(0)
    for cell in range(len(board)):
        stones += board[cell] != 0
        cells[count] = cell
        count += int64(is_legal(board, cell, parameters))
    while True:
        chosen = int(uniform(key, STREAM_OPPONENT, stones) * count)
        cell = cells[chosen]
        opened = opened_cell(cell, parameters)
        if opened >= 0:
            cells[chosen] = opened
        else:
            count -= 1
            cells[chosen] = cells[count]
        outcome = place(board, mover, cell, stones, parameters)
        if outcome != NOT_OVER:
            return 0.0 if outcome == DRAW else (1.0 if outcome == first else -1.0)
        mover = mover_after(mover, key, stones, parameters.skip_chance)
        stones += 1
        value = probe_value(board, mover, stones, True, tree.probe)
        if not math.isnan(value):
            return value if mover == first else -value
