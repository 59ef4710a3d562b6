"""Earlier copies of a learner as its opponent."""

import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose

from learners.q_learning import QLearningConfig
from learners.training import Pool
from ttt_envs import Boards, Game, Policy, make_policy

GAME = Game()
SPEC = "learners.training:Pool"


def test_a_game_meets_one_snapshot():
    training = QLearningConfig().training(GAME, 200, batch=8, seed=1, opponent="pool:every=10,size=3")
    pool, keys_of = training.pool, {}
    act = pool.act_in_games

    def watched(boards, games, keys, plies):
        for game_number, of_game in zip(games.tolist(), keys.tolist(), strict=True):
            keys_of.setdefault(game_number, set()).add(of_game)
        return act(boards, games, keys, plies)

    pool.act_in_games = watched
    training.run()
    assert training.done.games == 200
    assert max(len(keys) for keys in keys_of.values()) == 1
    assert stored_numbers(pool)[-1] == 19
    assert len(stored_numbers(pool)) <= 5


class Constant(Policy):
    """Always plays the cell of its number."""

    def __init__(self, number=0):
        self.state = {"number": np.array(number)}

    def probabilities(self, boards, rng=None):
        return np.tile(np.eye(9)[int(self.state["number"])], (len(boards.mover), 1))


def stored_numbers(pool):
    return sorted({int(name.partition(".")[0]) for name in pool.state if "." in name})


def pool_of(games):
    """After so many games, with copies that play their own number."""
    pool = Pool(GAME, every=5, size=3)
    pool.build = Constant
    for first in range(games):
        pool.begin(first, first, first, Constant(first // 5))
    return pool


def shares(pool, game, draws=600):
    """Return the frequency of each copy in games of this number."""
    count, keys = np.full(draws, game), np.random.default_rng(0).integers(0, 1 << 63, draws, dtype=np.uint64)
    moves = pool.act_in_games(Boards.start(GAME, draws), count, keys, np.zeros(draws, np.int64))
    return np.bincount(moves, minlength=9) / draws


@pytest.mark.parametrize(("games", "copies"), [(5, [0]), (6, [0, 1]), (11, [0, 1, 2]), (20, [1, 2, 3])])
def test_a_game_meets_one_of_the_newest_snapshots_at_its_start(games, copies):
    expected, found = np.bincount(copies, minlength=9) / len(copies), shares(pool_of(games), games - 1)
    assert_allclose(found, expected, atol=5 * np.sqrt(0.25 / 600))
    assert (found[expected == 0] == 0).all()


def test_snapshots_stay_while_a_game_may_need_them_also_in_a_restored_pool():
    pool, other = pool_of(10), Pool(GAME, every=5, size=3)
    other.build = Constant
    other.state = pool.state
    before = shares(pool, 9)
    for each in (pool, other):
        each.begin(10, 40, 9, Constant(2))
        assert (shares(each, 9) == before).all()
        each.begin(41, 41, 41, Constant(9))
        assert stored_numbers(each) == [6, 7, 8]
    plain.assert_same_arrays(pool.state, other.state)


@pytest.mark.parametrize("arguments", ["every=0", "size=two", "age=3"])
def test_invalid_specs_are_refused(arguments):
    with pytest.raises(ValueError, match=arguments.partition("=")[0]):
        QLearningConfig().training(GAME, 10, batch=2, seed=0, opponent=f"pool:{arguments}")


def test_specs_set_the_numbers():
    pools = [make_policy(f"{SPEC}{arguments}", GAME) for arguments in ("", ":30", ":size=2,every=4")]
    assert [(pool.every, pool.size) for pool in pools] == [(5000, 8), (30, 8), (4, 2)]
