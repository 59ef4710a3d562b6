"""The search against its definition in plain Python, against itself without shortcuts, and against
perfect play.
"""

from dataclasses import replace

import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from small_games import SKIP_GAME

from baselines.exact import solve
from baselines.expectiminimax import Expectiminimax, Search, leaves
from baselines.expectiminimax.search import write_moves
from baselines.search.transpositions import MIN_ROWS
from ttt_envs import Boards, Game, from_text, make_policy
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy

HEURISTICS = ("count", "consecutive", "all-diagonals")
EXACTLY = {"rtol": 0, "atol": 1e-12}
SMALLEST = 64 * MIN_ROWS
"""memory of a table that cannot grow"""
SEARCHES = [
    {"pruning": "none"},
    {"pruning": "alpha-beta", "memory": 0},
    {"pruning": "star1", "memory": 0},
    {"pruning": "star1", "memory": SMALLEST},
    {"pruning": "star1"},
]


class Definition:
    """The value of a position as the report defines it, to player_0."""

    def __init__(self, game, heuristic):
        self.skip = game.skip_chance
        self.heuristic = heuristic
        lines = plain.all_lines(game)
        self.through = [[line for line in lines if cell in line] for cell in range(game.cells)]
        self.compared = lines if heuristic == "all-diagonals" else straight_or_main(game)
        self.values = {}
        self.horizons = {}

    def with_skip(self, skip):
        self.skip = skip
        self.values = {}
        return self

    def value(self, cells, mover, depth):
        key = cells, mover, depth
        if key not in self.values:
            best = max if mover == 0 else min
            self.values[key] = best(self.move_values(cells, mover, depth).values())
        return self.values[key]

    def move_values(self, cells, mover, depth):
        return {
            cell: self.value_after(
                (*cells[:cell], mover + 1, *cells[cell + 1 :]), mover, cell, depth
            )
            for cell, stone in enumerate(cells)
            if stone == 0
        }

    def value_after(self, cells, maker, cell, depth):
        for line in self.through[cell]:
            if all(cells[i] == maker + 1 for i in line):
                return depth if maker == 0 else -depth
        if 0 not in cells:
            return 0.0
        if depth == 1:
            return self.horizon(cells)
        value = (1 - self.skip) * self.value(cells, 1 - maker, depth - 1)
        return value + self.skip * self.value(cells, maker, depth - 1) if self.skip else value

    def horizon(self, cells):
        if cells not in self.horizons:
            first = second = 0
            for line in self.compared:
                stones = bytes([cells[i] for i in line])
                if 2 not in stones:
                    first = max(first, self.line_score(stones, 1))
                if 1 not in stones:
                    second = max(second, self.line_score(stones, 2))
            self.horizons[cells] = 0.5 * ((first > second) - (first < second))
        return self.horizons[cells]

    def line_score(self, stones, own):
        return (
            max(map(len, stones.split(b"\0")))
            if self.heuristic == "consecutive"
            else stones.count(own)
        )


def straight_or_main(game):
    """Windows in rows, columns and the diagonals that begin in a corner."""
    rows = game.rows
    columns = game.columns
    length = game.win_length
    walks = [[(row, column) for column in range(columns)] for row in range(rows)]
    walks += [[(row, column) for row in range(rows)] for column in range(columns)]
    for row, down in ((0, 1), (rows - 1, -1)):
        for column, right in ((0, 1), (columns - 1, -1)):
            walks.append([(row + i * down, column + i * right) for i in range(min(rows, columns))])
    cells = [[row * columns + column for row, column in walk] for walk in walks]
    return {
        tuple(sorted(walk[i : i + length])) for walk in cells for i in range(len(walk) - length + 1)
    }


def searched(game, boards, depth, **settings):
    search = Search(game, boards, **settings)
    assert search.run(depth)
    return search.move_values


def defined(definition, boards, depth):
    """float64[B, cells], to the mover, as searches give it."""
    values = np.full(boards.cells.shape, np.nan)
    for row, (cells, mover) in enumerate(
        zip(boards.cells.tolist(), boards.mover.tolist(), strict=True)
    ):
        for cell, value in definition.move_values(tuple(cells), mover, depth).items():
            values[row, cell] = value if mover == 0 else -value
    return values


# --------------------------------------------------------------------------------------------------
# The values


def test_known_values(known_values):
    for text, by_depth in known_values["expectiminimax_skip_quarter_count_reading"].items():
        if text == "note":
            continue
        game = Game(*map(int, text.split()[0].split("x")), 0.25)
        position = (
            from_text(".../.o./... x") if "centre" in text else Boards.start(game).position(0)
        )
        for depth, value in by_depth.items():
            analysis = Expectiminimax(game, int(depth)).analyse(position)
            assert analysis.value == eval(value), (text, depth)  # a fraction


SMALL = [
    (3, 3, 3),
    (3, 3, 2),
    (2, 4, 2),
    (3, 4, 3),
    (1, 6, 3),
    (4, 3, 4),
    (2, 2, 1),
    (4, 4, 3),
    (3, 5, 3),
]


@pytest.mark.parametrize("heuristic", HEURISTICS)
@pytest.mark.parametrize("size", SMALL, ids=str)
def test_every_search_finds_the_value_of_the_definition(size, heuristic):
    definition = Definition(Game(*size), heuristic)
    for skip in (0.0, 0.1, 0.5):
        game = Game(*size, skip)
        boards = plain.positions_of_random_play(replace(game, skip_chance=0.5), 16)
        for plies in range(1, 4 + (game.cells <= 9)):
            if plies > 2:
                boards = boards.take((boards.cells == 0).sum(axis=1) < 13 - plies)
            values = defined(definition.with_skip(skip), boards, plies)
            for settings in SEARCHES:
                assert_allclose(
                    searched(game, boards, plies, heuristic=heuristic, **settings),
                    values,
                    **EXACTLY,
                )


LARGE = [
    (Game(5, 5, 4, 0.25), 20, 3),
    (Game(4, 6, 4), 10, 4),
    (Game(7, 7, 5, 0.1), 12, 3),
    (Game(5, 13, 5, 0.25), 6, 3),
    (Game(10, 10, 8, 0.25), 4, 2),
    (Game(13, 13, 5, 0.25), 8, 2),
    (Game(19, 19, 5, 0.1), 4, 2),
    (Game(6, 3, 6, 0.25), 15, 4),
]
"""games, how many positions, depth"""


def tiered(rules, *values):
    """A case with rules; those that compile a search once more are not for every test run."""
    is_slow = rules.get("torus") or not rules.get("overlines", True)
    return pytest.param(*values, marks=[pytest.mark.more] if is_slow else [])


OTHER_RULES = [
    tiered(rules, Game(3, 3, 2 + n % 2, 0.25, **rules), 32, 3)
    for n, rules in enumerate(plain.COMBINATIONS[1::2])
]


@pytest.mark.parametrize(
    "rules", [{}, *(tiered(rules, rules) for rules in plain.COMBINATIONS)], ids=plain.label_rules
)
def test_a_search_to_the_end_is_exact(rules):
    for game in (Game(2, 3, 3, 0.25, **rules), Game(**rules)):
        boards = plain.positions_of_random_play(game, 100)
        boards = boards.take(np.count_nonzero(boards.cells, axis=1) > 1)
        values = searched(game, boards, game.cells, by_result=True)
        assert_allclose(values, solve(game).action_values(boards), atol=1e-12)


@pytest.mark.parametrize(("game", "count", "depth"), [*LARGE, *OTHER_RULES], ids=str)
def test_pruning_does_not_change_values_on_larger_boards(game, count, depth):
    boards = plain.positions_of_random_play(game, count)
    boards.cells[0] = 0
    boards.mover[0] = 0
    for heuristic in HEURISTICS:
        values = searched(game, boards, depth, pruning="none", heuristic=heuristic)
        for settings in SEARCHES[1:]:
            assert_allclose(
                searched(game, boards, depth, heuristic=heuristic, **settings), values, **EXACTLY
            )


@pytest.mark.more
@pytest.mark.parametrize(("game", "count", "depth"), LARGE[:4], ids=str)
def test_a_search_for_the_best_moves_finds_exactly_these(game, count, depth):
    boards = plain.positions_of_random_play(game, count)
    values = searched(game, boards, depth, pruning="none")
    best = np.nanmax(values, axis=1, keepdims=True)
    for settings in SEARCHES:
        result = searched(game, boards, depth, every_move=False, **settings)
        assert_allclose(np.nanmax(result, axis=1, keepdims=True), best, **EXACTLY)
        assert_array_equal(result >= best - VALUE_TOLERANCE, values >= best - VALUE_TOLERANCE)
        assert_array_equal(np.isnan(result), boards.cells != 0)
        assert (result[boards.cells == 0] >= values[boards.cells == 0] - 1e-12).all()


def test_pruning_reduces_the_number_of_nodes():
    """Fewer nodes, whatever the machine: the numbers of a deterministic search."""
    game = Game(5, 5, 4, 0.25)
    nodes = {}
    for settings in SEARCHES:
        search = Search(game, Boards.start(game), every_move=False, **settings)
        search.run(4)
        nodes[settings["pruning"], settings.get("memory")] = int(search.nodes[0])
    assert nodes["none", None] == 25 * (1 + 2 * 24 * (1 + 2 * 23 * (1 + 2 * 22)))
    assert nodes["star1", 0] < nodes["alpha-beta", 0] < nodes["none", None] / 5
    assert nodes["star1", None] <= nodes["star1", SMALLEST] < nodes["star1", 0]
    assert nodes["star1", None] < nodes["none", None] / 50


# --------------------------------------------------------------------------------------------------
# Analyses, and searches that stop


@pytest.mark.parametrize("spec", ["depth=3", "depth=4,width=3", "depth=2,leaf=optimal", "depth=9"])
def test_an_analysis_agrees_with_the_probabilities(spec):
    game = SKIP_GAME
    policy = make_policy(f"expectiminimax:{spec}", game)
    rng = np.random.default_rng(0)
    boards = plain.positions_of_random_play(game, 30)
    shares = policy.probabilities(boards, np.random.default_rng(0))
    for row in range(30):
        cells, mover = position = boards.position(row)
        analysis = policy.analyse(position, rng)
        assert_array_equal(np.isnan(analysis.move_values), cells != 0)
        assert analysis.value == (np.nanmax if mover == 0 else np.nanmin)(analysis.move_values)
        assert analysis.variation[0] == shares[row].argmax()
        assert 1 <= len(set(analysis.variation)) == len(analysis.variation) <= policy.depth


@pytest.mark.parametrize("nodes", [1, 200])
@pytest.mark.parametrize(
    "settings", [*SEARCHES, {"width": 3, "random_keys": np.arange(8, dtype=np.uint64)}], ids=str
)
def test_a_stopped_search_keeps_the_finished_moves(settings, nodes):
    game = Game(4, 4, 3, 0.25)
    boards = plain.positions_of_random_play(game, 8)
    whole = Search(game, boards, **settings)
    whole.run(4)
    sliced = Search(game, boards, **settings)
    stops = 0
    while not sliced.run(4, nodes):
        finished = ~np.isnan(sliced.move_values)
        assert_array_equal(sliced.move_values[finished], whole.move_values[finished])
        stops += 1
    assert stops > 1
    assert_array_equal(sliced.move_values, whole.move_values)
    assert sliced.run(4, 1)


def test_a_search_can_change_its_depth_at_any_node():
    game = Game(4, 4, 4, 0.25)
    boards = plain.positions_of_random_play(game, 8)
    values = {depth: searched(game, boards, depth) for depth in (2, 3, 4)}
    rng = np.random.default_rng(0)
    search = Search(game, boards)
    for _ in range(100):
        depth = int(rng.integers(2, 5))
        if search.run(depth, nodes=int(rng.integers(200))):
            assert_array_equal(search.move_values, values[depth])


# --------------------------------------------------------------------------------------------------
# Moves drawn at random


def test_a_width_of_all_moves_has_no_effect():
    for game in (SKIP_GAME, Game(4, 4, 4)):
        boards = plain.positions_of_random_play(game, 50)
        random_keys = np.arange(50, dtype=np.uint64)
        for depth in (1, 2, 3, 4):
            narrow = searched(game, boards, depth, width=game.cells, random_keys=random_keys)
            assert_array_equal(narrow, searched(game, boards, depth))
        assert Expectiminimax(
            game, width=game.cells - 1
        ).pure  # below the root a cell is taken at least
        assert not Expectiminimax(game, width=game.cells - 2).pure


def test_moves_with_the_best_score_have_equal_shares():
    game = Game(3, 4, 3, 0.25)
    boards = plain.positions_of_random_play(game, 50)
    for policy in (Expectiminimax(game), Expectiminimax(game, width=3)):
        scores = policy.scores(boards, np.random.default_rng(0))
        assert_array_equal(np.isnan(scores), boards.cells != 0)
        is_best = scores >= np.nanmax(scores, axis=1, keepdims=True) - VALUE_TOLERANCE
        shares = policy.probabilities(boards, np.random.default_rng(0))
        assert_array_equal(shares, plain.shares_of(is_best))


def test_pruning_does_not_change_what_is_drawn():
    for game in (SKIP_GAME, Game(7, 7, 5, 0.25), Game(4, 6, 4)):
        boards = plain.positions_of_random_play(game, 30)
        random_keys = np.random.default_rng(0).integers(0, 1 << 64, 30, dtype=np.uint64)
        for heuristic in HEURISTICS:
            for depth, width in ((2, 1), (2, 5), (3, 1), (3, 4), (4, 2)):
                settings = {"width": width, "random_keys": random_keys, "heuristic": heuristic}
                values = searched(game, boards, depth, pruning="none", **settings)
                for pruning in ("alpha-beta", "star1"):
                    assert_array_equal(
                        searched(game, boards, depth, pruning=pruning, **settings), values
                    )


def test_moves_are_drawn_with_equal_probability():
    cells = np.array([0, 1, 0, 0, 2, 0, 0], np.int8)
    moves = np.empty(7, np.int64)
    for width in (1, 2, 4):
        times = np.zeros(7)
        for key in range(2000):
            count = write_moves(width, np.uint64(key), cells, moves, Game(1, 7, 3).parameters)
            assert count == width == len(set(moves[:count]))
            times[moves[:count]] += 1
        assert (times[cells != 0] == 0).all()
        share = width / 5
        assert (
            abs(times[cells == 0] / 2000 - share) < 5 * np.sqrt(share * (1 - share) / 2000)
        ).all()


# --------------------------------------------------------------------------------------------------
# Leaves valued by another policy


class Horizon(Policy):
    """Values as the search itself compares positions at the horizon."""

    def __init__(self, game, heuristic):
        self.definition = Definition(game, heuristic)

    def values(self, boards):
        first = [self.definition.horizon(tuple(cells)) for cells in boards.cells.tolist()]
        return np.array(first) * (1 - 2 * boards.mover)

    action_values = values  # never asked


@pytest.mark.parametrize("game", [SKIP_GAME, Game(), Game(2, 4, 3, 0.5), Game(2, 2, 1)], ids=str)
def test_with_the_heuristic_as_leaf_policy_it_is_the_same_search(game, monkeypatch):
    monkeypatch.setattr(leaves, "BATCH", 160)  # several batches of positions
    boards = plain.positions_of_random_play(game, 20)
    search = leaves.LeafSearch(game, boards, Horizon(game, "count"))
    for depth in (1, 2, 3, 4):
        assert search.run(depth)
        assert_array_equal(search.move_values, searched(game, boards, depth))


# --------------------------------------------------------------------------------------------------
# The interface


START = Boards.start(Game())


@pytest.mark.parametrize(
    "call",
    [
        lambda: Expectiminimax(Game(), depth=0),
        lambda: Expectiminimax(Game(), width=0),
        lambda: Expectiminimax(Game(), heuristic="longest"),
        lambda: Expectiminimax(Game(), leaf="random"),
        lambda: Expectiminimax(Game(), leaf="optimal", width=3),
        lambda: Expectiminimax(Game(), table=-1),
        lambda: Expectiminimax(Game(), width=2).probabilities(START),
        lambda: Expectiminimax(Game()).analyse(from_text("ooo/xx./... x")),
        lambda: Search(Game(), START, memory=-1),
        lambda: Search(Game(), START, width=2),
    ],
)
def test_invalid_settings_are_rejected(call):
    with pytest.raises(ValueError, match=r"choose|give|analyse"):
        call()
