"""Searches that a judge guides, by PUCT and by the Gumbel rule: against the same on dictionaries, and exact values."""

import inspect
import math
import zlib
from functools import cache

import numpy as np
import plain
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from baselines.mcts import MCTS, GumbelSearch, MCTSSearch
from baselines.mcts.gumbel import halving
from baselines.solver import solve
from ttt_envs import Boards, Game, from_text, make_policy
from ttt_envs.policy import Judge

SKIPS = [0.0, 0.1, 0.25, 0.5]
BOARDS = [(3, 3, 3), (2, 3, 2), (4, 4, 3)]


class Thinking:
    """What a judge has, of what it says of one position after another."""

    pure = True

    def __str__(self):
        return type(self).__name__.lower()

    def judge(self, boards):
        said = [self.of(cells.tobytes(), int(mover)) for cells, mover in zip(*boards, strict=True)]
        return np.array([logits for logits, _ in said], np.float32), np.array([value for _, value in said])

    def values(self, boards):
        return self.judge(boards)[1]

    def action_values(self, boards):
        return np.where(boards.cells == 0, 0.0, np.nan)

    def probabilities(self, boards, rng=None):
        return (boards.cells == 0) / (boards.cells == 0).sum(axis=1, keepdims=True)


class Noise(Thinking):
    """Thinks anything of a position, and always the same."""

    def __init__(self, spread=1.0):
        self.spread = spread
        self.of = cache(self._of)

    def _of(self, cells, mover):
        rng = np.random.default_rng(zlib.crc32(cells + bytes([mover])))
        return self.spread * rng.normal(size=len(cells)), rng.uniform(-1, 1)


class Nothing(Thinking):
    """Thinks nothing of any position."""

    def of(self, cells, mover):
        return np.zeros(len(cells)), 0.0


class Perfect(Thinking):
    """Thinks what is so: exact values, and equal shares for the best moves."""

    def __init__(self, game):
        self.optimal = make_policy("optimal", game)

    def judge(self, boards):
        shares = self.optimal.probabilities(boards)
        logits = np.log(shares, out=np.full(shares.shape, -np.inf), where=shares > 0)
        return logits.astype(np.float32), self.optimal.values(boards)


class RandomPlay(Thinking):
    """Thinks of a position what random play makes of it."""

    def __init__(self, game):
        self.table = make_policy("table", game)

    def judge(self, boards):
        return np.zeros(boards.cells.shape, np.float32), self.table.values(boards)


def puct(game, boards, judge, simulations, **more):
    search = MCTSSearch(game, boards, np.zeros(len(boards.mover), np.uint64), leaf=judge, **more)
    search.run(simulations)
    return search


def noise_for(boards, seed=0):
    return np.random.default_rng(seed).gumbel(size=boards.cells.shape)


def test_what_these_tests_are_guided_by_are_judges():
    for judge in (Noise(), Nothing(), Perfect(Game()), RandomPlay(Game())):
        assert isinstance(judge, Judge)


# ---------------------------------------------------------------------------------------------------------------------
# The same search once more


def softmax(logits):
    most = max(logits.values())
    weights = {cell: math.exp(logit - most) for cell, logit in logits.items()}
    total = sum(weights.values())
    return {cell: weight / total for cell, weight in weights.items()}


class PlainGuided:
    """The search as the papers have it, on dictionaries by history, whose values are worked out anew when asked for.

    A history is ((cell, who moves next), ...) from the root.
    """

    def __init__(self, game, position, judge, **settings):
        self.game, self.judge = game, judge
        self.settings = {"c": 1.4, "noise": None, "considered": 16, "visit_scale": 50.0, "value_scale": 0.1, **settings}
        self.lines = [set(line) for line in plain.all_lines(game)]
        self.cells, self.mover = {(): position.cells.tolist()}, {(): position.mover}
        self.visits, self.known = {}, {}
        self.prior, self.thought, self.tried = {}, {}, {}
        self.root = ()
        self.look(())

    def wins_of(self, node, player):
        """The cells where a player would complete a line."""
        cells = self.cells[node]
        own = {cell for cell, stone in enumerate(cells) if stone == player + 1}
        return [
            c
            for c in range(len(cells))
            if cells[c] == 0 and any(c in line and line <= own | {c} for line in self.lines)
        ]

    def look(self, node):
        """A position is met: it is won or lost at once, or judged."""
        cells, mover = self.cells[node], self.mover[node]
        wins, blocks = self.wins_of(node, mover), self.wins_of(node, 1 - mover)
        self.visits[node] = 1
        if node and wins:
            self.known[node] = 1.0
        elif node and len(blocks) > 1 and self.game.skip_chance == 0:
            self.known[node] = -1.0
        else:
            logits, values = self.judge.judge(Boards(np.array([cells], np.int8), np.array([mover], np.int8)))
            sensible = wins or (blocks if self.game.skip_chance == 0 else []) or np.flatnonzero(np.array(cells) == 0)
            self.prior[node] = softmax({int(cell): float(logits[0, cell]) for cell in sensible})
            self.thought[node], self.tried[node] = float(values[0]), []

    def turns(self, node, cell):
        """The positions after a move: the other player's turn, and, where it may be skipped, the mover's own."""
        mover = self.mover[node]
        either = (1 - mover, mover) if self.game.skip_chance else (1 - mover,)
        return [(*node, (cell, following)) for following in either]

    def times(self, node, cell):
        """How often a move was made: both turns after it are looked at in the first simulation."""
        turns = self.turns(node, cell)
        return sum(self.visits[turn] for turn in turns) - (len(turns) - 1) if cell in self.tried[node] else 0

    def value(self, node):
        """Of a position, to its mover."""
        if node in self.known:
            return self.known[node]
        times = {cell: self.times(node, cell) for cell in self.tried[node]}
        total = self.thought[node] + sum(n * self.worth(node, cell) for cell, n in times.items())
        return total / (1 + sum(times.values()))

    def worth(self, node, cell):
        """Of a move, to the mover: what is after it, as likely as chance has it."""
        skip, mover = self.game.skip_chance, self.mover[node]
        worth = [self.value(turn) * (1 if self.mover[turn] == mover else -1) for turn in self.turns(node, cell)]
        return worth[0] + skip * (worth[1] - worth[0]) if len(worth) == 2 else worth[0]

    def completed(self, node):
        """{cell: value}, of moves never made what is thought of the position and of its other moves."""
        tried, prior = self.tried[node], self.prior[node]
        thought = self.thought[node]
        if tried:
            total = sum(self.times(node, cell) for cell in tried)
            mean = sum(prior[cell] * self.worth(node, cell) for cell in tried) / sum(prior[cell] for cell in tried)
            thought = (thought + total * mean) / (1 + total)
        return {cell: self.worth(node, cell) if cell in tried else thought for cell in prior}

    def improved(self, node):
        values = self.completed(node)
        most = max((self.times(node, cell) for cell in self.tried[node]), default=0)
        scale = (self.settings["visit_scale"] + most) * self.settings["value_scale"]
        return {cell: math.log(p) + scale * values[cell] for cell, p in self.prior[node].items()}

    def choose(self, node, wanted):
        times = {cell: self.times(node, cell) for cell in self.prior[node]}
        total = sum(times.values())
        if self.settings["noise"] is None:
            values, width = self.completed(node), self.settings["c"] * math.sqrt(total)
            scores = {cell: values[cell] + width * p / (1 + times[cell]) for cell, p in self.prior[node].items()}
        elif node == self.root:
            scores = {c: s for c, s in self.noisy().items() if times[c] == wanted}
        else:
            policy = softmax(self.improved(node))
            scores = {cell: policy[cell] - times[cell] / (1 + total) for cell in policy}
        return max(sorted(scores), key=scores.get)

    def noisy(self):
        """The moves of the root that are considered, by noise and improved logits."""
        noise = self.settings["noise"]
        likely = {cell: noise[cell] + math.log(p) for cell, p in self.prior[self.root].items()}
        considered = sorted(likely, key=likely.get, reverse=True)[: self.settings["considered"]]
        return {c: noise[c] + score for c, score in self.improved(self.root).items() if c in considered}

    def simulate(self, wanted=0):
        node, path = self.root, []
        if node in self.known:
            return
        while node not in self.known:
            cell = self.choose(node, wanted)
            path.append((node, cell))
            turns = self.turns(node, cell)
            if cell not in self.tried[node]:
                self.make(node, cell, turns)
                break
            node = self.next_of(turns)
        else:
            self.visits[node] += 1
        for above, cell in reversed(path):
            self.visits[above] += 1
            if all(turn in self.known for turn in self.turns(above, cell)):
                self.settle(above)

    def next_of(self, turns):
        """The turn that is behind its share of visits; not one that is known, if the other is not."""
        unknown = [turn for turn in turns if turn not in self.known]
        if len(unknown) < 2:
            return unknown[0] if unknown else turns[0]
        skip, (other, own) = self.game.skip_chance, unknown
        return own if skip * self.visits[other] > (1 - skip) * self.visits[own] else other

    def make(self, node, cell, turns):
        self.tried[node].append(cell)
        mover, won = self.mover[node], cell in self.wins_of(node, self.mover[node])
        for turn in turns:
            self.cells[turn] = [*self.cells[node]]
            self.cells[turn][cell] = mover + 1
            self.mover[turn] = turn[-1][1]
            if won or 0 not in self.cells[turn]:
                self.visits[turn] = 1
                self.known[turn] = float(won) * (1 if self.mover[turn] == mover else -1)
            else:
                self.look(turn)

    def settled(self, node):
        return [cell for cell in self.tried[node] if all(turn in self.known for turn in self.turns(node, cell))]

    def settle(self, node):
        values = {cell: self.worth(node, cell) for cell in self.settled(node)}
        if max(values.values()) == 1 or len(values) == len(self.prior[node]):
            self.known[node] = max(values.values())


def considered_visits(moves, simulations):
    """How often the move of each simulation was made before, as its authors count it."""
    if moves < 2:
        return list(range(simulations))
    visits, left, out = [0] * moves, moves, []
    while len(out) < simulations:
        for _ in range(max(1, int(simulations / (math.ceil(math.log2(moves)) * left)))):
            out += visits[:left]
            visits[:left] = [count + 1 for count in visits[:left]]
        left = max(2, left // 2)
    return out[:simulations]


def compare(search, row, other):
    """A tree has made the same moves as often as the dictionaries, and they are worth the same."""
    root = other.root
    times = {cell: other.times(root, cell) for cell in other.tried[root]}
    assert {int(c): int(search.visits[row, c]) for c in np.flatnonzero(search.visits[row])} == times
    cells = sorted(times)
    assert_allclose(search.action_values[row, cells], [other.worth(root, cell) for cell in cells], atol=1e-6)
    assert_array_equal(np.flatnonzero(search.settled[row]), sorted(other.settled(root)))
    assert_allclose(search.root_values[row], other.value(root), atol=1e-6)


@settings(max_examples=40)
@given(st.sampled_from(BOARDS), st.sampled_from(SKIPS), st.integers(0, 10**6), st.sampled_from([0.3, 1.4, 4.0]))
def test_puct_agrees_with_a_search_on_dictionaries(shape, skip, seed, c):
    game = Game(*shape, skip)
    boards, judge = plain.positions_of_random_play(game, 2, seed), Noise()
    search = puct(game, boards, judge, 60, c=c)
    for row in range(2):
        other = PlainGuided(game, boards.position(row), judge, c=c)
        for _ in range(60):
            other.simulate()
        compare(search, row, other)


@settings(max_examples=40)
@given(
    st.sampled_from(BOARDS),
    st.sampled_from(SKIPS),
    st.integers(0, 10**6),
    st.sampled_from([2, 3, 4, 16]),
    st.sampled_from([1, 5, 16, 50]),
    st.sampled_from([(50.0, 0.1), (50.0, 0.5), (0.0, 1.0)]),
)
def test_the_gumbel_rule_agrees_with_a_search_on_dictionaries(shape, skip, seed, considered, simulations, scales):
    game = Game(*shape, skip)
    boards, judge = plain.positions_of_random_play(game, 2, seed), Noise()
    noise = noise_for(boards, seed)
    named = dict(zip(("visit_scale", "value_scale"), scales, strict=True), considered=considered)
    search = GumbelSearch(game, boards, judge, simulations=simulations, noise=noise, **named)
    for row in range(2):
        other = PlainGuided(game, boards.position(row), judge, noise=noise[row], **named)
        for wanted in considered_visits(min(considered, len(other.prior[()])), simulations):
            other.simulate(wanted)
        compare(search, row, other)
        improved = softmax(other.improved(()))
        cells = sorted(improved)
        assert_allclose(search.improved[row, cells], [improved[cell] for cell in cells], atol=1e-5)
        assert_allclose(search.improved[row].sum(), 1, atol=1e-12)
        values = other.completed(())
        assert_allclose(search.worth[row], sum(improved[cell] * values[cell] for cell in cells), atol=1e-5)
        times = {cell: other.times((), cell) for cell in cells}
        last = {c for c in other.noisy() if times[c] == max(times.values())} | set(other.settled(()))
        scores = {cell: score for cell, score in other.noisy().items() if cell in last}
        assert_array_equal(np.flatnonzero(np.isfinite(search.scores[row])), sorted(scores))
        assert np.argmax(search.scores[row]) == max(sorted(scores), key=scores.get)
        assert search.probabilities()[row, np.argmax(search.scores[row])] == 1


@pytest.mark.parametrize("skip", [0.0, 0.5])
def test_a_kept_tree_goes_on_as_on_dictionaries(skip):
    game, judge = Game(skip_chance=skip), Noise()
    boards = Boards.of([from_text("o../.../..x o")])
    search, other = puct(game, boards, judge, 300), PlainGuided(game, boards.position(0), judge)
    for _ in range(300):
        other.simulate()
    went_on = 0
    for cell in other.tried[()]:
        kept = search.keep(0, cell)
        nodes = [((cell, 1),), ((cell, 0),)] if skip else []
        nodes += [((cell, 1), (reply, 0)) for reply in other.tried.get(((cell, 1),), [])]
        for node in nodes:
            if node in other.known or node not in other.tried:
                continue
            now = Boards.of([from_text(text_of(game, other.cells[node], other.mover[node]))])
            again = MCTSSearch(game, now, np.zeros(1, np.uint64), leaf=judge, kept=[kept])
            assert again.visits.sum() == other.visits[node] - 1
            again.run(20)
            branch = branch_of(other, game, judge, node)
            for _ in range(20):
                branch.simulate()
            compare(again, 0, branch)
            went_on += 1
    assert went_on > 5


def text_of(game, cells, mover):
    rows = ["".join(".ox"[cell] for cell in cells[i : i + game.columns]) for i in range(0, game.cells, game.columns)]
    return "/".join(rows) + " " + "ox"[mover]


def branch_of(other, game, judge, node):
    """The part of a search below a node, as a search of its own."""
    position = Boards(np.array([other.cells[node]], np.int8), np.array([other.mover[node]], np.int8)).position(0)
    branch = PlainGuided(game, position, judge)
    for name in ("cells", "mover", "visits", "known", "prior", "thought"):
        held = getattr(other, name)
        setattr(branch, name, {way[len(node) :]: x for way, x in held.items() if way[: len(node)] == node})
    branch.tried = {way[len(node) :]: [*x] for way, x in other.tried.items() if way[: len(node)] == node}
    branch.cells = {way: [*cells] for way, cells in branch.cells.items()}
    return branch
