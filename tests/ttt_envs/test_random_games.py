"""Games of random moves: exact and known frequencies, and the games side by side beside those one by one."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from evaluation.exact.dynamic_programming import outcome
from ttt_envs import Game, make_policy
from ttt_envs.game import random_games


def test_result_frequencies_are_exact():
    skips = Game(skip_chance=0.25)
    policy = make_policy("random", skips)
    exact = outcome(skips, policy, policy)
    assert exact.loss == pytest.approx(0.334085, abs=5e-7)  # as published
    for game, chances in ((Game(), (737 / 1260, 121 / 420, 8 / 63)), (skips, (exact.win, exact.loss, exact.draw))):
        chances = np.array(chances)
        shares = np.array(random_games.random_results(game, 10**6, seed=1)) / 10**6
        assert (abs(shares - chances) < 4 * np.sqrt(chances * (1 - chances) / 10**6)).all()
    assert random_games.random_results(game, 0, seed=1) == (0, 0, 0)
    with pytest.raises(ValueError, match="games=-1 is negative: choose 0 or more"):
        random_games.random_results(game, -1, seed=1)


def test_a_million_have_the_known_frequencies(known):
    facts = known["random_vs_random_skip_quarter"]["7x7x5"]
    games = 10**6
    counts = random_games.random_results(Game(7, 7, 5, 0.25), games, seed=2)
    assert sum(counts) == games
    for count, name in zip(counts, ("player_0", "player_1", "draw"), strict=True):
        share = facts[name]
        error = (share * (1 - share) / games + facts["standard_error"] ** 2) ** 0.5
        assert abs(count / games - share) < 4 * error


@pytest.mark.parametrize(
    "game", [Game(), Game(skip_chance=0.25), Game(4, 4, 4, 0.9), Game(1, 5, 1), Game(2, 8, 3), Game(1, 1, 1)], ids=str
)
@pytest.mark.parametrize("games", [1, 63, 1000])
def test_games_do_not_depend_on_the_method(game, games):
    by_lanes, by_turns = np.zeros(3, np.int64), np.zeros(3, np.int64)
    key = np.uint64(games)
    moves = random_games.random_games(0, games, key, game.parameters, by_lanes)
    assert moves == random_games._one_by_one(0, games, key, game.parameters, by_turns)
    assert_array_equal(by_lanes, by_turns)
    in_parts = np.zeros(3, np.int64)
    parts = [(0, games // 3), (games // 3, games)]
    assert moves == sum(random_games.random_games(*part, key, game.parameters, in_parts) for part in parts)
    assert_array_equal(in_parts, by_turns)
