"""The two passes over the layers of a game: probabilities flow forward along the moves, values flow
back.

A time step of a discount is a decision of one player, whose *clock* counts: the other player's
moves and skipped turns take no time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.hash_index import extend_rows
from ttt_envs.core.jit import BoolArray, Float64Array, inlined, int64, kernel
from ttt_envs.game.phantom import visible
from ttt_envs.graph.layers import LINE, Layer, Nodes, Traversal, stay_chance

WIN_0, WIN_1, DRAW, ILLEGAL = range(4)
"""Results of a game: player_0 wins, player_1 wins, nobody does; it ends by an illegal move."""
ROUNDING = 1e-12
"""Relative error of sums of probabilities: what they lack to 1 is no chance of an illegal move."""
NO_COSTS = np.zeros(0)


class Clock(NamedTuple):
    """Discount of later decisions of a player."""

    player: int = 0
    discount: float = 1.0


NO_DISCOUNT = Clock()


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
    """
    sums = np.zeros(4) if results is None else results
    for layer, following, nodes in traversal.walk(keep=keep):
        if layer.depth == 0:
            layer.mass = np.array([[1.0, 0.0]])
        if len(following.mass) < len(following.reach):
            following.mass = extend_rows(following.mass, len(following.reach))
        _push(nodes, *_rules(traversal, nodes), 1.0, layer.mass, following.mass, sums)
        yield layer, nodes, layer.mass[nodes.rows, nodes.mover]


def forward_again(
    traversal: Traversal, results: Float64Array, clock: Clock = NO_DISCOUNT
) -> Iterator[Float64Array]:
    """Yield the probabilities float64[B] of kept nodes in order, as :func:`forward`.

    With a discount they are weighed by ``discount**n``, where n is the number of earlier decisions
    of the clock's player.
    """
    mass, layers = np.array([[1.0, 0.0]]), traversal.layers
    for layer, next_layer in zip(layers, [*layers[1:], Layer(len(layers))], strict=True):
        following = np.zeros((next_layer.index.size, 2))
        for compact in layer.nodes:
            nodes = traversal.with_edges(layer, next_layer, compact)
            factor = clock.discount if nodes.mover == clock.player else 1.0
            _push(nodes, *_rules(traversal, nodes), factor, mass, following, results)
            yield mass[nodes.rows, nodes.mover]
        next_layer.pack()
        mass = following


def _rules(traversal: Traversal, nodes: Nodes) -> tuple[float, int]:
    """Return the skip chance, and the player who wins by a line of the mover."""
    return traversal.game.skip_chance, 1 - nodes.mover if visible(
        traversal.game
    ).misere else nodes.mover


def backward(
    traversal: Traversal,
    *,
    best: tuple[bool, bool] | None = None,
    clock: Clock = NO_DISCOUNT,
    costs: Sequence[Float64Array] | None = None,
) -> Iterator[tuple[Layer, Nodes, Float64Array, Float64Array]]:
    """Yield kept nodes from the last layer to the first.

    Args:
        traversal: the nodes.
        best: whether a player makes the best moves, and else those of its policy; by default if it
            has no policy.
        clock: discount of the values, which are then those of its player only.
        costs: for all nodes in order, float64[K]: what each edge costs its mover; None for nothing.

    Yields:
        The layer; nodes; float64[size, 2, 2], chances that player_0 and player_1 win in each node
        of the layer, by the player to move, of which those of the nodes are written; float64[K],
        the mover's expected result after each edge.
    """
    if best is None:
        best = traversal.players[0] is None, traversal.players[1] is None
    layers = traversal.layers
    number = sum(len(layer.nodes) for layer in layers)
    following, empty = np.zeros((0, 2, 2)), Layer(len(layers))
    for layer, next_layer in zip(reversed(layers), [empty, *reversed(layers[1:])], strict=True):
        values = np.zeros((layer.index.size, 2, 2))
        for compact in reversed(layer.nodes):
            number -= 1
            nodes = traversal.with_edges(layer, next_layer, compact)
            gains, mover = np.empty(len(nodes.child)), nodes.mover
            factors = (clock.discount if mover == clock.player else 1.0, clock.discount)
            fresh = np.ones(len(nodes.rows), np.bool_)
            if clock.discount != 1 and mover != clock.player:
                fresh = _has_not_moved(traversal, layer, nodes)
            paid = NO_COSTS if costs is None else costs[number]
            _pull(
                nodes,
                *_rules(traversal, nodes),
                best[mover],
                factors,
                fresh,
                paid,
                following,
                values,
                gains,
            )
            yield layer, nodes, values, gains
        next_layer.pack()
        following = values


def _has_not_moved(traversal: Traversal, layer: Layer, nodes: Nodes) -> BoolArray:
    """Return bool[B]: whether the player who is not to move has not moved yet."""
    keys = layer.index.keys[nodes.rows, 0] >> np.uint64(traversal.shift * (1 - nodes.mover))
    return np.asarray(keys & np.uint64((1 << traversal.shift) - 1) == 0)


# --------------------------------------------------------------------------------------------------
# Kernels


@kernel(nogil=True)
def _push(
    nodes: Nodes,
    skip: float,
    winner: int,
    discount: float,
    mass: Float64Array,
    following: Float64Array,
    results: Float64Array,
) -> None:
    """Add a share ``discount`` of the probability of nodes to what their moves lead to.

    Args:
        nodes: the nodes.
        skip: the skip chance.
        winner: who wins by a line of the mover.
        discount: factor of the nodes of the next layer.
        mass, following: float64[size, 2]: of the nodes and of the next layer, by the player to
            move.
        results: float64[4].
    """
    mover, rows, ends, child, action, share = nodes
    k, lines, draws, lost = (
        int64(0),
        0.0,
        0.0,
        0.0,
    )  # sums of some nodes at a time keep rounding small
    for b in range(len(rows)):
        node_mass = mass[rows[b], mover]
        rest = node_mass
        while k < ends[b]:
            part = node_mass * share[k]
            rest -= part
            if child[k] >= 0:
                stay = stay_chance(action[k], skip)
                following[child[k], 1 - mover] += (1.0 - stay) * part * discount
                following[child[k], mover] += stay * part * discount
            elif child[k] == LINE:
                lines += part
            else:
                draws += part
            k += 1
        lost += rest if rest > ROUNDING * node_mass else 0.0
    results[winner] += lines
    results[DRAW] += draws
    results[ILLEGAL] += lost


@inlined
def _chance(
    child: int,
    stay: float,
    mover: int,
    player: int,
    winner: int,
    same: float,
    other: float,
    following: Float64Array,
) -> float:
    """Return the chance that a player wins after an edge; ``same`` and ``other`` are factors by the
    next mover.
    """
    if child < 0:
        return 1.0 if child == LINE and winner == player else 0.0
    chance: float = (1.0 - stay) * other * following[child, 1 - mover, player]
    if stay > 0:
        chance += stay * same * following[child, mover, player]
    return chance


@kernel(nogil=True)
def _pull(
    nodes: Nodes,
    skip: float,
    winner: int,
    best: bool,
    factors: tuple[float, float],
    fresh: BoolArray,
    costs: Float64Array,
    following: Float64Array,
    values: Float64Array,
    gains: Float64Array,
) -> None:
    """Write the chances of nodes: the mean of their edges, or that of the best ones.

    Args:
        nodes: the nodes.
        skip: the skip chance.
        winner: who wins by a line of the mover.
        best: whether the best moves are made.
        factors: of values if the same player moves next, and if the other one does, except where
            ``fresh``.
        fresh: bool[B].
        costs: float64[K], of the mover; empty for nothing.
        following: float64[size, 2, 2]: the values of the next layer.
        values: float64[size, 2, 2], written.
        gains: float64[K], written: the mover's expected result after each edge.
    """
    mover, rows, ends, child, action, share = nodes
    same, discount = factors
    begin = int64(0)
    for b in range(len(rows)):
        other = 1.0 if fresh[b] else discount
        out = values[rows[b], mover]
        top, count, win, loss = -np.inf, 0.0, 0.0, 0.0
        for k in range(begin, ends[b]):
            stay = stay_chance(action[k], skip)
            edge_win = _chance(child[k], stay, mover, mover, winner, same, other, following)
            edge_loss = _chance(child[k], stay, mover, 1 - mover, winner, same, other, following)
            if len(costs) > 0:
                edge_win -= costs[k]
            gains[k] = edge_win - edge_loss
            top = gains[k] if gains[k] > top else top
            if not best:
                win += share[k] * edge_win
                loss += share[k] * edge_loss
        if best:
            for k in range(begin, ends[b]):
                if gains[k] >= top - VALUE_TOLERANCE:
                    stay = stay_chance(action[k], skip)
                    count += 1.0
                    win += _chance(child[k], stay, mover, mover, winner, same, other, following)
                    loss += _chance(
                        child[k], stay, mover, 1 - mover, winner, same, other, following
                    )
                    if len(costs) > 0:
                        win -= costs[k]
            win /= count
            loss /= count
            # moves within VALUE_TOLERANCE of the best share wins and losses without lowering the
            # value
            missing = top - (win - loss)
            fewer = (missing if missing < loss else loss) if missing > 0 else 0.0
            loss -= fewer
            win += missing - fewer if missing > 0 else 0.0
        out[mover], out[1 - mover] = win, loss
        begin = ends[b]
