"""Selection: the move that a simulation makes at a node, and the turn that follows it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from baselines.mcts.tree import Tree, is_skip, is_solved
from ttt_envs.core.jit import Float64Array, inlined, int64, pasted
from ttt_envs.game.bits import where


class SelectionParams(NamedTuple):
    """Parameters of action selection in B trees, by PUCT or, with ``root_logits``, by the Gumbel
    rule.
    """

    c: float
    """exploration weight of PUCT"""
    root_logits: Float64Array | None = None
    """float64[B, cells]: noise plus log priors of the root's moves, -inf for moves that are not
    considered
    """
    maxvisit_init: float = 0.0
    """visit offset of the Gumbel rule"""
    value_scale: float = 0.0

    def rows(self, rows: slice) -> SelectionParams:
        """Return the parameters of some of the trees."""
        if self.root_logits is None:
            return self
        return self._replace(root_logits=self.root_logits[rows])


@pasted
def view_sign(node: int, tree: Tree) -> float:
    """Return 1 if the mover at a node is the player of the edge above, else -1."""
    return 1.0 if is_skip(node, tree) else -1.0


@pasted
def prior_of(b: int, node: int, cell: int, tree: Tree) -> float:
    """Return the prior of a move; equal priors are 1 / sqrt(number of moves), see
    :mod:`baselines.mcts`.
    """
    if tree.priors.shape[2] > 0:
        return float(tree.priors[b, node, cell])
    return 1.0 / math.sqrt(tree.nodes[b][node].num_legal)


@pasted
def mixed_value(b: int, node: int, prior_sum: float, q_sum: float, tree: Tree) -> float:
    """Return the value of unvisited moves, from the sums over the others of the priors, and of the
    values times these.

    It is for the mover: the mean of the raw value and of the moves' mean value, weighted by their
    visits.
    """
    record = tree.nodes[b][node]
    value = view_sign(node, tree) * record.raw_value
    visits = int64(record.visits) - 1
    if visits > 0:
        value = (value + visits * q_sum / prior_sum) / (1 + visits)
    return float(value)


@pasted
def select_puct(b: int, node: int, c: float, tree: Tree) -> tuple[int, int]:
    """Return the move selected by PUCT: (cell or `ANY`, edge, 0 if unvisited); ties go to the first
    cell.
    """
    edges = tree.edges[b]
    record = tree.nodes[b][node]
    width = c * math.sqrt(record.visits)  # with the evaluation, so the first move is the likeliest
    best_cell = -1
    best = 0
    best_score = -np.inf
    prior_sum = 0.0
    q_sum = 0.0
    edge = int64(record.first_child)
    while edge > 0:
        move = edges[edge]
        cell = int64(move.cell)
        p = move.p
        q = move.q
        score = q + width * p / (1.0 + move.visits)
        # without branches, which would be mispredicted at every other node
        is_better = int64((score > best_score) | ((score == best_score) & (cell < best_cell)))
        best_cell = where(is_better, cell, best_cell)
        best = where(is_better, edge, best)
        best_score = score if score > best_score else best_score
        prior_sum += p
        q_sum += p * q
        edge = int64(move.next_sibling)
    cell = int64(record.next_cell)
    if cell >= 0:
        score = mixed_value(b, node, prior_sum, q_sum, tree) + width * prior_of(b, node, cell, tree)
        if score > best_score or (score == best_score and cell < best_cell):
            return cell, int64(0)
    return best_cell, best


@pasted
def scan_children(b: int, node: int, tree: Tree) -> tuple[int, float, float, float]:
    """Return the most visits of a node's edges, their highest value, the mixed value, and their sum
    of priors.
    """
    most_visits = 0
    max_q = -np.inf
    prior_sum = 0.0
    q_sum = 0.0
    edge = int64(tree.nodes[b][node].first_child)
    while edge > 0:
        move = tree.edges[b][edge]
        most_visits = max(most_visits, int64(move.visits))
        max_q = max(max_q, move.q)
        prior_sum += move.p
        q_sum += move.p * move.q
        edge = int64(move.next_sibling)
    return most_visits, max_q, mixed_value(b, node, prior_sum, q_sum, tree), prior_sum


@pasted
def select_improved(b: int, node: int, params: SelectionParams, tree: Tree) -> tuple[int, int]:
    """Return the move that brings visits closest to the improved policy, as :func:`select_puct`.

    Unvisited moves share one value, so the likeliest of them is the best.
    """
    edges = tree.edges[b]
    record = tree.nodes[b][node]
    weights = tree.scratch.weights
    most_visits, max_q, value, prior_sum = scan_children(b, node, tree)
    scale = (params.maxvisit_init + most_visits) * params.value_scale
    best_cell = int64(record.next_cell)
    best = 0
    score = -np.inf
    weight_sum = 0.0
    visits = int64(record.visits)
    if best_cell >= 0:
        max_q = max(max_q, value)
        weight = math.exp(scale * (value - max_q))
        p = prior_of(b, node, best_cell, tree)
        weight_sum = max(p, 1.0 - prior_sum) * weight
        score = visits * p * weight
    edge = int64(record.first_child)
    while edge > 0:
        move = edges[edge]
        weights[move.cell] = move.p * math.exp(scale * (move.q - max_q))
        weight_sum += weights[move.cell]
        edge = int64(move.next_sibling)
    edge = int64(record.first_child)
    while edge > 0:
        move = edges[edge]
        cell = int64(move.cell)
        move_score = visits * weights[cell] - move.visits * weight_sum
        if move_score > score or (move_score == score and cell < best_cell):
            best_cell = cell
            best = edge
            score = move_score
        edge = int64(move.next_sibling)
    return best_cell, best


@pasted
def select_root_gumbel(
    b: int, considered_visit: int, root_logits: Float64Array, params: SelectionParams, tree: Tree
) -> tuple[int, int]:
    """Return the best of the root's moves with ``considered_visit`` visits, (cell, edge); -1 if
    there is none.

    Unvisited moves all have the same value, so only noise and priors rank them.
    """
    edges = tree.edges[b]
    is_visited = tree.scratch.mask
    best_cell = -1
    best = 0
    best_score = -np.inf
    scale = (params.maxvisit_init + scan_children(b, 0, tree)[0]) * params.value_scale
    for cell in range(len(is_visited)):
        is_visited[cell] = 0
    edge = int64(tree.nodes[b][0].first_child)
    while edge > 0:
        move = edges[edge]
        cell = int64(move.cell)
        is_visited[cell] = 1
        if move.visits == considered_visit:
            score = root_logits[b, cell] + scale * move.q
            if score > best_score or (score == best_score and cell < best_cell):
                best_cell = cell
                best = edge
                best_score = score
        edge = int64(move.next_sibling)
    if considered_visit == 0:
        for cell in range(len(is_visited)):
            if is_visited[cell] == 0 and root_logits[b, cell] > best_score:
                best_cell = int64(cell)
                best_score = root_logits[b, cell]
    return best_cell, best


@inlined
def select_move(
    b: int,
    node: int,
    considered_visit: int,
    root_logits: Float64Array | None,
    params: SelectionParams,
    tree: Tree,
) -> tuple[int, int]:
    """Return the move selected by the rule of ``params``; numba leaves out the other, by the type
    of an argument.
    """
    if root_logits is None:
        return select_puct(b, node, params.c, tree)
    if node > 0:
        return select_improved(b, node, params, tree)
    return select_root_gumbel(b, considered_visit, root_logits, params, tree)


@pasted
def select_turn(b: int, edge: int, tree: Tree) -> int:
    """Return the node after an edge in which a simulation continues: an unsolved one with the
    smallest share of its visits.
    """
    nodes = tree.nodes[b]
    turns = tree.turns_per_move
    skip = tree.parameters.skip_chance
    first = edge * turns
    if turns == 1 or is_solved(first + 1, nodes):
        return first
    if is_solved(first, nodes):
        return first + 1
    return first + int64(skip * nodes[first].visits > (1.0 - skip) * nodes[first + 1].visits)
