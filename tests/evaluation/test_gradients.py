"""Exact policy gradients, beside finite differences of exact outcomes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from baselines.softmax_table import PositionIndex, SoftmaxTable
from evaluation.exact import evaluate_policy, exact_policy_gradient, fisher_information, outcome, policy_gradient
from ttt_envs import Game
from ttt_envs.agents.adapters import as_policy

SMALL, SKIP3 = Game(2, 3, 2, 0.25), Game(skip_chance=0.25)
STENCIL = ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))
"""Central difference of fourth order."""


def random_table(game, opponent, seat):
    boards = evaluate_policy(game, "random", opponent, seat=seat).boards
    return SoftmaxTable(PositionIndex(game, boards), np.random.default_rng(0).normal(size=boards.cells.shape))


def difference(value, table, place, step=0.02):
    """Derivative of a value in one logit, by finite differences."""
    total = 0.0
    for offset, weight in STENCIL:
        logits = table.logits.copy()
        logits[place] += offset * step
        total += weight * value(SoftmaxTable(table.index, logits)) / step
    return total


@pytest.mark.parametrize(
    ("game", "count"),
    [(SMALL, 200), (SKIP3, 20), pytest.param(SKIP3, 200, marks=pytest.mark.slow)],
    ids=["2x3", "3x3", "3x3-all"],
)
@pytest.mark.parametrize("seat", [0, 1])
def test_finite_differences(game, count, seat):
    """Of the outcome by the other exact program, which has no values."""

    def value(table):
        return outcome(game, table, "win-or-block").value if seat == 0 else -outcome(game, "win-or-block", table).value

    table = random_table(game, "win-or-block", seat)
    gradient = exact_policy_gradient(game, table, "win-or-block", seat=seat).gradients["logits"]
    legal = np.argwhere(table.index.boards.legal(game) & (table.index.boards.legal(game).sum(axis=1) > 1)[:, None])
    places = legal[np.random.default_rng(1).choice(len(legal), min(count, len(legal)), replace=False)]
    exact = gradient[tuple(places.T)]
    found = np.array([difference(value, table, tuple(place)) for place in places])
    assert_allclose(found, exact, rtol=1e-6, atol=1e-6 * np.abs(gradient).max() * 1e-3)


@pytest.mark.parametrize("seat", [None, 0, 1])
def test_discount_and_seats(seat):
    """With a discount, and with both seats, by differences of the value."""
    table = random_table(SMALL, "random", seat)
    found = exact_policy_gradient(SMALL, table, "random", seat=seat, discount=0.8)
    for place in ((0, 0), (1, 2), (len(table.logits) - 3, 4)):
        if table.index.boards.legal(SMALL)[place]:
            expected = difference(
                lambda one: evaluate_policy(SMALL, one, "random", seat=seat, discount=0.8).value, table, place
            )
            assert found.gradients["logits"][place] == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_self_play_is_the_simultaneous_gradient():
    table = random_table(SMALL, None, None)
    found = exact_policy_gradient(SMALL, table).gradients["logits"]
    for seat in (0, 1):
        alone = exact_policy_gradient(SMALL, table, table, seat=seat).gradients["logits"]
        rows = table.index.boards.mover == seat
        assert_allclose(found[rows], alone[rows] / 2, rtol=0, atol=1e-15)


@pytest.mark.parametrize("seat", [None, 0])
def test_natural_gradient_is_the_advantage(seat):
    table = random_table(SMALL, "random", seat)
    found = evaluate_policy(SMALL, table, "random", seat=seat, discount=0.9)
    fisher, gradient = fisher_information(found), policy_gradient(found)
    assert_array_equal(gradient[~found.boards.legal(SMALL)], 0)
    natural = np.einsum("nij,nj->ni", np.linalg.pinv(fisher, hermitian=True), gradient)
    legal = found.boards.legal(SMALL)
    mean = np.where(legal, found.advantages, 0).sum(axis=1, keepdims=True) / legal.sum(axis=1, keepdims=True)
    assert_allclose(natural, np.where(legal, found.advantages - mean, 0), rtol=0, atol=1e-9)


def test_too_large_fisher_matrix(monkeypatch):
    monkeypatch.setattr("evaluation.exact.gradients.MAX_FISHER_BYTES", 1000)
    with pytest.raises(MemoryError, match=r"evaluation\.advantages"):
        fisher_information(evaluate_policy(SMALL, "random"))


def check_model(model, parameters, scale):
    """Compare gradients with differences along random directions; ``parameters`` maps names to (get, set)."""
    found = exact_policy_gradient(SMALL, model, "random", seat=0)
    rng = np.random.default_rng(0)
    assert set(found.gradients) == set(parameters)
    before = {name: get() for name, (get, _) in parameters.items()}
    direction = {name: rng.normal(size=values.shape) for name, values in before.items()}

    def value(step):
        for name, (_, put) in parameters.items():
            put(before[name] + step * direction[name])
        return outcome(SMALL, as_policy(model, SMALL, returns="logits"), "random").value

    expected = sum(weight * value(offset * scale) for offset, weight in STENCIL) / scale
    value(0)
    along = sum((direction[name] * gradient).sum() for name, gradient in found.gradients.items())
    assert abs(expected) > 1e-4
    return along, expected


@pytest.mark.needs("torch")
def test_torch():
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.Tanh(), torch.nn.Linear(8, 6)).double()

    def access(parameter):
        return (
            lambda: parameter.detach().numpy().copy(),
            lambda values: parameter.data.copy_(torch.as_tensor(values)),
        )

    along, expected = check_model(net, {name: access(one) for name, one in net.named_parameters()}, 1e-3)
    assert along == pytest.approx(expected, rel=1e-6)
    assert net.training
    assert all(one.grad is None for one in net.parameters())
    with pytest.raises(TypeError, match="no parameters to differentiate"):
        exact_policy_gradient(SMALL, lambda observation, mask: mask, "random")


@pytest.mark.needs("tensorflow")
def test_keras():
    import keras

    keras.utils.set_random_seed(0)
    net = keras.Sequential([keras.layers.Input((12,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(6)])
    access = {one.path: (one.numpy, one.assign) for one in net.trainable_variables}
    along, expected = check_model(net, access, 0.02)
    assert along == pytest.approx(expected, rel=1e-3)  # float32


@pytest.mark.needs("torch", "stable_baselines3")
def test_stable_baselines3():
    import gymnasium
    import stable_baselines3 as sb3

    model = sb3.PPO("MlpPolicy", gymnasium.make("ttt_envs:ttt/MNK-v0", size=(2, 3), win_length=2), seed=0, device="cpu")
    found = exact_policy_gradient(SMALL, model, "random")
    assert set(found.gradients) == {name for name, _ in model.policy.named_parameters()}
    assert np.abs(found.gradients["action_net.bias"]).max() > 0
    assert not found.gradients["value_net.bias"].any()  # the critic moves nothing
    assert found.evaluation.illegal_mass is not None
    weights = found.evaluation.occupancy / found.evaluation.occupancy.sum()
    taken = weights @ found.evaluation.stones / 6  # an untrained actor knows no mask
    assert weights @ found.evaluation.illegal_mass == pytest.approx(taken, abs=0.01)
