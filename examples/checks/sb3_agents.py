"""Models of Stable-Baselines3 and sb3-contrib in ``check_agent`` and ``check_values``.

    pip install stable-baselines3 sb3-contrib

``check_model(model)`` takes a PPO, DQN or MaskablePPO that was trained on our environment, as in
``docs/how-to/stable-baselines3.md``. The agent plays the best legal move, and is asked in positions that its own
play can reach, because it has learned from no others. The values are PPO's critic, and DQN's
largest value of a legal move: those of games with the opponent of the training, and without masks
with the penalties of illegal moves.
"""

import numpy as np
import torch

from ttt_envs import Game, as_policy
from ttt_eval.checks import check_agent, check_values


def value_head(model):
    """Return the values of a model as a function of a board."""

    def values(board):
        cells = np.array(board)
        observation = torch.tensor(np.concatenate([cells == 1, cells == -1])[None]).float()
        with torch.no_grad():
            if hasattr(model, "q_net"):
                return float(model.q_net(observation)[0, cells == 0].max())
            return float(model.policy.predict_values(observation))

    return values


def check_model(model):
    """Return the checks of a model's moves and of its values."""
    return check_agent(as_policy(model, Game()), own_play=True), check_values(value_head(model))
