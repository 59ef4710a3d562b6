"""Learners on phantom games: the same in both training loops, refusals by name, and exact updates over views."""

import numpy as np
import pytest
import tiny
from numpy.testing import assert_array_equal

from learners import LEARNERS
from learners.exact_pg import ExactPGConfig
from learners.pettingzoo_loop import train_in
from learners.q_learning import QLearningConfig
from learners.training import Trainer
from ttt_envs import Game, PhantomGame, mnk_v0
from ttt_envs.agents.specs import load_object
from ttt_eval.exact import exploitability

SMALL = PhantomGame(Game(2, 3, 2), "classic")


@pytest.mark.parametrize("name", tiny.cases_of_rules("hidden", names=tiny.OURS, slow="q-net"))
@pytest.mark.parametrize("opponent", ["random", "self"])
def test_both_training_loops_teach_the_same(name, hidden, opponent):
    """One game at a time in lockstep is a PettingZoo environment: views, failed attempts, skips and replies."""
    game = PhantomGame(Game(3, 3, 3, 0.2), hidden)
    learners = [load_object(LEARNERS[name])().build(game, np.random.default_rng(0)) for _ in range(2)]
    progress = Trainer(learners[0], opponent, 40, seed=3).run()
    assert progress == train_in(mnk_v0.env(skip_chance=0.2, phantom=hidden), learners[1], opponent, 40, seed=3)
    arrays = [learner.state for learner in learners]
    for key, array in arrays[0].items():
        assert_array_equal(array, arrays[1][key])


def test_what_does_not_fit_hidden_stones_is_refused():
    with pytest.raises(ValueError, match=r'choose backup="agent"'):
        QLearningConfig(backup="negamax").training(SMALL, 10, batch=2, seed=0)
    with pytest.raises(ValueError, match="values='afterstate' needs to know what a move does"):
        QLearningConfig(values="afterstate").training(SMALL, 10, batch=2, seed=0)
    with pytest.raises(ValueError, match="fictitious-play needs best responses over views"):
        ExactPGConfig(method="fictitious-play").training(SMALL, 10, batch=1, seed=0)


def test_regularized_updates_lower_exploitability(hidden):
    game = PhantomGame(SMALL.game, hidden)
    training = ExactPGConfig(method="r-nad").training(game, 150, batch=1, seed=0)
    training.run()
    assert exploitability(game, training.learner) < 0.3 * exploitability(game, "random")
