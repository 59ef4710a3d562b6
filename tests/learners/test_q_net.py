"""The update by hand, exploration, symmetries; the rest is in test_learner_conformance.py."""

import gc
import sys

import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from small_games import SKIP_GAME

from learners.base import Transition
from learners.q_net import QNetConfig
from learners.training import Trainer
from ttt_envs import Boards, Game
from ttt_envs.game.symmetry import inverse, symmetries
from ttt_eval.exact.dynamic_programming import exploitability

pytestmark = [pytest.mark.more, pytest.mark.needs("tensorflow")]

WEIGHTS = ("net.0.weights", "net.0.bias", "net.1.weights", "net.1.bias")


def build(game=None, seed=0, **settings):
    return QNetConfig(**{"hidden": 8, **settings}).build(
        game or Game(), np.random.default_rng(seed)
    )


def transition(*rows):
    """Of (before, action, reward, discount, following)."""
    before, action, reward, discount, following = zip(*rows, strict=True)
    return Transition(
        np.arange(len(rows)),
        plain.from_texts(*before),
        np.array(action),
        np.array(reward, float),
        np.array(discount, float),
        plain.from_texts(*following),
        np.full(len(rows), -1),
    )


A = "oo./xx./... o"
B = "o../xx./..o o"
C = "o../.x./... x"
ONE_OF_EACH = transition(
    (B, 1, 0, 1, A), (C, 8, 0, -1, A), (A, 2, 1, 0, A), ("oxo/xxo/.ox x", 6, 0, 0, A)
)


def test_the_error_of_a_final_reward_moves_the_value():
    """Player o completes the first row. All weights are 0, so the value is the bias of the output:
    plain gradient descent adds rate * 2 * (reward - value).

    oo.
    xx.
    ...
    """
    learner = build(hidden=1, optimizer="sgd", learning_rate=0.25)
    learner.state = {name: np.zeros_like(array) for name, array in learner.state.items()} | {
        "epsilon": learner.epsilon
    }
    winning_move = transition(("oo./xx./... o", 2, 1, 0, "oo./xx./... o"))
    values = []
    for _ in range(3):
        learner.update(winning_move)
        values.append(learner.action_values(winning_move.boards)[0, 2])
    assert values == [0.5, 0.75, 0.875]


# --------------------------------------------------------------------------------------------------
# The update


def planes(boards):
    own = boards.mover[:, None] + 1
    return np.concatenate([boards.cells == own, boards.cells == 3 - own], axis=1).astype(float)


def forward(weights, x):
    hidden = np.maximum(0, x @ weights["net.0.weights"] + weights["net.0.bias"])
    return hidden, hidden @ weights["net.1.weights"] + weights["net.1.bias"]


def plain_gradient(weights, batch, gamma):
    """The loss and its gradient in float64, with the target from the definition, decision by
    decision.
    """
    rows = np.arange(len(batch.action))
    target = batch.reward.astype(float)
    for row in rows[batch.discount != 0]:
        values = forward(weights, planes(batch.next_boards))[1][row]
        target[row] += gamma * batch.discount[row] * values[batch.next_boards.cells[row] == 0].max()
    x = planes(batch.boards)
    hidden, values = forward(weights, x)
    error = values[rows, batch.action] - target
    by_values = np.zeros_like(values)
    by_values[rows, batch.action] = 2 * error / len(rows)
    by_hidden = by_values @ weights["net.1.weights"].T * (hidden > 0)
    gradient = {
        "net.0.weights": x.T @ by_hidden,
        "net.0.bias": by_hidden.sum(axis=0),
        "net.1.weights": hidden.T @ by_values,
        "net.1.bias": by_values.sum(axis=0),
    }
    return (error**2).mean(), gradient


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_updates_equal_those_by_hand(optimizer):
    rate = 0.05
    decay = 0.5
    gamma = 0.9
    # a seed with gradients well away from 0: Adam makes a whole step of the rounding of a smaller
    # one
    learner = build(
        seed=1,
        hidden=5,
        optimizer=optimizer,
        learning_rate=rate,
        learning_rate_decay=decay,
        gamma=gamma,
    )
    weights = {name: learner.state[name].astype(float) for name in WEIGHTS}
    mean, square = ({name: np.zeros_like(weights[name]) for name in WEIGHTS} for _ in range(2))
    for n in range(4):
        loss, gradient = plain_gradient(weights, ONE_OF_EACH, gamma)
        for name in WEIGHTS:
            step = gradient[name]
            if optimizer == "adam":
                mean[name] = 0.9 * mean[name] + 0.1 * gradient[name]
                square[name] = 0.999 * square[name] + 0.001 * gradient[name] ** 2
                unbiased = np.sqrt(square[name] / (1 - 0.999 ** (n + 1)))
                step = mean[name] / (1 - 0.9 ** (n + 1)) / (unbiased + 1e-8)
            weights[name] = weights[name] - rate / (1 + decay * n) * step
        logged = learner.update(ONE_OF_EACH)
        assert logged["loss"] == pytest.approx(loss, rel=1e-4)
        assert logged["updates"] == n + 1
        for name in WEIGHTS:
            assert_allclose(learner.state[name], weights[name], rtol=1e-4, atol=1e-5)


def test_an_update_covers_all_symmetries():
    """It is one with all images of the decisions, without the setting."""
    game = SKIP_GAME
    learner = build(game, symmetries="all")
    unaware = build(game)
    permutations = symmetries(game)
    cells, mover = ONE_OF_EACH.boards
    images = Boards(
        np.concatenate([cells[:, permutation] for permutation in permutations]), np.tile(mover, 8)
    )
    action = np.concatenate([back[ONE_OF_EACH.action] for back in inverse(permutations)])
    parts = (np.tile(part, 8) for part in (ONE_OF_EACH.reward, ONE_OF_EACH.discount))
    next_boards = Boards(
        np.tile(ONE_OF_EACH.next_boards.cells, (8, 1)), np.tile(ONE_OF_EACH.next_boards.mover, 8)
    )
    joined = Transition(np.arange(32), images, action, *parts, next_boards, np.full(32, -1))
    for _ in range(3):
        assert learner.update(ONE_OF_EACH)["loss"] == pytest.approx(
            unaware.update(joined)["loss"], rel=1e-4
        )
    for name in WEIGHTS:
        assert_allclose(learner.state[name], unaware.state[name], atol=1e-4)


def test_updates_draw_from_the_latest_decisions():
    learner = build(buffer_size=3, batch_size=200, learning_rate=0.01)
    for row in ((A, 5, -1, 0, A), (A, 2, 1, 0, A), (B, 1, 0, 1, A), (C, 8, 0, -1, A)):
        learner.update(transition(row))
        assert learner.replay.draw(50).any(axis=1).all()  # no row that is still empty
    arrays = learner.state
    assert arrays["replay.added"] == 4
    rows = [[8, 0, -1], [2, 1, 0], [1, 0, 1]]  # the first made room for the last
    assert_array_equal(arrays["replay.rows"][:, -3:], rows)
    assert_array_equal(np.unique(learner.replay.draw(200)[:, -3:], axis=0), np.unique(rows, axis=0))


# --------------------------------------------------------------------------------------------------
# Learning


@pytest.mark.slow
def test_self_play_with_its_defaults_reaches_perfect_play():
    learner = QNetConfig(**QNetConfig.self_play).build(Game(), np.random.default_rng(0))
    Trainer(learner, "self", 80_000, batch=256).run()
    assert exploitability(learner.game, learner) == 0


# --------------------------------------------------------------------------------------------------
# Memory


def test_an_update_leaves_nothing_in_memory():
    """TensorFlow keeps a Python number, and 650 bytes more, for each different number that it
    converts.
    """
    learner = build(optimizer="adam")
    blocks = []
    for count in (500, 1000):  # the first fill caches
        for _ in range(count):
            learner.update(ONE_OF_EACH)
        gc.collect()
        blocks.append(sys.getallocatedblocks())
    assert blocks[1] - blocks[0] < 800  # of 1,000 updates
