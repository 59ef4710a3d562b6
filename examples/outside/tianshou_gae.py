"""Tianshou's GAE over its replay buffer, as ``check_advantages`` takes it."""

import numpy as np
from tianshou.algorithm.algorithm_base import Algorithm
from tianshou.data import Batch, VectorReplayBuffer

from examples.outside.rollouts import next_steps


def gae(rewards, values, dones, next_value, next_done):
    next_values, ends = next_steps(values, dones, next_value, next_done)
    buffer = VectorReplayBuffer(rewards.size, rewards.shape[1])
    nothing = np.zeros(rewards.shape[1])
    rest = {"obs": nothing, "act": nothing, "obs_next": nothing, "truncated": nothing > 0}
    for reward, end in zip(rewards, ends, strict=True):
        buffer.add(Batch(rew=reward, terminated=end, info={}, **rest))
    indices = buffer.sample_indices(0)
    columns = next_values.T.ravel(), values.T.ravel()
    _, advantages = Algorithm.compute_episodic_return(
        buffer[indices], buffer, indices, *columns, 0.9, 0.95
    )
    return advantages.reshape(rewards.shape[::-1]).T
