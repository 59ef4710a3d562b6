"""Searches guided by an evaluator, by PUCT and by the Gumbel rule: against a plain implementation and exact values."""

import math

import numpy as np
import plain
import pytest
from evaluators import Noise, Perfect, PlainEvaluator
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from baselines.exact import Tablebase, build, solve
from baselines.mcts import MCTS, GumbelSearch, MCTSSearch
from baselines.mcts.gumbel import considered_visits_table
from ttt_envs import Boards, Game, from_text, make_policy

SKIPS = [0.0, 0.1, 0.25, 0.5]
BOARDS = [(3, 3, 3), (2, 3, 2), (4, 4, 3)]


class Nothing(PlainEvaluator):
    """Equal logits, and values 0."""

    def evaluate(self, boards):
        return np.zeros(boards.cells.shape, np.float32), np.zeros(len(boards.mover))


class RandomPlay(PlainEvaluator):
    """Equal logits, and the values of random play."""

    def __init__(self, game):
        self.table = make_policy("table", game)

    def evaluate(self, boards):
        return np.zeros(boards.cells.shape, np.float32), self.table.values(boards)


def puct(game, boards, evaluator, simulations, **more):
    search = MCTSSearch(game, boards, np.zeros(len(boards.mover), np.uint64), leaf=evaluator, **more)
    search.run(simulations)
    return search


def noise_for(boards, seed=0):
    return np.random.default_rng(seed).gumbel(size=boards.cells.shape)


# ---------------------------------------------------------------------------------------------------------------------
# The same search once more


def softmax(logits):
    most = max(logits.values())
    weights = {cell: math.exp(logit - most) for cell, logit in logits.items()}
    total = sum(weights.values())
    return {cell: weight / total for cell, weight in weights.items()}


class PlainGuided:
    """The search as in the papers, on dictionaries by history; values are computed from scratch at each use.

    A history is ((cell, next mover), ...) from the root.
    """

    def __init__(self, game, position, evaluator, **settings):
        self.game, self.evaluator = game, evaluator
        self.settings = {
            "c": 1.4,
            "noise": None,
            "max_num_considered_actions": 16,
            "maxvisit_init": 50.0,
            "value_scale": 0.1,
            **settings,
        }
        self.lines = [set(line) for line in plain.all_lines(game)]
        self.cells, self.mover = {(): position.cells.tolist()}, {(): position.mover}
        self.visits, self.known = {}, {}
        self.prior, self.mixed_value, self.tried = {}, {}, {}
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
        """A position is met: it is won or lost at once, or evaluated."""
        cells, mover = self.cells[node], self.mover[node]
        wins, blocks = self.wins_of(node, mover), self.wins_of(node, 1 - mover)
        self.visits[node] = 1
        if node and wins:
            self.known[node] = 1.0
        elif node and len(blocks) > 1 and self.game.skip_chance == 0:
            self.known[node] = -1.0
        else:
            logits, values = self.evaluator.evaluate(Boards(np.array([cells], np.int8), np.array([mover], np.int8)))
            sensible = wins or (blocks if self.game.skip_chance == 0 else []) or np.flatnonzero(np.array(cells) == 0)
            self.prior[node] = softmax({int(cell): float(logits[0, cell]) for cell in sensible})
            self.mixed_value[node], self.tried[node] = float(values[0]), []

    def turns(self, node, cell):
        """The positions after a move: the other player's turn, and, where it may be skipped, the mover's own."""
        mover = self.mover[node]
        either = (1 - mover, mover) if self.game.skip_chance else (1 - mover,)
        return [(*node, (cell, following)) for following in either]

    def times(self, node, cell):
        """Return the visits of a move: the first simulation evaluates both turns after it."""
        turns = self.turns(node, cell)
        return sum(self.visits[turn] for turn in turns) - (len(turns) - 1) if cell in self.tried[node] else 0

    def value(self, node):
        """Of a position, to its mover."""
        if node in self.known:
            return self.known[node]
        times = {cell: self.times(node, cell) for cell in self.tried[node]}
        total = self.mixed_value[node] + sum(n * self.move_value(node, cell) for cell, n in times.items())
        return total / (1 + sum(times.values()))

    def move_value(self, node, cell):
        """Of a move, to the mover: what is after it, as likely as chance has it."""
        skip, mover = self.game.skip_chance, self.mover[node]
        values = [self.value(turn) * (1 if self.mover[turn] == mover else -1) for turn in self.turns(node, cell)]
        return values[0] + skip * (values[1] - values[0]) if len(values) == 2 else values[0]

    def completed(self, node):
        """{cell: value}, of moves never made what is thought of the position and of its other moves."""
        tried, prior = self.tried[node], self.prior[node]
        mixed_value = self.mixed_value[node]
        if tried:
            total = sum(self.times(node, cell) for cell in tried)
            mean = sum(prior[cell] * self.move_value(node, cell) for cell in tried) / sum(prior[cell] for cell in tried)
            mixed_value = (mixed_value + total * mean) / (1 + total)
        return {cell: self.move_value(node, cell) if cell in tried else mixed_value for cell in prior}

    def improved(self, node):
        values = self.completed(node)
        most = max((self.times(node, cell) for cell in self.tried[node]), default=0)
        scale = (self.settings["maxvisit_init"] + most) * self.settings["value_scale"]
        return {cell: math.log(p) + scale * values[cell] for cell, p in self.prior[node].items()}

    def choose(self, node, considered_visit):
        times = {cell: self.times(node, cell) for cell in self.prior[node]}
        total = sum(times.values())
        if self.settings["noise"] is None:
            values, width = self.completed(node), self.settings["c"] * math.sqrt(1 + total)
            scores = {cell: values[cell] + width * p / (1 + times[cell]) for cell, p in self.prior[node].items()}
        elif node == self.root:
            scores = {c: s for c, s in self.noisy().items() if times[c] == considered_visit}
        else:
            policy = softmax(self.improved(node))
            scores = {cell: policy[cell] - times[cell] / (1 + total) for cell in policy}
        return max(sorted(scores), key=scores.get)

    def noisy(self):
        """The moves of the root that are considered, by noise and improved logits."""
        noise = self.settings["noise"]
        likely = {cell: noise[cell] + math.log(p) for cell, p in self.prior[self.root].items()}
        max_num_considered_actions = sorted(likely, key=likely.get, reverse=True)[
            : self.settings["max_num_considered_actions"]
        ]
        return {c: noise[c] + score for c, score in self.improved(self.root).items() if c in max_num_considered_actions}

    def simulate(self, considered_visit=0):
        node, path = self.root, []
        if node in self.known:
            return
        while node not in self.known:
            cell = self.choose(node, considered_visit)
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

    def solved(self, node):
        return [cell for cell in self.tried[node] if all(turn in self.known for turn in self.turns(node, cell))]

    def settle(self, node):
        values = {cell: self.move_value(node, cell) for cell in self.solved(node)}
        if max(values.values()) == 1 or len(values) == len(self.prior[node]):
            self.known[node] = max(values.values())


def considered_visits(moves, simulations):
    """Return the earlier visits of each simulation's move, counted as by the authors."""
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
    """A tree has made the same moves as often as the dictionaries, with the same values."""
    root = other.root
    times = {cell: other.times(root, cell) for cell in other.tried[root]}
    assert {int(c): int(search.visits[row, c]) for c in np.flatnonzero(search.visits[row])} == times
    cells = sorted(times)
    assert_allclose(search.action_values[row, cells], [other.move_value(root, cell) for cell in cells], atol=1e-6)
    assert_array_equal(np.flatnonzero(search.solved[row]), sorted(other.solved(root)))
    assert_allclose(search.root_values[row], other.value(root), atol=1e-6)


@settings(max_examples=25)
@given(st.sampled_from(BOARDS), st.sampled_from(SKIPS), st.integers(0, 10**6), st.sampled_from([0.3, 1.4, 4.0]))
def test_puct_agrees_with_a_plain_implementation(shape, skip, seed, c):
    game = Game(*shape, skip)
    boards, evaluator = plain.positions_of_random_play(game, 2, seed), Noise()
    search = puct(game, boards, evaluator, 60, c=c)
    for row in range(2):
        other = PlainGuided(game, boards.position(row), evaluator, c=c)
        for _ in range(60):
            other.simulate()
        compare(search, row, other)


@settings(max_examples=25)
@given(
    st.sampled_from(BOARDS),
    st.sampled_from(SKIPS),
    st.integers(0, 10**6),
    st.sampled_from([2, 3, 4, 16]),
    st.sampled_from([1, 5, 16, 50]),
    st.sampled_from([(50.0, 0.1), (50.0, 0.5), (0.0, 1.0)]),
)
def test_the_gumbel_rule_agrees_with_a_plain_implementation(
    shape, skip, seed, max_num_considered_actions, simulations, scales
):
    game = Game(*shape, skip)
    boards, evaluator = plain.positions_of_random_play(game, 2, seed), Noise()
    noise = noise_for(boards, seed)
    named = dict(
        zip(("maxvisit_init", "value_scale"), scales, strict=True),
        max_num_considered_actions=max_num_considered_actions,
    )
    search = GumbelSearch(game, boards, evaluator, simulations=simulations, noise=noise, **named)
    for row in range(2):
        other = PlainGuided(game, boards.position(row), evaluator, noise=noise[row], **named)
        for considered_visit in considered_visits(min(max_num_considered_actions, len(other.prior[()])), simulations):
            other.simulate(considered_visit)
        compare(search, row, other)
        improved = softmax(other.improved(()))
        cells = sorted(improved)
        assert_allclose(search.improved[row, cells], [improved[cell] for cell in cells], atol=1e-5)
        assert_allclose(search.improved[row].sum(), 1, atol=1e-12)
        values = other.completed(())
        value = other.known.get((), sum(improved[cell] * values[cell] for cell in cells))
        assert_allclose(search.improved_values[row], value, atol=1e-5)
        times, certain = {cell: other.times((), cell) for cell in cells}, other.solved(())
        last = {c for c in other.noisy() if times[c] == max(times.values())} | set(certain)
        last -= {cell for cell in certain if values[cell] < max(values[c] for c in certain)}
        scores = {cell: score for cell, score in other.noisy().items() if cell in last}
        assert_array_equal(np.flatnonzero(np.isfinite(search.scores[row])), sorted(scores))
        assert np.argmax(search.scores[row]) == max(sorted(scores), key=scores.get)
        assert search.probabilities()[row, np.argmax(search.scores[row])] == 1


@pytest.mark.parametrize("skip", [0.0, 0.5])
def test_a_saved_subtree_agrees_with_a_plain_implementation(skip):
    game, evaluator = Game(skip_chance=skip), Noise()
    boards = Boards.from_positions([from_text("o../.../..x o")])
    search, other = puct(game, boards, evaluator, 300), PlainGuided(game, boards.position(0), evaluator)
    for _ in range(300):
        other.simulate()
    went_on = 0
    for cell in other.tried[()]:
        subtree = search.subtree(0, cell)
        nodes = [((cell, 1),), ((cell, 0),)] if skip else []
        nodes += [((cell, 1), (reply, 0)) for reply in other.tried.get(((cell, 1),), [])]
        for node in nodes:
            if node in other.known or node not in other.tried:
                continue
            now = Boards.from_positions([from_text(text_of(game, other.cells[node], other.mover[node]))])
            again = MCTSSearch(game, now, np.zeros(1, np.uint64), leaf=evaluator, subtrees=[subtree])
            assert again.visits.sum() == other.visits[node] - 1
            again.run(20)
            branch = branch_of(other, game, evaluator, node)
            for _ in range(20):
                branch.simulate()
            compare(again, 0, branch)
            went_on += 1
    assert went_on >= 5


def text_of(game, cells, mover):
    rows = ["".join(".ox"[cell] for cell in cells[i : i + game.columns]) for i in range(0, game.cells, game.columns)]
    return "/".join(rows) + " " + "ox"[mover]


def branch_of(other, game, evaluator, node):
    """The part of a search below a node, as a search of its own."""
    position = Boards(np.array([other.cells[node]], np.int8), np.array([other.mover[node]], np.int8)).position(0)
    branch = PlainGuided(game, position, evaluator)
    for name in ("cells", "mover", "visits", "known", "prior", "mixed_value"):
        held = getattr(other, name)
        setattr(branch, name, {way[len(node) :]: x for way, x in held.items() if way[: len(node)] == node})
    branch.tried = {way[len(node) :]: [*x] for way, x in other.tried.items() if way[: len(node)] == node}
    branch.cells = {way: [*cells] for way, cells in branch.cells.items()}
    return branch


# ---------------------------------------------------------------------------------------------------------------------
# What it finds


@pytest.mark.parametrize("skip", SKIPS)
def test_a_perfect_evaluator_gives_exact_values(skip):
    """Chance is averaged, not sampled, and signs are right after a skip."""
    game = Game(skip_chance=skip)
    boards, evaluator = plain.positions_of_random_play(game, 100, seed=1), Perfect(game)
    exact, of_moves = solve(game).values(boards), solve(game).action_values(boards)
    gumbel = GumbelSearch(game, boards, evaluator, simulations=32)
    for search in (gumbel, puct(game, boards, evaluator, 100)):
        tried = search.visits > 0
        assert_allclose(search.action_values[tried], of_moves[tried], rtol=0, atol=1e-9)
        assert_allclose(search.values, exact, rtol=0, atol=1e-9)
    assert_allclose(gumbel.improved_values, exact, rtol=0, atol=1e-9)
    assert_allclose(puct(game, boards, evaluator, 100).root_values, exact, rtol=0, atol=1e-9)
    shares = make_policy("optimal", game).probabilities(boards)
    assert ((gumbel.probabilities() > 0) <= (shares > 0)).all()


def errors(game, boards, evaluator, simulations):
    """Mean distances from the exact values: of what PUCT and the Gumbel rule make of positions."""
    exact = solve(game).values(boards)
    gumbel = GumbelSearch(game, boards, evaluator, simulations=simulations)
    found = puct(game, boards, evaluator, simulations).root_values, gumbel.improved_values
    return [abs(values - exact).mean() for values in found]


@pytest.mark.parametrize(("skip", "evaluator"), [(0.0, RandomPlay), (0.25, Nothing), (0.5, RandomPlay)])
def test_values_converge_to_the_exact_ones(skip, evaluator):
    game = Game(skip_chance=skip)
    evaluator = evaluator(game) if evaluator is RandomPlay else evaluator()
    boards = plain.positions_of_random_play(game, 64, seed=3)
    table = np.array([errors(game, boards, evaluator, simulations) for simulations in (16, 256, 2048)])
    assert (table[1:] < 0.85 * table[:-1]).all()
    assert (table[-1] < 0.05).all()


def in_one(game, count, seed):
    """Positions of random play, and in each the cells where the mover, and where the opponent, would win."""
    boards = plain.positions_of_random_play(game, count, seed)
    other = [PlainGuided(game, boards.position(row), Nothing()) for row in range(count)]
    mover = boards.mover.tolist()
    return boards, [(set(one.wins_of((), m)), set(one.wins_of((), 1 - m))) for one, m in zip(other, mover, strict=True)]


@pytest.mark.parametrize("skip", [0.0, 0.25])
@pytest.mark.parametrize("game", [Game(4, 4, 3), Game(5, 5, 4)], ids=str)
def test_wins_in_one_do_not_depend_on_the_evaluator(game, skip):
    game = Game(game.rows, game.columns, game.win_length, skip)
    boards, lines = in_one(game, 200, seed=4)
    for simulations in (1, 8):
        search = GumbelSearch(game, boards, Noise(20.0), simulations=simulations, noise=noise_for(boards))
        other = puct(game, boards, Noise(20.0), simulations)
        met = 0
        for row, (wins, blocks) in enumerate(lines):
            sensible = wins or (blocks if skip == 0 else set())
            if sensible:
                for found in (search.visits, search.probabilities(), search.improved, other.visits):
                    assert set(np.flatnonzero(found[row]).tolist()) <= sensible
                met += 1
            if wins:
                assert search.values[row] == search.improved_values[row] == other.root_values[row] == 1
                assert search.solved[row].sum() == 1
        assert met > 20


def test_without_skips_a_double_threat_is_a_solved_loss():
    """The move leaves the opponent two ways to win, so it is solved by one simulation."""
    game = Game(4, 4, 3)
    boards = Boards.from_positions([from_text("..../.xx./..../o..o o")])
    search = puct(game, boards, Nothing(), 1)  # of two cells that stop a line the other is left
    assert search.solved.sum() == 1
    assert search.action_values[0, search.solved[0]] == [-1]
    chance = Game(4, 4, 3, 0.25)
    assert not puct(chance, boards, Nothing(), 1).solved.any()


@pytest.mark.parametrize("skip", SKIPS)
def test_solved_values_are_exact_and_propagated(skip):
    game = Game(skip_chance=skip)
    boards = plain.positions_of_random_play(game, 150, seed=2)
    exact = solve(game).action_values(boards)
    search = puct(game, boards, Noise(), 600)
    assert search.solved.sum() > 60
    assert_allclose(search.action_values[search.solved], exact[search.solved], atol=1e-12)
    known = search.visits.sum(axis=1) < 600  # no more simulations where everything is certain
    assert known.sum() > 30
    assert_allclose(search.root_values[known], np.nanmax(exact, axis=1)[known], atol=1e-12)
    assert_allclose(search.values[known], np.nanmax(exact, axis=1)[known], atol=1e-12)


@pytest.mark.parametrize("skip", [0.0, 0.25])
def test_a_database_replaces_the_evaluator(skip, tmp_path):
    game = Game(skip_chance=skip)
    build(game, tmp_path, stones=5)
    endgame = Tablebase(tmp_path, game)
    stones = np.count_nonzero((boards := plain.positions_of_random_play(game, 60, seed=5)).cells, axis=1)
    asked = []

    class Watched(Noise):
        def evaluate(self, boards):
            asked.extend(np.count_nonzero(boards.cells, axis=1).tolist())
            return super().evaluate(boards)

    search = puct(game, boards, Watched(), 400, endgame=endgame)
    assert max(asked) <= max(4, stones.max())
    exact = solve(game).action_values(boards)
    near = np.flatnonzero(stones == 4)
    assert len(near) > 3
    assert search.solved[near].sum() > 3
    assert_allclose(search.action_values[search.solved], exact[search.solved], atol=1e-6)
    assert_allclose(search.root_values[near], np.nanmax(exact[near], axis=1), atol=1e-6)


# ---------------------------------------------------------------------------------------------------------------------
# What must not matter, and what is counted


@given(st.integers(2, 40), st.integers(1, 200))
def test_sequential_halving_schedules_existing_visits(max_num_considered_actions, simulations):
    schedule = considered_visits_table(max_num_considered_actions, simulations)
    assert schedule.shape == (max_num_considered_actions + 1, simulations)
    assert_array_equal(schedule[0], schedule[1])
    for m in range(max_num_considered_actions + 1):
        assert schedule[m].tolist() == considered_visits(m, simulations)
    for m in range(2, max_num_considered_actions + 1):
        made = [0] * m
        for before in schedule[m].tolist():
            made[made.index(before)] += 1  # there is such a move, for every simulation
        assert sum(made) == simulations
        assert_array_equal(np.diff(schedule[m]) >= 0, True)
        if simulations <= m:
            assert sorted(made, reverse=True)[:simulations] == [1] * simulations
    if simulations >= 2:
        assert_array_equal(schedule[2], np.arange(simulations) // 2)


def test_the_moves_with_the_largest_noisy_logits_are_considered():
    game = Game(4, 4, 4)
    boards, noise = Boards.start(game), noise_for(Boards.start(game))
    logits, _ = Noise().evaluate(boards)
    search = GumbelSearch(game, boards, Noise(), simulations=5, max_num_considered_actions=5, noise=noise)
    assert set(np.flatnonzero(search.visits[0])) == set(np.argsort(-(logits + noise)[0])[:5])
    without = GumbelSearch(game, boards, Noise(), simulations=5, max_num_considered_actions=5)
    assert set(np.flatnonzero(without.visits[0])) == set(np.argsort(-logits[0])[:5])


@pytest.mark.parametrize("skip", [0.0, 0.25])
def test_results_do_not_depend_on_the_batch(skip):
    game = Game(3, 4, 3, skip)
    boards = plain.positions_of_random_play(game, 30)
    for noise in (None, noise_for(boards)):
        before = None if noise is None else noise.copy()
        together = GumbelSearch(game, boards, Noise(), simulations=20, noise=noise)
        if noise is not None:
            assert_array_equal(noise, before)
        for row in range(0, 30, 7):
            rows = np.array([row])
            alone = GumbelSearch(
                game, boards.take(rows), Noise(), simulations=20, noise=None if noise is None else noise[rows]
            )
            for part in ("improved", "scores", "improved_values", "visits"):
                assert_array_equal(getattr(alone, part)[0], getattr(together, part)[row])


def test_all_trees_are_evaluated_in_one_call():
    game, asked = Game(skip_chance=0.25), []

    class Counting(Nothing):
        def evaluate(self, boards):
            assert boards.cells.dtype == boards.mover.dtype == np.int8
            asked.append(len(boards.mover))
            return super().evaluate(boards)

    puct(game, Boards.start(game, 50), Counting(), 30)
    assert asked[:2] == [50, 100]  # the roots, and then both turns after a move
    assert len(asked) <= 31


def test_a_player_reuses_its_trees():
    game = Game(4, 4, 3, 0.25)
    policy = MCTS(game, simulations=60, rollout=Noise())
    player, rng, slots = policy.player(), np.random.default_rng(0), np.array([3, 7])
    player.begin(slots)
    boards = Boards.start(game, 2)
    first = player.act(boards, slots, rng)
    assert_array_equal(first, policy.probabilities(boards).argmax(axis=1))
    cells = boards.cells.copy()
    cells[np.arange(2), first] = 1
    now = Boards(cells, np.zeros(2, np.int8))  # two skips
    subtrees = [player.subtrees[slot] for slot in slots]
    brought = MCTSSearch(game, now, np.zeros(2, np.uint64), leaf=Noise(), subtrees=subtrees)
    assert (brought.visits.sum(axis=1) > 0).all()
    brought.run(60)
    assert_array_equal(player.act(now, slots, rng), brought.probabilities().argmax(axis=1))
    assert (brought.visits.sum(axis=1) > 60).all()


class Hesitating(PlainEvaluator):
    """Later cells are likelier by less than a rounding error."""

    def evaluate(self, boards):
        shape = boards.cells.shape
        return np.tile(np.arange(shape[1], dtype=np.float32) * 1e-10, (shape[0], 1)), np.zeros(shape[0])


@pytest.mark.parametrize("skip_chance", [0.0, 0.25])
def test_moves_with_nearly_equal_priors_are_all_tried(skip_chance):
    boards = Boards.start(Game(skip_chance=skip_chance))
    search = puct(Game(skip_chance=skip_chance), boards, Hesitating(), 60)
    assert (search.visits[0] > 0).all()
    after = Boards.from_positions([from_text("x../.../... o")])
    assert (puct(Game(skip_chance=skip_chance), after, Hesitating(), 60).visits[0, 1:] > 0).all()


# ---------------------------------------------------------------------------------------------------------------------
# Noise at the root, shares, and what is refused


def test_root_noise_is_mixed_with_the_priors():
    game = Game(skip_chance=0.25)
    boards = Boards.from_positions([from_text(".../.../... o"), from_text("oo./xx./... o"), from_text("x../.o./... x")])
    shares = np.random.default_rng(0).dirichlet(np.ones(9), 3)
    whole, none = (MCTSSearch(game, boards, np.zeros(3, np.uint64), leaf=Noise()) for _ in range(2))
    whole.add_root_noise(shares, 0.25)
    none.add_root_noise(shares, 0.0)
    none.run(50)
    assert_array_equal(none.visits, puct(game, boards, Noise(), 50).visits)
    logits, _ = Noise().evaluate(boards)
    for row, found in enumerate(whole._trees.priors[:, 0]):
        sensible = [2] if row == 1 else np.flatnonzero(boards.cells[row] == 0).tolist()  # a stone that wins
        p = softmax({cell: float(logits[row, cell]) for cell in sensible})
        assert_array_equal(np.flatnonzero(found), sensible)
        assert_allclose(found[sensible], [0.75 * p[cell] + 0.25 * shares[row, cell] for cell in sensible], rtol=1e-5)
    whole.run(50)
    assert (whole.visits[0] != none.visits[0]).any()
    assert_array_equal(whole.visits.sum(axis=1)[[0, 2]], 50)


def test_a_move_solved_as_worse_is_not_chosen():
    """Whatever its prior, and even if values have no weight."""
    game = Game(skip_chance=0.25)
    exact = solve(game).action_values(boards := plain.positions_of_random_play(game, 300, seed=6))
    search = GumbelSearch(game, boards, Noise(9.0), simulations=200, value_scale=0.0, noise=noise_for(boards))
    best = np.where(search.solved, exact, -np.inf).max(axis=1, keepdims=True)
    assert ((search.scores > -np.inf) & search.solved & (exact < best - 1e-9)).sum() == 0
    certain = search.solved.sum(axis=1) == (search._trees.priors[:, 0] > 0).sum(axis=1)
    assert certain.sum() > 50
    assert_allclose(search.improved_values[certain], np.nanmax(exact[certain], axis=1), atol=1e-12)
    assert_allclose(search.values[certain], np.nanmax(exact[certain], axis=1), atol=1e-12)


def test_the_temperature_spreads_the_improved_policy():
    game = Game(4, 4, 4)
    boards = plain.positions_of_random_play(game, 20)
    search = GumbelSearch(game, boards, Noise(), simulations=16)
    assert_allclose(search.probabilities(1), search.improved, rtol=1e-12)
    squared = search.improved**2 / (search.improved**2).sum(axis=1, keepdims=True)
    assert_allclose(search.probabilities(0.5), squared, rtol=1e-9)
    assert_allclose(search.probabilities().sum(axis=1), 1)
    assert (search.probabilities()[np.arange(20), search.scores.argmax(axis=1)] > 0).all()


def test_moves_of_equal_scores_have_equal_shares():
    game = Game(3, 3, 1)  # any stone wins
    search = GumbelSearch(game, Boards.start(game), Nothing(), simulations=1)
    assert search.probabilities().max() == 1
    full = GumbelSearch(Game(2, 2, 2, 0.5), Boards.start(Game(2, 2, 2)), Nothing(), simulations=4)
    assert_allclose(full.probabilities(), [[0.25] * 4])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"simulations": 0}, "simulations=0 tries no move: choose 1 or more"),
        ({"max_num_considered_actions": 1}, "max_num_considered_actions=1 leaves no choice: choose 2 moves or more"),
        ({"maxvisit_init": -1.0}, "maxvisit_init=-1 is no weight of values: choose 0 or more"),
        ({"value_scale": math.inf}, "value_scale=inf is no weight of values: choose 0 or more"),
        ({"value_scale": math.nan}, "value_scale=nan is no weight of values"),
        ({}, "has all its simulations from the start: make another of more"),
    ],
)
def test_invalid_settings_are_rejected(settings, message):
    with pytest.raises(ValueError, match=message):
        GumbelSearch(Game(), Boards.start(Game()), Nothing(), **settings).run(1)
