"""The evaluation of UCT: one game of random moves."""

from __future__ import annotations

import math

from baselines.mcts.simulate import probe_value
from baselines.mcts.tree import Tree, edge_above
from ttt_envs.core.jit import Int8Array, Int64Array, inlined, int64, pasted
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game.bits import count_bits
from ttt_envs.game.lines import completes_line, has_line, put_in_runs
from ttt_envs.game.parameters import NO_OVERLINES, TORUS, Parameters
from ttt_envs.game.rules import (
    DRAW,
    NOT_OVER,
    STREAM_OPPONENT,
    is_legal,
    legal_bits,
    mover_after,
    opened_cell,
    outcome_of_move,
)


@inlined
def completes(
    own: int,
    board: Int8Array,
    cell: int,
    player: int,
    runs: Int64Array | None,
    parameters: Parameters,
) -> bool:
    """Return whether a player's last stone, on ``cell``, is part of a line; put it into the runs.

    ``own`` are the player's stones as bits. By the type of ``runs``, numba leaves out the code of
    boards of the other kind.
    """
    if runs is None:
        return has_line(own, parameters)
    if parameters.variants & (TORUS | NO_OVERLINES):
        return completes_line(board, cell, player + 1, parameters)
    return put_in_runs(runs, player, cell, parameters)


@inlined
def list_legal(
    all_stones: int,
    board: Int8Array,
    runs: Int64Array | None,
    parameters: Parameters,
    cells: Int64Array,
) -> tuple[int, int]:
    """Write the legal cells into ``cells``, and the stones into the runs; return the numbers of
    both.
    """
    count = 0
    if runs is None:
        legal = legal_bits(all_stones, all_stones, parameters)
        for cell in range(len(board)):
            cells[count] = cell
            count += legal >> cell & 1
        return count, count_bits(all_stones)
    runs[:] = 0
    stones = 0
    for cell in range(len(board)):
        cells[count] = cell
        count += int64(is_legal(board, cell, parameters))
    for cell in range(len(board)):  # a loop of its own, which leaves the other one fast
        if board[cell] != 0:
            stones += 1
            completes(0, board, cell, int64(board[cell]) - 1, runs, parameters)
    return count, stones


@pasted
def play_random_game(
    b: int, leaf: int, tree: Tree, cells: Int64Array, runs: Int64Array | None
) -> float:
    """Return the mover's result of random play from a leaf, on its board, to the end or into the
    database.

    Args:
        b: the tree; the leaf is the position of its current simulation.
        leaf: the row of the leaf.
        tree: the trees.
        cells: int64[cells], scratch.
        runs: scratch as of :func:`put_in_runs`, None on boards up to ``MAX_CELLS_IN_BITS`` cells.
    """
    board = tree.scratch.leaves[leaf]
    first = int64(tree.scratch.movers[leaf])
    parameters = tree.parameters
    edge = edge_above(tree.reached[b], tree)
    key = splitmix64(tree.keys[b], 2 * edge + int64(first == tree.edges[b][edge].player))
    own = tree.bits[b, first]
    all_stones = own | tree.bits[b, 1 - first]
    mover = first
    count, stones = list_legal(all_stones, board, runs, parameters, cells)
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
        own |= int64(1) << (cell & 63)
        all_stones |= own
        is_line = completes(own, board, cell, mover, runs, parameters)
        outcome = outcome_of_move(is_line, mover, stones + 1, parameters)
        if outcome == DRAW:
            return 0.0
        if outcome != NOT_OVER:
            return 1.0 if outcome == first else -1.0
        next_mover = mover_after(mover, key, stones, parameters.skip_chance)
        # the other's stones if it moves, without a branch, which skips would mispredict
        own ^= all_stones & -(mover ^ next_mover)
        mover = next_mover
        stones += 1
        value = probe_value(board, mover, stones, True, tree.probe)
        if not math.isnan(value):
            return value if mover == first else -value
