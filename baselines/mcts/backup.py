"""Backup: the result of a simulation along its path, and solved values."""

from __future__ import annotations

import math

from baselines.mcts.select import view_sign
from baselines.mcts.tree import Nodes, TreeView, edge_visits, is_solved
from ttt_envs.core.jit import inlined, int64
from ttt_envs.game.parameters import Parameters


@inlined
def backup_uct(value: float, depth: int, tree: TreeView, parameters: Parameters, decisive: bool) -> None:
    """Back up a visit along a path: remove the stones, and propagate solved values.

    Args:
        value: of the last node for player_0; ignored if that node is solved.
        depth: index of the last node in the path.
        tree: the tree.
        parameters: ``Game.parameters``.
        decisive: whether to propagate solved values.
    """
    edges, nodes, turns_per_move = tree.edges, tree.nodes, tree.turns_per_move
    skip = parameters.skip_chance
    for i in range(depth, -1, -1):
        node = tree.path[i]
        edge = node // turns_per_move
        sign = 1.0 - 2.0 * edges.player[edge]
        nodes.visits[node] += 1
        if is_solved(node, nodes):
            nodes.value_sum[node] = nodes.solved_value[node] * nodes.visits[node]
            value = sign * nodes.solved_value[node]
        else:
            nodes.value_sum[node] += sign * value
        if i == 0:
            break
        tree.board[edges.cell[edge]] = 0
        first = edge * turns_per_move
        last = first + turns_per_move - 1
        if decisive and edges.is_solved[edge] == 0 and is_solved(first, nodes) and is_solved(last, nodes):
            edges.is_solved[edge] = 1
            edges.q[edge] = _interpolate(nodes.solved_value[first], nodes.solved_value[last], skip)
            _propagate_solved(edge, tree.path[i - 1], tree)
        visits = nodes.visits[first]
        total = nodes.value_sum[first]
        if turns_per_move == 2:
            visits += nodes.visits[last]
            total += nodes.value_sum[last]
        edges.inv_sqrt_visits[edge] = 1.0 / math.sqrt(visits)
        if edges.is_solved[edge] == 1:
            value = sign * edges.q[edge]
        else:
            edges.q[edge] = total / visits


@inlined
def backup_guided(depth: int, tree: TreeView, parameters: Parameters) -> None:
    """Back up a visit along a path: remove the stones, and update values and solved values.

    A node's value is the visit-weighted mean of its raw value and the values of its edges.
    """
    edges, nodes, turns_per_move = tree.edges, tree.nodes, tree.turns_per_move
    skip = parameters.skip_chance
    for i in range(depth, 0, -1):
        edge = tree.path[i] // turns_per_move
        above = tree.path[i - 1]
        tree.board[edges.cell[edge]] = 0
        first = edge * turns_per_move
        last = first + turns_per_move - 1
        value = _node_value(first, nodes)
        if turns_per_move == 2:
            value = _interpolate(value, _node_value(last, nodes), skip)
        count = edge_visits(edge, nodes, turns_per_move, True)
        added = count * value - (count - 1) * edges.q[edge]
        edges.q[edge] = value
        nodes.value_sum[above] += view_sign(above, turns_per_move) * added
        nodes.visits[above] += 1
        if edges.is_solved[edge] == 0 and is_solved(first, nodes) and is_solved(last, nodes):
            edges.is_solved[edge] = 1
            _propagate_solved(edge, above, tree)


@inlined
def _interpolate(other: float, own: float, skip: float) -> float:
    """Return :func:`rules.value_over_skip`, rounded so that the mean of equal values, such as wins, is exact."""
    return other + skip * (own - other)


@inlined
def _node_value(node: int, nodes: Nodes) -> float:
    """Return the value of a visited position for the player of the edge above."""
    value: float = nodes.solved_value[node] if is_solved(node, nodes) else nodes.value_sum[node] / nodes.visits[node]
    return value


@inlined
def _propagate_solved(edge: int, node: int, tree: TreeView) -> None:
    """Update a node after one of its edges has been solved; this may solve the node."""
    edges, nodes = tree.edges, tree.nodes
    value = edges.q[edge]
    if value == 1.0:
        nodes.num_unsolved[node] = 0
        nodes.num_legal[node] = nodes.num_children[node]
    else:
        nodes.num_unsolved[node] -= 1
    if nodes.num_unsolved[node] == 0:
        best = value
        sibling = int64(nodes.first_child[node])
        while sibling > 0 and value < 1.0:
            best = max(best, edges.q[sibling])
            sibling = int64(edges.next_sibling[sibling])
        is_same_player = edges.player[node // tree.turns_per_move] == edges.player[edge]
        nodes.solved_value[node] = best if is_same_player else -best
