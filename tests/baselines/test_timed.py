"""Search by the clock, with simulated clocks, so that no test depends on the speed of the
machine.
"""

import gc
import math
import threading
import time
import weakref

import numpy as np
import plain
import pytest
from evaluators import Perfect
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from baselines.exact import build
from baselines.expectiminimax import Expectiminimax, Search
from baselines.mcts import MCTS, MCTSSearch
from baselines.timed import Clock, Timed, expected_moves_left
from baselines.timed.search import IterativeDeepening, TimedSearch
from ttt_envs import Boards, Game, Position, from_text, make_policy

GAME = Game(5, 5, 4)
ONE = np.zeros(1, np.int64)


class Ticking:
    """A clock that advances for every position that a search visits, and every time that it is
    read.
    """

    def __init__(self, monkeypatch, node_s=1e-5, look_s=0.0):
        self.time = 0.0
        self.look_s = look_s
        run = Search.run
        simulate = MCTSSearch.run

        def run_slowly(search, depth, nodes=None):
            before = search.nodes.sum()
            done = run(search, depth, nodes)
            self.time += node_s * (search.nodes.sum() - before)
            return done

        def simulate_slowly(search, simulations):
            simulate(search, simulations)
            self.time += node_s * simulations

        monkeypatch.setattr(Search, "run", run_slowly)
        monkeypatch.setattr(MCTSSearch, "run", simulate_slowly)

    def __call__(self):
        self.time += self.look_s
        return self.time


@pytest.fixture
def ticking(monkeypatch):
    return Ticking(monkeypatch)


def play(player, position, time_left=None, rng=None):
    clocks = None if time_left is None else np.array([time_left])
    return int(
        player.act(Boards.from_positions([position]), ONE, rng or np.random.default_rng(0), clocks)[
            0
        ]
    )


def some_positions(game):
    boards = plain.positions_of_random_play(game, 12)
    return [boards.position(row) for row in range(12)]


# --------------------------------------------------------------------------------------------------
# Clocks, and the moves to come


@pytest.mark.parametrize(
    "text", ["", "ten", "1+", "+1", "-1", "1+1+1", "0", "nan", "1e3", "9" * 50]
)
def test_clocks_are_parsed_or_refused(text):
    assert Clock.from_text(" .5+1. ") == Clock.from_text(str(Clock(0.5, 1))) == (0.5, 1)
    with pytest.raises(ValueError, match="is no clock"):
        Clock.from_text(text)


# --------------------------------------------------------------------------------------------------
# Time management


class ScriptedSearch(TimedSearch):
    """A search whose depths take the given seconds of its own clock; it looks at the clock every
    hundredth of them.
    """

    def __init__(self, seconds, decided_at=99):
        super().__init__(None, np.uint64(0), lambda: self.time, 1, len(seconds))
        self.seconds = seconds
        self.decided_at = decided_at
        self.time = 0.0
        self.parts = 0

    def can_change(self, seconds):
        return self.depth < min(self.decided_at, self.max_depth)

    def _run(self, work):
        self.time += self.seconds[self.depth] / 100
        self.parts += 1
        self.depth += self.parts % 100 == 0
        return self.parts % 100 == 0

    best = reply = None


def run_scripted(seconds, soft_s, hard_s, **settings):
    search = ScriptedSearch(seconds, **settings)
    search.run(0.0, soft_s, hard_s)
    return search


QUICK = [0.01, 0.04, 0.2, 0.9, 5.0]
"""seconds of each depth; a depth takes at least as long as the one before"""


@pytest.mark.parametrize(
    ("seconds", "soft_s", "hard_s", "depth", "end"),
    [
        (QUICK, 0.44, 9, 3, 0.25),  # the fourth depth takes 0.2 s at the least: it does not fit
        (QUICK, 0.46, 9, 4, 1.15),
        (QUICK, 0.46, 0.6, 3, 0.6),  # interrupted
        ([0.5, 0.5], 0, 0, 1, 0.5),  # the first depth needs no time
        ([0.01] * 5, 99, 99, 5, 0.05),
    ],
)
def test_a_plan_determines_the_depths_searched(seconds, soft_s, hard_s, depth, end):
    search = run_scripted(seconds, soft_s, hard_s)
    assert search.depth == depth
    assert search.time == pytest.approx(end, abs=0.01)
    assert run_scripted(seconds, soft_s, hard_s, decided_at=2).depth == min(2, depth)


@given(
    st.lists(st.floats(0.001, 2), min_size=3, max_size=12),
    st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)),
    st.integers(0, 25),
    st.sampled_from([{}, {"move": 0.7}, {"margin": 0.0}]),
)
def test_more_time_never_searches_less_deeply(seconds, lefts, stones, settings):
    policy = Timed(GAME, clock="60+0.5", **settings)
    depths = []
    for time_left in sorted(lefts):
        search = run_scripted(seconds, *policy.plan(stones, time_left, 0.5))
        depths.append(search.depth)
        assert search.time <= max(time_left, seconds[0] + 1e-9)
    assert depths == sorted(depths)


def test_time_is_divided_among_the_moves_left():
    policy = Timed(GAME, margin=0.0)
    assert [expected_moves_left(Game(9, 9, 5), stones) for stones in (0, 12, 27, 60, 75, 81)] == [
        18,
        14,
        9,
        9,
        3,
        1,
    ]
    assert policy.plan(0, 10, 0.1)[0] == pytest.approx(10 / expected_moves_left(GAME, 0) + 0.08)
    assert policy.plan(10, 4, 0.1)[0] == pytest.approx(4 / expected_moves_left(GAME, 10) + 0.08)
    assert policy.plan(0, math.inf) == (0.1, 0.1)
    for stones in range(25):
        for time_left in (0, 0.01, 0.1, 1, 10):
            soft_s, hard_s = Timed(GAME).plan(stones, time_left, 0.1)
            assert 0 <= soft_s <= hard_s <= 0.6 * time_left


# --------------------------------------------------------------------------------------------------
# Searches


@pytest.mark.parametrize("game", [GAME, Game(4, 4, 3, 0.25)], ids=str)
def test_a_timed_search_equals_the_search_to_its_depth(game):
    for position in some_positions(game):
        search = Timed(game).begin(position, np.uint64(0), time.perf_counter)
        for depth in range(1, 1 + min(4, np.count_nonzero(position.cells == 0))):
            while not search.search_until(0.0):  # a look at the clock every few positions
                pass
            assert search.depth == depth
            expected = Expectiminimax(game, depth).probabilities(Boards.from_positions([position]))[
                0
            ]
            assert_array_equal(search.best(), expected)


def test_an_interrupted_depth_counts_once_it_has_searched_the_best_move(ticking):
    game = Game(5, 5, 4, 0.25)
    search = Timed(game).begin(Boards.start(game).position(0), np.uint64(0), ticking)
    for _ in range(3):
        search.search_until(np.inf)
    before = search.best()
    unchanged = counted = 0
    while not search.search_until(0.0):
        unfinished = search.search.move_values[0]
        if np.isnan(unfinished[np.argmax(before)]):
            assert_array_equal(search.best(), before)
            unchanged += 1
        else:
            assert np.isfinite(unfinished[search.best() > 0]).all()
            assert np.nanmax(unfinished) == unfinished[np.argmax(search.best())]
            counted += 1
    assert unchanged
    assert counted


def test_decided_positions_are_not_searched_further():
    game = Game(5, 5, 4)
    cases = {
        "wins at once": ("ooo../xxx../...../...../..... o", 1),
        "has one move that does not lose": ("xxx../o..../o..../...../..... o", 2),
        "loses whatever it does": (".ooo./x..../..x../x..../..... x", 2),
        "is played to the end": ("oxoxo/oxoxo/xoxox/xoxox/oxo.. x", 2),
    }
    for why, (text, depth) in cases.items():
        player = Timed(game, move=30).player()
        play(player, from_text(text, game))
        assert player.depths == [depth], why


def test_simulations_end_when_the_most_visited_move_cannot_be_overtaken(ticking):
    game = Game(3, 3, 3, 0.25)
    position = from_text("x.o/.../..o x", game)
    search = Timed(game, "mcts:decisive=false").begin(position, np.uint64(1), ticking)
    while search.can_change(1.0 - ticking.time):
        assert search.search_until(1.0)
    assert ticking.time < 0.9
    chosen = np.argmax(search.best())
    while ticking.time < 1.0:
        search.search_until(1.0)
    assert np.argmax(search.search.visits[0]) == chosen
    guided = Timed(game, MCTS(game, rollout=Perfect(game))).begin(position, np.uint64(1), ticking)
    assert guided.max_depth < search.max_depth  # a tree with priors has room for fewer simulations


# --------------------------------------------------------------------------------------------------
# Players


def test_a_player_has_a_clock_for_each_game(ticking):
    ticking.look_s = 1e-4
    player = Timed(GAME, clock="2+0.02").player(ticking)
    slots = np.arange(2)
    player.begin(slots)
    assert player.remaining_s == {0: 2, 1: 2}
    boards = Boards.start(GAME, 2)
    before = ticking.time
    player.act(boards, slots, np.random.default_rng(0))
    spent = ticking.time - before
    assert sum(player.remaining_s.values()) == pytest.approx(4 + 2 * 0.02 - spent, abs=0.01)
    player.remaining_s[1] = 0.0
    player.act(boards, slots, np.random.default_rng(0))
    assert player.remaining_s[1] == 0.02
    player.begin(np.array([1]))
    assert player.remaining_s[1] == 2


def test_the_clock_of_a_match_takes_precedence(ticking):
    player = Timed(GAME, clock="1000").player(ticking)
    player.begin(ONE)
    player.use_clock(10, 0)
    before = ticking.time
    play(player, Boards.start(GAME).position(0), time_left=0.5)
    assert ticking.time - before <= 0.3
    before = ticking.time
    play(player, Boards.start(GAME).position(0), time_left=0.0)
    assert player.depths[-1] == 1
    assert ticking.time - before < 0.01


def test_a_delayed_player_reserves_more_time(ticking):
    player = Timed(GAME, clock="2").player(ticking)
    position = Boards.start(GAME).position(0)
    spent = []
    for look_s in (0.0, 1.0, 0.0):
        player.begin(ONE)
        ticking.look_s = look_s
        before = ticking.time
        play(player, position)
        spent.append(ticking.time - before)
    assert spent[2] < spent[0] - 0.5 / expected_moves_left(GAME, 0)


def game_moves(player, game, seed=0, wait=0.0):
    """The moves of a player against one that moves at random."""
    rng = np.random.default_rng(seed)
    other = np.random.default_rng(seed + 1)
    moves = []
    player.begin(ONE)
    cells = np.zeros(game.cells, np.int8)
    for _ in range(4):
        moves.append(play(player, Position(cells.copy(), 0), rng=rng))
        cells[moves[-1]] = 1
        time.sleep(wait)
        cells[other.choice(np.flatnonzero(cells == 0))] = 2
    return moves


@pytest.mark.parametrize("search", ["expectiminimax", "mcts"])
@pytest.mark.parametrize("game", [Game(6, 6, 5), Game(6, 6, 5, 0.25)], ids=str)
def test_at_a_fixed_depth_pondering_does_not_change_a_move(search, game):
    depth = {"expectiminimax": 3, "mcts": 150}[search]
    for seed in range(3):
        policies = [
            Timed(game, search, move=60, max_depth=depth, ponder=ponder) for ponder in (False, True)
        ]
        results = [
            game_moves(policy.player(), game, seed, wait=0.01 * policy.ponder)
            for policy in policies
        ]
        assert results[0] == results[1]


@pytest.mark.parametrize("search", ["expectiminimax", "mcts"])
def test_a_right_guess_keeps_the_search_and_a_wrong_one_does_not(search):
    game = Game(6, 6, 5)
    player = Timed(game, search, move=0.02, ponder=True).player()
    player.begin(ONE)
    position = Boards.start(game).position(0)
    cell = play(player, position)
    ahead = wait_for_pondering(player, depth=3)
    expected = ahead.position
    assert expected.cells[cell] == 1
    assert np.count_nonzero(expected.cells) == 2
    chosen = play(player, expected)
    assert player.searches[0] is ahead
    assert (player.guesses, player.hits) == (1, 1)
    position = expected._replace(cells=expected.cells.copy())
    position.cells[chosen] = 1  # and the opponent's turn is skipped
    wait_for_pondering(player)
    play(player, position)
    assert (player.guesses, player.hits) == (2, 1)
    player.close()


def wait_for_pondering(player, depth=0):
    """The search of the position that a player expects, as soon as it is so deep."""
    pondering = player.pondering
    while pondering.expected is None or pondering.expected.depth < depth:
        assert pondering.thread.is_alive()
        time.sleep(0.01)
    return pondering.expected


def pondering_threads():
    return [thread for thread in threading.enumerate() if thread.name == "pondering"]


def test_no_thread_is_left_behind():
    player = Timed(Game(7, 7, 5), move=0.01, ponder=True).player()
    position = Boards.start(Game(7, 7, 5)).position(0)
    for end, arguments in (("begin", (ONE,)), ("close", ())):
        play(player, position)
        assert len(pondering_threads()) == 1
        getattr(player, end)(*arguments)
        assert not pondering_threads()
    play(player, position)
    gone = weakref.ref(player)
    del player
    gc.collect()
    assert gone() is None
    assert not pondering_threads()


def test_errors_in_the_thread_are_raised(monkeypatch):
    monkeypatch.setattr(
        IterativeDeepening, "reply", lambda search, cell, next_position, going: 1 // 0
    )
    policy = Timed(Game(), move=0.2, max_depth=1, ponder=True)
    policy.__dict__["is_warm"] = True  # warming up asks for a reply, too
    player = policy.player()
    play(player, Boards.start(Game()).position(0))
    with pytest.raises(ZeroDivisionError):
        player.close()


@pytest.mark.more
def test_a_timed_search_uses_its_endgame_database(tmp_path):
    build(Game(), tmp_path, stones=4)
    policy = make_policy(f"expectiminimax:depth=1,endgame={tmp_path}", Game())
    for position in some_positions(Game()):
        search = Timed(Game(), policy, max_depth=1).begin(position, np.uint64(0), time.perf_counter)
        search.run(0.0, math.inf, math.inf)
        assert_array_equal(
            search.best(), policy.probabilities(Boards.from_positions([position]))[0]
        )
