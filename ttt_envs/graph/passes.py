"""The two passes over the layers of a game: probabilities flow forward along the moves, values flow
back.

A time step of a discount is a decision of one player: the other player's moves and skipped turns
take no time. After a move the other player moves next, a *switch*, or the mover goes on, a *stay*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.hash_index import extend_rows
from ttt_envs.core.jit import BoolArray, Float64Array, inlined, kernel
from ttt_envs.graph.layers import LINE, Layer, Nodes, Traversal, stay_chance

WIN_0, WIN_1, DRAW, ILLEGAL = range(4)
"""Results of a game: player_0 wins, player_1 wins, nobody does; it ends by an illegal move."""
ROUNDING = 1e-12
"""Relative error of sums of probabilities: what they lack to 1 is no chance of an illegal move."""
NO_COSTS = np.zeros(0)


class Discount(NamedTuple):
    """Weight of later decisions of a player."""

    player: int = 0
    factor: float = 1.0


NO_DISCOUNT = Discount()


class MoveModel(NamedTuple):
    """What may follow a move of one player."""

    skip: float
    """the skip chance"""
    winner: int
    """the player who wins by a line of the mover"""
    stay_factor: float
    """factor of the values if the mover goes on"""
    switch_factor: float
    """factor of the values if the other player moves next"""


def forward(
    traversal: Traversal, results: Float64Array | None = None, *, keep: bool = False
) -> Iterator[tuple[Layer, Nodes, Float64Array]]:
    """Yield a layer, nodes and their probabilities, float64[B], in order.

    Args:
        traversal: the traversal.
        results: float64[4], to which the probabilities of the results are added.
        keep: whether the layers are kept, with the probabilities of their nodes.

    Raises:
        ValueError: a policy that does not play by the rules.
        MemoryError: the layers will not fit into memory.
    """
    sums = np.zeros(4) if results is None else results
    for layer, next_layer, nodes in traversal.walk(keep=keep):
        if layer.depth == 0:
            layer.mass = np.array([[1.0, 0.0]])
        if len(next_layer.mass) < len(next_layer.reach):
            next_layer.mass = extend_rows(next_layer.mass, len(next_layer.reach))
        winner = traversal.line_winner(nodes.mover)
        _push(nodes, traversal.skip, winner, 1.0, layer.mass, next_layer.mass, sums)
        yield layer, nodes, layer.mass[nodes.rows, nodes.mover]


def forward_again(
    traversal: Traversal, results: Float64Array, discount: Discount = NO_DISCOUNT
) -> Iterator[Float64Array]:
    """Yield the probabilities float64[B] of kept nodes in order, as :func:`forward`.

    With a discount they are weighed by ``factor**n``, where n is the number of earlier decisions of
    its player.
    """
    mass = np.array([[1.0, 0.0]])
    layers = traversal.layers
    for layer, next_layer in zip(layers, [*layers[1:], Layer(len(layers))], strict=True):
        next_mass = np.zeros((next_layer.index.size, 2))
        for kept_nodes in layer.nodes:
            nodes = traversal.with_edges(layer, next_layer, kept_nodes)
            factor = discount.factor if nodes.mover == discount.player else 1.0
            winner = traversal.line_winner(nodes.mover)
            _push(nodes, traversal.skip, winner, factor, mass, next_mass, results)
            yield mass[nodes.rows, nodes.mover]
        next_layer.pack()
        mass = next_mass


def backward(
    traversal: Traversal,
    *,
    best: tuple[bool, bool] | None = None,
    discount: Discount = NO_DISCOUNT,
    costs: Sequence[Float64Array] | None = None,
) -> Iterator[tuple[Layer, Nodes, Float64Array, Float64Array]]:
    """Yield kept nodes from the last layer to the first.

    Args:
        traversal: the nodes.
        best: whether a player makes the best moves, and else those of its policy; by default if it
            has no policy.
        discount: of the values, which are then those of its player only.
        costs: for all nodes in order, float64[K]: what each edge costs its mover; None for nothing.

    Yields:
        The layer; nodes; float64[size, 2, 2], chances that player_0 and player_1 win in each node
        of the layer, by the player to move, of which those of the nodes are written; float64[K],
        the mover's expected result after each edge.
    """
    if best is None:
        best = traversal.players[0] is None, traversal.players[1] is None
    number = sum(len(layer.nodes) for layer in traversal.layers)
    values = next_values = np.zeros((0, 2, 2))
    current_layer = None
    for layer, _, nodes in traversal.walk_back():
        number -= 1
        if layer is not current_layer:
            current_layer = layer
            next_values = values
            values = np.zeros((layer.index.size, 2, 2))
        mover = nodes.mover
        model = MoveModel(
            traversal.skip,
            traversal.line_winner(mover),
            discount.factor if mover == discount.player else 1.0,
            discount.factor,
        )
        is_first_switch = np.ones(len(nodes.rows), np.bool_)
        if discount.factor != 1 and mover != discount.player:
            is_first_switch = _has_not_moved(traversal, layer, nodes)
        edge_costs = NO_COSTS if costs is None else costs[number]
        gains = np.empty(len(nodes.child))
        _pull(nodes, model, best[mover], is_first_switch, edge_costs, next_values, values, gains)
        yield layer, nodes, values, gains


def _has_not_moved(traversal: Traversal, layer: Layer, nodes: Nodes) -> BoolArray:
    """Return bool[B]: whether the player who is not to move has not moved yet."""
    shift = traversal.rules.shift
    keys = layer.index.keys[nodes.rows, 0] >> np.uint64(shift * (1 - nodes.mover))
    return np.asarray(keys & np.uint64((1 << shift) - 1) == 0)


# --------------------------------------------------------------------------------------------------
# Kernels


@kernel(nogil=True)
def _push(
    nodes: Nodes,
    skip: float,
    winner: int,
    factor: float,
    mass: Float64Array,
    next_mass: Float64Array,
    results: Float64Array,
) -> None:
    """Add a share ``factor`` of the probability of nodes to what their moves lead to.

    Args:
        nodes: the nodes.
        skip: the skip chance.
        winner: who wins by a line of the mover.
        factor: of the nodes of the next layer.
        mass, next_mass: float64[size, 2]: of the nodes and of the next layer, by the player to
            move.
        results: float64[4].
    """
    mover, rows, ends, child, action, share = nodes
    k = 0
    # sums of some nodes at a time keep rounding small
    lines = 0.0
    draws = 0.0
    illegal = 0.0
    for b in range(len(rows)):
        node_mass = mass[rows[b], mover]
        unplayed = node_mass
        while k < ends[b]:
            edge_mass = node_mass * share[k]
            unplayed -= edge_mass
            if child[k] >= 0:
                stay = stay_chance(action[k], skip)
                next_mass[child[k], 1 - mover] += (1.0 - stay) * edge_mass * factor
                next_mass[child[k], mover] += stay * edge_mass * factor
            elif child[k] == LINE:
                lines += edge_mass
            else:
                draws += edge_mass
            k += 1
        illegal += unplayed if unplayed > ROUNDING * node_mass else 0.0
    results[winner] += lines
    results[DRAW] += draws
    results[ILLEGAL] += illegal


@inlined
def _chance(
    k: int,
    player: int,
    nodes: Nodes,
    model: MoveModel,
    switch_factor: float,
    next_values: Float64Array,
) -> float:
    """Return the chance that a player wins after edge ``k``."""
    child = nodes.child[k]
    if child < 0:
        return 1.0 if child == LINE and model.winner == player else 0.0
    stay = stay_chance(nodes.action[k], model.skip)
    chance: float = (1.0 - stay) * switch_factor * next_values[child, 1 - nodes.mover, player]
    if stay > 0:
        chance += stay * model.stay_factor * next_values[child, nodes.mover, player]
    return chance


@inlined
def _mean_of_best(
    begin: int,
    end: int,
    nodes: Nodes,
    model: MoveModel,
    switch_factor: float,
    costs: Float64Array,
    next_values: Float64Array,
    gains: Float64Array,
) -> tuple[float, float]:
    """Return the chances that the mover wins and loses by its best edges of ``begin`` to ``end -
    1``, given all gains.
    """
    best = -np.inf
    for k in range(begin, end):
        best = gains[k] if gains[k] > best else best
    count = 0.0
    win = 0.0
    loss = 0.0
    for k in range(begin, end):
        if gains[k] >= best - VALUE_TOLERANCE:
            count += 1.0
            win += _chance(k, nodes.mover, nodes, model, switch_factor, next_values)
            loss += _chance(k, 1 - nodes.mover, nodes, model, switch_factor, next_values)
            if len(costs) > 0:
                win -= costs[k]
    win /= count
    loss /= count
    # moves within VALUE_TOLERANCE of the best share wins and losses without lowering the value
    missing = best - (win - loss)
    if missing > 0:
        moved = min(missing, loss)
        loss -= moved
        win += missing - moved
    return win, loss


@kernel(nogil=True)
def _pull(
    nodes: Nodes,
    model: MoveModel,
    best: bool,
    is_first_switch: BoolArray,
    costs: Float64Array,
    next_values: Float64Array,
    values: Float64Array,
    gains: Float64Array,
) -> None:
    """Write the chances of nodes: the mean of their edges, or that of the best ones. What the
    probabilities of edges lack to 1 is an illegal move, which loses.

    Args:
        nodes: the nodes.
        model: of the mover's moves.
        best: whether the best moves are made.
        is_first_switch: bool[B]: whether the factor of a switch is 1, in place of that of the
            model.
        costs: float64[K], of the mover; empty for nothing.
        next_values: float64[size, 2, 2]: the values of the next layer.
        values: float64[size, 2, 2], written.
        gains: float64[K], written: the mover's expected result after each edge.
    """
    mover, rows, ends, _, _, share = nodes
    begin = 0
    for b in range(len(rows)):
        switch_factor = 1.0 if is_first_switch[b] else model.switch_factor
        win = 0.0
        loss = 0.0
        unplayed = 1.0
        for k in range(begin, ends[b]):
            edge_win = _chance(k, mover, nodes, model, switch_factor, next_values)
            edge_loss = _chance(k, 1 - mover, nodes, model, switch_factor, next_values)
            if len(costs) > 0:
                edge_win -= costs[k]
            gains[k] = edge_win - edge_loss
            if not best:
                win += share[k] * edge_win
                loss += share[k] * edge_loss
                unplayed -= share[k]
        if best:
            win, loss = _mean_of_best(
                begin, ends[b], nodes, model, switch_factor, costs, next_values, gains
            )
        elif unplayed > ROUNDING:
            loss += unplayed
        values[rows[b], mover, mover] = win
        values[rows[b], mover, 1 - mover] = loss
        begin = ends[b]
