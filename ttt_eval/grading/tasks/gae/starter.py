"""Generalised advantage estimation: see task.md."""

import numpy as np


def gae(
    rewards: np.ndarray,
    values: np.ndarray,
    dones: np.ndarray,
    next_value: np.ndarray,
    next_done: np.ndarray,
    discount: float,
    lam: float,
) -> np.ndarray:
    """Return the advantages of all steps."""
    return np.zeros(rewards.shape)
