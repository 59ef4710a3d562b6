"""Value iteration: see task.md."""

import numpy as np


def value_iteration(
    legal: np.ndarray,
    next_states: np.ndarray,
    rewards: np.ndarray,
    skip_chance: float,
    discount: float,
) -> np.ndarray:
    """Return the values of all states under perfect play."""
    return np.zeros(len(rewards))
