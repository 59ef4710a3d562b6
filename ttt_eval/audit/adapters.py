"""Estimators of other libraries, unchanged, as functions for an audit.

CleanRL and Stable-Baselines3 keep rollouts of parallel environments in arrays [steps, environments]. Here every
environment plays one episode. Steps after its end begin other episodes, whose entries an audit ignores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ttt_envs.core.jit import BoolArray, Float64Array


class Rollout(NamedTuple):
    """A rollout of T steps in E environments, as in CleanRL's ``ppo.py``."""

    rewards: Float64Array
    """float64[T, E]"""
    values: Float64Array
    """float64[T, E]"""
    dones: Float64Array
    """float64[T, E]: 1 where a step is the first one of an episode after another, else 0"""
    next_value: Float64Array
    """float64[E]: of the positions after the last step"""
    next_done: Float64Array
    """float64[E]: 1 where the episode ended with the last step"""


def to_rollout(
    rewards: Float64Array,
    values: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
    mask: BoolArray,
    *,
    discount: float = 1.0,
) -> Rollout:
    """Return episodes as a rollout; see :mod:`ttt_eval.audit.estimators` for the arguments.

    An episode that is truncated by the last step of the rollout continues in the next one: ``next_value`` holds the
    value that follows. For one that is truncated earlier, the discounted value is added to its last reward, as
    Stable-Baselines3 does (Pardo et al., 2018).
    """
    rewards = rewards + discount * values[:, 1:] * truncated * (np.arange(mask.shape[1]) < mask.shape[1] - 1)
    ended = terminated | truncated | ~mask
    dones = np.zeros(mask.shape)
    dones[:, 1:] = ended[:, :-1]
    return Rollout(
        rewards.T.copy(),
        values[:, :-1].T.copy(),
        dones.T.copy(),
        values[:, -1].copy(),
        (terminated[:, -1] | ~mask[:, -1]).astype(np.float64),
    )


def from_rollout_function(function: Callable[..., Any]) -> Callable[..., Float64Array]:
    """Return an estimator from a function of a rollout, such as the loop of CleanRL's ``ppo.py``.

    Args:
        function: called as ``function(rewards, values, dones, next_value, next_done, discount=discount)`` with the
            arrays of :class:`Rollout`; returns advantages [T, E], as an array or a tensor.
    """

    def estimator(
        rewards: Float64Array,
        values: Float64Array,
        terminated: BoolArray,
        truncated: BoolArray,
        mask: BoolArray,
        *,
        discount: float = 1.0,
    ) -> Float64Array:
        rollout = to_rollout(rewards, values, terminated, truncated, mask, discount=discount)
        return np.asarray(function(*rollout, discount=discount), np.float64).T

    estimator.__name__ = getattr(function, "__name__", type(function).__name__)
    return estimator


def sb3_rollout_buffer(
    rewards: Float64Array,
    values: Float64Array,
    terminated: BoolArray,
    truncated: BoolArray,
    mask: BoolArray,
    *,
    discount: float = 1.0,
    lam: float = 0.95,
) -> Float64Array:
    """Return the advantages of Stable-Baselines3's own ``RolloutBuffer.compute_returns_and_advantage``, in float32.

    Args:
        rewards, values, terminated, truncated, mask: see :mod:`ttt_eval.audit.estimators`.
        discount: its ``gamma``.
        lam: its ``gae_lambda``.
    """
    from ttt_envs.core.silence import avoid_triton_crash

    avoid_triton_crash()
    import torch
    from gymnasium import spaces
    from stable_baselines3.common.buffers import RolloutBuffer

    rollout = to_rollout(rewards, values, terminated, truncated, mask, discount=discount)
    num_steps, num_episodes = rollout.rewards.shape
    buffer = RolloutBuffer(
        num_steps,
        spaces.Box(0, 1, (1,)),
        spaces.Discrete(2),
        device="cpu",
        gae_lambda=lam,
        gamma=discount,
        n_envs=num_episodes,
    )
    nothing = np.zeros((num_episodes, 1), np.float32)
    for step in range(num_steps):
        buffer.add(
            nothing,
            nothing,
            rollout.rewards[step],
            rollout.dones[step],
            torch.as_tensor(rollout.values[step]),
            torch.zeros(num_episodes),
        )
    buffer.compute_returns_and_advantage(torch.as_tensor(rollout.next_value), rollout.next_done)
    return np.asarray(buffer.advantages.T, np.float64)
