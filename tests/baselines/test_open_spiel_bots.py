"""Bots of OpenSpiel as policies: they play as they do there."""

import importlib.util

import numpy as np
import plain
import pytest
from numpy.testing import assert_array_equal

from baselines.exact import solve
from ttt_envs import Game, make_policy
from ttt_envs.open_spiel import load_game, to_states

BIG = Game(4, 5, 4)
there = pytest.mark.needs("pyspiel")


@there
def test_mcts_plays_the_moves_of_openspiels_bot():
    import pyspiel

    boards = plain.positions_of_random_play(BIG, 12)
    p = make_policy("openspiel:simulations=30,c=2,rollouts=3", BIG).probabilities(
        boards, np.random.default_rng(5)
    )
    seeds = np.random.default_rng(5).integers(0, 2**31 - 1, (12, 2))
    for row, state in enumerate(to_states(boards, BIG)):
        evaluator = pyspiel.RandomRolloutEvaluator(3, int(seeds[row, 1]))
        bot = pyspiel.MCTSBot(
            load_game(BIG), evaluator, 2.0, 30, 1000, True, int(seeds[row, 0]), False
        )
        assert_array_equal(p[row], np.eye(20)[bot.step(state)])


@there
def test_alpha_beta_plays_the_first_optimal_move():
    game = Game()
    policy = make_policy("openspiel:algorithm=alpha-beta", game)
    assert policy.pure
    boards = plain.positions_of_random_play(game, 64)
    best = solve(game).optimal_actions(boards)
    assert_array_equal(policy.probabilities(boards), np.eye(9)[best.argmax(axis=1)])


@there
def test_alpha_beta_obeys_its_depth():
    near, far = (make_policy(f"openspiel:alpha-beta,depth={depth}", BIG) for depth in (1, 3))
    wins = plain.from_texts(".ooo./xxx../...../..... o")
    assert near.probabilities(wins)[0, [0, 4]].tolist() == [1, 0]
    forks = plain.from_texts("...../..oo./x..x./..... o")  # both ends of the line are open after b2
    assert near.probabilities(forks)[0, 0] == 1
    assert far.probabilities(forks)[0, 6] == 1


def test_missing_openspiel_is_a_one_line_error(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "pyspiel" else find(name)
    )
    with pytest.raises(
        ValueError,
        match=r"^openspiel needs OpenSpiel, which is not installed: pip install open_spiel$",
    ):
        make_policy("openspiel", Game())
