"""Selection: the move that a simulation makes at a node, and the turn that follows it."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from baselines.mcts.tree import Edges, TreeView, Workspace, edge_visits, is_solved
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, inlined, int64


class SelectionRule(IntEnum):
    """How a guided simulation selects moves, see :mod:`baselines.mcts`."""

    PUCT = 0
    GUMBEL = 1


PUCT, GUMBEL = SelectionRule


class SelectionParams(NamedTuple):
    """Parameters of action selection in B guided trees."""

    rule: int
    """a `SelectionRule`, as a plain integer: a member would slow down every call of a kernel"""
    c: float
    """exploration weight of PUCT"""
    root_logits: Float64Array
    """float64[B, cells], Gumbel: noise plus log priors of the root's moves, -inf for moves that are not considered;
    else float64[B, 0]"""
    maxvisit_init: float
    """visit offset of the Gumbel rule"""
    value_scale: float


@inlined
def select_uct(node: int, tree: TreeView, c: float) -> int:
    """Return the edge with the largest upper confidence bound; ties go to the one tried last."""
    edges = tree.edges
    width = 0.0 if is_solved(node, tree.nodes) else c * math.sqrt(math.log(tree.nodes.visits[node]))
    best = 0
    most = -np.inf
    edge = int64(tree.nodes.first_child[node])
    while edge > 0:
        bound = edges.q[edge] + width * edges.inv_sqrt_visits[edge]
        if bound > most:
            most = bound
            best = edge
        edge = int64(edges.next_sibling[edge])
    return best


@inlined
def view_sign(node: int, turns_per_move: int) -> float:
    """Return 1 if the mover at a node is the player of the edge above, else -1."""
    return 1.0 if node % turns_per_move == 1 else -1.0


@inlined
def scan_children(node: int, tree: TreeView, scratch: Workspace) -> tuple[int, int, int, float, float]:
    """Collect the edges of a node, the last one first, and the value of unvisited moves.

    Written into ``scratch``, edge by edge: ``q`` values for the mover, ``p`` priors, ``visits`` simulations, and
    ``edges`` themselves.

    Returns:
        (number of edges, their simulations in total, maximum simulations of an edge, their total prior, and the mixed
        value, which is the value of unvisited moves).
    """
    _, _, visits, edges, q, p = scratch
    count, total, most, likely, mean = int64(0), int64(0), int64(0), 0.0, 0.0
    edge = int64(tree.nodes.first_child[node])
    while edge > 0:
        q[count], p[count] = tree.edges.q[edge], tree.priors[node, tree.edges.cell[edge]]
        visits[count], edges[count] = edge_visits(edge, tree.nodes, tree.turns_per_move, True), edge
        total += visits[count]
        most = max(most, visits[count])
        likely += p[count]
        mean += p[count] * q[count]
        count += 1
        edge = int64(tree.edges.next_sibling[edge])
    mixed_value = view_sign(node, tree.turns_per_move) * tree.raw_values[node]
    if total > 0:
        mixed_value = (mixed_value + total * mean / likely) / (1 + total)
    return count, total, most, likely, mixed_value


@inlined
def select_guided(node: int, params: SelectionParams, tree: TreeView, scratch: Workspace) -> tuple[int, int]:
    """Return the move selected by PUCT, or by the Gumbel rule below the root: (cell, edge, 0 if unvisited)."""
    count, total, most, likely, mixed_value = scan_children(node, tree, scratch)
    if params.rule == PUCT:
        return _select_puct(node, count, tree, scratch, params.c, total, mixed_value)
    scale = (params.maxvisit_init + most) * params.value_scale
    return _select_improved_policy(node, count, tree, scratch, scale, total, likely, mixed_value)


@inlined
def _select_puct(
    node: int, count: int, tree: TreeView, scratch: Workspace, c: float, total: int, mixed_value: float
) -> tuple[int, int]:
    """Return the move selected by PUCT. The output of :func:`scan_children` is overwritten."""
    _, _, visits, edges, q, p = scratch
    width = c * math.sqrt(1.0 + total)  # 1: the evaluation is a visit, so the first move is the likeliest
    cell, most = int64(tree.nodes.next_prior[node]), -np.inf
    if cell >= 0:
        most = mixed_value + width * tree.priors[node, cell]
    for i in range(count):
        p[i] = q[i] + width * p[i] / (1.0 + visits[i])
    return _argmax(cell, most, count, tree.edges, edges, p)


@inlined
def _select_improved_policy(
    node: int,
    count: int,
    tree: TreeView,
    scratch: Workspace,
    scale: float,
    total: int,
    likely: float,
    mixed_value: float,
) -> tuple[int, int]:
    """Return the move that brings visits closest to the improved policy.

    Unvisited moves share one value, so the likeliest of them is the best. The output of :func:`scan_children` is
    overwritten.
    """
    _, _, visits, edges, q, p = scratch
    cell, most, highest = int64(tree.nodes.next_prior[node]), -np.inf, -np.inf
    if cell >= 0:
        highest = mixed_value
    for i in range(count):
        highest = max(highest, q[i])
    weights = 0.0
    if cell >= 0:
        weight = math.exp(scale * (mixed_value - highest))
        prior = float(tree.priors[node, cell])
        weights = max(prior, 1.0 - likely) * weight
        most = (1 + total) * prior * weight
    for i in range(count):
        p[i] *= math.exp(scale * (q[i] - highest))
        weights += p[i]
    for i in range(count):
        p[i] = (1 + total) * p[i] - visits[i] * weights
    return _argmax(cell, most, count, tree.edges, edges, p)


@inlined
def _argmax(
    cell: int, most: float, count: int, edges: Edges, scanned: Int64Array, scores: Float64Array
) -> tuple[int, int]:
    """Return the move of the highest score, (cell, edge, 0 if unvisited); ties go to the first cell.

    ``most`` is the score of the unvisited ``cell``; ``scores`` are those of the edges ``scanned``.
    """
    best = int64(0)
    for i in range(count):
        score = scores[i]
        if score > most or (score == most and edges.cell[scanned[i]] < cell):
            cell, best, most = int64(edges.cell[scanned[i]]), scanned[i], score
    return cell, best


@inlined
def select_root_gumbel(
    considered_visit: int, root_logits: Float64Array, params: SelectionParams, tree: TreeView, visited: Int8Array
) -> tuple[int, int]:
    """Return the best of the root's moves with ``considered_visit`` visits, (cell, edge); -1 if there is none.

    Unvisited moves all have the same value, so only noise and priors rank them. ``visited`` is scratch.
    """
    edges, nodes, turns_per_move = tree.edges, tree.nodes, tree.turns_per_move
    best, best_edge, most = int64(-1), int64(0), -np.inf
    most_visits = int64(0)
    for cell in range(len(visited)):
        visited[cell] = 0
    edge = int64(nodes.first_child[0])
    while edge > 0:
        most_visits = max(most_visits, edge_visits(edge, nodes, turns_per_move, True))
        visited[edges.cell[edge]] = 1
        edge = int64(edges.next_sibling[edge])
    if considered_visit == 0:
        for cell in range(len(visited)):
            if visited[cell] == 0 and root_logits[cell] > most:
                best, most = cell, root_logits[cell]
        return best, best_edge
    scale = (params.maxvisit_init + most_visits) * params.value_scale
    edge = int64(nodes.first_child[0])
    while edge > 0:
        if edge_visits(edge, nodes, turns_per_move, True) == considered_visit:
            cell = int64(edges.cell[edge])
            score = root_logits[cell] + scale * edges.q[edge]
            if score > most or (score == most and cell < best):
                best, best_edge, most = cell, edge, score
        edge = int64(edges.next_sibling[edge])
    return best, best_edge


@inlined
def select_turn(edge: int, tree: TreeView, skip: float) -> int:
    """Return the node after an edge in which a simulation continues: an unsolved one with the smallest share of its
    visits.
    """
    nodes, first = tree.nodes, edge * tree.turns_per_move
    if tree.turns_per_move == 1 or is_solved(first + 1, nodes):
        return first
    if is_solved(first, nodes):
        return first + 1
    return first + int64(skip * nodes.visits[first] > (1.0 - skip) * nodes.visits[first + 1])
