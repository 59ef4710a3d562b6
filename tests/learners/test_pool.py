"""Earlier copies of a learner as its opponent."""

import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose

from learners.base import Checkpointable
from learners.q_learning import QLearningConfig
from learners.training import Pool
from ttt_envs import Boards, Game

GAME = Game()


def test_a_game_meets_one_snapshot(monkeypatch):
    training = QLearningConfig().training(
        GAME, 200, batch=8, seed=1, opponent="pool:every=10,size=3"
    )
    keys_of = {}
    act = training.pool.act_in_games

    def watched(boards, games, keys, plies):
        for game_number, of_game in zip(games.tolist(), keys.tolist(), strict=True):
            assert keys_of.setdefault(game_number, of_game) == of_game
        return act(boards, games, keys, plies)

    monkeypatch.setattr(training.pool, "act_in_games", watched)
    training.run()
    assert len(keys_of) == 200
    assert stored_numbers(training.pool)[-1] == 19


class Constant(Checkpointable):
    """Always plays the cell of its number."""

    stored = ("number",)

    def __init__(self, number=0):
        self.number = np.array(number)

    def probabilities(self, boards, rng=None):
        return np.tile(np.eye(9)[int(self.number)], (len(boards.mover), 1))


def stored_numbers(pool):
    return sorted({int(name.partition(".")[0]) for name in pool.state if "." in name})


def make_pool():
    pool = Pool(GAME, every=5, size=3)
    pool.build = Constant
    return pool


@pytest.mark.parametrize("at", [1, 6, 20])
def test_games_meet_the_copies_of_a_list(at):
    """Game g meets, all alike, one of the newest of the copies made before it; also of a pool
    restored at ``at``.
    """
    pool = make_pool()
    copies = []
    expected = {}
    start = Boards.start(GAME, 600)
    keys = np.random.default_rng(0).integers(0, 1 << 63, 600, dtype=np.uint64)
    for first in range(40):
        if first == at:
            other = make_pool()
            other.state = pool.state
            plain.assert_same_arrays(pool.state, other.state)
            pool = other
        if first % 5 == 0:
            copies.append(first // 5)
        oldest = max(0, first - 8)
        pool.begin(first, first, oldest, Constant(first // 5))
        expected[first] = np.bincount(copies[-3:], minlength=9) / len(copies[-3:])
        for game in (oldest, first):
            moves = pool.act_in_games(start, np.full(600, game), keys, np.zeros(600, np.int64))
            shares = np.bincount(moves, minlength=9) / 600
            assert_allclose(shares, expected[game], atol=5 * np.sqrt(0.25 / 600))
            assert (shares[expected[game] == 0] == 0).all()
    assert len(stored_numbers(pool)) <= 5
