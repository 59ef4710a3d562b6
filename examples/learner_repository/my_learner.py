"""The learner under test: a table of action values, updated towards the best next action."""

from collections import defaultdict

import numpy as np


def train(make_env, steps, seed):
    """Return the learned values of actions as a function of observations."""
    if make_env.self_play:
        return None  # it learns against opponents only
    rng = np.random.default_rng(seed)
    env = make_env()
    table = defaultdict(lambda: np.zeros(env.action_space.n))
    obs, info = env.reset(seed=seed)
    for _ in range(steps):
        allowed = np.flatnonzero(info["action_mask"] | (not make_env.masks))
        values = table[obs.tobytes()]
        action = allowed[values[allowed].argmax()]
        if rng.random() < 0.3:
            action = rng.choice(allowed)
        next_obs, reward, terminated, truncated, info = env.step(action)
        target = reward
        if not terminated:
            next_allowed = np.flatnonzero(info["action_mask"] | (not make_env.masks))
            target += table[next_obs.tobytes()][next_allowed].max()
        values[action] += 0.1 * (target - values[action])
        obs = next_obs
        if terminated or truncated:
            obs, info = env.reset()

    def scores(observations):
        return np.array([table[row.tobytes()] for row in observations])

    scores.values = scores  # values that cannot be are errors, too
    return scores
