"""Monte Carlo control: see task.md."""

from collections.abc import Callable
from typing import Any

import numpy as np


def train(environment: Any, steps: int, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function of observations, which returns scores of actions."""
    num_actions = environment.num_actions
    return lambda observations: np.zeros((len(observations), num_actions))
