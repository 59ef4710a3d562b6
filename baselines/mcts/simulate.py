"""Simulations: select down to a new or solved node, expand it, evaluate it, and back up."""

from __future__ import annotations

import math

import numpy as np

from baselines.exact.tablebase import Probe, result_for_last_player
from baselines.mcts.select import SelectionParams, prior_of, select_move, select_turn, view_sign
from baselines.mcts.tree import ANY, Node, Tree, edge_above, is_skip, is_solved
from ttt_envs.core.jit import Float32Array, Int8Array, Int64Array, inlined, int64, kernel, pasted
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.core.records import Records
from ttt_envs.game.bits import MAX_CELLS_IN_BITS, count_bits, nth_bit
from ttt_envs.game.lines import completes_line, completing_bits, has_line
from ttt_envs.game.parameters import TORUS, Parameters, line_sign
from ttt_envs.game.rules import (
    DRAW,
    NOT_OVER,
    STREAM_OPPONENT,
    completing_cells,
    is_legal,
    legal_bits,
    nth_empty_cell,
    opened_cell,
    outcome_of_move,
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


# --------------------------------------------------------------------------------------------------
# Winning stones in the position of a simulation


@pasted
def find_wins(b: int, player: int, last_cell: int, tree: Tree) -> tuple[int, int]:
    """Return the number of cells where a stone of a player wins, and one of them, if any.

    With a ``last_cell``, that of the last stone, which is the player's, and not -1, there was no
    such cell before. Then the number is 2 if there are more.
    """
    board = tree.cells[b]
    parameters = tree.parameters
    if len(board) <= MAX_CELLS_IN_BITS:
        return _find_wins_in_bits(tree.bits[b, player], tree.bits[b, 1 - player], parameters)
    if last_cell < 0:
        mask = tree.scratch.mask
        return winning_moves(board, player, parameters, mask), int(mask.argmax())
    return _find_new_wins(board, player, last_cell, parameters)


@kernel(interpreted=False, nogil=True)
def _find_wins_in_bits(own: int, other: int, parameters: Parameters) -> tuple[int, int]:
    """Do :func:`find_wins` for the stones of a player and of the other one."""
    wins = completing_bits(own, parameters) & legal_bits(own, other, parameters)
    if wins == 0 or line_sign(parameters) < 0:
        return int64(0), int64(-1)
    return count_bits(wins), count_bits((wins & -wins) - 1)


@kernel(interpreted=False, nogil=True)
def _find_new_wins(
    board: Int8Array, player: int, last_cell: int, parameters: Parameters
) -> tuple[int, int]:
    """Do :func:`find_wins` near the last stone: between it and a winning cell are only stones of
    the player. With gravity, the cell above it is the end of a direction, too.
    """
    rows = parameters.rows
    columns = parameters.columns
    count = 0
    win = -1
    last_row = last_cell // columns
    last_column = last_cell - last_row * columns
    for direction in range(9):
        row = last_row
        column = last_column
        end = last_cell
        for _ in range(parameters.win_length - 1):
            row += direction // 3 - 1
            column += direction % 3 - 1
            if parameters.variants & TORUS:
                row %= rows
                column %= columns
            elif row < 0 or row >= rows or column < 0 or column >= columns:
                break
            end = row * columns + column
            if board[end] != player + 1:
                break
        if end != win and is_win(board, player, end, parameters):
            count += 1
            win = end
            if count == 2:
                break
    return count, win


@inlined
def is_win(board: Int8Array, player: int, cell: int, parameters: Parameters) -> bool:
    """Return whether a stone of a player on a cell is legal and wins."""
    is_possible = line_sign(parameters) > 0 and is_legal(board, cell, parameters)
    return is_possible and completes_line(board, cell, player + 1, parameters)


# --------------------------------------------------------------------------------------------------
# Stones, moves and leaves


@pasted
def put_stone(b: int, cell: int, mover: int, tree: Tree) -> None:
    """Put a stone on the board of tree ``b``."""
    tree.cells[b, cell] = mover + 1
    tree.bits[b, mover] |= int64(1) << (cell & 63)  # of larger boards, nobody reads the bits


@pasted
def take_stone(b: int, cell: int, mover: int, tree: Tree) -> None:
    """Undo :func:`put_stone`."""
    tree.cells[b, cell] = 0
    tree.bits[b, mover] ^= int64(1) << (cell & 63)


@pasted
def mark_open_moves(b: int, node: int, mover: int, tree: Tree) -> int:
    """Mark the moves that a position on the board leaves open with 0 in the scratch mask; return
    their number.

    Only at the root moves may be forced: other positions are solved by them, or have one.
    """
    may_be_forced = tree.decisive and node == 0 and tree.root_wins[b] > 0
    return _mark_open_cells(tree.cells[b], mover, may_be_forced, tree.parameters, tree.scratch.mask)


@kernel(interpreted=False, nogil=True)
def _mark_open_cells(
    board: Int8Array, mover: int, may_be_forced: bool, parameters: Parameters, mask: Int8Array
) -> int:
    """Do :func:`mark_open_moves`, compiled once for all its callers."""
    is_forced = may_be_forced and forced_moves(board, mover, parameters, mask) > 0
    count = 0
    for cell in range(len(board)):
        mask[cell] = not is_legal(board, cell, parameters) or (is_forced and mask[cell] == 0)
        count += mask[cell] == 0
    return count


@pasted
def draw_untried(b: int, node: int, mover: int, stones: int, edge: int, tree: Tree) -> int:
    """Draw a move without an edge, for a new ``edge``; after the last one, the node has no next
    cell.
    """
    nodes = tree.nodes[b]
    edges = tree.edges[b]
    mask = tree.scratch.mask
    size = len(mask)
    in_bits = node > 0 and size <= MAX_CELLS_IN_BITS  # at the root moves may be forced
    untried = legal_bits(tree.bits[b, 0], tree.bits[b, 1], tree.parameters)
    count = count_bits(untried) if in_bits else mark_open_moves(b, node, mover, tree)
    sibling = int64(nodes[node].first_child)
    while sibling > 0:
        cell = int64(edges[sibling].cell)
        mask[cell] = 1
        untried &= ~(int64(1) << (cell & 63))
        count -= 1
        sibling = int64(edges[sibling].next_sibling)
    if count == 1:
        nodes[node].next_cell = -1
    key = splitmix64(tree.keys[b], 2 * edge)
    u = uniform(key, STREAM_OPPONENT, stones)
    if in_bits:
        return nth_bit(untried, int64(u * count), size)
    return nth_empty_cell(mask, u)


@kernel(interpreted=False, nogil=True)
def next_prior(priors: Float32Array, cell: int, bound: float) -> int:
    """Return the likeliest cell by ``priors`` float32[cells] after ``cell``, the previous one, with
    prior ``bound``; -1 for none, or without priors.

    Ties go to the first. The likeliest of all comes after cell -1 with an infinite prior.
    """
    next_cell = -1
    next_p = 0.0
    for other in range(len(priors)):
        p = priors[other]
        if p > next_p and (p < bound or (p == bound and other > cell)):
            next_cell = other
            next_p = float(p)
    return next_cell


@pasted
def add_edge(b: int, edge: int, cell: int, node: int, mover: int, stones: int, tree: Tree) -> int:
    """Add an edge to a node and put its stone on the board; return the outcome, after which the
    result is solved.
    """
    board = tree.cells[b]
    parameters = tree.parameters
    move = tree.edges[b][edge]
    record = tree.nodes[b][node]
    move.parent = node
    move.player = mover
    move.cell = cell
    move.p = prior_of(b, node, cell, tree)
    move.next_sibling = record.first_child
    record.first_child = edge
    put_stone(b, cell, mover, tree)
    if len(board) <= MAX_CELLS_IN_BITS:
        is_line = has_line(tree.bits[b, mover], parameters)
    else:
        is_line = completes_line(board, cell, mover + 1, parameters)
    outcome = outcome_of_move(is_line, mover, stones + 1, parameters)
    if outcome != NOT_OVER:  # results do not depend on chance: both turns have the same
        value = 0.0 if outcome == DRAW else 1.0 * line_sign(parameters)
        for turn in range(tree.turns_per_move):
            mark_solved(b, edge * tree.turns_per_move + turn, value, tree)
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
    if stones != probe.stones:
        return math.nan
    return result_for_last_player(board, mover, skipped, probe)


@pasted
def init_children(b: int, edge: int, node: int, stones: int, tree: Tree, count: int) -> int:
    """Initialise the positions after a new edge of ``node``: solve them, or add them to the leaves.

    Args:
        b, edge, node: the tree, the edge, and the node above.
        stones: number of stones after the move.
        tree: the trees.
        count: number of leaves so far.

    Returns:
        The new number of leaves.
    """
    player = int64(tree.edges[b][edge].player)
    for turn in range(tree.turns_per_move):
        child = edge * tree.turns_per_move + turn
        value = probe_value(tree.cells[b], player, stones, turn == 1, tree.probe)
        if math.isnan(value) and tree.decisive:
            value = _decisive_value(b, child, node, tree)
        if math.isnan(value):
            count = add_leaf(b, player if turn == 1 else 1 - player, tree, count)
        else:
            mark_solved(b, child, value, tree)
    return count


@pasted
def _decisive_value(b: int, child: int, node: int, tree: Tree) -> float:
    """Return the value of a new position for the player of the edge above, if winning stones decide
    it, else NaN; a winning stone to block becomes its only move.

    No player on the move at a node has a winning stone, unless the node is solved, or the root. So
    of most positions only the last stone can make one.

    Args:
        b: the tree.
        child: the node of the position.
        node: the node above.
        tree: the trees.
    """
    turns = tree.turns_per_move
    parameters = tree.parameters
    last = tree.edges[b][edge_above(child, tree)]
    player = int64(last.player)
    cell = int64(last.cell)
    is_quiet = node > 0 or tree.root_wins[b] == 0
    last_cell = cell if is_quiet else int64(-1)
    is_after_skip = is_skip(child, tree)  # the same player moves again
    if not is_after_skip:
        if not is_quiet or (turns == 2 and is_solved(node ^ 1, tree.nodes[b])):
            has_win = find_wins(b, 1 - player, int64(-1), tree)[0] > 0
        else:  # the other player had no winning stone, but with gravity the last one may open one
            opened = opened_cell(cell, parameters)
            has_win = opened >= 0 and is_win(tree.cells[b], 1 - player, opened, parameters)
        if has_win:
            return -1.0
        if turns == 2:
            return math.nan
    count, block = find_wins(b, player, last_cell, tree)
    if is_after_skip:
        return 1.0 if count > 0 else math.nan
    if count == 1:
        record = tree.nodes[b][child]
        record.num_legal = record.num_unsolved = 1
        record.next_cell = block
    return 1.0 if count > 1 else math.nan  # only one of two winning stones can be blocked


@pasted
def add_leaf(b: int, mover: int, tree: Tree, count: int) -> int:
    """Add the position on the board to the ``count`` leaves; return their new number."""
    leaves = tree.scratch.leaves
    for cell in range(tree.cells.shape[1]):
        leaves[count, cell] = tree.cells[b, cell]
    tree.scratch.movers[count] = mover
    return count + 1


@pasted
def expand(b: int, node: int, leaf: int, tree: Tree) -> None:
    """Expand a node: store the evaluation of a leaf, with priors of sensible moves only."""
    record = tree.nodes[b][node]
    scratch = tree.scratch
    record.visits = 1
    record.raw_value = record.value_sum = view_sign(node, tree) * scratch.values[leaf]
    has_priors = tree.priors.shape[2] > 0
    if record.num_legal > 0:  # a forced block
        if has_priors:
            tree.priors[b, node, record.next_cell] = 1.0
        return
    if not has_priors and node > 0 and tree.cells.shape[1] <= MAX_CELLS_IN_BITS:
        legal = legal_bits(tree.bits[b, 0], tree.bits[b, 1], tree.parameters)
        record.num_legal = record.num_unsolved = count_bits(legal)
    else:
        count = mark_open_moves(b, node, int64(scratch.movers[leaf]), tree)
        record.num_legal = record.num_unsolved = count
    record.next_cell = ANY
    if has_priors:
        priors = tree.priors[b, node]
        _write_priors(scratch.prior_logits[leaf], scratch.mask, priors)
        record.next_cell = next_prior(priors, int64(-1), np.inf)


@kernel(interpreted=False, nogil=True)
def _write_priors(logits: Float32Array, mask: Int8Array, priors: Float32Array) -> None:
    """Write the ``priors`` float32[cells] of a node, the softmax of ``logits`` float32[cells] over
    the open moves.
    """
    max_logit = -np.inf
    total = 0.0
    for cell in range(len(mask)):
        if mask[cell] == 0:
            max_logit = max(max_logit, logits[cell])
    for cell in range(len(mask)):
        if mask[cell] == 0:
            p = math.exp(max(MIN_LOG_PRIOR, logits[cell] - max_logit))
            priors[cell] = p
            total += p
    for cell in range(len(mask)):
        priors[cell] /= total


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
    nodes = tree.nodes[b]
    turns = tree.turns_per_move
    reached = tree.reached
    mover = 1 - int64(tree.edges[b][0].player)
    stones = tree.stones[b]
    node = 0
    reached[b] = -1
    if tree.root_wins[b] < 0:
        tree.root_wins[b] = 0
        for player in range(2):
            tree.root_wins[b] += find_wins(b, player, int64(-1), tree)[0]
    if nodes[0].visits == 0:
        reached[b] = 0
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
                prior = prior_of(b, node, cell, tree)
                nodes[node].next_cell = next_prior(tree.priors[b, node], cell, prior)
            reached[b] = edge * turns
            if add_edge(b, edge, cell, node, mover, stones, tree) == NOT_OVER:
                count = init_children(b, edge, node, stones + 1, tree, count)
            return count
        put_stone(b, cell, mover, tree)
        stones += 1
        node = select_turn(b, edge, tree)
        if is_solved(node, nodes):
            reached[b] = node
            return count
        mover = mover if is_skip(node, tree) else 1 - mover


@pasted
def backup(b: int, tree: Tree, count: int) -> int:
    """Finish the simulation of :func:`simulate` in tree ``b``, whose leaves are evaluated: expand
    and back up.

    Returns:
        ``count``, the number of leaves of earlier trees, plus that of this tree.
    """
    nodes = tree.nodes[b]
    node = tree.reached[b]
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
    edges = tree.edges[b]
    nodes = tree.nodes[b]
    turns = tree.turns_per_move
    while node > 0:
        edge = edge_above(node, tree)
        move = edges[edge]
        parent = int64(move.parent)
        record = nodes[parent]
        take_stone(b, int64(move.cell), int64(move.player), tree)
        first = edge * turns
        value = _node_value(first, nodes)
        if turns == 2:
            # as `rules.values_over_skip`, rounded so that the mean of equal values, such as wins,
            # is exact
            value += tree.parameters.skip_chance * (_node_value(first + 1, nodes) - value)
        move.visits += 1
        record.visits += 1
        change = move.visits * value - (move.visits - 1) * move.q
        record.value_sum += view_sign(parent, tree) * change
        move.q = value
        are_solved = is_solved(first, nodes) and is_solved(first + turns - 1, nodes)
        if tree.decisive and not move.is_solved and are_solved:
            move.is_solved = 1
            _propagate_solved(b, edge, parent, tree)
        node = parent


@pasted
def _node_value(node: int, nodes: Records[Node]) -> float:
    """Return the value of a visited position for the player of the edge above."""
    record = nodes[node]
    if is_solved(node, nodes):
        return float(record.solved_value)
    return float(record.value_sum / record.visits)


@pasted
def _propagate_solved(b: int, edge: int, node: int, tree: Tree) -> None:
    """Update a node after one of its edges has been solved; this may solve the node."""
    edges = tree.edges[b]
    record = tree.nodes[b][node]
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
    count = 0
    for b in range(len(considered_visit)):
        count = simulate(b, considered_visit[b], params, tree, count)
    return count


@kernel(interpreted=False, nogil=True)
def backup_all(tree: Tree) -> None:
    """Run :func:`backup` in all trees."""
    count = 0
    for b in range(len(tree.cells)):
        count = backup(b, tree, count)
