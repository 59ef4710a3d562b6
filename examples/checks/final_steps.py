"""The last observations of games that begin again in the same step."""

import numpy as np


def last_decisions(obs, info, done):
    """Return the observations, masks and movers after a step, before games begin again."""
    obs = obs.copy()
    mask = info["action_mask"].copy()
    mover = info["mover"].copy()
    for game in np.flatnonzero(done):
        obs[game] = info["final_obs"][game]
        mask[game] = info["final_info"]["action_mask"][game]
        mover[game] = info["final_info"]["mover"][game]
    return obs, mask == 1, mover
