"""Errors of critics whose errors are known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from small_games import SKIP_GAME, TINY_GAME

from ttt_envs.agents.adapters import as_value_function
from ttt_envs.core.work import Work
from ttt_eval.exact import critic_error, evaluate_policy


def exact_values(evaluation):
    return lambda boards: evaluation.values[evaluation.find(boards)]


@pytest.mark.parametrize("opponent", ["random", None])
def test_known_errors(opponent):
    result = evaluate_policy(SKIP_GAME, "win-or-block", opponent)
    exact = exact_values(result)
    right = critic_error(SKIP_GAME, "win-or-block", opponent, exact, work=Work(chunk=1000))
    assert (right.root_mean_square, right.explained_variance) == (0, 1)
    shifted = critic_error(SKIP_GAME, "win-or-block", opponent, lambda boards: exact(boards) + 0.25)
    assert shifted.bias == pytest.approx(0.25)
    assert shifted.root_mean_square == pytest.approx(0.25)
    assert shifted.explained_variance == pytest.approx(1)
    assert_allclose(shifted.errors, 0.25)
    zero = critic_error(
        SKIP_GAME, "win-or-block", opponent, lambda boards: np.zeros(len(boards.mover))
    )
    assert zero.explained_variance == pytest.approx(0)
    weights = result.occupancy / result.occupancy.sum()
    assert zero.root_mean_square == pytest.approx(np.sqrt(weights @ result.values**2))


@pytest.mark.needs("torch")
def test_torch_modules_are_critics():
    import torch

    net = torch.nn.Linear(12, 1)
    boards = evaluate_policy(TINY_GAME, "random", "random").boards
    planes = np.concatenate([boards.own_first() == 1, boards.own_first() == 2], axis=1).astype(
        np.float32
    )
    values = as_value_function(net, TINY_GAME, "flat")(boards)
    assert (values.shape, values.dtype, net.training) == (boards.mover.shape, np.float64, True)
    assert_allclose(values, net(torch.as_tensor(planes)).detach().numpy()[:, 0], rtol=1e-6)


@pytest.mark.parametrize(
    "critic",
    [
        3,
        lambda boards: np.zeros((len(boards.mover), 6)),
        lambda boards: np.full(len(boards.mover), np.inf),
    ],
)
def test_what_is_no_critic_is_refused(critic):
    with pytest.raises((TypeError, ValueError)):
        critic_error(TINY_GAME, "random", None, critic)
