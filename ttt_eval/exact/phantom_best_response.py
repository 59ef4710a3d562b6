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

from collections import deque
from typing import NamedTuple

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Float64Array, Int64Array, UInt8Array, inlined, int64, kernel
from ttt_envs.game.phantom import PhantomGame
from ttt_envs.graph.layers import AGAIN, LINE, OVER, Layer, Players, Traversal, stay_chance
from ttt_envs.graph.passes import backward
from ttt_eval.exact.results import OutcomeProbabilities

FAILED, SUCCEEDED, SKIPPED = range(3)
"""What a responder is told after an attempt: it failed; it put a stone and the other player moved;
it moves again.
"""


class Flat(NamedTuple):
    """The N nodes of a game, and their K edges in order of nodes and cells."""

    mover: Int64Array
    """int64[N]"""
    begin: Int64Array
    """int64[N + 1]: first edge"""
    action: UInt8Array
    """uint8[K]: as of :class:`ttt_envs.graph.layers.Nodes`"""
    other: Int64Array
    """int64[K]: node if the other player moves next; ``LINE`` or ``FULL``"""
    again: Int64Array
    """int64[K]: node if the mover goes on"""
    share: Float64Array
    """float64[K]: the policy"""
    bounds: Float64Array
    """float64[K]: the responder's value if it sees all stones"""
    skip: float
    line_value: int
    """result of a player who completes a line"""


class Beliefs(NamedTuple):
    """Lists of weighted nodes, one after another, and the place of each node in the list that is
    being written.
    """

    nodes: Int64Array
    weights: Float64Array
    frontier: Int64Array
    """int64[2, N]: the policy's nodes, by turns"""
    frontier_weights: Float64Array
    slots: Int64Array
    """int64[2, N]: for the stack, and for the frontier"""


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
    players: Players = (None, policy) if responder == 0 else (policy, None)
    traversal = Traversal(game, players, complete=(responder == 0, responder == 1))
    deque(traversal.walk(keep=True), maxlen=0)
    flat = _flatten(game, traversal.layers, [gains for _, _, _, gains in backward(traversal)][::-1])
    size, depth = len(flat.mover), game.cells + 2
    lists = (
        np.empty(3 * size, np.int64),
        np.empty(3 * size),
        np.empty((2, size), np.int64),
        np.empty((2, size)),
    )
    levels = Levels(
        np.zeros((depth, 4), np.int64), np.zeros((depth, game.cells)), np.zeros((depth, 3))
    )
    value, wins = _start(flat, Beliefs(*lists, np.zeros((2, size), np.int64)), levels, responder)
    win, loss = float(wins), float(wins - value)
    return OutcomeProbabilities(win, 1.0 - win - loss, loss)


def _flatten(game: PhantomGame, layers: list[Layer], bounds: list[Float64Array]) -> Flat:
    """Return all nodes and edges; a responder's shares are 0."""
    numbers, count = [], 0
    for layer in layers:
        numbers.append(np.full((layer.index.size, 2), -1))
        for nodes in layer.nodes:
            numbers[-1][nodes.rows, nodes.mover] = count + np.arange(len(nodes.rows))
            count += len(nodes.rows)
    parts = []
    for layer, following in zip(layers, [*numbers[1:], np.zeros((1, 2), np.int64)], strict=True):
        for nodes in layer.nodes:
            child = np.maximum(nodes.child, 0)
            other = np.where(nodes.child >= 0, following[child, 1 - nodes.mover], nodes.child)
            lengths = np.diff(nodes.ends, prepend=0)
            share = nodes.share if len(nodes.share) else np.zeros(len(child))
            movers = np.full(len(nodes.rows), nodes.mover)
            parts.append(
                (movers, lengths, nodes.action, other, following[child, nodes.mover], share)
            )
    mover, lengths, action, other, again, share = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    begin, line_value = np.concatenate([[0], np.cumsum(lengths)]), -1 if game.game.misere else 1
    return Flat(
        mover,
        begin,
        action,
        other,
        again,
        share,
        np.concatenate(bounds),
        game.skip_chance,
        line_value,
    )


# --------------------------------------------------------------------------------------------------
# Kernels


@inlined
def _add(
    node: int,
    weight: float,
    begin: int,
    end: int,
    nodes: Int64Array,
    weights: Float64Array,
    slots: Int64Array,
) -> int:
    """Add a weighted node to the list from ``begin`` to ``end``, once each; return the new end."""
    at = slots[node]
    if begin <= at and at < end and nodes[at] == node:
        weights[at] += weight
        return end
    slots[node], nodes[end], weights[end] = end, node, weight
    return end + 1


@inlined
def _is_over(k: int, flat: Flat) -> bool:
    """Return whether a move ends the game."""
    return bool(flat.other[k] < 0 and flat.action[k] < AGAIN)


@inlined
def _line_value(k: int, flat: Flat) -> int:
    """Return the mover's result of a move that ends the game."""
    return flat.line_value if flat.other[k] == LINE else 0


@kernel(interpreted=False, nogil=True)
def _reply(
    count: int, begin: int, end: int, flat: Flat, beliefs: Beliefs
) -> tuple[float, float, int]:
    """Follow the policy from the first ``count`` nodes of the frontier until the responder moves.

    Returns:
        Value and wins of games that end, and the end of the belief from ``begin`` to ``end``.
    """
    value, wins, row = 0.0, 0.0, int64(0)
    nodes, weights, frontier, frontier_weights, slots = beliefs
    while count > 0:
        size = int64(0)
        for i in range(count):
            node = frontier[row, i]
            for k in range(flat.begin[node], flat.begin[node + 1]):
                weight = frontier_weights[row, i] * flat.share[k]
                if weight == 0.0:
                    continue
                if _is_over(k, flat):
                    value -= weight * _line_value(k, flat)
                    wins += weight * (_line_value(k, flat) < 0)
                    continue
                stay = stay_chance(flat.action[k], flat.skip)
                if stay > 0.0:
                    lists = frontier[1 - row], frontier_weights[1 - row], slots[1]
                    size = _add(flat.again[k], weight * stay, 0, size, *lists)
                if stay < 1.0:
                    end = _add(
                        flat.other[k], weight * (1.0 - stay), begin, end, nodes, weights, slots[0]
                    )
        row, count = 1 - row, size
    return value, wins, end


@kernel(interpreted=False, nogil=True)
def _attempt(
    j: int, begin: int, stop: int, top: int, limits: Int64Array, flat: Flat, beliefs: Beliefs
) -> tuple[float, float]:
    """Write the beliefs after attempt ``j`` from ``top`` on; return value and wins of games that
    end.
    """
    value, wins, end = 0.0, 0.0, top
    nodes, weights, frontier, frontier_weights, slots = beliefs
    for told in range(3):
        limits[told], count = end, int64(0)
        for i in range(begin, stop):
            k = flat.begin[nodes[i]] + j
            weight, action, over = weights[i], flat.action[k], _is_over(k, flat)
            if over and told == FAILED:
                value += weight * _line_value(k, flat)
                wins += weight * (_line_value(k, flat) > 0)
            elif (action >= OVER and told == FAILED) or (
                action < AGAIN and told == SUCCEEDED and not over
            ):
                part = weight if action >= OVER else weight * (1.0 - flat.skip)
                count = _add(
                    flat.other[k], part, 0, count, frontier[0], frontier_weights[0], slots[1]
                )
            elif (action >= AGAIN and action < OVER and told == FAILED) or (
                action < AGAIN and told == SKIPPED and not over and flat.skip > 0
            ):
                part = weight if action >= AGAIN else weight * flat.skip
                end = _add(flat.again[k], part, limits[told], end, nodes, weights, slots[0])
        more, more_wins, end = _reply(count, limits[told], end, flat, beliefs)
        value += more
        wins += more_wins
    limits[3] = end
    return value, wins


@inlined
def _write_bounds(begin: int, end: int, flat: Flat, beliefs: Beliefs, out: Float64Array) -> float:
    """Write upper bounds of the values of all attempts in a belief to float64[cells]; return their
    maximum.
    """
    node = beliefs.nodes[begin]
    size = flat.begin[node + 1] - flat.begin[node]
    out[:] = -np.inf
    top = -np.inf
    for j in range(size):
        bound = 0.0
        for i in range(begin, end):
            bound += beliefs.weights[i] * flat.bounds[flat.begin[beliefs.nodes[i]] + j]
        out[j] = bound
        top = max(top, bound)
    return top


@kernel(interpreted=False, nogil=True)
def _search(
    depth: int,
    belief: tuple[int, int, int],
    need: float,
    flat: Flat,
    beliefs: Beliefs,
    levels: Levels,
) -> tuple[float, float]:
    """Return value and wins of the best attempt in a belief; a value up to ``need`` may be too
    small.

    ``belief`` has its begin and end on the stack, and the end of the used stack.
    """
    best, best_wins = -np.inf, 0.0
    begin, end, top = belief
    limits, bounds, possible = levels.limits[depth], levels.bounds[depth], levels.possible[depth]
    _write_bounds(begin, end, flat, beliefs, bounds)
    while True:
        j = int64(0)
        for other in range(1, len(bounds)):
            j = other if bounds[other] > bounds[j] else j
        enough = max(best, need)
        if bounds[j] <= enough:
            return best, best_wins
        bounds[j] = -np.inf
        value, wins = _attempt(j, begin, end, top, limits, flat, beliefs)
        rest = 0.0
        for told in range(3):
            possible[told] = 0.0
            if limits[told + 1] > limits[told]:
                scratch = levels.bounds[depth + 1]
                possible[told] = _write_bounds(
                    limits[told], limits[told + 1], flat, beliefs, scratch
                )
            rest += possible[told]
        for told in range(3):
            if value + rest <= enough:
                value = -np.inf
                break
            rest -= possible[told]
            if limits[told + 1] > limits[told]:
                later = (limits[told], limits[told + 1], limits[3])
                more, more_wins = _search(
                    depth + 1, later, enough - value - rest, flat, beliefs, levels
                )
                value += more
                wins += more_wins
        if value > best:
            best, best_wins = value, wins


@kernel(interpreted=False, nogil=True)
def _start(flat: Flat, beliefs: Beliefs, levels: Levels, responder: int) -> tuple[float, float]:
    """Return value and wins of the best response from the first node."""
    value, wins, end = 0.0, 0.0, int64(1)
    beliefs.nodes[0], beliefs.weights[0] = 0, 1.0
    if flat.mover[0] != responder:
        beliefs.frontier[0, 0], beliefs.frontier_weights[0, 0] = 0, 1.0
        value, wins, end = _reply(int64(1), int64(0), int64(0), flat, beliefs)
    if end == 0:
        return value, wins
    best, best_wins = _search(int64(0), (int64(0), end, end), -np.inf, flat, beliefs, levels)
    return value + best, wins + best_wins
