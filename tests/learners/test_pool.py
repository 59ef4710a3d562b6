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


@pytest.mark.parametrize("at", [1, 6, 20])
def test_games_meet_the_copies_of_a_list(at):
    """Game g meets, all alike, one of the newest of the copies made before it; also of a pool restored at ``at``."""
    pool, copies, shown, start = Pool(Constant, every=5, size=3), [], {}, Boards.start(GAME, 600)
    keys = np.random.default_rng(0).integers(0, 1 << 63, 600, dtype=np.uint64)
    for first in range(40):
        if first == at:
            other = Pool(Constant, every=5, size=3)
            other.state = pool.state
            plain.assert_same_arrays(pool.state, other.state)
            pool = other
        if first % 5 == 0:
            copies.append(first // 5)
        oldest = max(0, first - 8)
        pool.begin(first, first, oldest, Constant(first // 5))
        shown[first] = np.bincount(copies[-3:], minlength=9) / len(copies[-3:])
        for game in (oldest, first):
            moves = pool.act_in_games(start, np.full(600, game), keys, np.zeros(600, np.int64))
            shares = np.bincount(moves, minlength=9) / 600
            assert_allclose(shares, shown[game], atol=5 * np.sqrt(0.25 / 600))
            assert (shares[shown[game] == 0] == 0).all()
    assert len(stored_numbers(pool)) <= 5


def test_specs_set_the_numbers():
    for spec, name in {"pool:30": "pool:every=30,size=8", "pool:size=2,every=4": "pool:every=4,size=2"}.items():
        assert str(parse_pool(spec, build)) == name
    for spec in ("pool:every=0", "pool:size=two", "pool:age=3"):
        with pytest.raises(ValueError, match=r"^pool"):
            parse_pool(spec, build)
