"""Two learners that learn from the games between them."""

import numpy as np
import plain
import pytest

from learners.base import Seat
from learners.checkpoint import build_config
from learners.training import Training, make_exploration_rng
from learners.two_learners import TwoLearners
from ttt_envs import Boards, Game, mnk_v0

GAMES = (Game(), Game(3, 4, 3, 0.25))
PAIRS = (
    (("naive-mc", {}), ("q-learning", {"step_size": 0.5, "step_size_power": 0.0})),
    (
        ("q-learning", {"target": "chosen", "values": "afterstate"}),
        ("q-learning", {"target": "chosen"}),
    ),
)


def learners(game, pair):
    return [build_config(name, settings).build(game, np.random.default_rng(0)) for name, settings in pair]


@pytest.mark.parametrize("game", GAMES, ids=str)
@pytest.mark.parametrize("pair", PAIRS, ids=("max", "chosen"))
def test_lockstep_and_two_pettingzoo_seats_train_the_same_learners(game, pair):
    together = learners(game, pair)
    Training(TwoLearners(*together), "self", 40, seed=3).run()

    apart = learners(game, pair)
    rng = make_exploration_rng(3)
    seats = [Seat(learner, rng, (player,)) for player, learner in enumerate(apart)]
    env = mnk_v0.env(size=(game.rows, game.columns), win_length=game.win_length, skip_chance=game.skip_chance)
    for number in range(40):
        env.reset(seed=3 if number == 0 else None)
        rewards, order = [0.0, 0.0], []
        for agent in env.agent_iter():
            player = env.possible_agents.index(agent)
            observation, reward, over, _, _ = env.last()
            if over:
                rewards[player] = reward
                env.step(None)
            else:
                order.append(player)
                env.step(seats[player].turn(observation, player))
        for player in (order[-1], 1 - order[-1]):
            seats[player].end(tuple(rewards))
    for one, other in zip(together, apart, strict=True):
        plain.assert_same_arrays(one.to_arrays(), other.to_arrays())


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_each_learns_from_its_own_moves(game):
    first, second = learners(game, PAIRS[0])
    Training(TwoLearners(first, second), "self", 60, batch=7).run()
    learned = first.table.cells(np.arange(first.table.size)), second.table.cells(np.arange(second.table.size))
    assert (learned[0] == 0).all(axis=1).any()  # the empty board is player_0's
    assert not (learned[1] == 0).all(axis=1).any()


def test_it_plays_as_the_movers_learner_and_stores_both():
    game = GAMES[1]
    pair = learners(game, PAIRS[0])
    duel = TwoLearners(*pair)
    Training(duel, "self", 200, batch=16).run()
    boards = Boards(np.zeros((4, 12), np.int8), np.array([0, 1, 0, 1], np.int8))
    boards.cells[2:, 5] = 1
    expected = np.where(boards.mover[:, None] == 0, pair[0].probabilities(boards), pair[1].probabilities(boards))
    assert (duel.probabilities(boards) == expected).all()
    other = TwoLearners(*learners(game, PAIRS[0]))
    other.from_arrays(duel.to_arrays())
    plain.assert_same_arrays(duel.to_arrays(), other.to_arrays())


def test_incompatible_learners_are_refused():
    rng = np.random.default_rng(0)
    ply = build_config("q-learning", {"bootstrap": "ply"}).build(GAMES[0], rng)
    fine = build_config("naive-mc", {}).build(GAMES[0], rng)
    with pytest.raises(ValueError, match="own-turn"):
        TwoLearners(fine, ply)
    with pytest.raises(ValueError, match="the same game"):
        TwoLearners(fine, build_config("naive-mc", {}).build(GAMES[1], rng))
