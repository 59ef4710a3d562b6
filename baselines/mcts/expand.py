"""Expansion: new edges, the positions after them, and results that need no evaluation."""

from __future__ import annotations

import math

import numpy as np

from baselines.exact.tablebase import Probe, result_for_last_player
from baselines.mcts.select import view_sign
from baselines.mcts.tree import Nodes, TreeView, Workspace
from ttt_envs.core.jit import Float32Array, Int8Array, compiled_at_once, compiled_nogil, inlined, int64
from ttt_envs.core.random import uniform
from ttt_envs.game.parameters import Parameters, line_sign
from ttt_envs.game.rules import DRAW, NOT_OVER, STREAM_OPPONENT, completing_cells, is_legal, nth_empty_cell, place

MIN_LOG_PRIOR = -50.0
"""Minimum log prior of a legal move, relative to the largest: the network may wrongly consider a move impossible."""


@compiled_nogil
def winning_moves(board: Int8Array, player: int, parameters: Parameters, out: Int8Array) -> int:
    """Mark the cells where a stone of a player wins with 1 in ``out`` int8[cells]; return their number.

    They complete a line; in misère no stone wins.
    """
    count = 0
    if line_sign(parameters) < 0:
        for cell in range(len(board)):
            out[cell] = 0
        return count
    completing_cells(board, player, parameters, out)
    for cell in range(len(board)):
        count += out[cell]
    return count


@inlined
def forced_moves(board: Int8Array, mover: int, parameters: Parameters, out: Int8Array) -> int:
    """Mark the mover's forced moves with 1 in ``out`` int8[cells]; return their number, 0 if all moves are open."""
    count = winning_moves(board, mover, parameters, out)
    if count == 0 and parameters.skip_chance == 0:  # a move that does not block loses
        count = winning_moves(board, 1 - mover, parameters, out)
    return count


@compiled_at_once
def forced_moves_of_rows(cells: Int8Array, mover: Int8Array, parameters: Parameters, out: Int8Array) -> None:
    """Mark the forced moves of B positions with 1 in ``out`` int8[B, cells]; rows of 0 if all moves are open."""
    for b in range(len(cells)):
        forced_moves(cells[b], int64(mover[b]), parameters, out[b])


@inlined
def draw_untried(
    node: int,
    mover: int,
    stones: int,
    key: np.uint64,
    tree: TreeView,
    parameters: Parameters,
    decisive: bool,
    scratch: Workspace,
) -> int:
    """Draw an untried cell at a node, forced ones first."""
    board, nodes = tree.board, tree.nodes
    forced_mask, closed, size = scratch.forced_mask, scratch.closed, len(tree.board)
    if nodes.num_legal[node] == 0:
        num_legal = size - stones
        if parameters.variants != 0:
            num_legal = int64(0)
            for cell in range(size):
                num_legal += int64(is_legal(board, cell, parameters))
        num_forced = 0
        if decisive:
            num_forced = min(1, winning_moves(board, mover, parameters, forced_mask))
            if num_forced > 0:
                num_legal = 1
            else:
                num_forced = winning_moves(board, 1 - mover, parameters, forced_mask)
                if num_forced > 0 and parameters.skip_chance == 0:  # a move that does not block loses
                    num_legal = num_forced
        nodes.num_legal[node] = nodes.num_unsolved[node] = num_legal
        nodes.num_forced[node] = num_forced
    elif nodes.num_children[node] < nodes.num_forced[node]:
        winning_moves(board, 1 - mover, parameters, forced_mask)
    forced = nodes.num_children[node] < nodes.num_forced[node]
    for cell in range(size):
        closed[cell] = not is_legal(board, cell, parameters) or (forced and forced_mask[cell] == 0)
    edge = int64(nodes.first_child[node])
    while edge > 0:
        closed[tree.edges.cell[edge]] = 1
        edge = int64(tree.edges.next_sibling[edge])
    return nth_empty_cell(closed, uniform(key, STREAM_OPPONENT, stones))


@inlined
def add_edge(edge: int, cell: int, node: int, mover: int, stones: int, tree: TreeView, parameters: Parameters) -> int:
    """Add an edge to a node and put its stone on the board; return the outcome, after which the result is solved."""
    edges, nodes = tree.edges, tree.nodes
    edges.player[edge] = mover
    edges.cell[edge] = cell
    edges.next_sibling[edge] = nodes.first_child[node]
    nodes.first_child[node] = edge
    nodes.num_children[node] += 1
    outcome = place(tree.board, mover, cell, stones, parameters)
    if outcome != NOT_OVER:  # results do not depend on chance: both turns have the same
        for turn in range(tree.turns_per_move):
            value = 0.0 if outcome == DRAW else 1.0 * line_sign(parameters)
            _mark_solved(edge * tree.turns_per_move + turn, value, nodes)
    return outcome


@inlined
def _mark_solved(node: int, value: float, nodes: Nodes) -> None:
    """Mark a new node as solved, with the value for the player of the edge above."""
    nodes.num_legal[node] = 1
    nodes.solved_value[node] = value


@inlined
def probe_edge(edge: int, tree: TreeView, parameters: Parameters, probe: Probe) -> None:
    """Mark the positions after an edge as solved by the database."""
    for turn in range(tree.turns_per_move):
        value = result_for_last_player(tree.board, int64(tree.edges.player[edge]), turn == 1, probe, parameters)
        _mark_solved(edge * tree.turns_per_move + turn, value, tree.nodes)


@inlined
def add_leaf(board: Int8Array, mover: int, leaves: Int8Array, movers: Int8Array, row: int) -> None:
    """Write a position that needs an evaluation into row ``row``."""
    for cell in range(len(board)):
        leaves[row, cell] = board[cell]
    movers[row] = mover


# ---------------------------------------------------------------------------------------------------------------------
# Guided searches


@inlined
def init_child(
    node: int, mover: int, is_foreseen: bool, tree: TreeView, parameters: Parameters, forced_mask: Int8Array
) -> bool:
    """Initialise a position after a new edge: return whether it needs an evaluation, or mark it as solved.

    ``is_foreseen``: the move was chosen among those that leave the mover no winning stone.
    """
    board, nodes = tree.board, tree.nodes
    if parameters.variants != 0:  # with gravity, a stone may open the cell above
        is_foreseen = False
    if not is_foreseen and winning_moves(board, mover, parameters, forced_mask) > 0:
        value = 1.0
    elif parameters.skip_chance > 0:
        return True
    else:
        nodes.num_forced[node] = winning_moves(board, 1 - mover, parameters, forced_mask)
        if nodes.num_forced[node] <= 1:
            for cell in range(len(board)):
                if forced_mask[cell] == 1:
                    nodes.next_prior[node] = cell
            return True
        value = -1.0  # only one of two winning stones can be blocked
    _mark_solved(node, view_sign(node, tree.turns_per_move) * value, nodes)
    return False


@inlined
def expand(
    node: int,
    mover: int,
    prior_logits: Float32Array,
    value: float,
    tree: TreeView,
    parameters: Parameters,
    forced_mask: Int8Array,
) -> None:
    """Expand a node: store the evaluation of a position, with priors of sensible moves only."""
    board, nodes, priors = tree.board, tree.nodes, tree.priors
    forced = node == 0 and forced_moves(board, mover, parameters, forced_mask) > 0
    nodes.visits[node] = 1
    tree.raw_values[node] = nodes.value_sum[node] = view_sign(node, tree.turns_per_move) * value
    if nodes.num_forced[node] > 0:  # a forced block
        nodes.num_legal[node] = nodes.num_unsolved[node] = 1
        priors[node, nodes.next_prior[node]] = 1.0
        return
    largest, total, count = -np.inf, 0.0, int64(0)
    for cell in range(len(board)):
        if is_legal(board, cell, parameters) and (not forced or forced_mask[cell] == 1):
            count += 1
            largest = max(largest, prior_logits[cell])
    for cell in range(len(board)):
        if is_legal(board, cell, parameters) and (not forced or forced_mask[cell] == 1):
            p = math.exp(max(MIN_LOG_PRIOR, prior_logits[cell] - largest))
            priors[node, cell] = p
            total += p
    likeliest, most = int64(-1), 0.0
    for cell in range(len(board)):
        priors[node, cell] /= total
        if priors[node, cell] > most:  # as rounded, because next_prior compares rounded priors
            likeliest, most = cell, float(priors[node, cell])
    nodes.num_legal[node] = nodes.num_unsolved[node] = count
    nodes.next_prior[node] = likeliest


@inlined
def next_prior(node: int, cell: int, priors: Float32Array) -> int:
    """Return the likeliest unvisited cell after ``cell``, the previous one; ties go to the first; -1 for none.

    All cells before it in this order have been selected before.
    """
    bound = priors[node, cell]
    likeliest, most = int64(-1), 0.0
    for other in range(priors.shape[1]):
        p = priors[node, other]
        if p > most and (p < bound or (p == bound and other > cell)):
            likeliest, most = other, float(p)
    return likeliest
