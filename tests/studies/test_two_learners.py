"""Two learners that learn from the games between them."""

import numpy as np
import plain
import pytest

from learners.checkpoint import build_config
from learners.pettingzoo_loop import train_in
from learners.training import Trainer
from studies.learners import TwoLearners
from ttt_envs import Boards, Game, mnk_v0

pytestmark = pytest.mark.more

GAME = Game(3, 4, 3, 0.25)
PAIRS = (
    (("naive-mc", {}), ("q-learning", {"step_size": 0.5, "step_size_power": 0.0})),
    (
        ("q-learning", {"target": "sarsa", "values": "afterstate"}),
        ("q-learning", {"target": "sarsa"}),
    ),
)


def learners(pair):
    return [
        build_config(name, settings).build(GAME, np.random.default_rng(0))
        for name, settings in pair
    ]


@pytest.mark.parametrize("pair", PAIRS, ids=("max", "chosen"))
def test_lockstep_and_pettingzoo_train_the_same_learners(pair):
    together = learners(pair)
    apart = learners(pair)
    Trainer(TwoLearners(*together), "self", 40, seed=3).run()
    env = mnk_v0.env(
        size=(GAME.rows, GAME.columns), win_length=GAME.win_length, skip_chance=GAME.skip_chance
    )
    train_in(env, TwoLearners(*apart), "self", 40, seed=3)
    for lockstep, seated in zip(together, apart, strict=True):
        plain.assert_same_arrays(lockstep.state, seated.state)
    values = [learner.action_values(Boards.start(GAME)) for learner in together]
    assert np.ptp(values[0]) > 0  # the empty board is player_0's
    assert np.ptp(values[1]) == 0
