"""Search by the clock, with simulated clocks, so that no test depends on the speed of the machine."""

import gc
import math
import threading
import time
import weakref

import numpy as np
import plain
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from baselines.exact import build
from baselines.expectiminimax import Expectiminimax, Search
from baselines.mcts import MCTSSearch
from baselines.timed import Clock, Timed, TimePlan, default_moves_left, estimate_moves_left, read_moves_left, run_until
from baselines.timed import write_moves_left as write
from baselines.timed.search import IterativeDeepening, MCTSTimedSearch, begin_timed
from ttt_envs import Boards, Game, from_text, make_policy
from ttt_envs.agents.policy import Player

GAME = Game(5, 5, 4)
ONE = np.zeros(1, np.int64)


class Ticking:
    """A clock that advances for every position that a search visits, and every time that it is read."""

    def __init__(self, monkeypatch, node_s=1e-5, look_s=0.0):
        self.time, self.look_s = 0.0, look_s
        run, simulate = Search.run, MCTSSearch.run

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


def play(player, position, time_left=None, seed=0):
    left = None if time_left is None else np.array([time_left])
    return int(player.act(Boards.from_positions([position]), ONE, np.random.default_rng(seed), left)[0])


def some_positions(game, count=12):
    boards = plain.positions_of_random_play(game, count)
    return [boards.position(row) for row in range(count)]


# ---------------------------------------------------------------------------------------------------------------------
# Clocks, and the moves to come


@pytest.mark.parametrize(("text", "clock"), [("10+0.1", (10, 0.1)), ("2", (2, 0)), (" .5+1. ", (0.5, 1))])
def test_clocks_are_parsed(text, clock):
    assert Clock.from_text(text) == clock
    assert Clock.from_text(str(Clock.from_text(text))) == clock


@pytest.mark.parametrize("text", ["", "ten", "1+", "+1", "-1", "1+1+1", "0", "0+1", "nan", "inf", "1e3", "9" * 50])
def test_invalid_clocks_are_rejected(text):
    with pytest.raises(ValueError, match="is no clock"):
        Clock.from_text(text)


@pytest.mark.parametrize("game", [Game(), Game(1, 1, 1), GAME, Game(15, 15, 5), Game(3, 7, 3)], ids=str)
def test_the_expected_moves_left_are_possible(game):
    moves = default_moves_left(game)
    assert moves.shape == (game.cells + 1,)
    assert (moves >= 1).all()
    assert (np.diff(moves) <= 0).all()
    assert (moves[:-1] <= np.ceil((game.cells - np.arange(game.cells)) / 2)).all()


def test_an_estimate_counts_moves_of_games():
    game = Game(2, 2, 2)
    games = [(0, [0, 1, 1])] * 10 + [(1, [1, 0])] * 3  # a skip in the former; so few of one stone alone tell nothing
    found = estimate_moves_left(game, games)
    usual = default_moves_left(game)
    assert_array_equal(found, [1, (2 * 10 + 3) / 13, (10 + 3) / 13, usual[3], usual[4]])


def test_an_estimate_is_saved_and_loaded(tmp_path):
    moves = default_moves_left(GAME) + 0.5
    write(tmp_path / "moves.json", GAME, moves)
    assert_array_equal(read_moves_left(tmp_path / "moves.json", GAME), moves)
    policy = make_policy(f"timed:clock=10,moves-left={tmp_path / 'moves.json'}", GAME)
    assert policy.plan(0, 10.0, Clock(10)).soft_s == pytest.approx((10 - policy.margin) / moves[0])
    with pytest.raises(ValueError, match="choose an estimate of the same board"):
        read_moves_left(tmp_path / "moves.json", Game())
    (tmp_path / "other.json").write_text('{"format": 1}')
    with pytest.raises(ValueError, match="is no estimate of moves"):
        read_moves_left(tmp_path / "other.json", GAME)


# ---------------------------------------------------------------------------------------------------------------------
# Settings


@pytest.mark.parametrize(
    "setting",
    [
        *("search=random", "move=0", "move=nan", "clock=soon", "min-depth=0", "min-depth=5,max-depth=4"),
        *("max-depth=0", "steady=1", "extra=0.5", "margin=-1", "allocation=best"),
    ],
)
def test_invalid_settings_are_rejected(setting):
    fault = setting.partition(",")[0].partition("=")
    with pytest.raises(ValueError, match=f"{fault[2]}.* (choose|write) "):
        make_policy(f"timed:{setting}", GAME)


def test_a_timed_policy_has_players_and_a_spec_string():
    spec = "timed:search=(mcts:c=1.0),clock=2+0.02,ponder=true"
    policy = make_policy(spec, GAME)
    assert str(policy) == spec
    assert isinstance(policy.player(), Player)
    with pytest.raises(ValueError, match="looks at a clock and draws"):
        policy.probabilities(Boards.start(GAME))


# ---------------------------------------------------------------------------------------------------------------------
# Time management


class Scripted:
    """A search whose depths take the given seconds of its own clock."""

    def __init__(self, seconds, agrees=(), decided_at=99):
        self.seconds, self.agrees, self.decided_at = seconds, agrees, decided_at
        self.depth, self.time, self.started = 0, 0.0, []

    def now(self):
        return self.time

    @property
    def next_s(self):
        if self.depth < 2:
            return self.seconds[0] * self.depth
        before, last = self.seconds[self.depth - 2 : self.depth]
        return last * max(1.0, last / before)

    @property
    def num_agreeing(self):
        return self.agrees[self.depth - 1] if self.depth <= len(self.agrees) else 2

    def can_change(self, seconds):
        return self.depth < min(self.decided_at, len(self.seconds))

    def search_until(self, until, most=1 << 62):
        taken = self.seconds[self.depth]
        self.started.append(self.depth + 1)
        if self.time + taken > until:
            self.time = until
            return False
        self.time += taken
        self.depth += 1
        return True


def run_scripted(search, **plan):
    run_until(search, TimePlan(**plan), 0.0, search.now)
    return search


QUICK = [0.01, 0.04, 0.2, 0.9, 5.0]
"""seconds of each depth; the fourth is predicted as 0.2 * 0.2 / 0.04 = 1"""


@pytest.mark.parametrize(
    ("seconds", "plan", "depth", "started"),
    [
        (QUICK, {"soft_s": 1.23, "hard_s": 1.23}, 3, 3),  # the next depth is predicted not to fit
        (QUICK, {"soft_s": 1.26, "hard_s": 1.26}, 4, 4),
        ([0.01, 0.04, 0.2, 50.0], {"soft_s": 2, "hard_s": 3}, 3, 4),  # interrupted
        ([0.5, 0.5], {"soft_s": 0, "hard_s": 0}, 1, 1),  # the first depth needs no time
        (QUICK, {"soft_s": 0.1, "hard_s": 9, "min_depth": 4}, 4, 4),
        (QUICK, {"soft_s": 0.1, "hard_s": 0.5, "min_depth": 4}, 3, 4),  # the clock comes first
        (QUICK, {"soft_s": 99, "hard_s": 99, "max_depth": 2}, 2, 2),
    ],
)
def test_a_plan_determines_the_depths_searched(seconds, plan, depth, started):
    search = run_scripted(Scripted(seconds), **plan)
    assert (search.depth, search.started) == (depth, list(range(1, started + 1)))
    if depth < started and "min_depth" not in plan:
        assert search.time == plan["hard_s"]


def test_agreement_of_depths_ends_a_search_and_disagreement_extends_it():
    seconds = [0.125] * 40
    steady = run_scripted(Scripted(seconds, agrees=range(1, 41)), soft_s=2, hard_s=4, steady=3)
    assert steady.time == 0.5  # a quarter of its time at the least
    assert run_scripted(Scripted(seconds, agrees=range(1, 41)), soft_s=2, hard_s=4).time == 2
    unsteady = Scripted(seconds, agrees=[1] * 40)
    assert run_scripted(unsteady, soft_s=2, hard_s=3, extra=2).time == 3
    assert run_scripted(Scripted(seconds, decided_at=2), soft_s=2, hard_s=3).depth == 2


@given(
    st.lists(st.floats(0.001, 2), min_size=3, max_size=12),
    st.lists(st.integers(1, 4), min_size=12, max_size=12),
    st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)),
    st.integers(0, 25),
    st.sampled_from([{}, {"min_depth": 3}, {"steady": None}, {"allocation": "fixed"}, {"move": 0.7}, {"extra": 1.0}]),
)
def test_more_time_never_searches_less_deeply(seconds, agrees, lefts, stones, settings):
    policy = Timed(GAME, clock="60+0.5", **settings)
    depths = []
    for left in sorted(lefts):
        search = Scripted(seconds, agrees)
        run_until(search, policy.plan(stones, left, policy.own_clock), 0.0, search.now)
        depths.append(search.depth)
        assert search.time <= max(left, seconds[0])
    assert depths == sorted(depths)


@pytest.mark.parametrize("search", ["expectiminimax", "mcts"])
@pytest.mark.parametrize("game", [GAME, Game(7, 7, 5, 0.25)], ids=str)
def test_more_time_never_searches_a_position_less_deeply(search, game, ticking):
    for position in some_positions(game, 6):
        depths = []
        for move in (0.001, 0.004, 0.01, 0.03, 0.05, 0.2):
            player = Timed(game, search, move=move).player(ticking)
            play(player, position)
            depths.append(player.depths[-1])
        assert depths == sorted(depths)
        assert depths[-1] >= depths[0]


def test_time_is_divided_among_the_moves_left():
    policy = Timed(GAME, clock="10+0.1", margin=0.0)
    clock, moves = policy.own_clock, default_moves_left(GAME)
    assert policy.plan(0, 10, clock).soft_s == pytest.approx(10 / moves[0] + 0.08)
    assert policy.plan(10, 4, clock).soft_s == pytest.approx(4 / moves[10] + 0.08)
    assert Timed(GAME, clock="10+0.1", allocation="fixed").plan(10, 4, clock).soft_s == pytest.approx(
        10 / moves[0] + 0.08
    )
    for stones in range(25):
        for left in (0, 0.01, 0.1, 1, 10):
            plan = Timed(GAME, clock="10+0.1").plan(stones, left, clock)
            assert 0 <= plan.soft_s <= plan.hard_s <= 0.6 * left


# ---------------------------------------------------------------------------------------------------------------------
# Searches


@pytest.mark.parametrize("game", [GAME, Game(4, 4, 3, 0.25)], ids=str)
def test_a_timed_search_equals_the_search_to_its_depth(game):
    for position in some_positions(game):
        search = IterativeDeepening(Expectiminimax(game), position, np.uint64(0), time.perf_counter)
        for depth in range(1, 1 + min(4, np.count_nonzero(position.cells == 0))):
            while not search.search_until(0.0):  # a look at the clock every few positions
                pass
            assert search.depth == depth
            expected = Expectiminimax(game, depth).probabilities(Boards.from_positions([position]))[0]
            assert_array_equal(search.best(), expected)


def test_an_interrupted_depth_counts_once_it_has_searched_the_best_move(ticking):
    position = Boards.start(Game(5, 5, 4, 0.25)).position(0)
    search = IterativeDeepening(Expectiminimax(Game(5, 5, 4, 0.25)), position, np.uint64(0), ticking)
    for _ in range(3):
        search.search_until(np.inf)
    before = search.best()
    kept = counted = 0
    while not search.search_until(0.0):
        unfinished = search._search.move_values[0]
        if np.isnan(unfinished[np.argmax(before)]):
            assert_array_equal(search.best(), before)
            kept += 1
        else:
            assert np.isfinite(unfinished[search.best() > 0]).all()
            assert np.nanmax(unfinished) == unfinished[np.argmax(search.best())]
            counted += 1
    assert kept
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


def test_a_single_reply_is_made_without_a_search(ticking):
    player = Timed(Game(3, 3, 3), move=30).player(ticking)
    before = ticking.time
    assert play(player, from_text("oxo/xox/xo. x")) == 8
    assert ticking.time == before
    assert player.depths == [0]


def test_simulations_end_when_the_most_visited_move_cannot_be_overtaken(ticking):
    game = Game(3, 3, 3, 0.25)
    position = from_text("x.o/.../..o x", game)
    search = MCTSTimedSearch(make_policy("mcts:decisive=false", game), position, np.uint64(1), None, ticking)
    while search.can_change(1.0 - ticking.time):
        assert search.search_until(1.0)
    assert ticking.time < 0.9
    visits = np.sort(search._search.visits[0])
    assert visits[-1] - visits[-2] > (1.0 - ticking.time) * 1e5
    chosen = np.argmax(search.best())
    while ticking.time < 1.0:
        search.search_until(1.0)
    assert np.argmax(search._search.visits[0]) == chosen


def test_a_tree_stays_within_its_memory(monkeypatch, ticking):
    monkeypatch.setattr("baselines.timed.search.TREE_BYTES", 100_000)
    player = Timed(Game(7, 7, 5), "mcts", move=30).player(ticking)
    play(player, Boards.start(Game(7, 7, 5)).position(0))
    assert 500 < player.depths[0] < 100_000 / 88


@pytest.mark.parametrize("spec", ["expectiminimax:width=3", "expectiminimax:leaf=optimal", "mcts:rollout=optimal"])
def test_searches_of_all_kinds_can_be_timed(spec):
    game = Game(3, 3, 3, 0.25)
    player = Timed(game, spec, move=0.01, max_depth=4).player()
    position = from_text("xx./oo./... o", game)
    assert play(player, position) == 5
    assert play(player, Boards.start(game).position(0)) in range(9)


# ---------------------------------------------------------------------------------------------------------------------
# Players


def test_a_player_has_a_clock_for_each_game(ticking):
    ticking.look_s = 1e-4
    player = Timed(GAME, clock="2+0.02").player(ticking)
    slots = np.arange(2)
    player.begin(slots)
    assert player.left == {0: 2, 1: 2}
    boards = Boards.start(GAME, 2)
    before = ticking.time
    player.act(boards, slots, np.random.default_rng(0))
    spent = ticking.time - before
    assert sum(player.left.values()) == pytest.approx(4 + 2 * 0.02 - spent, abs=0.01)
    player.left[1] = 0.0
    player.act(boards, slots, np.random.default_rng(0))
    assert player.left[1] == 0.02
    player.begin(np.array([1]))
    assert player.left[1] == 2
    assert player.left[0] < 2.02


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
    policy = Timed(GAME, clock="2")
    player = policy.player(ticking)
    position = Boards.start(GAME).position(0)
    lags = []
    for look_s in (0.0, 1.0, 0.0):
        player.begin(ONE)
        ticking.look_s = look_s
        play(player, position)
        lags.append(player._lag_s)
    assert lags[0] < 0.02
    assert lags[1] > 0.5
    assert lags[2] == 0.9 * lags[1]
    plans = [policy.plan(0, 2.0, policy.own_clock, lag_s) for lag_s in lags[:2]]
    assert plans[1].soft_s < plans[0].soft_s - 0.5 / default_moves_left(GAME)[0] + 1e-9


def game_moves(player, game, opponent, seed=0, wait=0.0):
    """The moves of a player against one that moves at random, and where it stood."""
    rng, other = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    position, moves = Boards.start(game).position(0), []
    player.begin(ONE)
    cells = position.cells
    for _ in range(4):
        action = int(player.act(Boards.from_positions([position._replace(cells=cells.copy())]), ONE, rng)[0])
        cells[action] = 1
        if wait:
            time.sleep(wait)
        cells[opponent(cells, other)] = 2
        moves.append(action)
    return moves


def random_reply(cells, rng):
    return rng.choice(np.flatnonzero(cells == 0))


@pytest.mark.parametrize("search", ["expectiminimax", "mcts"])
@pytest.mark.parametrize("game", [Game(6, 6, 5), Game(6, 6, 5, 0.25)], ids=str)
def test_at_a_fixed_depth_pondering_does_not_change_a_move(search, game):
    depth = {"expectiminimax": 3, "mcts": 150}[search]
    for seed in range(3):
        found = [
            game_moves(
                Timed(game, search, move=60, min_depth=depth, max_depth=depth, ponder=ponder).player(),
                game,
                random_reply,
                seed,
                wait=0.01 * ponder,
            )
            for ponder in (False, True)
        ]
        assert found[0] == found[1]


@pytest.mark.parametrize("search", ["expectiminimax", "mcts"])
def test_a_right_guess_keeps_the_search_and_a_wrong_one_does_not(search):
    game = Game(6, 6, 5)
    player = Timed(game, search, move=0.02, ponder=True).player()
    player.begin(ONE)
    position = Boards.start(game).position(0)
    cell = play(player, position)
    expected, ahead = wait_for_pondering(player, depth=3)
    assert expected.cells[cell] == 1
    assert np.count_nonzero(expected.cells) == 2
    play(player, expected)
    assert player._before[0][0] is ahead
    assert (player.guesses, player.hits) == (1, 1)
    position = expected._replace(cells=expected.cells.copy())
    position.cells[player._before[0][1]] = 1  # and the opponent's turn is skipped
    wait_for_pondering(player)
    play(player, position)
    assert (player.guesses, player.hits) == (2, 1)
    player.close()


def wait_for_pondering(player, depth=0):
    """The position that a player expects and its search, as soon as it is so deep."""
    pondering = player._pondering
    while pondering.expected is None or pondering.expected[1].depth < depth:
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


def test_players_of_many_games_at_once_do_not_ponder():
    player = Timed(Game(), move=0.001, ponder=True).player()
    player.act(Boards.start(Game(), 3), np.arange(3), np.random.default_rng(0))
    assert not pondering_threads()


def test_errors_in_the_thread_are_raised(monkeypatch):
    monkeypatch.setattr(IterativeDeepening, "reply", lambda search, cell, going: 1 // 0)
    policy = Timed(Game(), move=0.2, max_depth=1, ponder=True)
    policy.__dict__["_is_warm"] = True  # warming up asks for a reply, too
    player = policy.player()
    play(player, Boards.start(Game()).position(0))
    with pytest.raises(ZeroDivisionError):
        player.close()


@pytest.mark.parametrize("skip_chance", [0.0, 0.25])
def test_a_timed_search_uses_its_endgame_database(skip_chance, tmp_path):
    game = Game(3, 3, 3, skip_chance)
    build(game, tmp_path, stones=4)
    boards = plain.positions_of_random_play(game, 40)
    other = 0
    for depth in (1, 3):
        policy = make_policy(f"expectiminimax:depth={depth},endgame={tmp_path}", game)
        expected = policy.probabilities(boards)
        other += int((expected != make_policy(f"expectiminimax:depth={depth}", game).probabilities(boards)).sum())
        for row in range(len(boards.mover)):
            search = begin_timed(policy, boards.position(row), np.uint64(0), None, time.perf_counter)
            while search.depth < depth and search.search_until(math.inf, depth):
                pass
            if search.depth == depth:  # enough cells were empty
                assert_array_equal(search.best(), expected[row])
    assert other > 0  # the database changes moves
