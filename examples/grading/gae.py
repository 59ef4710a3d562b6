"""A solution of the task gae, see docs/how-to/grade.md."""

import numpy as np


def gae(rewards, values, dones, next_value, next_done, discount, lam):
    following = np.vstack([values, next_value])
    alive = 1 - np.vstack([dones, next_done])
    advantages = np.zeros(rewards.shape)
    last = np.zeros(len(next_value))
    for step in reversed(range(len(rewards))):
        delta = rewards[step] + discount * alive[step + 1] * following[step + 1] - values[step]
        last = delta + discount * lam * alive[step + 1] * last
        advantages[step] = last
    return advantages
