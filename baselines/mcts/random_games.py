"""The evaluation of UCT: one game of random moves."""

from __future__ import annotations

import math

from baselines.mcts.simulate import probe_value
from baselines.mcts.tree import Tree, edge_above
from ttt_envs.core.jit import Int64Array, int64, pasted
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game.bits import MAX_CELLS_IN_BITS, where
from ttt_envs.game.lines import completes_line, has_line
from ttt_envs.game.rules import (
    DRAW,
    NOT_OVER,
    STREAM_OPPONENT,
    is_legal,
    mover_after,
    opened_cell,
    outcome_of_move,
)


@pasted
def play_random_game(b: int, leaf: int, tree: Tree, cells: Int64Array) -> float:
    """Return the mover's result of random play from a leaf, on its board, to the end or into the
    database.

    Args:
        b: the tree; the leaf is the position of its current simulation.
        leaf: the row of the leaf.
        tree: the trees.
        cells: int64[cells], scratch.
    """
    board = tree.scratch.leaves[leaf]
    first = int64(tree.scratch.movers[leaf])
    parameters = tree.parameters
    edge = edge_above(tree.reached[b], tree)
    key = splitmix64(tree.keys[b], 2 * edge + int64(first == tree.edges[b][edge].player))
    is_small = len(board) <= MAX_CELLS_IN_BITS
    own = tree.bits[b, first]
    other = tree.bits[b, 1 - first]
    mover = first
    count = int64(0)
    stones = int64(0)
    for cell in range(len(board)):
        stones += board[cell] != 0
        cells[count] = cell
        count += int64(is_legal(board, cell, parameters))
    while True:
        choice = int(uniform(key, STREAM_OPPONENT, stones) * count)
        cell = cells[choice]
        opened = opened_cell(cell, parameters)
        if opened >= 0:
            cells[choice] = opened
        else:
            count -= 1
            cells[choice] = cells[count]
        board[cell] = mover + 1
        if is_small:
            own |= int64(1) << cell
            is_line = has_line(own, parameters)
        else:
            is_line = completes_line(board, cell, mover + 1, parameters)
        outcome = outcome_of_move(is_line, mover, stones + 1, parameters)
        if outcome == DRAW:
            return 0.0
        if outcome != NOT_OVER:
            return 1.0 if outcome == first else -1.0
        next_mover = mover_after(mover, key, stones, parameters.skip_chance)
        # swapped without a branch, which a skip chance would mispredict
        differences = where(mover ^ next_mover, own ^ other, 0)
        own ^= differences
        other ^= differences
        mover = next_mover
        stones += 1
        value = probe_value(board, mover, stones, True, tree.probe)
        if not math.isnan(value):
            return value if mover == first else -value
