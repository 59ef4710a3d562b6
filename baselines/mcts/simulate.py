"""Simulations: select down to a new or solved node, expand it, evaluate it, and back up."""

from __future__ import annotations

import math

import numpy as np

from baselines.exact.tablebase import Probe, result_for_last_player
from baselines.mcts.select import SelectionParams, prior_of, select_move, select_turn, view_sign
from baselines.mcts.tree import ANY, Tree, is_solved
from ttt_envs.core.jit import Int8Array, Int64Array, inlined, int64, kernel, pasted
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.core.records import Records
from ttt_envs.game.parameters import Parameters, line_sign
from ttt_envs.game.rules import (
    DRAW,
    NOT_OVER,
    STREAM_OPPONENT,
    completing_cells,
    is_legal,
    nth_empty_cell,
    place,
)

MIN_LOG_PRIOR = -50.0
"""Minimum log prior of a legal move, relative to the largest: the network may wrongly consider a
move impossible.
"""


@kernel(interpreted=False, nogil=True)
def winning_moves(board: Int8Array, player: int, parameters: Parameters, out: Int8Array) -> int:
    """Mark the cells where a stone of a player wins with 1 in ``out`` int8[cells]; return their
    number.

    They complete a line; in misère no stone wins.
    """
    completing_cells(board, player, parameters, out)
    count = 0
    for cell in range(len(board)):
        out[cell] *= line_sign(parameters) > 0
        count += out[cell]
    return count


@pasted
def forced_moves(board: Int8Array, mover: int, parameters: Parameters, out: Int8Array) -> int:
    """Mark the mover's forced moves with 1 in ``out`` int8[cells]; return their number, 0 if all
    moves are open.
    """
    count = winning_moves(board, mover, parameters, out)
    if count == 0 and parameters.skip_chance == 0:  # a move that does not block loses
        count = winning_moves(board, 1 - mover, parameters, out)
    return count


@kernel(interpreted=False)
def forced_moves_of_rows(
    cells: Int8Array, mover: Int8Array, parameters: Parameters, out: Int8Array
) -> None:
    """Mark the forced moves of B positions with 1 in ``out`` int8[B, cells]; rows of 0 if all moves
    are open.
    """
    for b in range(len(cells)):
        forced_moves(cells[b], int64(mover[b]), parameters, out[b])


@pasted
def mark_open_moves(b: int, node: int, mover: int, tree: Tree) -> int:
    """Mark the moves that a position on the board leaves open with 0 in ``tree.mask``; return their
    number.

    Only at the root moves may be forced: other positions are solved by them, or have one.
    """
    board, mask, parameters = tree.cells[b], tree.mask, tree.parameters
    is_forced = tree.decisive and node == 0 and forced_moves(board, mover, parameters, mask) > 0
    count = int64(0)
    for cell in range(len(board)):
        mask[cell] = not is_legal(board, cell, parameters) or (is_forced and mask[cell] == 0)
        count += mask[cell] == 0
    return count


@pasted
def draw_untried(b: int, node: int, mover: int, stones: int, edge: int, tree: Tree) -> int:
    """Draw a move without an edge, for a new ``edge``; after the last one, the node has no next
    cell.
    """
    nodes, edges = tree.nodes[b], tree.edges[b]
    count = mark_open_moves(b, node, mover, tree)
    sibling = int64(nodes[node].first_child)
    while sibling > 0:
        tree.mask[edges[sibling].cell] = 1
        count -= 1
        sibling = int64(edges[sibling].next_sibling)
    if count == 1:
        nodes[node].next_cell = -1
    return nth_empty_cell(
        tree.mask, uniform(splitmix64(tree.keys[b], 2 * edge), STREAM_OPPONENT, stones)
    )


@pasted
def next_prior(b: int, node: int, cell: int, bound: float, tree: Tree) -> int:
    """Return the likeliest cell after ``cell``, the previous one, with prior ``bound``; -1 for
    none, or without priors.

    Ties go to the first. The likeliest of all comes after cell -1 with an infinite prior.
    """
    priors = tree.priors[b]
    likeliest, highest = int64(-1), 0.0
    for other in range(priors.shape[1]):
        p = priors[node, other]
        if p > highest and (p < bound or (p == bound and other > cell)):
            likeliest, highest = other, float(p)
    return likeliest


@pasted
def add_edge(b: int, edge: int, cell: int, node: int, mover: int, stones: int, tree: Tree) -> int:
    """Add an edge to a node and put its stone on the board; return the outcome, after which the
    result is solved.
    """
    move, record, turns = tree.edges[b][edge], tree.nodes[b][node], tree.turns_per_move
    move.parent = node
    move.player = mover
    move.cell = cell
    move.p = prior_of(b, node, cell, tree)
    move.next_sibling = record.first_child
    record.first_child = edge
    outcome = place(tree.cells[b], mover, cell, stones, tree.parameters)
    if outcome != NOT_OVER:  # results do not depend on chance: both turns have the same
        for turn in range(turns):
            mark_solved(
                b,
                edge * turns + turn,
                0.0 if outcome == DRAW else 1.0 * line_sign(tree.parameters),
                tree,
            )
    return outcome


@pasted
def mark_solved(b: int, node: int, value: float, tree: Tree) -> None:
    """Mark a new node as solved, with the value for the player of the edge above."""
    record = tree.nodes[b][node]
    record.num_legal = 1
    record.num_unsolved = 0
    record.solved_value = value


@inlined
def probe_value(
    board: Int8Array, mover: int, stones: int, skipped: bool, probe: Probe | None
) -> float:
    """Return :func:`result_for_last_player`, NaN if the database does not have positions with this
    number of stones.
    """
    if probe is None:  # a test of a type: without a database, its code is not compiled
        return math.nan
    return (
        result_for_last_player(board, mover, skipped, probe) if stones == probe.stones else math.nan
    )


@pasted
def init_children(
    b: int, edge: int, node: int, mover: int, stones: int, tree: Tree, count: int
) -> int:
    """Initialise the positions after a new edge of ``node`` by ``mover``: solve them, or add them
    to the leaves.

    Args:
        b, edge, node, mover: the tree, the edge, the node above, and its mover.
        stones: number of stones after the move.
        tree: the trees.
        count: number of leaves so far.

    Returns:
        The new number of leaves.
    """
    board, mask, parameters, turns = tree.cells[b], tree.mask, tree.parameters, tree.turns_per_move
    # the move was chosen among those that leave no winning stone; but with gravity it may open the
    # cell above
    is_foreseen = turns == 1 and node > 0 and parameters.variants == 0
    for turn in range(turns):
        child, next_mover = edge * turns + turn, mover if turn == 1 else 1 - mover
        value = probe_value(board, mover, stones, turn == 1, tree.probe)
        if not math.isnan(value):
            mark_solved(b, child, value, tree)
        elif (
            tree.decisive
            and not is_foreseen
            and winning_moves(board, next_mover, parameters, mask) > 0
        ):
            mark_solved(b, child, view_sign(child, tree), tree)
        elif tree.decisive and turns == 1 and _find_blocks(b, child, next_mover, tree) > 1:
            mark_solved(
                b, child, -view_sign(child, tree), tree
            )  # only one of two winning stones can be blocked
        else:
            count = add_leaf(b, next_mover, tree, count)
    return count


@pasted
def _find_blocks(b: int, node: int, mover: int, tree: Tree) -> int:
    """Return the number of winning stones that the mover must block; a single one is the only move
    of the node.
    """
    count, record = (
        winning_moves(tree.cells[b], 1 - mover, tree.parameters, tree.mask),
        tree.nodes[b][node],
    )
    for cell in range(len(tree.mask)):
        if count == 1 and tree.mask[cell] == 1:
            record.num_legal = record.num_unsolved = 1
            record.next_cell = cell
    return count


@pasted
def add_leaf(b: int, mover: int, tree: Tree, count: int) -> int:
    """Add the position on the board to the ``count`` leaves; return their new number."""
    for cell in range(tree.cells.shape[1]):
        tree.leaves[count, cell] = tree.cells[b, cell]
    tree.movers[count] = mover
    return count + 1


@pasted
def expand(b: int, node: int, leaf: int, tree: Tree) -> None:
    """Expand a node: store the evaluation of a leaf, with priors of sensible moves only."""
    record, mask, prior_logits = tree.nodes[b][node], tree.mask, tree.prior_logits[leaf]
    record.visits = 1
    record.raw_value = record.value_sum = view_sign(node, tree) * tree.values[leaf]
    has_priors = tree.priors.shape[2] > 0
    if record.num_legal > 0:  # a forced block
        if has_priors:
            tree.priors[b, node, record.next_cell] = 1.0
        return
    record.num_legal = record.num_unsolved = mark_open_moves(
        b, node, int64(tree.movers[leaf]), tree
    )
    record.next_cell = ANY
    if not has_priors:
        return
    priors = tree.priors[b, node]
    largest, total = -np.inf, 0.0
    for cell in range(len(mask)):
        if mask[cell] == 0:
            largest = max(largest, prior_logits[cell])
    for cell in range(len(mask)):
        if mask[cell] == 0:
            p = math.exp(max(MIN_LOG_PRIOR, prior_logits[cell] - largest))
            priors[cell] = p
            total += p
    for cell in range(len(mask)):
        priors[cell] /= total
    record.next_cell = next_prior(b, node, int64(-1), np.inf, tree)


# --------------------------------------------------------------------------------------------------
# Simulations


@pasted
def simulate(b: int, considered_visit: int, params: SelectionParams, tree: Tree, count: int) -> int:
    """Select and expand for one simulation in tree ``b``; the stones stay on its board.

    Args:
        b: the tree.
        considered_visit: number of earlier visits of the root's move to make now, for the Gumbel
            rule; -1: only evaluate the root, if it has not been.
        params: parameters of action selection.
        tree: the trees; positions to evaluate are added to the leaves.
        count: number of leaves so far.

    Returns:
        The new number of leaves, at most 2 more.
    """
    nodes, turns = tree.nodes[b], tree.turns_per_move
    mover, stones = 1 - int64(tree.edges[b][0].player), tree.stones[b]
    node = int64(0)
    tree.reached[b] = -1
    if nodes[0].visits == 0:
        tree.reached[b] = 0
        return add_leaf(b, mover, tree, count)
    if considered_visit < 0 or is_solved(0, nodes):
        return count
    while True:
        cell, edge = select_move(b, node, considered_visit, params.root_logits, params, tree)
        if cell < 0:  # no move of the root has this number of visits
            return count
        if edge == 0:
            edge = tree.counts[b]
            tree.counts[b] += 1
            if cell == ANY:
                cell = draw_untried(b, node, mover, stones, edge, tree)
            else:
                nodes[node].next_cell = next_prior(
                    b, node, cell, prior_of(b, node, cell, tree), tree
                )
            tree.reached[b] = edge * turns
            if add_edge(b, edge, cell, node, mover, stones, tree) == NOT_OVER:
                count = init_children(b, edge, node, mover, stones + 1, tree, count)
            return count
        tree.cells[b][cell] = mover + 1
        stones += 1
        node = select_turn(b, edge, tree)
        if is_solved(node, nodes):
            tree.reached[b] = node
            return count
        mover = mover if node % turns == 1 else 1 - mover


@pasted
def backup(b: int, tree: Tree, count: int) -> int:
    """Finish the simulation of :func:`simulate` in tree ``b``, whose leaves are evaluated: expand
    and back up.

    Returns:
        ``count``, the number of leaves of earlier trees, plus that of this tree.
    """
    nodes, node = tree.nodes[b], tree.reached[b]
    if node < 0:
        return count
    if nodes[node].visits > 0:  # no new node
        nodes[node].visits += 1
    else:
        for turn in range(tree.turns_per_move if node > 0 else 1):
            if is_solved(node + turn, nodes):
                nodes[node + turn].visits = 1
            else:
                expand(b, node + turn, count, tree)
                count += 1
    _backup_path(b, node, tree)
    return count


@pasted
def _backup_path(b: int, node: int, tree: Tree) -> None:
    """Back up a visit from a node to the root: remove the stones, and update values and solved
    values.

    A node's value is the visit-weighted mean of its raw value and the values of its edges.
    """
    edges, nodes, turns = tree.edges[b], tree.nodes[b], tree.turns_per_move
    while node > 0:
        edge = node // turns
        move, parent = edges[edge], int64(edges[edge].parent)
        above = nodes[parent]
        tree.cells[b, move.cell] = 0
        first = edge * turns
        value = _node_value(first, nodes)
        if turns == 2:
            # as `rules.values_over_skip`, rounded so that the mean of equal values, such as wins,
            # is exact
            value += tree.parameters.skip_chance * (_node_value(first + 1, nodes) - value)
        move.visits += 1
        above.visits += 1
        above.value_sum += view_sign(parent, tree) * (
            move.visits * value - (move.visits - 1) * move.q
        )
        move.q = value
        if (
            tree.decisive
            and not move.is_solved
            and is_solved(first, nodes)
            and is_solved(first + turns - 1, nodes)
        ):
            move.is_solved = 1
            _propagate_solved(b, edge, parent, tree)
        node = parent


@pasted
def _node_value(node: int, nodes: Records) -> float:
    """Return the value of a visited position for the player of the edge above."""
    record = nodes[node]
    return float(
        record.solved_value if is_solved(node, nodes) else record.value_sum / record.visits
    )


@pasted
def _propagate_solved(b: int, edge: int, node: int, tree: Tree) -> None:
    """Update a node after one of its edges has been solved; this may solve the node."""
    edges, record = tree.edges[b], tree.nodes[b][node]
    best = edges[edge].q
    record.num_unsolved = 0 if best == 1.0 else record.num_unsolved - 1
    if record.num_unsolved == 0:
        sibling = int64(record.first_child)
        while sibling > 0 and best < 1.0:
            best = max(best, edges[sibling].q)
            sibling = int64(edges[sibling].next_sibling)
        record.solved_value = view_sign(node, tree) * best


@kernel(interpreted=False, nogil=True)
def simulate_all(considered_visit: Int64Array, params: SelectionParams, tree: Tree) -> int:
    """Run :func:`simulate` in all trees, ``considered_visit`` int64[B]; return the number of
    leaves, tree by tree.
    """
    count = int64(0)
    for b in range(len(considered_visit)):
        count = simulate(b, considered_visit[b], params, tree, count)
    return count


@kernel(interpreted=False, nogil=True)
def backup_all(tree: Tree) -> None:
    """Run :func:`backup` in all trees."""
    count = int64(0)
    for b in range(len(tree.cells)):
        count = backup(b, tree, count)
