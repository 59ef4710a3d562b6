"""Returns of an episode do not depend on the next one (pytest test_compute_gae.py)."""

import pytest

import torch

from skrl.agents.torch.a2c.a2c import compute_gae as compute_gae_of_a2c
from skrl.agents.torch.ppo.ppo import compute_gae as compute_gae_of_ppo


@pytest.mark.parametrize("compute_gae", [compute_gae_of_ppo, compute_gae_of_a2c])
@pytest.mark.parametrize("kind", ["terminated", "truncated"])
@pytest.mark.parametrize("time_limit_bootstrap", [False, True])
def test_returns_end_with_the_episode(compute_gae, kind, time_limit_bootstrap):
    flags = {name: torch.zeros((3, 1), dtype=torch.bool) for name in ("terminated", "truncated")}
    flags[kind][0] = True  # the first episode has one step
    returns = [
        compute_gae(
            rewards=torch.tensor([[0.0], [0.0], [reward]]),
            values=torch.zeros((3, 1)),
            last_values=torch.zeros((1, 1)),
            time_limit_bootstrap=time_limit_bootstrap,
            **flags,
        )[0]
        for reward in (0.0, 1.0)  # the reward of the second episode
    ]
    assert returns[0][0] == returns[1][0]
