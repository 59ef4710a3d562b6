"""Advantage estimators of other libraries, unchanged, as functions for an audit.

CleanRL and Stable-Baselines3 keep rollouts of parallel environments in arrays [steps,
environments]. Here every environment plays one episode. Steps after its end begin other episodes,
whose entries an audit ignores.

    pip install stable-baselines3
    python evaluate.py audit gae:lam=0.95 examples.audit_rollouts:sb3_rollout_buffer

The file is examples/audit_rollouts.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttt_eval.audit import Batch


def to_rollout(batch: Batch) -> tuple[NDArray[np.float64], ...]:
    """Return episodes as a rollout of T steps in E environments, as in CleanRL's ``ppo.py``.

    An episode that is truncated by the last step of the rollout continues in the next one:
    ``next_value`` holds the value that follows. For one that is truncated earlier, the discounted
    value is added to its last reward, as Stable-Baselines3 does (Pardo et al., 2018).

    Returns:
        ``rewards``, ``values`` and ``dones``, float64[T, E], where ``dones`` has 1 at the first
        step of an episode after another, else 0; ``next_value`` float64[E] of the positions after
        the last step; and ``next_done`` float64[E], 1 where the episode ended with the last step.
    """
    values = batch.values
    mask = batch.mask
    continues = np.arange(mask.shape[1]) == mask.shape[1] - 1
    rewards = batch.rewards + batch.discount * values[:, 1:] * (batch.truncated & ~continues)
    dones = np.zeros(mask.shape)
    dones[:, 1:] = (batch.terminated | batch.truncated | ~mask)[:, :-1]
    ended = (batch.terminated[:, -1] | ~mask[:, -1]).astype(np.float64)
    return rewards.T.copy(), values[:, :-1].T.copy(), dones.T.copy(), values[:, -1].copy(), ended


def from_rollout_function(function: Callable[..., Any]) -> Callable[[Batch], NDArray[np.float64]]:
    """Return an estimator from a function of a rollout, such as the loop of CleanRL's ``ppo.py``.

    Args:
        function: called as ``function(rewards, values, dones, next_value, next_done,
            discount=discount)`` with the arrays of :func:`to_rollout`; returns advantages [T, E],
            as an array or a tensor.
    """

    def estimator(batch: Batch) -> NDArray[np.float64]:
        return np.asarray(function(*to_rollout(batch), discount=batch.discount), np.float64).T

    estimator.__name__ = getattr(function, "__name__", type(function).__name__)
    return estimator


def sb3_rollout_buffer(batch: Batch, *, lam: float = 0.95) -> NDArray[np.float64]:
    """Return the advantages of Stable-Baselines3's own
    ``RolloutBuffer.compute_returns_and_advantage``, in float32.

    Args:
        batch: the episodes.
        lam: its ``gae_lambda``.
    """
    import torch
    import torch._dynamo  # noqa: F401  # before a library that imports TensorFlow where it is installed: docs/install.md
    from gymnasium import spaces
    from stable_baselines3.common.buffers import RolloutBuffer

    *arrays, next_value, next_done = to_rollout(batch)
    steps, episodes = arrays[0].shape
    spaces_of_game = spaces.Box(0, 1, (1,)), spaces.Discrete(2)
    buffer = RolloutBuffer(
        steps, *spaces_of_game, "cpu", gae_lambda=lam, gamma=batch.discount, n_envs=episodes
    )
    nothing = np.zeros((episodes, 1), np.float32)
    for rewards, values, dones in zip(*arrays, strict=True):
        buffer.add(nothing, nothing, rewards, dones, torch.as_tensor(values), torch.zeros(episodes))
    buffer.compute_returns_and_advantage(torch.as_tensor(next_value), next_done)
    return np.asarray(buffer.advantages.T, np.float64)
