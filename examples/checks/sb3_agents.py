"""Models of Stable-Baselines3 and sb3-contrib in ``check_agent`` and ``check_values``.

    pip install stable-baselines3 sb3-contrib
    python examples/checks/sb3_agents.py --steps 30000

``as_policy`` makes a model an agent that plays its best legal move; it is asked in positions that
its own play can reach, because it has learned from no others. The values are those of PPO's critic,
and DQN's largest value of a legal move. They are of games with the opponent of the training, who
makes mistakes, and without masks include the penalties of illegal moves.
"""

import argparse
import functools
import time

import numpy as np
import torch
import torch._dynamo  # noqa: F401  # before a library that imports TensorFlow where it is installed: docs/install.md
from sb3_contrib import MaskablePPO
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env

from ttt_envs import Game, as_policy
from ttt_eval.checks import check_agent, check_values

OPPONENT = "optimal:epsilon=0.5"
ILLEGAL = {PPO: "penalize", DQN: "penalize", MaskablePPO: "raise"}


def train(algorithm, steps, seed=0):
    """Return a model that has learned against the opponent, in both seats."""
    settings = {"opponent": OPPONENT, "seat": "alternate", "illegal_action": ILLEGAL[algorithm]}
    envs = make_vec_env("ttt_envs:ttt/TicTacToe-v0", n_envs=16, seed=seed, env_kwargs=settings)
    more = {"n_steps": 64, "batch_size": 256, "n_epochs": 5, "ent_coef": 0.01}
    if algorithm is DQN:
        more = {"learning_starts": 1_000, "gradient_steps": 16, "exploration_fraction": 0.5}
    model = algorithm(
        "MlpPolicy", envs, learning_rate=1e-3, gamma=1.0, seed=seed, device="cpu", **more
    )
    return model.learn(steps)


def value_head(model):
    """Return the values of a model as a function of a board."""

    def values(board):
        cells = np.array(board)
        observation = torch.tensor(np.concatenate([cells == 1, cells == -1])[None]).float()
        with torch.no_grad():
            if not isinstance(model, DQN):
                return float(model.policy.predict_values(observation))
            return float(model.q_net(observation)[0, cells == 0].max())

    return values


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=30_000, help="moves that each learns from")
    options = parser.parse_args()
    torch.set_num_threads(1)  # for a small net, more threads only wait for each other
    for algorithm in ILLEGAL:
        model = train(algorithm, options.steps)
        agent_check = functools.partial(check_agent, as_policy(model, Game()), own_play=True)
        value_check = functools.partial(check_values, value_head(model))
        for name, measure in (("agent", agent_check), ("values", value_check)):
            start = time.process_time()
            check = measure()
            print(check)
            seconds = time.process_time() - start
            title = f"{algorithm.__name__}, {name}"
            print(f"{title}: {check.verdict} ({seconds:.1f} CPU s)\n", flush=True)
