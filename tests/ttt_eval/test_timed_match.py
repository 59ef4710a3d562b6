"""Timed matches: the pairs of untimed matches, losses on time, and time management under load."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from players import FirstEmpty

from baselines.timed import Clock
from baselines.timed.policy import TimedPlayer
from ttt_envs import Game
from ttt_eval.matches.games import append_games, read_games
from ttt_eval.matches.match import Call, MatchSettings, play_block, play_pairs
from ttt_eval.matches.score import Score
from ttt_eval.matches.sprt import SPRT, run_sprt

pytestmark = pytest.mark.more

GAME = Game(4, 4, 3, 0.25)
AMPLE = Clock(1000)


class Slow(FirstEmpty):
    """Plays the first empty cell; each move from `from_stones` stones takes `seconds` of a
    simulated clock.
    """

    time = 0.0

    def __init__(self, seconds=0.0, from_stones=0):
        self.seconds = seconds
        self.from_stones = from_stones

    def probabilities(self, boards, rng=None):
        if np.count_nonzero(boards.cells) >= self.from_stones:
            Slow.time += self.seconds
        return super().probabilities(boards)


def play(clock, a, b, game=GAME, pairs=range(4)):
    Slow.time = 0.0
    match = MatchSettings(game, (a, b), clock=Clock.from_text(clock))
    return play_block(Call(match), True, pairs, now=lambda: Slow.time)


@pytest.mark.parametrize("openings", [None, "random:2"])
def test_games_are_those_of_a_match_without_clocks(openings):
    for a, b in (("win-or-block", "random"), ("expectiminimax:depth=1", "win-or-block")):
        games = []
        timed_games = []
        score = play_pairs(GAME, a, b, 9, seed=4, openings=openings, log=games.extend)
        timed = play_pairs(
            GAME, a, b, 9, seed=4, openings=openings, clock=AMPLE, log=timed_games.extend, jobs=2
        )
        assert_array_equal(timed.pairs, score.pairs)
        assert_array_equal(timed.lengths, score.lengths)
        for game, other in zip(games, timed_games, strict=True):
            assert dataclasses.replace(other, settings=game.settings) == game


def test_player_without_time_left_loses(tmp_path):
    score, games = play("1+0.1", Slow(0.3), Slow(0.01), Game(4, 4, 4))
    first, second = score.times
    assert (first.lost, second.lost) == (8, 0)
    assert score.pentanomial.tolist() == [4, 0, 0, 0, 0]
    for game in games:
        loser = 1 - game.result
        assert game.forfeit == "time"
        assert [position.mover for position, _, _ in game.positions()].count(
            loser
        ) == 4  # 1 - .3 - .2 - .2 - .2 = .1
        assert game.end().mover == loser
    assert first.least_left == pytest.approx(-0.1)
    assert len(first.seconds) == 8 * 5
    assert_array_equal(first.seconds.round(6), 0.3)
    append_games(tmp_path / "log.jsonl", games)
    assert (list(read_games(tmp_path / "log.jsonl")), games[0].settings["clock"]) == (
        games,
        "1+0.1",
    )
    assert games[0].settings["seconds"][0] == games[1].settings["seconds"][1] == [0.3] * 5
    both = score + Score.empty(GAME) + score
    assert (both.games, both.times[0].lost, len(both.times[0].seconds)) == (16, 16, 80)


def test_a_move_in_all_of_the_time_is_in_time_and_increments_are_added_after_moves():
    assert (
        play("1", Slow(1.0, from_stones=14), Slow(), Game(4, 4, 4), pairs=range(1))[0].times[0].lost
        == 0
    )
    score, _ = play("1+0.5", Slow(0.5), Slow(0.75), Game(3, 5, 5), pairs=range(1))
    assert [times.lost for times in score.times] == [0, 2]
    assert [times.least_left for times in score.times] == pytest.approx([0.5, -0.25])


def test_players_know_the_clock_and_are_compiled_before_the_game(monkeypatch):
    calls = []

    class Player(TimedPlayer):
        def use_clock(self, *clock):
            calls.append(clock)

        def act(self, *arguments):
            calls.append("act")
            return super().act(*arguments)

    monkeypatch.setattr("baselines.timed.policy.TimedPlayer", Player)
    play_pairs(Game(), "timed:max-depth=2", "random", 1, clock=Clock(5, 0.25))
    assert calls[0] == "act"
    assert "act" in calls[calls.index((5, 0.25)) :]


def test_sequential_test_with_a_clock(tmp_path):
    match = MatchSettings(Game(), ("win-or-block", "random"), 1, clock=Clock(5, 0.1))
    test = SPRT(0, 200)
    result = run_sprt(match, test, tmp_path, {}, pairs=8)
    assert (result.games, result.clock) == (16, "5+0.1")


# --------------------------------------------------------------------------------------------------
# Time management under load


@pytest.fixture
def busy_machine():
    """Another process that never waits."""
    process = subprocess.Popen([sys.executable, "-c", "while True: sum(range(10_000))"])
    yield
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    ("spec", "game", "increment", "pairs"),
    [
        ("timed", Game(3, 3, 3, 0.25), 0.05, 1),
        ("timed:mcts,ponder=true", Game(5, 5, 4), 0.05, 1),
        pytest.param("timed:ponder=true", Game(5, 5, 4, 0.25), 0.05, 1, marks=pytest.mark.slow),
        pytest.param("timed:ponder=true", Game(7, 7, 5), 0.02, 100, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_timed_players_do_not_lose_on_time(spec, game, increment, pairs, busy_machine):
    timed = play_pairs(
        game, spec, "timed", pairs, seed=3, openings="random:1", clock=Clock(2, increment)
    )
    assert timed.games == 2 * pairs
    assert [times.lost for times in timed.times] == [0, 0]
    assert min(times.least_left for times in timed.times) > 0
