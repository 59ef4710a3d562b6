"""Drawing moves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from players import Impure, Scripted

from ttt_envs import Boards, Game
from ttt_envs.agents.policy import sample
from ttt_envs.envs.single_env import SingleEnv


def test_moves_are_drawn_with_their_probabilities():
    p = np.array([0.1, 0.0, 0.25, 0.65, 0.0])
    drawn = sample(np.repeat(p[None], 1000, axis=0), (np.arange(1000) + 0.5) / 1000)
    assert drawn.dtype == np.int64
    assert_array_equal(np.bincount(drawn, minlength=5), 1000 * p)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=30).filter(lambda p: sum(p) > 1e-6),
    st.floats(0, 1, exclude_max=True),
)
def test_a_move_without_probability_is_never_drawn(weights, u):
    p = np.array([weights]) / sum(weights)
    for number in (u, 0.0, np.nextafter(1, 0)):
        assert p[0, sample(p, np.array([number]))[0]] > 0


def test_what_else_a_policy_draws_differs_at_every_ply_of_every_episode():
    """In the same position; an episode that goes on would show it only now and then."""
    keys = np.repeat(np.arange(3, dtype=np.uint64), 3)
    plies = np.tile(np.arange(3), 3)
    moves = Impure().act_in_games(
        Boards.start(Game(19, 19, 5), 9), np.zeros(9, np.int64), keys, plies
    )
    assert len(set(moves.tolist())) == 9


class AtFault(Scripted):
    """An opponent whose `act` is given."""

    def __init__(self, act):
        self.given = act

    def act(self, boards, rng):
        return self.given(boards, rng)


@pytest.mark.parametrize(
    ("act_at_fault", "error"),
    [
        (
            lambda boards, rng: rng.integers(9, size=1),
            AttributeError,
        ),  # a pure one may draw uniform numbers only
        (lambda boards, rng: rng.random(3), ValueError),  # and one for each position
        (lambda boards, rng: (boards.cells != 0).argmax(axis=1), ValueError),  # a stone is there
        (lambda boards, rng: np.array([9]), ValueError),
    ],
)
def test_an_opponent_at_fault_is_an_error(act_at_fault, error):
    env = SingleEnv(opponent=AtFault(act_at_fault))
    env.reset(seed=0)
    with pytest.raises(error):
        env.step(0)
