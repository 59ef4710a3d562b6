"""Best responders with perfect recall in phantom games: the one exact result that is no pass over
nodes.

An information set of the responder is the sequence of its attempts with what it was told. Its
*belief* is a weight for each node: the probability that chance and the policy lead there. The
policy plays by its views alone; the responder remembers everything.

The value of a responder who sees all stones, from one backward pass, bounds the value of an attempt
from above (QMDP: Littman, Cassandra and Kaelbling, 1995). Attempts are searched in the order of
their bounds, and those whose bound does not exceed the best value are not searched (branch and
bound: Land and Doig, 1960). The result is exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Float64Array, Int64Array, UInt8Array, inlined, int64, kernel
from ttt_envs.core.records import concatenate
from ttt_envs.game.phantom import PhantomGame
from ttt_envs.graph.layers import AGAIN, LINE, OVER, Players, Traversal, stay_chance
from ttt_envs.graph.passes import backward
from ttt_eval.exact.results import OutcomeProbabilities, in_seats

FAILED, SUCCEEDED, SKIPPED = range(3)
"""What a responder is told after an attempt: it failed; it put a stone and the other player moved;
it moves again.
"""


class FlatGraph(NamedTuple):
    """The N nodes of a game, the first one last, and their K edges in order of nodes and cells."""

    mover: Int64Array
    """int64[N]"""
    begin: Int64Array
    """int64[N + 1]: first edge"""
    action: UInt8Array
    """uint8[K]: as of :class:`ttt_envs.graph.layers.Nodes`"""
    switch_node: Int64Array
    """int64[K]: node if the other player moves next; ``LINE`` or ``FULL``"""
    stay_node: Int64Array
    """int64[K]: node if the mover goes on"""
    share: Float64Array
    """float64[K]: the policy"""
    bounds: Float64Array
    """float64[K]: the responder's value if it sees all stones"""
    skip: float
    line_value: int
    """result of a player who completes a line"""


class NodeColumns(NamedTuple):
    """The columns of some nodes and their edges; see :class:`FlatGraph`."""

    mover: Int64Array
    num_edges: Int64Array
    action: UInt8Array
    switch_node: Int64Array
    stay_node: Int64Array
    share: Float64Array
    bounds: Float64Array


class Belief(NamedTuple):
    """The place of an information set's nodes in the lists of :class:`Beliefs`."""

    begin: int
    end: int
    top: int
    """end of the used part of the lists"""


class Beliefs(NamedTuple):
    """Lists of weighted nodes: two of the policy's, from 0 and from N on, and the responder's from
    ``2 * N`` on, one after another.
    """

    nodes: Int64Array
    """int64[5 * N]"""
    weights: Float64Array
    """float64[5 * N]"""
    slots: Int64Array
    """int64[N]: the place of each node in the list that was written last"""


class Levels(NamedTuple):
    """What a search holds of the information sets from the first to the current one, D of them."""

    limits: Int64Array
    """int64[D, 4]: limits of the beliefs after the current attempt, on the stack"""
    bounds: Float64Array
    """float64[D, cells]: upper bounds of the attempts; -inf for those that were searched"""
    possible: Float64Array
    """float64[D, 3]: upper bounds of the values after what the responder is told"""


def best_response(game: PhantomGame, policy: Policy, responder: int) -> OutcomeProbabilities:
    """Return the exact result of a best responder with perfect recall against a policy over views.

    Args:
        game: a game with hidden stones.
        policy: a pure policy.
        responder: the responder's seat: 0 moves first, 1 second.

    Raises:
        ValueError: a policy that does not play by the rules.
        MemoryError: too many cells.
    """
    players: Players = in_seats(None, policy, responder)
    traversal = Traversal(game, players, complete=(responder == 0, responder == 1))
    traversal.make_layers()
    flat = _flatten(game, traversal)
    size = len(flat.mover)
    beliefs = Beliefs(
        nodes=np.empty(5 * size, np.int64),
        weights=np.empty(5 * size),
        slots=np.zeros(size, np.int64),
    )
    depth = game.cells + 2
    levels = Levels(
        limits=np.zeros((depth, 4), np.int64),
        bounds=np.zeros((depth, game.cells)),
        possible=np.zeros((depth, 3)),
    )
    value, wins = _start(flat, beliefs, levels, responder)
    return OutcomeProbabilities.from_ends(wins, wins - value)


def _flatten(game: PhantomGame, traversal: Traversal) -> FlatGraph:
    """Return all nodes and edges, those of the last layer first; a responder's shares are 0."""
    numbers: dict[int, Int64Array] = {}  # of the nodes, by depth, board and mover
    num_nodes = 0
    parts = []
    for layer, nodes, _, gains in backward(traversal):
        layer_numbers = numbers.setdefault(layer.depth, np.zeros((layer.index.size, 2), np.int64))
        layer_numbers[nodes.rows, nodes.mover] = num_nodes + np.arange(len(nodes.rows))
        num_nodes += len(nodes.rows)
        next_numbers = numbers.get(layer.depth + 1, layer_numbers)  # after the last, of nothing
        child = np.maximum(nodes.child, 0)
        switch_node = next_numbers[child, 1 - nodes.mover]
        columns = NodeColumns(
            mover=np.full(len(nodes.rows), nodes.mover),
            num_edges=np.diff(nodes.ends, prepend=0),
            action=nodes.action,
            switch_node=np.where(nodes.child >= 0, switch_node, nodes.child),
            stay_node=next_numbers[child, nodes.mover],
            share=nodes.share if len(nodes.share) else np.zeros(len(child)),
            bounds=gains,
        )
        parts.append(columns)
    merged = concatenate(parts)._asdict()
    num_edges = merged.pop("num_edges")
    return FlatGraph(
        **merged,
        begin=np.concatenate([[0], np.cumsum(num_edges)]),
        skip=game.skip_chance,
        line_value=-1 if game.game.misere else 1,
    )


# --------------------------------------------------------------------------------------------------
# Kernels


@inlined
def _add(node: int, weight: float, begin: int, end: int, beliefs: Beliefs) -> int:
    """Add a weighted node to the list from ``begin`` to ``end``, once each; return the new end."""
    nodes, weights, slots = beliefs
    index = slots[node]
    if begin <= index and index < end and nodes[index] == node:
        weights[index] += weight
        return end
    slots[node] = end
    nodes[end] = node
    weights[end] = weight
    return end + 1


@inlined
def _is_over(k: int, flat: FlatGraph) -> bool:
    """Return whether a move ends the game."""
    return bool(flat.switch_node[k] < 0 and flat.action[k] < AGAIN)


@inlined
def _line_value(k: int, flat: FlatGraph) -> int:
    """Return the mover's result of a move that ends the game."""
    return flat.line_value if flat.switch_node[k] == LINE else 0


@kernel(interpreted=False, nogil=True)
def _reply(
    frontier_end: int, begin: int, end: int, flat: FlatGraph, beliefs: Beliefs
) -> tuple[float, float, int]:
    """Follow the policy from the first ``frontier_end`` nodes until the responder moves.

    Returns:
        Value and wins of games that end, and the end of the belief from ``begin`` to ``end``.
    """
    value = 0.0
    wins = 0.0
    frontier = int64(0)
    next_frontier = int64(len(beliefs.slots))
    while frontier_end > frontier:
        next_end = next_frontier
        for i in range(frontier, frontier_end):
            node = beliefs.nodes[i]
            for k in range(flat.begin[node], flat.begin[node + 1]):
                weight = beliefs.weights[i] * flat.share[k]
                if weight == 0.0:
                    continue
                if _is_over(k, flat):
                    value -= weight * _line_value(k, flat)
                    wins += weight * (_line_value(k, flat) < 0)
                    continue
                stay = stay_chance(flat.action[k], flat.skip)
                if stay > 0.0:
                    next_end = _add(
                        flat.stay_node[k], weight * stay, next_frontier, next_end, beliefs
                    )
                if stay < 1.0:
                    end = _add(flat.switch_node[k], weight * (1.0 - stay), begin, end, beliefs)
        frontier, next_frontier = next_frontier, frontier
        frontier_end = next_end
    return value, wins, end


@kernel(interpreted=False, nogil=True)
def _attempt(
    j: int, belief: Belief, limits: Int64Array, flat: FlatGraph, beliefs: Beliefs
) -> tuple[float, float]:
    """Write the beliefs after attempt ``j`` from the top of the lists on; return value and wins of
    games that end.
    """
    value = 0.0
    wins = 0.0
    end = belief.top
    nodes, weights, _ = beliefs
    for result in range(3):
        limits[result] = end
        frontier_end = int64(0)
        for i in range(belief.begin, belief.end):
            k = flat.begin[nodes[i]] + j
            if _is_over(k, flat):
                if result == FAILED:  # counted once
                    value += weights[i] * _line_value(k, flat)
                    wins += weights[i] * (_line_value(k, flat) > 0)
                continue
            finds_stone = flat.action[k] >= AGAIN
            if finds_stone != (result == FAILED):
                continue
            weight = weights[i]
            goes_on = flat.action[k] < OVER
            if not finds_stone:
                goes_on = result == SKIPPED
                weight *= flat.skip if goes_on else 1.0 - flat.skip
            if goes_on and (finds_stone or flat.skip > 0):
                end = _add(flat.stay_node[k], weight, limits[result], end, beliefs)
            elif not goes_on:
                frontier_end = _add(flat.switch_node[k], weight, 0, frontier_end, beliefs)
        more_value, more_wins, end = _reply(frontier_end, limits[result], end, flat, beliefs)
        value += more_value
        wins += more_wins
    limits[3] = end
    return value, wins


@inlined
def _write_bounds(
    begin: int, end: int, flat: FlatGraph, beliefs: Beliefs, out: Float64Array
) -> float:
    """Write upper bounds of the values of all attempts in a belief to float64[cells]; return their
    maximum.
    """
    node = beliefs.nodes[begin]
    size = flat.begin[node + 1] - flat.begin[node]
    out[:] = -np.inf
    best = -np.inf
    for j in range(size):
        bound = 0.0
        for i in range(begin, end):
            bound += beliefs.weights[i] * flat.bounds[flat.begin[beliefs.nodes[i]] + j]
        out[j] = bound
        best = max(best, bound)
    return best


@inlined
def _write_possible(
    limits: Int64Array,
    flat: FlatGraph,
    beliefs: Beliefs,
    scratch: Float64Array,
    possible: Float64Array,
) -> float:
    """Write upper bounds of the values after what the responder is told to float64[3]; return their
    sum.
    """
    total = 0.0
    for result in range(3):
        possible[result] = 0.0
        if limits[result + 1] > limits[result]:
            possible[result] = _write_bounds(
                limits[result], limits[result + 1], flat, beliefs, scratch
            )
        total += possible[result]
    return total


@kernel(interpreted=False, nogil=True)
def _search(
    depth: int,
    belief: Belief,
    need: float,
    flat: FlatGraph,
    beliefs: Beliefs,
    levels: Levels,
) -> tuple[float, float]:
    """Return value and wins of the best attempt in a belief; a value up to ``need`` may be too
    small.
    """
    best = -np.inf
    best_wins = 0.0
    limits = levels.limits[depth]
    bounds = levels.bounds[depth]
    possible = levels.possible[depth]
    _write_bounds(belief.begin, belief.end, flat, beliefs, bounds)
    while True:
        j = int64(0)
        for candidate in range(1, len(bounds)):
            j = candidate if bounds[candidate] > bounds[j] else j
        threshold = max(best, need)
        if bounds[j] <= threshold:
            return best, best_wins
        bounds[j] = -np.inf
        value, wins = _attempt(j, belief, limits, flat, beliefs)
        open_bound = _write_possible(limits, flat, beliefs, levels.bounds[depth + 1], possible)
        for result in range(3):
            if value + open_bound <= threshold:
                value = -np.inf
                break
            open_bound -= possible[result]
            if limits[result + 1] > limits[result]:
                next_belief = Belief(limits[result], limits[result + 1], limits[3])
                next_need = threshold - value - open_bound
                more_value, more_wins = _search(
                    depth + 1, next_belief, next_need, flat, beliefs, levels
                )
                value += more_value
                wins += more_wins
        if value > best:
            best = value
            best_wins = wins


@kernel(interpreted=False, nogil=True)
def _start(
    flat: FlatGraph, beliefs: Beliefs, levels: Levels, responder: int
) -> tuple[float, float]:
    """Return value and wins of the best response from the first node."""
    value = 0.0
    wins = 0.0
    num_nodes = int64(len(beliefs.slots))
    begin = 2 * num_nodes
    end = begin + 1
    is_responders = flat.mover[num_nodes - 1] == responder
    place = begin if is_responders else 0
    beliefs.nodes[place] = num_nodes - 1
    beliefs.weights[place] = 1.0
    if not is_responders:
        value, wins, end = _reply(int64(1), begin, begin, flat, beliefs)
    if end == begin:
        return value, wins
    belief = Belief(begin, end, end)
    best, best_wins = _search(int64(0), belief, -np.inf, flat, beliefs, levels)
    return value + best, wins + best_wins
