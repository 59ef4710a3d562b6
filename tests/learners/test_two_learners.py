"""Two learners that learn from the games between them."""

import numpy as np
import plain
import pytest

from learners.checkpoint import build_config
from learners.pettingzoo_loop import train_in
from learners.training import Trainer
from learners.two_learners import TwoLearners
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


def test_it_plays_as_the_movers_learner_and_stores_both():
    game = GAMES[1]
    pair = learners(game, PAIRS[0])
    duel = TwoLearners(*pair)
    Trainer(duel, "self", 200, batch=16).run()
    boards = Boards(np.zeros((4, 12), np.int8), np.array([0, 1, 0, 1], np.int8))
    boards.cells[2:, 5] = 1
    expected = np.where(boards.mover[:, None] == 0, pair[0].probabilities(boards), pair[1].probabilities(boards))
    assert (duel.probabilities(boards) == expected).all()
    other = TwoLearners(*learners(game, PAIRS[0]))
    other.state = duel.state
    plain.assert_same_arrays(duel.state, other.state)


def test_incompatible_learners_are_refused():
    rng = np.random.default_rng(0)
    negamax = build_config("q-learning", {"backup": "negamax"}).build(GAMES[0], rng)
    fine = build_config("naive-mc", {}).build(GAMES[0], rng)
    with pytest.raises(ValueError, match="agent"):
        TwoLearners(fine, negamax)
    with pytest.raises(ValueError, match="the same game"):
        TwoLearners(fine, build_config("naive-mc", {}).build(GAMES[1], rng))
