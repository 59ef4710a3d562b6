"""What comes after each step of a rollout: a part of the adapters of advantages."""

import numpy as np


def next_steps(values, dones, next_value, next_done):
    """Return the values after each step, float64[T, E], and which steps end games, bool[T, E]."""
    return np.vstack([values[1:], next_value[None]]), np.vstack([dones[1:], next_done[None]]) > 0
