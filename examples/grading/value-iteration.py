"""A solution of the task value-iteration, see docs/how-to/grade.md."""

import numpy as np


def value_iteration(legal, next_states, rewards, skip_chance, discount):
    values = np.zeros(len(rewards))
    while True:
        values[-1] = 0  # the game is over
        after = values[next_states]
        expected = skip_chance * after[:, :, 1] - (1 - skip_chance) * after[:, :, 0]
        improved = np.where(legal, rewards + discount * expected, -np.inf).max(axis=1)
        if np.abs(improved - values)[:-1].max() < 1e-6:
            return improved
        values = improved
