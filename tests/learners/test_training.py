"""The two loops teach the same, and transitions say what happened."""

from collections import defaultdict

import numpy as np
import plain
import pytest

from examples import q_learning_from_scratch
from learners.base import Transition
from learners.pettingzoo_loop import train_in
from learners.q_learning import QLearningConfig
from learners.training import Trainer
from ttt_envs import Boards, Game, chance_outcomes, mnk_v0


def build(game, **settings):
    return QLearningConfig(**settings).build(game, np.random.default_rng(0))


def assert_same(a, b):
    plain.assert_same_arrays(a.state, b.state)


@pytest.mark.parametrize("seat", ["first", "second", "alternate"])
def test_a_seat_learns_the_same_in_pettingzoos_tictactoe(seat):
    tictactoe_v3 = pytest.importorskip("pettingzoo.classic.tictactoe_v3")
    ours, theirs = build(Game(), target="sarsa"), build(Game(), target="sarsa")
    played = Trainer(ours, "random", 50, batch=1, seed=3, seat=seat).run()
    assert played == train_in(tictactoe_v3.raw_env(), theirs, "random", 50, seed=3, seat=seat)
    assert_same(ours, theirs)


@pytest.mark.parametrize("skip_chance", [0.0, 0.25])
def test_q_learning_from_scratch_learns_the_same_values(skip_chance, monkeypatch):
    for name in ("Q", "N"):
        monkeypatch.setattr(q_learning_from_scratch, name, defaultdict(int))
    q_learning_from_scratch.train(500, skip_chance, seed=7)
    learner = build(Game(skip_chance=skip_chance), backup="negamax")
    Trainer(learner, "self", 500, seed=7).run()
    learned = list(q_learning_from_scratch.N)
    planes = np.array([np.frombuffer(state, np.int8).reshape(9, 2) for state, _ in learned])
    boards = Boards((planes @ [1, 2]).astype(np.int8), np.zeros(len(planes), np.int8))
    values = learner.action_values(boards)[np.arange(len(learned)), [action for _, action in learned]]
    assert values.tolist() == [q_learning_from_scratch.Q[entry] for entry in learned]
    assert len(learned) == learner.table.size


class Recorder:
    """A learner that plays the first empty cell and keeps every transition."""

    pure = True

    def __init__(self, game, backup="agent", on_policy=False):
        self.game = game
        self.backup = backup
        self.on_policy = on_policy
        self.seen = []

    def explore(self, boards, rng):
        return np.argmax(boards.cells == 0, axis=1)

    def update(self, transition):
        self.seen.append(Transition(*(part.copy() if isinstance(part, np.ndarray) else part for part in transition)))
        return {}


def rows_of(recorder):
    for transition in recorder.seen:
        for row in range(len(transition.game)):
            yield transition, row


@pytest.mark.parametrize("skip_chance", [0.0, 0.5])
@pytest.mark.parametrize(("opponent", "backup"), [("random", "agent"), ("self", "agent"), ("self", "negamax")])
def test_transitions_are_moves_and_the_learners_own_rewards(opponent, backup, skip_chance):
    """A self-play wrapper once trained on the opponent's reward: replay the move and compare the winner."""
    game = Game(skip_chance=skip_chance)
    learner, ends = Recorder(game, backup), []
    Trainer(learner, opponent, 60, batch=8).run()
    for transition, row in rows_of(learner):
        position, action = transition.boards.position(row), int(transition.action[row])
        outcomes, after = chance_outcomes(game, position, action), transition.next_boards.position(row)
        reward, discount = transition.reward[row], transition.discount[row]
        if discount == 0 and outcomes[0].winner is None:  # the opponent's move was the last
            assert backup == "agent"
            assert reward in (-1, 0)
        elif discount == 0:
            assert reward == (outcomes[0].winner == position.mover)
        else:
            assert outcomes[0].winner is None
            assert reward == 0
            assert after.cells[action] == position.mover + 1
            assert discount == (1 if after.mover == position.mover else -1)
            assert backup == "negamax" or discount == 1
            plies = np.count_nonzero(after.cells) - np.count_nonzero(position.cells)
            assert plies == 1 if backup == "negamax" else plies >= 1
        ends += [reward] if discount == 0 else []
    assert {1, -1} & {*ends} == ({1} if backup == "negamax" else {1, -1})
    assert len(ends) > 60 if (opponent, backup) == ("self", "agent") else 50 < len(ends) <= 60


def test_next_actions_are_those_played():
    learner = Recorder(Game(), on_policy=True)
    Trainer(learner, "random", 20, batch=3).run()
    for transition, row in rows_of(learner):
        expected = np.argmax(transition.next_boards.cells[row] == 0) if transition.discount[row] else -1
        assert transition.next_action[row] == expected


def test_games_lost_before_the_first_move_are_counted():
    game = Game(2, 2, 2, skip_chance=0.75)
    learner = Recorder(game)
    done = Trainer(learner, "random", 400, batch=16, seat="second").run()
    first_moves = sum(1 for transition, row in rows_of(learner) if transition.discount[row] == 0)
    assert done.games == 400
    assert 0 < first_moves < 400  # at this skip chance most games end before the learner moves


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"games": -1}, "games=-1 is negative: choose how many games to play"),
        ({"games": 5, "batch": 0}, "batch=0 leaves nothing to play: choose 1 or more"),
        ({"games": 5, "opponent": "randm"}, "there is no policy 'randm': did you mean 'random'"),
        ({"games": 5, "seat": "frist"}, "seat='frist' is not known: choose 'first', 'second', "),
        (
            {"games": 5, "settings": {"backup": "negamax"}},
            'which only self-play shows: choose self-play, or backup="agent"',
        ),
    ],
)
def test_invalid_trainings_are_refused(arguments, message):
    arguments = {"opponent": "random", **arguments}
    learner = build(Game(), **arguments.pop("settings", {}))
    with pytest.raises(ValueError, match=message):
        Trainer(learner, **arguments).run()
    if "batch" not in arguments:
        with pytest.raises(ValueError, match=message):
            train_in(mnk_v0.env(), learner, **arguments)


def test_moves_are_counted_also_after_a_resumption():
    """On 1 x 2 with one to win a game is one move."""
    trainings = [Trainer(build(Game(1, 2, 1)), "self", games, batch=2) for games in (4, 6)]
    trainings[0].run()
    trainings[1].state = trainings[0].state
    trainings[1].run()
    assert [training.steps for training in trainings] == [4, 6]
