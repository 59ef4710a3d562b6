"""Tabular Q-learning that ``check_learner`` trains, against an opponent or in self-play.

python evaluate.py check learner examples.checks.q_learning:train --family tabular
"""

from collections import defaultdict

import gymnasium
import numpy as np

from examples.checks.final_steps import last_decisions

NUM_ENVS = 16
STEP_SIZE = 0.1
EPSILON = 0.3
GAMMA = 1.0


def explore(values, mask, epsilon, rng):
    """Return the action of highest value in each environment, or with probability epsilon a random
    one, among those of the mask.
    """
    explores = rng.random((len(values), 1)) < epsilon
    scores = np.where(explores, rng.random(values.shape), values)
    return np.where(mask, scores, -np.inf).argmax(axis=1)


def train(make_env, steps, seed):
    """Return the learned values of actions as a function of observations."""
    rng = np.random.default_rng(seed)
    envs = make_env(NUM_ENVS, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
    num_actions = envs.single_action_space.n
    table = defaultdict(lambda: np.zeros(num_actions))

    def action_values(observations):
        return np.array([table[row.tobytes()] for row in observations])

    obs, info = envs.reset(seed=seed)
    for _ in range(steps // NUM_ENVS):
        mask = (info["action_mask"] == 1) | (not make_env.masks)
        mover = info["mover"]
        values = action_values(obs)
        values += 1e-6 * rng.random(values.shape)  # ties are broken at random
        action = explore(values, mask, EPSILON, rng)
        next_obs, reward, terminated, truncated, info = envs.step(action)
        done = terminated | truncated
        last_obs, last_mask, last_mover = last_decisions(next_obs, info, done)
        last_mask |= not make_env.masks
        for game in range(NUM_ENVS):
            target = reward[game]
            if not terminated[game]:
                next_values = table[last_obs[game].tobytes()]
                sign = 1 if last_mover[game] == mover[game] else -1  # self-play has two movers
                target += sign * GAMMA * next_values[last_mask[game]].max()
            row = table[obs[game].tobytes()]
            row[action[game]] += STEP_SIZE * (target - row[action[game]])
        obs = next_obs
    action_values.values = action_values
    return action_values
