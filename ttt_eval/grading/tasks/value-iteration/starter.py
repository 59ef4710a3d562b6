"""Value iteration: see task.md."""

import numpy as np


def value_iteration(
    next_states: np.ndarray, probabilities: np.ndarray, rewards: np.ndarray, discount: float
) -> np.ndarray:
    """Return the values of all states under the best play."""
    return np.zeros(len(rewards))
