"""The value net: what it learns from, that it learns it, how it plays, and that no work is lost."""

import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from small_games import SKIP_GAME

from learners.mlp import dense_layers, forward, layer_shapes, planes
from learners.net import TrainableNet, multiply
from learners.ppo import BETA1
from learners.q_net import import_tensorflow
from learners.value_net import PRESETS, ValueNetConfig, hold_out, make_teacher, play_training_games
from ttt_envs import Boards, Game, make_policy
from ttt_envs.game.boards import one_ply_ahead
from ttt_envs.game.symmetry import symmetries

TEACHER = "expectiminimax:depth=2"


def games_of(teacher=TEACHER, game=SKIP_GAME, numbers=range(6), seed=0, epsilon=0.0):
    return play_training_games(game, teacher, epsilon, seed, numbers)


def training(game=SKIP_GAME, games=6, **settings):
    return ValueNetConfig(**{"teacher": TEACHER, **settings}).training(game, games, batch=1, seed=0)


def test_the_best_position_is_worth_the_depth_of_the_teacher():
    """Player o completes the first row; a teacher of depth 2 counts 2 for it, and 3 a ply earlier,
    which is the value 1 of the net.

    oo.
    xx.
    ...
    """
    score_moves, win, bound = make_teacher("expectiminimax:depth=2", Game())
    boards = plain.from_texts("oo./xx./... o")
    scores = score_moves(boards, np.random.default_rng(0))[0]
    assert scores[2] == np.nanmax(scores) == 2
    assert win == 3
    assert bound == 2 / 3


# --------------------------------------------------------------------------------------------------
# The teacher's games


def test_targets_are_the_teachers_values():
    obs, value, _, results = games_of()
    assert len(results) == 6
    search = make_policy(TEACHER, SKIP_GAME)
    for own_first, expected in zip(obs, value, strict=True):
        position = Boards(own_first[None], np.zeros(1, np.int8)).position(0)
        assert search.analyse(position).value == pytest.approx(expected)
    assert make_teacher("expectiminimax:depth=3", SKIP_GAME)[1:] == (4.0, 0.75)
    assert make_teacher("optimal", SKIP_GAME)[1] == 1.0


def test_games_differ_by_the_seed():
    first, second = (games_of(seed=seed).obs for seed in (0, 1))
    assert first.tobytes() != second.tobytes()


# --------------------------------------------------------------------------------------------------
# Learning


@pytest.mark.parametrize("at", [1, 5])
def test_a_restored_training_ends_as_a_longer_one(at):
    """In the games of a teacher that draws moves, and in the iterations;
    tests/ttt_apps/test_runs.py has those of one length.
    """
    settings = {"iterations": 20, "teacher": f"{TEACHER},width=2"}
    part = training(games=10, **settings)
    longer = training(games=14, **settings)
    whole = training(games=14, jobs=2 if at == 1 else 1, **settings)
    for _ in range(at):
        part.step()
    longer.learner.state = part.learner.state
    longer.state = part.state
    for begun in (longer, whole):
        begun.run()
    plain.assert_same_arrays(longer.learner.state, whole.learner.state)
    assert longer.done == whole.done


def test_positions_held_out_are_of_other_games_and_classes():
    examples = games_of(numbers=range(10))
    learned, held = hold_out(SKIP_GAME, examples, 0.45, np.random.default_rng(0))
    assert len(held)
    assert len(set(examples.game[learned])) == 5  # the share is rounded up
    assert not set(examples.game[learned]) & set(examples.game[held])
    classes = [
        {b.tobytes() for b in examples.obs[rows][:, symmetries(SKIP_GAME)].reshape(-1, 9)}
        for rows in (learned, held)
    ]
    assert not classes[0] & classes[1]
    dropped = np.setdiff1d(np.arange(len(examples.value)), np.concatenate([learned, held]))
    assert all(examples.obs[row].tobytes() in classes[0] for row in dropped)


# --------------------------------------------------------------------------------------------------
# Playing


def test_moves_are_valued_one_ply_ahead_by_bounded_values():
    rng = np.random.default_rng(0)
    boards = plain.positions_of_random_play(SKIP_GAME, 40)
    net = ValueNetConfig(hidden=(8,), activations=("tanh",)).build(SKIP_GAME, rng)
    net.weights = {
        name: rng.normal(size=array.shape).astype(np.float32) for name, array in net.weights.items()
    }
    net.scale = np.array([4, 0.125], np.float32)
    assert abs(net.values(boards)).max() == 0.125
    assert_array_equal(net.action_values(boards), one_ply_ahead(SKIP_GAME, boards, net.values))


@pytest.mark.needs("tensorflow")
def test_play_and_learning_compute_as_keras_does():
    tf = import_tensorflow("a test")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 6)).astype(np.float32)
    for hidden, activations in [*PRESETS.values(), ((4,), ("relu",))]:
        shapes = layer_shapes((6, *hidden, 1))
        weights = {
            name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()
        }
        played = forward(x, dense_layers(weights, (*activations, "linear")))
        layers = [
            tf.keras.layers.Dense(n, a)
            for n, a in zip((*hidden, 1), (*activations, "linear"), strict=True)
        ]
        net = tf.keras.Sequential([tf.keras.Input((6,)), *layers])
        net.set_weights(list(weights.values()))
        learner = TrainableNet(ValueNetConfig(), weights, (*activations, "linear"))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(net(x) ** 2)
        gradient = tape.gradient(loss, net.trainable_variables)
        outputs = learner.run(x)
        for computed in (played, outputs[-1]):
            assert_allclose(computed, net(x), rtol=1e-4, atol=1e-4)
        learner.step(outputs, 2 / len(x) * outputs[-1])
        for name, expected in zip(weights, gradient, strict=True):
            mean = learner.state[f"mean.{name}"]
            assert_allclose(mean / (1 - BETA1), expected, rtol=1e-5, atol=1e-5)


def test_sums_of_products_are_in_the_order_of_their_terms():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(30, 40)).astype(np.float32) * (rng.random((30, 40)) < 0.5)
    b = rng.normal(size=(30, 20)).astype(np.float32)
    expected = np.zeros((40, 20), np.float32)
    for column, row in zip(a, b, strict=True):
        expected += np.outer(column, row)
    assert_array_equal(multiply(a.T, b), expected)


# --------------------------------------------------------------------------------------------------
# The log


def test_the_log_has_both_errors_and_the_best_weights_are_kept():
    rows = []
    biases = []
    trained_learner = training(games=8, iterations=25, keep="best", learning_rate=0.2, held_out=0.3)
    trained_learner.run(
        log=lambda games, row: (
            rows.append(row),
            biases.append(trained_learner.learner.weights["0.bias"]),
        )
    )
    assert [row["iterations"] for row in rows] == [0, 10, 20, 25]
    best = int(np.argmin([row["held_out_loss"] for row in rows]))
    assert 0 < best < 3  # a large rate does not end at the lowest error
    assert [np.array_equal(bias, biases[best]) for bias in biases] == [
        row >= best for row in range(4)
    ]
    trained_learner = training(iterations=0, held_out=0.0, symmetries="all")
    trained_learner.run()
    obs, value, *_ = trained_learner.examples
    layers = dense_layers(trained_learner.learner.weights, (*PRESETS["40-20"][1], "linear"))
    errors = [
        forward(planes(obs[:, image]), layers)[:, 0] - value for image in symmetries(SKIP_GAME)
    ]
    assert trained_learner.logged["loss"] == pytest.approx(np.square(errors).mean(), rel=1e-5)
