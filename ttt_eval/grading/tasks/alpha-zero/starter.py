"""AlphaZero: see task.md."""

from collections.abc import Callable

import numpy as np


def train(
    legal: np.ndarray,
    next_states: np.ndarray,
    rewards: np.ndarray,
    skip_chance: float,
    observations: np.ndarray,
    num_starts: int,
    seed: int,
) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function of observations, which returns scores of actions."""
    return lambda asked: np.zeros((len(asked), legal.shape[1]))
