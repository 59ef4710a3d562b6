"""Two learners that learn from the games between them."""

import numpy as np
import plain
import pytest

from learners.checkpoint import build_config
from learners.pettingzoo_loop import train_in
from learners.training import Trainer
from studies.learners import TwoLearners
from ttt_envs import Boards, Game, mnk_v0

GAMES = (Game(), Game(3, 4, 3, 0.25))
PAIRS = (
    (("naive-mc", {}), ("q-learning", {"step_size": 0.5, "step_size_power": 0.0})),
    (
        ("q-learning", {"target": "sarsa", "values": "afterstate"}),
        ("q-learning", {"target": "sarsa"}),
    ),
)


def learners(game, pair):
    return [build_config(name, settings).build(game, np.random.default_rng(0)) for name, settings in pair]


@pytest.mark.parametrize("game", GAMES, ids=str)
@pytest.mark.parametrize("pair", PAIRS, ids=("max", "chosen"))
def test_lockstep_and_pettingzoo_train_the_same_learners(game, pair):
    together = learners(game, pair)
    Trainer(TwoLearners(*together), "self", 40, seed=3).run()

    apart = learners(game, pair)
    env = mnk_v0.env(size=(game.rows, game.columns), win_length=game.win_length, skip_chance=game.skip_chance)
    train_in(env, TwoLearners(*apart), "self", 40, seed=3)
    for one, other in zip(together, apart, strict=True):
        plain.assert_same_arrays(one.state, other.state)


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_each_learns_from_its_own_moves(game):
    first, second = learners(game, PAIRS[0])
    Trainer(TwoLearners(first, second), "self", 60, batch=7).run()
    values = [learner.action_values(Boards.start(game)) for learner in (first, second)]
    assert np.ptp(values[0]) > 0  # the empty board is player_0's
    assert np.ptp(values[1]) == 0
