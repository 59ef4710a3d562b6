"""Advantages of other libraries, unchanged, as ``ttt_eval.checks.check_advantages`` takes them.

    python evaluate.py check advantages examples.checks.advantages:sb3_rollout_buffer

The file is examples/checks/advantages.py.
"""

from __future__ import annotations

import numpy as np


def sb3_rollout_buffer(rewards, values, dones, next_value, next_done):
    """Return those of Stable-Baselines3's ``RolloutBuffer``, in single precision."""
    import torch
    import torch._dynamo  # noqa: F401  # before a library that imports TensorFlow: docs/install.md
    from gymnasium import spaces
    from stable_baselines3.common.buffers import RolloutBuffer

    places = spaces.Box(0, 1, (1,)), spaces.Discrete(2)
    steps, environments = rewards.shape
    buffer = RolloutBuffer(steps, *places, "cpu", 0.95, 0.9, environments)
    nothing = np.zeros((environments, 1), np.float32)
    for reward, value, done in zip(rewards, values, dones, strict=True):
        buffer.add(nothing, nothing, reward, done, torch.as_tensor(value), torch.zeros(len(done)))
    buffer.compute_returns_and_advantage(torch.as_tensor(next_value), next_done)
    return buffer.advantages


def cleanrl_ppo(rewards, values, dones, next_value, next_done, gamma=0.9, gae_lambda=0.95):
    """Return those of the loop in CleanRL's ``ppo.py``."""
    import torch

    tensors = map(torch.as_tensor, (rewards, values, dones, next_value, next_done))
    rewards, values, dones, next_value, next_done = tensors
    advantages, carried = torch.zeros_like(rewards), 0
    for t in reversed(range(len(rewards))):
        last = t == len(rewards) - 1
        alive = 1.0 - (next_done if last else dones[t + 1])
        delta = rewards[t] + gamma * (next_value if last else values[t + 1]) * alive - values[t]
        advantages[t] = carried = delta + gamma * gae_lambda * alive * carried
    return advantages


def from_verl(function, **settings):
    """Return one of verl's ``compute_..._outcome_advantage(token_level_rewards, response_mask,
    index, ...)``, such as those of ``verl.trainer.ppo.core_algos``.
    """
    import torch

    def advantages(rewards, mask, groups):
        tensors = torch.as_tensor(rewards), torch.as_tensor(mask, dtype=torch.float64)
        return function(*tensors, groups, **settings)[0]

    return advantages


def from_trl(function, **settings):
    """Return a function of the rewards of completions [batch], group by group, as in the trainers
    of TRL: ``function(rewards, num_generations, ...)``, advantages [batch].
    """
    import torch

    def advantages(rewards, mask, groups):
        results = torch.as_tensor(rewards.sum(axis=1))
        size = int(np.bincount(groups)[0])
        return np.asarray(function(results, size, **settings))[:, None] * mask

    return advantages
