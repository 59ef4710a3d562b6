"""Simulations: select down to a new or solved node, expand it, evaluate it, and back up."""

from __future__ import annotations

import numpy as np

from baselines.exact.tablebase import Probe, result_for_last_player
from baselines.mcts.backup import backup_guided, backup_uct
from baselines.mcts.expand import add_edge, add_leaf, draw_untried, expand, init_child, next_prior, probe_edge
from baselines.mcts.select import (
    GUMBEL,
    SelectionParams,
    select_guided,
    select_root_gumbel,
    select_turn,
    select_uct,
)
from baselines.mcts.tree import SearchBatch, TreeView, Workspace, is_solved, tree_view
from ttt_envs.core.jit import (
    Float32Array,
    Float64Array,
    Int8Array,
    Int64Array,
    UInt64Array,
    compiled_nogil,
    compiled_nogil_bounded,
    inlined,
    int64,
)
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.rules import DRAW, NOT_OVER, STREAM_OPPONENT, is_legal, mover_after, opened_cell, place

# ---------------------------------------------------------------------------------------------------------------------
# UCT


def _count_steps(batch: SearchBatch, simulations: int = 1) -> int:
    """Return a bound on cell reads, reached by simulations that are played to the end."""
    return simulations * int(batch.cells.size * batch.cells.shape[1])


@compiled_nogil_bounded(lambda batch, c, decisive, keys, first, last: _count_steps(batch, last - first))
def run_uct(batch: SearchBatch, c: float, decisive: bool, keys: UInt64Array, first: int, last: int) -> None:
    """Run the simulations ``first`` to ``last`` - 1, with random play to the end, in one tree after another.

    ``keys`` uint64[B] are those of the trees.
    """
    for b in range(len(batch.cells)):
        tree = tree_view(b, batch)
        for simulation in range(first, last):
            key = splitmix64(keys[b], simulation)
            mover, stones = _descend(b, key, c, decisive, batch, tree)
            depth = batch.depths[b]
            value = 0.0
            if not is_solved(tree.path[depth], tree.nodes):
                value = _rollout(tree.board, mover, stones, key, batch.parameters, batch.probe, batch.scratch)
            backup_uct(value, depth, tree, batch.parameters, decisive)


@compiled_nogil_bounded(lambda batch, *rest: _count_steps(batch))
def simulate_uct(
    batch: SearchBatch,
    c: float,
    decisive: bool,
    keys: UInt64Array,
    simulation: int,
    leaves: Int8Array,
    movers: Int8Array,
) -> int:
    """Select and expand for one simulation in all trees; the stones stay on the boards.

    Returns:
        The number of positions to evaluate, written to ``leaves`` int8[B, cells] and ``movers`` int8[B].
    """
    count = int64(0)
    for b in range(len(batch.cells)):
        tree = tree_view(b, batch)
        mover, _ = _descend(b, splitmix64(keys[b], simulation), c, decisive, batch, tree)
        if not is_solved(tree.path[batch.depths[b]], tree.nodes):
            add_leaf(tree.board, mover, leaves, movers, count)
            count += 1
    return count


@compiled_nogil_bounded(lambda batch, *rest: _count_steps(batch))
def backup_uct_all(batch: SearchBatch, decisive: bool, movers: Int8Array, values: Float64Array) -> None:
    """Finish :func:`simulate_uct` with ``values`` float64[A] of these positions for their movers."""
    used = int64(0)
    for b in range(len(batch.cells)):
        tree = tree_view(b, batch)
        depth, value = batch.depths[b], 0.0
        if not is_solved(tree.path[depth], tree.nodes):
            value = values[used] if movers[used] == 0 else -values[used]
            used += 1
        backup_uct(value, depth, tree, batch.parameters, decisive)


@inlined
def _descend(b: int, key: np.uint64, c: float, decisive: bool, batch: SearchBatch, tree: TreeView) -> tuple[int, int]:
    """Descend tree ``b`` to a solved or unvisited node, putting the stones on the board.

    Returns:
        (the node's mover, its number of stones).
    """
    nodes, parameters = tree.nodes, batch.parameters
    mover = 1 - int64(tree.edges.player[0])
    stones, count = batch.stones[b], batch.counts[b]
    node = int64(0)
    depth = 0
    tree.path[0] = 0
    while True:
        if nodes.num_legal[node] == 0 or nodes.num_children[node] < nodes.num_legal[node]:
            cell = draw_untried(node, mover, stones, key, tree, parameters, decisive, batch.scratch)
            edge = count
            count += 1
            add_edge(edge, cell, node, mover, stones, tree, parameters)
        else:
            edge = select_uct(node, tree, c)
            tree.board[tree.edges.cell[edge]] = mover + 1
        after = mover_after(mover, key, stones, parameters)
        node = edge * tree.turns_per_move + int64(after == mover)
        mover = after
        stones += 1
        depth += 1
        tree.path[depth] = node
        if nodes.visits[node] == 0 or is_solved(node, nodes):
            break
    batch.depths[b], batch.counts[b] = depth, count
    if stones == batch.probe.stones and not is_solved(node, nodes):
        probe_edge(edge, tree, parameters, batch.probe)
    return mover, stones


@compiled_nogil
def _rollout(
    board: Int8Array,
    mover: int,
    stones: int,
    key: np.uint64,
    parameters: Parameters,
    probe: Probe,
    scratch: Workspace,
) -> float:
    """Return the result for player_0 of random play to the end, or to a position in the database."""
    cells, empty = scratch.closed, scratch.visits
    left = 0
    for cell in range(len(board)):
        cells[cell] = board[cell]
        empty[left] = cell
        left += int64(is_legal(board, cell, parameters))
    while True:
        chosen = int(uniform(key, STREAM_OPPONENT, stones) * left)
        cell = empty[chosen]
        opened = opened_cell(cell, parameters)
        if opened >= 0:
            empty[chosen] = opened
        else:
            left -= 1
            empty[chosen] = empty[left]
        outcome = place(cells, mover, cell, stones, parameters)
        if outcome != NOT_OVER:
            return 0.0 if outcome == DRAW else 1.0 - 2.0 * outcome
        mover = mover_after(mover, key, stones, parameters)
        stones += 1
        if stones == probe.stones:
            return (1.0 - 2.0 * mover) * result_for_last_player(cells, mover, True, probe, parameters)


# ---------------------------------------------------------------------------------------------------------------------
# Guided searches: PUCT and Gumbel


@inlined
def simulate(
    b: int,
    considered_visit: int,
    params: SelectionParams,
    batch: SearchBatch,
    leaves: Int8Array,
    movers: Int8Array,
    asked: int,
) -> int:
    """Select and expand for one simulation in tree ``b``; the stones stay on its board.

    Args:
        b: the tree.
        considered_visit: number of earlier visits of the root's move to make now; -1: only evaluate the root, if it
            has not been.
        params: parameters of action selection.
        batch: the trees.
        leaves, movers: int8[A, cells] and int8[A], written: positions to evaluate, after the first ``asked``.
        asked: number of positions so far.

    Returns:
        The new number of positions, at most 2 more.
    """
    tree, scratch = tree_view(b, batch), batch.scratch
    skip = batch.parameters.skip_chance
    mover = 1 - int64(tree.edges.player[0])
    node, depth, stones = int64(0), int64(0), batch.stones[b]
    tree.path[0] = 0
    batch.depths[b] = -1
    if tree.nodes.visits[0] == 0:
        batch.depths[b] = 0
        add_leaf(tree.board, mover, leaves, movers, asked)
        return asked + 1
    if considered_visit < 0 or is_solved(0, tree.nodes):
        return asked
    while True:
        if node == 0 and params.rule == GUMBEL:
            cell, edge = select_root_gumbel(considered_visit, params.root_logits[b], params, tree, scratch.closed)
            if cell < 0:  # no move of the root has this number of visits
                return asked
        else:
            cell, edge = select_guided(node, params, tree, scratch)
        depth += 1
        if edge == 0:
            edge = batch.counts[b]
            batch.counts[b] += 1
            tree.nodes.next_prior[node] = next_prior(node, cell, tree.priors)
            tree.path[depth] = edge * tree.turns_per_move
            batch.depths[b] = depth
            outcome = add_edge(edge, cell, node, mover, stones, tree, batch.parameters)
            if outcome == NOT_OVER:
                asked = _init_children(edge, node, mover, stones + 1, tree, batch, leaves, movers, asked)
            return asked
        tree.board[cell] = mover + 1
        stones += 1
        node = select_turn(edge, tree, skip)
        tree.path[depth] = node
        if is_solved(node, tree.nodes):
            batch.depths[b] = depth
            return asked
        mover = mover if node % tree.turns_per_move == 1 else 1 - mover


@inlined
def _init_children(
    edge: int,
    node: int,
    mover: int,
    stones: int,
    tree: TreeView,
    batch: SearchBatch,
    leaves: Int8Array,
    movers: Int8Array,
    asked: int,
) -> int:
    """Initialise the positions after a new edge of ``node``; return ``asked`` plus the number of those to evaluate."""
    if stones == batch.probe.stones:
        probe_edge(edge, tree, batch.parameters, batch.probe)
        return asked
    is_foreseen = tree.turns_per_move == 1 and node > 0
    for turn in range(tree.turns_per_move):
        child, next_mover = edge * tree.turns_per_move + turn, mover if turn == 1 else 1 - mover
        if init_child(child, next_mover, is_foreseen, tree, batch.parameters, batch.scratch.forced_mask):
            add_leaf(tree.board, next_mover, leaves, movers, asked)
            asked += 1
    return asked


@inlined
def backup(
    b: int, batch: SearchBatch, movers: Int8Array, prior_logits: Float32Array, values: Float64Array, answered: int
) -> int:
    """Finish the simulation of :func:`simulate` in tree ``b``: expand and back up.

    Args:
        b: the tree.
        batch: the trees.
        movers: as for :func:`simulate`.
        prior_logits: float32[A, cells] of the positions to evaluate, up to a constant.
        values: float64[A], values of these positions for their movers.
        answered: number of evaluations consumed by earlier trees.

    Returns:
        ``answered`` plus the number consumed by this tree.
    """
    depth = batch.depths[b]
    if depth < 0:
        return answered
    tree = tree_view(b, batch)
    nodes, node = tree.nodes, tree.path[depth]
    if nodes.visits[node] > 0:  # no new node
        nodes.visits[node] += 1
    else:
        for turn in range(tree.turns_per_move if node > 0 else 1):
            if is_solved(node + turn, nodes):
                nodes.visits[node + turn] = 1
            else:
                mover, logits, value = int64(movers[answered]), prior_logits[answered], values[answered]
                expand(node + turn, mover, logits, value, tree, batch.parameters, batch.scratch.forced_mask)
                answered += 1
    backup_guided(depth, tree, batch.parameters)
    return answered


@compiled_nogil
def simulate_all(
    considered_visit: Int64Array, params: SelectionParams, batch: SearchBatch, leaves: Int8Array, movers: Int8Array
) -> int:
    """Run :func:`simulate` in all trees, ``considered_visit`` int64[B]; return the number of positions to evaluate.

    They are written to ``leaves`` int8[2 * B, cells] and ``movers`` int8[2 * B], tree by tree.
    """
    asked = int64(0)
    for b in range(len(considered_visit)):
        asked = simulate(b, considered_visit[b], params, batch, leaves, movers, asked)
    return asked


@compiled_nogil
def backup_all(batch: SearchBatch, movers: Int8Array, prior_logits: Float32Array, values: Float64Array) -> None:
    """Run :func:`backup` in all trees with the evaluations of these positions."""
    answered = int64(0)
    for b in range(len(batch.cells)):
        answered = backup(b, batch, movers, prior_logits, values, answered)
