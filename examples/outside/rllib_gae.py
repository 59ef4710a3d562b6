"""RLlib's GAE, as ``check_advantages`` takes it: rollouts in one row, each longer by a step, as its
connector ``AddOneTsToEpisodesAndTruncate`` makes them.
"""

import numpy as np
from ray.rllib.utils.postprocessing.value_predictions import compute_value_targets

from examples.outside.rollouts import next_steps


def gae(rewards, values, dones, next_value, next_done):
    _, ends = next_steps(values, dones, next_value, next_done)
    cuts = np.zeros((len(rewards) + 1, len(next_value)))
    cuts[-2:] = 1
    nothing = 0 * next_value[None]
    values = np.vstack([values, next_value])
    columns = values, np.vstack([rewards, nothing]), np.vstack([ends, nothing]), cuts
    targets = compute_value_targets(*(column.T.ravel() for column in columns), 0.9, 0.95)
    return (targets.reshape(values.T.shape).T - values)[:-1]
