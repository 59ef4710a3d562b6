"""The two loops teach the same, and transitions say what happened."""

import numpy as np
import plain
import pytest

from learners.base import Transition
from learners.pettingzoo_loop import train_in
from learners.q_learning import QLearningConfig
from learners.training import Trainer, dense_first
from ttt_envs import Game, chance_outcomes, mnk_v0


def build(game, **settings):
    return QLearningConfig(**settings).build(game, np.random.default_rng(0))


@pytest.mark.parametrize("seat", ["first", "second", "alternate"])
def test_a_seat_learns_the_same_in_pettingzoos_tictactoe(seat):
    tictactoe_v3 = pytest.importorskip("pettingzoo.classic.tictactoe_v3")
    our_values = build(Game(), target="sarsa")
    peer = build(Game(), target="sarsa")
    played = Trainer(our_values, "random", 50, batch=1, seed=3, seat=seat).run()
    assert played == train_in(tictactoe_v3.raw_env(), peer, "random", 50, seed=3, seat=seat)
    plain.assert_same_arrays(our_values.state, peer.state)


def test_an_environment_of_another_game_is_refused():
    learner = build(Game(4, 4, 4))
    for settings in ({"size": 3}, {"size": 4, "win_length": 3}, {"size": 4, "skip_chance": 0.5}):
        with pytest.raises(ValueError, match="the environment plays"):
            train_in(mnk_v0.env(**settings), learner, "random", 1)
    train_in(mnk_v0.env(size=4), learner, "random", 1)


class Recorder:
    """A learner that plays the first empty cell and keeps every transition."""

    pure = True

    on_policy = True

    def __init__(self, game, backup="agent"):
        self.game = game
        self.backup = backup
        self.batches = []

    def explore(self, boards, rng):
        return np.argmax(boards.cells == 0, axis=1)

    def update(self, transition):
        self.batches.append(
            Transition(
                *(part.copy() if isinstance(part, np.ndarray) else part for part in transition)
            )
        )
        return {}


def rows_of(recorder):
    for transition in recorder.batches:
        for row in range(len(transition.game)):
            yield transition, row


@pytest.mark.parametrize("skip_chance", [0.0, 0.5])
@pytest.mark.parametrize(
    ("opponent", "backup"), [("random", "agent"), ("self", "agent"), ("self", "negamax")]
)
def test_transitions_are_moves_and_the_learners_own_rewards(opponent, backup, skip_chance):
    """A self-play wrapper once trained on the opponent's reward: replay the move and compare the
    winner.
    """
    game = Game(skip_chance=skip_chance)
    learner = Recorder(game, backup)
    ends = []
    Trainer(learner, opponent, 60, batch=8).run()
    for transition, row in rows_of(learner):
        position = transition.boards.position(row)
        action = int(transition.action[row])
        outcomes = chance_outcomes(game, position, action)
        next_position = transition.next_boards.position(row)
        reward = transition.reward[row]
        discount = transition.discount[row]
        if discount == 0 and outcomes[0].winner is None:  # the opponent's move was the last
            assert backup == "agent"
            assert reward in (-1, 0)
        elif discount == 0:
            assert reward == (outcomes[0].winner == position.mover)
        else:
            assert outcomes[0].winner is None
            assert reward == 0
            assert next_position.cells[action] == position.mover + 1
            assert discount == (1 if next_position.mover == position.mover else -1)
            assert backup == "negamax" or discount == 1
            plies = np.count_nonzero(next_position.cells) - np.count_nonzero(position.cells)
            assert transition.next_action[row] == np.argmax(transition.next_boards.cells[row] == 0)
            assert plies == 1 if backup == "negamax" else plies >= 1
        ends += [reward] if discount == 0 else []
    assert {1, -1} & {*ends} == ({1} if backup == "negamax" else {1, -1})
    assert len(ends) > 60 if (opponent, backup) == ("self", "agent") else 50 < len(ends) <= 60


def test_games_lost_before_the_first_move_are_counted():
    game = Game(2, 2, 2, skip_chance=0.75)
    learner = Recorder(game)
    done = Trainer(learner, "random", 400, batch=16, seat="second").run()
    first_moves = sum(1 for transition, row in rows_of(learner) if transition.discount[row] == 0)
    assert done.games == 400
    assert 0 < first_moves < 400  # at this skip chance most games end before the learner moves


def test_a_state_whose_games_contradict_each_other_is_refused():
    training = Trainer(build(Game(1, 2, 1)), "self", 4, batch=2)
    training.run()
    with pytest.raises(
        ValueError, match="arrays of the state of a training are damaged: its games contradict"
    ):
        training.state = {**training.state, "live": np.ones(2, np.bool_)}


def test_marks_come_a_quarter_later_but_a_fiftieth_of_all_games_at_most():
    assert [dense_first(10_000)(games) for games in (0, 3, 4, 100, 1_000, 5_000)] == [
        1,
        4,
        5,
        125,
        1_200,
        5_200,
    ]
    assert dense_first(20)(16) == 17
