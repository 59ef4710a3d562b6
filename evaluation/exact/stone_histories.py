"""Exact results of policies with perfect recall in phantom games: a walk over stone histories.

A *stone history* is the order of all stones and of the turns that were skipped, in an abrupt game also of the turns
that were lost by a failed attempt, but not the cells of failed attempts. What a player observes follows from its own
attempts and the stone history. So, given a stone history, the attempts of the two players are independent: a game with
this history has the probability

    chance * (sum over player_0's information sets) * (sum over player_1's information sets),

where each sum is over the player's information sets that agree with the history, of the products of its own
probabilities. Classic 3 x 3 has 2e10 histories in which the cells of failed attempts differ, but 549,946 stone
histories, and 3.4e7 pairs of one of them with an information set of its mover.

A best response uses the same walk. The opponent's sum at the end of a game, times the result, is added to each of the
responder's information sets that agree; then the responder's best attempts are found from the last information sets to
the first. This is the gradient of the sequence form (von Stengel, 1996) without a matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baselines.joint_view_graph import FINAL, PLACED, TRIED, Edges, JointViewGraph
from evaluation.exact.phantom_best_response import InformationSetList
from ttt_envs.core.jit import (
    BoolArray,
    Float64Array,
    Int8Array,
    Int32Array,
    Int64Array,
    compiled_at_once,
    compiled_nogil,
    inlined,
    int64,
)
from ttt_envs.game.information_sets import FAILED, OBSERVATIONS, SKIPPED, SUCCEEDED, InformationSets

CAPACITY = 1 << 16
"""Maximum number of information sets on the stack of a walk. A stone history of 3 x 3 agrees with far fewer."""
HISTORIES_PER_CALL = 1 << 18
"""Number of stone histories after which a walk returns, so that it can report and be interrupted."""


class StoneHistoryCount(NamedTuple):
    """Size of a walk."""

    histories: float
    """number of stone histories that are not over"""
    pairs: tuple[float, float]
    """number of pairs of a stone history and an information set of its mover, by the mover"""


def count_stone_histories(graph: JointViewGraph) -> StoneHistoryCount:
    """Count stone histories and pairs exactly, without a walk."""
    last = np.count_nonzero(graph.cells == 0, axis=1) == 1
    counted = [np.zeros(len(graph)) for _ in range(3)]
    for player, counts in zip((-1, 0, 1), counted, strict=True):
        counts[0] = 1.0
        _count_paths(graph.edges, graph.mover, last, player, graph.game.hidden == "abrupt", counts)
    histories, first, second = counted
    pairs = float(first[graph.mover == 0].sum()), float(second[graph.mover == 1].sum())
    return StoneHistoryCount(float(histories.sum()), pairs)


class InformationTree:
    """All information sets of one player as a tree, and the *sequences*: each attempt with each observation.

    A sequence is an attempt in an information set together with what the player observes. It may lead to another
    information set, whose sequences have consecutive numbers: those of the legal attempts by cell, ``observations`` for
    each. Sequence 0 is that without attempts.

    Args:
        graph: the game.
        player: the player.
        sets: its information sets.

    Attributes:
        first: int32[S]: the first sequence that continues each sequence; -1 if the player does not move again.
        known: int32[I]: cells that the player knows to be taken, as bits.
    """

    def __init__(self, graph: JointViewGraph, player: int, sets: InformationSetList) -> None:
        self.player = player
        self.sets = sets
        self.cells = graph.game.cells
        self.observations = count_observations(graph)
        self.known: Int32Array = np.zeros(len(sets.previous), np.int32)
        self.known[:1] = _bits(graph.joint_views.take(np.zeros(1, np.int64)).player_view(player) != 0)
        self._sequence: Int32Array = np.zeros(len(sets.previous), np.int32)
        self.size = 1 + int(_count_sequences(sets, self.cells, self.observations, self.known))
        self.first: Int32Array = np.full(self.size, -1, np.int32)
        _connect(sets, self.cells, self.observations, self.known, self._sequence, self.first)

    def __len__(self) -> int:
        return len(self.known)

    def information_sets(self, begin: int, end: int) -> InformationSets:
        """Return the information sets with the numbers from ``begin`` to ``end``."""
        shape = end - begin, self.cells
        found = InformationSets(
            np.full(shape, -1, np.int8), np.full(shape, -1, np.int8), np.full(end - begin, self.player, np.int8)
        )
        _write_attempts(self.sets, begin, found.attempts, found.observations)
        return found

    def is_known(self, begin: int, end: int) -> BoolArray:
        """Return bool[B, cells] of information sets from ``begin`` to ``end``: the cells known to be taken."""
        return np.asarray(self.known[begin:end, None] >> np.arange(self.cells) & 1, bool)

    def write_probabilities(self, begin: int, probabilities: Float64Array, out: Float64Array) -> None:
        """Write the probabilities float64[B, cells] of information sets from ``begin`` on to their sequences, in
        float64[S].
        """
        _spread(self.known, self._sequence, self.first, self.observations, begin, probabilities, out)

    def maximize(self, values: Float64Array, wins: Float64Array) -> None:
        """Add the values of best attempts to the sequences that lead to them, the last first, in float64[S] each."""
        _maximize(self.known, self._sequence, self.first, self.observations, self.cells, values, wins)


def count_observations(graph: JointViewGraph) -> int:
    """Return the number of different observations: without skips a player is never told of one."""
    return OBSERVATIONS if graph.game.skip_chance > 0 else SKIPPED


class Walk:
    """A walk over all stone histories, in parts: :meth:`advance`.

    Args:
        graph: the game.
        policies: the trees of the players whose policies are followed, both or one, with the probabilities of their
            sequences, float64[S].
        responder: the tree of the best responder, if there is one.

    Attributes:
        results: probabilities that player_0 wins, of a draw, and that player_1 wins; 0 with a responder.
        values, wins: float64[S] for the responder's sequences: the expected result, and the probability of a win, of
            games that end after it, before the responder's next attempt, and if the responder plays so.
        histories: number of stone histories that were visited.
    """

    def __init__(
        self,
        graph: JointViewGraph,
        policies: list[tuple[InformationTree, Float64Array]],
        responder: InformationTree | None = None,
    ) -> None:
        self.results = np.zeros(3)
        self.histories = 0
        trees = [tree for tree, _ in policies] + ([] if responder is None else [responder])
        starts = np.cumsum([0] + [tree.size for tree in trees])
        first = np.concatenate([tree.first for tree in trees])
        first[starts[1] :][first[starts[1] :] >= 0] += starts[1]
        offset = int(starts[len(policies)])
        size = 0 if responder is None else responder.size
        self.values, self.wins = np.zeros(size), np.zeros(size)
        self._trees = first, np.concatenate([probabilities for _, probabilities in policies])
        cells = graph.game.cells
        ones = np.array([bits.bit_count() for bits in range(1 << cells)], np.int64)
        own = np.stack([_bits(graph.cells == stone) for stone in (1, 2)], axis=1)
        self._game = graph.edges, graph.mover, own, ones
        self._options: _Options = (
            graph.game.skip_chance,
            graph.game.hidden == "abrupt",
            count_observations(graph),
            -1 if responder is None else responder.player,
            offset,
        )
        known = [tree.known[0] if len(tree) else 0 for tree in trees]
        self._stack = _Stack(
            np.zeros((2, CAPACITY), np.int64), np.zeros((2, CAPACITY), np.int64), np.ones((2, CAPACITY))
        )
        depth = 2 * cells + 2
        self._levels = _Levels(np.zeros((depth, 8), np.int64), np.ones((depth, 3)), np.zeros(1, np.int64))
        for tree, start, bits in zip(trees, starts, known, strict=False):
            self._stack.sequences[tree.player, 0], self._stack.known[tree.player, 0] = start, bits
        self._levels.counters[0] = 0, -1, 0, 1, 1, 0, 1, 1

    def advance(self, histories: int = HISTORIES_PER_CALL) -> bool:
        """Visit some more stone histories; return whether any are left.

        Raises:
            MemoryError: more information sets agree with a history than ``CAPACITY``.
        """
        out = np.zeros(3), self.values, self.wins
        visited = _walk(self._game, self._options, self._trees, self._stack, self._levels, out, histories)
        if visited < 0:
            raise MemoryError(f"more than {CAPACITY} information sets agree with one order of stones")
        self.results += out[0]
        self.histories += int(visited)
        return bool(self._levels.depth[0] >= 0)


def _bits(flags: BoolArray) -> Int32Array:
    """Return int32[B]: rows of flags bool[B, cells] as bits."""
    return np.asarray(flags @ (1 << np.arange(flags.shape[1])), np.int32)


class _Stack(NamedTuple):
    """For each player, lists of information sets that agree with the stone histories from the first to the current."""

    sequences: Int64Array
    """int64[2, capacity]: the sequences that lead to them"""
    known: Int64Array
    """int64[2, capacity]: cells that the player knows to be taken, as bits"""
    reach: Float64Array
    """float64[2, capacity]: product of the player's own probabilities; 1 for the responder"""


class _Levels(NamedTuple):
    """The stone histories from the first to the current one."""

    counters: Int64Array
    """int64[depth, 8]: by STATE, OPTION, and for each player BEGIN, END and TOP"""
    numbers: Float64Array
    """float64[depth, 3]: the sums of each player's reach, and the probability of chance events"""
    depth: Int64Array
    """int64[1]: number of the current level; -1 after the end"""


STATE, OPTION, LISTS = range(3)
"""Counters: the joint view, in which found stones do not matter; the next option, -1 for a new level; the first of the
limits of the lists on the stack."""
BEGIN, END, TOP = range(3)
CHANCE = 2

_Game = tuple[Edges, Int8Array, Int32Array, Int64Array]
"""edges and movers of the graph; int32[N, 2], both players' stones as bits; the number of ones of all bits"""
_Options = tuple[float, bool, int, int, int]
"""skip chance; whether the game is abrupt; number of observations; the responder's seat, or -1; its first sequence"""
_Results = tuple[Float64Array, Float64Array, Float64Array]
"""float64[3], the results of the policies; the responder's values and wins, float64[S] each"""
_Trees = tuple[Int32Array, Float64Array]
"""first sequences and probabilities of both players, one after the other"""
_Tree = tuple[Int32Array, Float64Array, int, Int64Array]
"""the same, the number of observations, and the number of ones of all bits"""


@compiled_at_once
def _count_paths(
    edges: Edges, mover: Int8Array, last: BoolArray, player: int, abrupt: bool, counts: Float64Array
) -> None:
    """Write the number of stone histories that lead to each joint view, with all different attempts of ``player``.

    Of the failed attempts of other players, that on the first cell stands for all, since only their number matters.
    Those before the last stone of a classic game do not matter: ``last`` is bool[N], whether one cell is empty.
    """
    kind, _, following, again = edges
    for s in range(len(mover)):
        if counts[s] == 0.0:
            continue
        tried = False
        for cell in range(kind.shape[1]):
            if kind[s, cell] == TRIED:
                if (abrupt and not tried) or (mover[s] == player and (abrupt or not last[s])):
                    counts[following[s, cell]] += counts[s]
                tried = True
            elif kind[s, cell] == PLACED:
                counts[following[s, cell]] += counts[s]
                if again[s, cell] >= 0:
                    counts[again[s, cell]] += counts[s]


@compiled_at_once
def _count_sequences(sets: InformationSetList, cells: int, observations: int, known: Int32Array) -> int:
    """Return the number of sequences of all information sets; write the known cells of all but the first."""
    previous, attempt, _ = sets
    total = int64(0)
    for i in range(len(previous)):
        if i > 0:
            known[i] = known[previous[i]] | (1 << attempt[i])
        total += observations * (cells - _ones(known[i]))
    return total


@compiled_at_once
def _connect(
    sets: InformationSetList,
    cells: int,
    observations: int,
    known: Int32Array,
    sequence: Int32Array,
    first: Int32Array,
) -> None:
    """Number the sequences: write that which leads to each information set, int32[I], and ``first``."""
    previous, attempt, observation = sets
    size = int64(1)
    for i in range(len(previous)):
        if i > 0:
            before = previous[i]
            rank = _ones(~known[before] & ((1 << attempt[i]) - 1))
            sequence[i] = first[sequence[before]] + rank * observations + observation[i]
        first[sequence[i]] = size
        size += observations * (cells - _ones(known[i]))


@inlined
def _ones(bits: int) -> int:
    """Return the number of ones."""
    count = int64(0)
    while bits:
        bits &= bits - 1
        count += 1
    return count


@compiled_at_once
def _write_attempts(sets: InformationSetList, begin: int, attempts: Int8Array, observations: Int8Array) -> None:
    """Write the attempts of information sets from ``begin`` on, int8[B, cells] each."""
    previous, attempt, observation = sets
    for row in range(len(attempts)):
        length = int64(0)
        i = int64(begin + row)
        while previous[i] >= 0:
            length += 1
            i = int64(previous[i])
        i = int64(begin + row)
        while previous[i] >= 0:
            length -= 1
            attempts[row, length], observations[row, length] = attempt[i], observation[i]
            i = int64(previous[i])


@compiled_at_once
def _spread(
    known: Int32Array,
    sequence: Int32Array,
    first: Int32Array,
    observations: int,
    begin: int,
    probabilities: Float64Array,
    out: Float64Array,
) -> None:
    """Write probabilities to all sequences of an attempt, see :meth:`InformationTree.write_probabilities`."""
    for row in range(len(probabilities)):
        at = int64(first[sequence[begin + row]])
        for cell in range(probabilities.shape[1]):
            if known[begin + row] >> cell & 1 == 0:
                for one in range(observations):
                    out[at + one] = probabilities[row, cell]
                at += observations


@compiled_at_once
def _maximize(
    known: Int32Array,
    sequence: Int32Array,
    first: Int32Array,
    observations: int,
    cells: int,
    values: Float64Array,
    wins: Float64Array,
) -> None:
    """Choose the best attempts from the last information set to the first, see :meth:`InformationTree.maximize`."""
    for i in range(len(known) - 1, -1, -1):
        best, best_wins = -np.inf, 0.0
        begin = int64(first[sequence[i]])
        for at in range(begin, begin + observations * (cells - _ones(known[i])), observations):
            value, won = 0.0, 0.0
            for one in range(at, at + observations):
                value += values[one]
                won += wins[one]
            if value > best:
                best, best_wins = value, won
        values[sequence[i]] += best
        wins[sequence[i]] += best_wins


@compiled_nogil
def _walk(
    game: _Game,
    options: _Options,
    trees: _Trees,
    stack: _Stack,
    levels: _Levels,
    out: _Results,
    histories: int,
) -> int:
    """Visit stone histories depth-first, from the current level on; return how many, or -1 if the stack is full.

    Args:
        stack, levels: where the walk stands.
        out: is added to.
        histories: number of stone histories after which to stop.
    """
    edges, mover, own, ones = game
    skip, abrupt, observations, responder, offset = options
    first, probabilities = trees
    kind, _, following, again = edges
    counters, numbers, at_depth = levels
    sequences, known, reach = stack
    cells = int64(kind.shape[1])
    depth = at_depth[0]
    visited = int64(0)
    while depth >= 0:
        level, number = counters[depth], numbers[depth]
        state, option = level[STATE], level[OPTION]
        player = int64(mover[state])
        lists = LISTS + 3 * player
        if option < 0:
            if visited >= histories:
                break
            visited += 1
            tree = (first, probabilities, observations, ones)
            level[OPTION] = 0
            if not abrupt:
                if ones[own[state, 0] | own[state, 1]] == cells - 1:  # the mover finds the last empty cell in any case
                    _end_game(edges[1], responder, offset, stack, level, number, player, out)
                    level[OPTION] = 2 * cells + 1
                    continue
                if not _fail_in_turn(tree, own, responder, stack, level, player):
                    return -1
            _end_games(edges, tree, responder, offset, stack, level, number, player, out)
            continue
        if option > 2 * cells:
            depth -= 1
            continue
        level[OPTION] += 1
        cell, chance, after, observation = int64(0), 1.0, int64(-1), int64(FAILED)
        if option < 2 * cells:
            cell = option >> 1
            if kind[state, cell] == PLACED:
                observation = int64(SKIPPED) if option & 1 else int64(SUCCEEDED)
                after = int64(again[state, cell]) if option & 1 else int64(following[state, cell])
                if again[state, cell] >= 0:
                    chance = skip if option & 1 else 1.0 - skip
        elif abrupt:
            while cell < cells and kind[state, cell] != TRIED:
                cell += 1
            if cell < cells:
                after = int64(following[state, cell])
        if after < 0:
            continue
        begin = level[lists + TOP]
        end = begin
        total = 0.0
        for i in range(level[lists + BEGIN], level[lists + END]):
            bits = known[player, i]
            head = int64(first[sequences[player, i]])
            tries = own[state, 1 - player] & ~bits if observation == FAILED else 1 << cell
            while tries:
                lowest = tries & -tries
                tries &= tries - 1
                sequence = head + observations * ones[~bits & (lowest - 1)] + observation
                share = reach[player, i]
                if player != responder:
                    share *= probabilities[sequence]
                    if share == 0.0:
                        continue
                if end == sequences.shape[1]:
                    return -1
                sequences[player, end], known[player, end], reach[player, end] = sequence, bits | lowest, share
                total += share
                end += 1
        if end == begin:
            continue
        depth += 1
        later, later_number = counters[depth], numbers[depth]
        for i in range(len(level)):
            later[i] = level[i]
        for i in range(len(number)):
            later_number[i] = number[i]
        later[STATE], later[OPTION] = after, -1
        later[lists + BEGIN], later[lists + END], later[lists + TOP] = begin, end, end
        later_number[player] = total
        later_number[CHANCE] = number[CHANCE] * chance
    at_depth[0] = depth
    return visited


@inlined
def _fail_in_turn(tree: _Tree, own: Int32Array, responder: int, stack: _Stack, level: Int64Array, player: int) -> bool:
    """Add the information sets after failed attempts of the same turn to the mover's list; False if it is full."""
    first, probabilities, observations, ones = tree
    sequences, known, reach = stack
    lists = LISTS + 3 * player
    i, end = level[lists + BEGIN], level[lists + END]
    hidden = own[level[STATE], 1 - player]
    while i < end:
        bits = known[player, i]
        head = int64(first[sequences[player, i]])
        tries = hidden & ~bits
        while tries:
            lowest = tries & -tries
            tries &= tries - 1
            sequence = head + observations * ones[~bits & (lowest - 1)] + FAILED
            share = reach[player, i]
            if player != responder:
                share *= probabilities[sequence]
                if share == 0.0:
                    continue
            if end == sequences.shape[1]:
                return False
            sequences[player, end], known[player, end], reach[player, end] = sequence, bits | lowest, share
            end += 1
        i += 1
    level[lists + END] = level[lists + TOP] = end
    return True


@inlined
def _end_game(
    result: Int8Array,
    responder: int,
    offset: int,
    stack: _Stack,
    level: Int64Array,
    number: Float64Array,
    player: int,
    out: _Results,
) -> None:
    """Add the result of the last stone on the board, whatever the mover attempts before."""
    results, values, wins = out
    value = int64(0)  # of the one cell that is empty: results of other cells are 0
    for cell in range(result.shape[1]):
        value += result[level[STATE], cell]
    if player == 1:
        value = -value
    if responder < 0:
        results[1 - value] += number[CHANCE] * number[0] * number[1]
        return
    share = number[CHANCE] * number[1 - responder]
    if responder == 1:
        value = -value
    for i in range(level[LISTS + 3 * responder + BEGIN], level[LISTS + 3 * responder + END]):
        values[stack.sequences[responder, i] - offset] += share * value
        wins[stack.sequences[responder, i] - offset] += share * (value > 0)


@inlined
def _end_games(
    edges: Edges,
    tree: _Tree,
    responder: int,
    offset: int,
    stack: _Stack,
    level: Int64Array,
    number: Float64Array,
    player: int,
    out: _Results,
) -> None:
    """Add the results of all stones of the mover that end the game."""
    kind, result, _, _ = edges
    first, probabilities, observations, ones = tree
    sequences, known, reach = stack
    results, values, wins = out
    state = level[STATE]
    begin, end = level[LISTS + 3 * player + BEGIN], level[LISTS + 3 * player + END]
    others = number[CHANCE] * number[1 - player]
    gained, won = 0.0, 0.0
    for cell in range(kind.shape[1]):
        if kind[state, cell] != FINAL:
            continue
        mask = (1 << cell) - 1
        value = result[state, cell]
        total = 0.0
        for i in range(begin, end):
            sequence = int64(first[sequences[player, i]]) + observations * ones[~known[player, i] & mask] + SUCCEEDED
            if player == responder:
                values[sequence - offset] += others * value
                wins[sequence - offset] += others * (value > 0)
            else:
                total += reach[player, i] * probabilities[sequence]
        gained -= total * value
        won += total * (value < 0)
        if responder < 0:
            results[1 - value if player == 0 else 1 + value] += total * others
    if responder == 1 - player and (gained != 0.0 or won != 0.0):
        for i in range(level[LISTS + 3 * responder + BEGIN], level[LISTS + 3 * responder + END]):
            values[sequences[responder, i] - offset] += number[CHANCE] * gained
            wins[sequences[responder, i] - offset] += number[CHANCE] * won
