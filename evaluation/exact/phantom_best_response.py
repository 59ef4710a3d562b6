"""Exact best responses in phantom games: a walk over the information sets of a responder with perfect recall.

An information set of the responder is the sequence of its attempts with their results, and the skips of which it was
told. Its *belief* is a weight for each joint view that it may be in: the probability that chance and the opponent's
policy lead there. The opponent plays by its view alone; the responder remembers everything.

The value of a responder who sees the whole board bounds the value of an attempt from above (QMDP: Littman, Cassandra
and Kaelbling, 1995). Attempts are searched in the order of their bounds, and those whose bound does not exceed the best
value are not searched (branch and bound: Land and Doig, 1960). The result is exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baselines.joint_view_graph import FINAL, KNOWN, PLACED, TRIED, Edges, JointViewGraph
from ttt_envs.core.jit import (
    Float64Array,
    Int8Array,
    Int32Array,
    Int64Array,
    compiled_at_once,
    compiled_nogil,
    inlined,
    int64,
)
from ttt_envs.game.information_sets import FAILED, OBSERVATIONS, SUCCEEDED

SETS_PER_CALL = 1 << 21
"""Number of information sets after which a walk that lists them returns, so that it can be interrupted."""
DEPTH, SETS, ATTEMPTS = range(3)
"""Where such a walk stands: its depth, and the numbers of information sets and legal attempts until now."""


class BestResponse(NamedTuple):
    """Result of a best responder."""

    value: float
    """expected result for the responder"""
    wins: float
    """probability that the responder wins, with one of its best responses"""
    information_sets: int
    """number of information sets that were searched"""


def best_response(
    graph: JointViewGraph, policy: Float64Array, responder: int, *, prune: bool = True, rows: Int64Array | None = None
) -> BestResponse:
    """Return the value of a best responder with perfect recall to a policy over views.

    Args:
        graph: the game.
        policy: float64[V, cells]: the policy's probabilities in the views of both players; those of the responder's own
            views are not read.
        responder: 0 moves first, 1 second.
        prune: False searches all information sets that can be reached against the policy, which counts them.
        rows: int64[N], the policy's row in each joint view; None for those of the mover's views.
    """
    size, cells = graph.edges.kind.shape
    values, bounds = np.zeros(size), np.zeros((size, cells))
    edges, skip = graph.edges, graph.game.skip_chance
    rows = graph.view if rows is None else rows
    _full_information(edges, graph.mover, rows, policy, skip, responder, values, bounds)
    counts = np.zeros(1, np.int64)
    game = (edges, graph.mover, rows, policy, skip)
    value, wins = _search(game, responder, prune, bounds, *_make_workspace(graph), counts)
    return BestResponse(float(value), float(wins), int(counts[0]))


class InformationSetList(NamedTuple):
    """All I information sets of a player, in the order of a depth-first walk: each comes after the one it extends."""

    previous: Int32Array
    """int32[I]: the information set before the last attempt; -1 for that without attempts, which is the first"""
    attempt: Int8Array
    """int8[I]: cell of the last attempt"""
    observation: Int8Array
    """int8[I]: what was observed after it"""


class InformationSetCount(NamedTuple):
    """Number of information sets of a player."""

    sets: int
    attempts: int
    """number of legal attempts, in all of them"""


def count_information_sets(graph: JointViewGraph, player: int, limit: int) -> InformationSetCount:
    """Return the number of a player's information sets, and of their legal attempts; stop after ``limit`` + 1 sets."""
    return _enumerate_all(graph, player, limit, InformationSetList(*_make_list(0)))


def list_information_sets(graph: JointViewGraph, player: int, count: int) -> InformationSetList:
    """Return all information sets of a player, of which there are ``count``."""
    found = InformationSetList(*_make_list(count))
    _enumerate_all(graph, player, count, found)
    return found


def _make_list(size: int) -> tuple[Int32Array, Int8Array, Int8Array]:
    return np.full(size, -1, np.int32), np.full(size, -1, np.int8), np.full(size, -1, np.int8)


def _enumerate_all(graph: JointViewGraph, player: int, limit: int, found: InformationSetList) -> InformationSetCount:
    # What the opponent attempts in vain does not matter, but that it does, in an abrupt game: on the first such cell.
    kind, failed = graph.edges.kind, graph.edges.kind == TRIED
    first_failed = failed & (failed.cumsum(axis=1) == 1) & (graph.game.hidden == "abrupt")
    policy = np.asarray((kind == PLACED) | (kind == FINAL) | first_failed, np.float64)
    game = (graph.edges, graph.mover, np.arange(len(graph)), policy, graph.game.skip_chance)
    workspace, done = _make_workspace(graph), np.zeros(3, np.int64)
    for stop in range(0, limit + 1 + SETS_PER_CALL, SETS_PER_CALL):  # so that it can be interrupted
        _enumerate(game, player, min(stop, limit), *workspace, found, done)
        if done[DEPTH] < 0:
            break
    return InformationSetCount(int(done[SETS]), int(done[ATTEMPTS]))


class _Stack(NamedTuple):
    """Lists of weighted joint views, one after another in a row of the arrays."""

    states: Int32Array
    """int32[rows, capacity]: joint views"""
    weights: Float64Array
    """float64[rows, capacity]"""
    slot: Int64Array
    """int64[N]: the index of a joint view in the list that is being written, if it is there; otherwise any number"""


class _Levels(NamedTuple):
    """The information sets from the first to the current one, each with the attempt that is being searched."""

    numbers: Float64Array
    """float64[depth, 5]: by NEED, BEST, BEST_WINS, VALUE and WINS"""
    counters: Int64Array
    """int64[depth, 6]: by BEGIN, END, TOP, COUNT, CURRENT and OBSERVATION"""
    order: Int64Array
    """int64[depth, cells]: the legal attempts by descending bounds"""
    sorted_bounds: Float64Array
    """float64[depth, cells]: their bounds"""
    ends: Int64Array
    """int64[depth, OBSERVATIONS + 1]: limits of the beliefs after the current attempt, on the stack"""
    bounds: Float64Array
    """float64[depth, OBSERVATIONS, cells + 1]: upper bounds of the next attempts after each observation, and their
    maximum; -inf for illegal attempts"""


NEED, BEST, BEST_WINS, VALUE, WINS = range(5)
"""The value above which that of the information set matters; value and wins of the best attempt; of the current one."""
BEGIN, END, TOP, COUNT, CURRENT, OBSERVATION = range(6)
"""The belief on the stack, the end of the used stack, the number of attempts, the current one, its next observation."""

_Game = tuple[Edges, Int8Array, Int64Array, Float64Array, float]


def _make_workspace(graph: JointViewGraph) -> tuple[_Stack, _Stack, _Levels]:
    """Return the stack of beliefs, the frontier of the opponent's attempts, and the levels of a walk."""
    size, cells = graph.edges.kind.shape
    stack = _Stack(*_make_lists(1, OBSERVATIONS * size), np.zeros(size, np.int64))
    frontier = _Stack(*_make_lists(2, size), np.zeros(size, np.int64))
    depth = cells + 1
    levels = _Levels(
        np.zeros((depth, 5)),
        np.zeros((depth, 6), np.int64),
        np.zeros((depth, cells), np.int64),
        np.zeros((depth, cells)),
        np.zeros((depth, OBSERVATIONS + 1), np.int64),
        np.zeros((depth, OBSERVATIONS, cells + 1)),
    )
    return stack, frontier, levels


def _make_lists(rows: int, capacity: int) -> tuple[Int32Array, Float64Array]:
    return np.empty((rows, capacity), np.int32), np.empty((rows, capacity))


@compiled_at_once
def _full_information(
    edges: Edges,
    mover: Int8Array,
    view: Int64Array,
    policy: Float64Array,
    skip: float,
    responder: int,
    values: Float64Array,
    action_values: Float64Array,
) -> None:
    """Write the responder's values, float64[N] and float64[N, cells], if it sees all stones and both views."""
    kind, result, following, again = edges
    for s in range(len(mover) - 1, -1, -1):
        own = mover[s] == responder
        best, mean = -np.inf, 0.0
        for cell in range(kind.shape[1]):
            if kind[s, cell] == KNOWN:
                continue
            if kind[s, cell] == FINAL:
                value = 1.0 * result[s, cell] if own else -1.0 * result[s, cell]
            else:
                value = values[following[s, cell]]
                if again[s, cell] >= 0:
                    value = (1.0 - skip) * value + skip * values[again[s, cell]]
            action_values[s, cell] = value
            best = max(best, value)
            if not own:
                mean += policy[view[s], cell] * value
        values[s] = best if own else mean


@compiled_nogil
def _search(
    game: _Game,
    responder: int,
    prune: bool,
    bounds: Float64Array,
    stack: _Stack,
    frontier: _Stack,
    levels: _Levels,
    counts: Int64Array,
) -> tuple[float, float]:
    """Return the responder's value and probability of a win, by a depth-first walk without recursion."""
    mover = game[1]
    numbers, counters, order, sorted_bounds, ends, next_bounds = levels
    before, wins, root = 0.0, 0.0, int64(0)
    if mover[0] == responder:
        root = _add(stack, 0, 0, 0, 0, 1.0)
    else:
        before, wins, root = _reply(game, responder, stack, 0, 0, frontier, _add(frontier, 0, 0, 0, 0, 1.0))
    if root == 0:
        return before, wins
    _bound_attempts(game[0], bounds, stack, 0, root, next_bounds[0, 0])
    _open(levels, 0, (0, root, root), -np.inf, next_bounds[0, 0])
    counts[0] = 1
    depth = 0
    while True:
        number, counter = numbers[depth], counters[depth]
        enough = max(number[BEST], number[NEED])
        now = counter[OBSERVATION]
        if now == OBSERVATIONS:  # the current attempt is done
            if number[VALUE] > number[BEST]:
                number[BEST], number[BEST_WINS] = number[VALUE], number[WINS]
            enough = max(number[BEST], number[NEED])
            counter[CURRENT] += 1
            at = counter[CURRENT]
            if at == counter[COUNT] or (prune and sorted_bounds[depth, at] <= enough):
                if depth == 0:
                    return before + number[BEST], wins + number[BEST_WINS]
                depth -= 1
                if number[BEST] <= number[NEED]:  # cut off: its wins are unknown, and the attempt is no better
                    numbers[depth, VALUE], counters[depth, OBSERVATION] = -np.inf, OBSERVATIONS
                else:
                    numbers[depth, VALUE] += number[BEST]
                    numbers[depth, WINS] += number[BEST_WINS]
            else:
                number[VALUE], number[WINS] = _attempt(
                    game, responder, stack, frontier, levels, depth, order[depth, at]
                )
                for one in range(OBSERVATIONS):
                    _bound_attempts(
                        game[0], bounds, stack, ends[depth, one], ends[depth, one + 1], next_bounds[depth, one]
                    )
                counter[OBSERVATION] = 0
            continue
        possible = 0.0
        for one in range(now, OBSERVATIONS):
            possible += next_bounds[depth, one, -1]
        if prune and number[VALUE] + possible <= enough:
            number[VALUE], counter[OBSERVATION] = -np.inf, OBSERVATIONS
            continue
        counter[OBSERVATION] += 1
        if ends[depth, now + 1] > ends[depth, now]:
            need = enough - (number[VALUE] + possible - next_bounds[depth, now, -1]) if prune else -np.inf
            depth += 1
            limits = ends[depth - 1]
            belief = (limits[now], limits[now + 1], limits[OBSERVATIONS])
            _open(levels, depth, belief, need, next_bounds[depth - 1, now])
            counts[0] += 1


@compiled_nogil
def _enumerate(
    game: _Game,
    player: int,
    limit: int,
    stack: _Stack,
    frontier: _Stack,
    levels: _Levels,
    found: InformationSetList,
    done: Int64Array,
) -> None:
    """List information sets, and write those for which there is room, until there are more than ``limit``.

    Numbers of the policy that are not 0 are attempts that the opponent may make. ``done`` is int64[3], by DEPTH, SETS
    and ATTEMPTS: where the walk stands, all 0 before it and DEPTH -1 after it.
    """
    kind, mover = game[0][0], game[1]
    previous, attempts, observations = found
    _, counters, order, _, ends, _ = levels
    states, _, _ = stack
    number = order[:, 0]
    depth, count, legal = done[DEPTH], done[SETS], done[ATTEMPTS]
    if count == 0:
        root = int64(0)
        if mover[0] == player:
            root = _add(stack, 0, 0, 0, 0, 1.0)
        else:
            _, _, root = _reply(game, player, stack, 0, 0, frontier, _add(frontier, 0, 0, 0, 0, 1.0))
        if root == 0:
            done[DEPTH] = -1
            return
        counters[0, BEGIN], counters[0, END], counters[0, TOP] = 0, root, root
        counters[0, CURRENT], counters[0, OBSERVATION], number[0] = -1, OBSERVATIONS, 0
        count = int64(1)
    while depth >= 0 and count <= limit:
        counter = counters[depth]
        now = counter[OBSERVATION]
        if now == OBSERVATIONS:
            counter[CURRENT] += 1
            if counter[CURRENT] == kind.shape[1]:
                depth -= 1
            elif kind[states[0, counter[BEGIN]], counter[CURRENT]] != KNOWN:  # alike in all joint views of a belief
                _attempt(game, player, stack, frontier, levels, depth, counter[CURRENT])
                counter[OBSERVATION] = 0
                legal += 1
            continue
        counter[OBSERVATION] += 1
        if ends[depth, now + 1] > ends[depth, now]:
            if count < len(previous):
                previous[count], attempts[count] = number[depth], counter[CURRENT]
                observations[count] = now
            depth += 1
            counters[depth, BEGIN], counters[depth, END] = ends[depth - 1, now], ends[depth - 1, now + 1]
            counters[depth, TOP] = ends[depth - 1, OBSERVATIONS]
            counters[depth, CURRENT], counters[depth, OBSERVATION], number[depth] = -1, OBSERVATIONS, count
            count += 1
    done[DEPTH], done[SETS], done[ATTEMPTS] = depth, count, legal


@inlined
def _open(levels: _Levels, depth: int, belief: tuple[int, int, int], need: float, next_bounds: Float64Array) -> None:
    """Enter an information set: order its attempts by their bounds. ``belief`` is BEGIN, END and TOP."""
    numbers, counters, order, sorted_bounds, _, _ = levels
    count = int64(0)
    for cell in range(len(next_bounds) - 1):
        bound = next_bounds[cell]
        if bound == -np.inf:
            continue
        at = count
        while at > 0 and sorted_bounds[depth, at - 1] < bound:
            sorted_bounds[depth, at], order[depth, at] = sorted_bounds[depth, at - 1], order[depth, at - 1]
            at -= 1
        sorted_bounds[depth, at], order[depth, at] = bound, cell
        count += 1
    numbers[depth, NEED], numbers[depth, BEST], numbers[depth, VALUE] = need, -np.inf, -np.inf
    numbers[depth, BEST_WINS] = 0.0
    counters[depth, BEGIN], counters[depth, END], counters[depth, TOP] = belief
    counters[depth, COUNT] = count
    counters[depth, CURRENT], counters[depth, OBSERVATION] = -1, OBSERVATIONS


@inlined
def _bound_attempts(edges: Edges, bounds: Float64Array, stack: _Stack, begin: int, end: int, out: Float64Array) -> None:
    """Write upper bounds of all attempts in a belief, and last their maximum, 0 for an empty belief."""
    states, weights, _ = stack
    size = len(out) - 1
    out[size] = 0.0
    if end == begin:
        return
    kind = edges[0][states[0, begin]]  # the same cells are legal in all joint views of a belief
    out[:size] = 0.0
    for i in range(begin, end):
        row, weight = bounds[states[0, i]], weights[0, i]
        for cell in range(size):
            out[cell] += weight * row[cell]
    best = -np.inf
    for cell in range(size):
        if kind[cell] == KNOWN:
            out[cell] = -np.inf
        best = max(best, out[cell])
    out[size] = best


@inlined
def _add(lists: _Stack, row: int, begin: int, end: int, state: int, weight: float) -> int:
    """Add a weighted joint view to the list from ``begin`` to ``end``, once each; return the new end."""
    states, weights, slot = lists
    at = slot[state]
    if begin <= at and at < end and states[row, at] == state:
        weights[row, at] += weight
        return end
    slot[state] = end
    states[row, end], weights[row, end] = state, weight
    return end + 1


@inlined
def _attempt(
    game: _Game, responder: int, stack: _Stack, frontier: _Stack, levels: _Levels, depth: int, cell: int
) -> tuple[float, float]:
    """Write the beliefs after an attempt of the responder onto the stack; return value and wins of games that end."""
    edges, mover, _, _, skip = game
    kind, result, following, again = edges
    states, weights, _ = stack
    _, counters, _, _, ends, _ = levels
    first, last = counters[depth, BEGIN], counters[depth, END]
    value, wins = 0.0, 0.0
    end = counters[depth, TOP]
    for observation in range(OBSERVATIONS):
        begin = end
        ends[depth, observation] = begin
        size = int64(0)
        for i in range(first, last):
            state, weight = states[0, i], weights[0, i]
            what = kind[state, cell]
            if observation == FAILED:
                if what == FINAL:
                    value += weight * result[state, cell]
                    wins += weight * (result[state, cell] > 0)
                elif what == TRIED:
                    after = following[state, cell]
                    if mover[after] == responder:
                        end = _add(stack, 0, begin, end, after, weight)
                    else:
                        size = _add(frontier, 0, 0, size, after, weight)
            elif what == PLACED:
                skipped = again[state, cell] >= 0
                if observation == SUCCEEDED:
                    size = _add(frontier, 0, 0, size, following[state, cell], weight * (1.0 - skip))
                elif skipped:
                    end = _add(stack, 0, begin, end, again[state, cell], weight * skip)
        if size > 0:
            more, more_wins, end = _reply(game, responder, stack, begin, end, frontier, size)
            value += more
            wins += more_wins
    ends[depth, OBSERVATIONS] = end
    return value, wins


@inlined
def _reply(
    game: _Game, responder: int, stack: _Stack, begin: int, end: int, frontier: _Stack, size: int
) -> tuple[float, float, int]:
    """Follow the opponent from the first ``size`` joint views of the frontier until the responder moves.

    The opponent's attempts alternate between the two rows of the frontier.

    Returns:
        The responder's value and wins of games that end, and the new end of the belief from ``begin`` to ``end``.
    """
    edges, mover, view, policy, skip = game
    kind, result, following, again = edges
    states, weights, _ = frontier
    value, wins = 0.0, 0.0
    row = int64(0)
    while size > 0:
        next_size = int64(0)
        for i in range(size):
            state = states[row, i]
            for cell in range(kind.shape[1]):
                weight = weights[row, i] * policy[view[state], cell]
                what = kind[state, cell]
                if what == KNOWN or weight == 0.0:
                    continue
                if what == FINAL:
                    value -= weight * result[state, cell]
                    wins += weight * (result[state, cell] < 0)
                    continue
                if again[state, cell] >= 0:
                    next_size = _add(frontier, 1 - row, 0, next_size, again[state, cell], weight * skip)
                    weight *= 1.0 - skip
                after = following[state, cell]
                if mover[after] == responder:
                    end = _add(stack, 0, begin, end, after, weight)
                else:
                    next_size = _add(frontier, 1 - row, 0, next_size, after, weight)
        row, size = 1 - row, next_size
    return value, wins, end
