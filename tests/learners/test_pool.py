"""Earlier copies of a learner as its opponent."""

import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose

from learners.pool import Pool, parse_pool
from learners.q_learning import QLearningConfig
from learners.training import Trainer, make_initial_rng
from ttt_envs import Boards, Game, Policy

GAME = Game()


def build():
    return QLearningConfig().build(GAME, make_initial_rng(0))


def test_a_game_meets_one_snapshot():
    pool = Pool(build, every=10, size=3)
    training = Trainer(build(), pool, 200, batch=8, seed=1)
    seen = {}
    act = pool.act_in_games

    def watched(boards, games, keys, plies):
        for game_number, of_game in zip(games.tolist(), keys.tolist(), strict=True):
            seen.setdefault(game_number, set()).add(of_game)
        return act(boards, games, keys, plies)

    pool.act_in_games = watched
    training.run()
    assert training.done.games == 200
    assert max(len(keys) for keys in seen.values()) == 1
    kept = stored_numbers(pool)
    assert kept[-1] == 19
    assert len(kept) <= 5
    assert str(pool) == "pool:every=10,size=3"


class Constant(Policy):
    """Always plays the cell of its number."""

    def __init__(self, number=0):
        self.number = number

    def probabilities(self, boards, rng=None):
        p = np.zeros(boards.cells.shape)
        p[:, self.number] = 1
        return p

    @property
    def state(self):
        return {"number": np.array(self.number)}

    @state.setter
    def state(self, arrays):
        self.number = int(arrays["number"])


def stored_numbers(pool):
    return sorted({int(name.partition(".")[0]) for name in pool.state if "." in name})


def pool_of(games, every=5, size=3):
    """After so many games, with copies that play their own number."""
    pool = Pool(Constant, every=every, size=size)
    for first in range(games):
        pool.begin(first, first, first, Constant(first // every))
    return pool


def met(pool, game, draws=600):
    """Return the frequency of each copy in games of this number."""
    count = np.full(draws, game)
    keys = np.random.default_rng(0).integers(0, 1 << 63, draws, dtype=np.uint64)
    start = Boards.start(GAME, draws)
    return np.bincount(pool.act_in_games(start, count, keys, np.zeros(draws, np.int64)), minlength=9) / draws


@pytest.mark.parametrize(("games", "copies"), [(5, [0]), (6, [0, 1]), (11, [0, 1, 2]), (20, [1, 2, 3])])
def test_a_game_meets_one_of_the_newest_snapshots_at_its_start(games, copies):
    pool = pool_of(games)
    expected = np.bincount(copies, minlength=9) / len(copies)
    assert_allclose(met(pool, games - 1), expected, atol=5 * np.sqrt(0.25 / 600))
    assert (met(pool, games - 1)[expected == 0] == 0).all()


def test_snapshots_stay_while_a_game_may_need_them():
    pool = pool_of(10)
    before = met(pool, 9)
    pool.begin(10, 40, 9, Constant(2))
    assert (met(pool, 9) == before).all()
    pool.begin(41, 41, 41, Constant(9))
    assert stored_numbers(pool) == [6, 7, 8]


def test_a_restored_pool_continues_exactly():
    pool, other = pool_of(17), Pool(Constant, every=5, size=3)
    other.state = pool.state
    plain.assert_same_arrays(pool.state, other.state)
    for one in (pool, other):
        one.begin(17, 20, 17, Constant(8))
    assert (met(pool, 20) == met(other, 20)).all()


@pytest.mark.parametrize("spec", ["pool:every=0", "pool:size=two", "pool:age=3"])
def test_invalid_specs_are_refused(spec):
    with pytest.raises(ValueError, match=r"^pool"):
        parse_pool(spec, build)


def test_specs_set_the_numbers():
    assert str(parse_pool("pool:30", build)) == "pool:every=30,size=8"
    assert str(parse_pool("pool:size=2,every=4", build)) == "pool:every=4,size=2"
