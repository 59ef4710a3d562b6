"""Advantages of Stable-Baselines3, unchanged, as ``ttt_eval.checks.check_advantages`` takes them.

    pip install stable-baselines3
    python evaluate.py check advantages examples.checks.sb3_buffer:sb3_rollout_buffer

The file is examples/checks/sb3_buffer.py.
"""

from __future__ import annotations

import numpy as np
import torch
import torch._dynamo  # noqa: F401  # before a library that imports TensorFlow: docs/install.md
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer


def sb3_rollout_buffer(rewards, values, dones, next_value, next_done):
    """Return those of Stable-Baselines3's ``RolloutBuffer``, in single precision."""
    places = spaces.Box(0, 1, (1,)), spaces.Discrete(2)
    steps, environments = rewards.shape
    buffer = RolloutBuffer(steps, *places, "cpu", 0.95, 0.9, environments)
    nothing = np.zeros((environments, 1), np.float32)
    for reward, value, done in zip(rewards, values, dones, strict=True):
        buffer.add(nothing, nothing, reward, done, torch.as_tensor(value), torch.zeros(len(done)))
    buffer.compute_returns_and_advantage(torch.as_tensor(next_value), next_done)
    return buffer.advantages
