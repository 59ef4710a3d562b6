"""Stable-Baselines3's DQN, which has no masks: it learns that an illegal move loses, and is then
measured exactly.

``as_policy`` plays the model's best *legal* move, so the measurement shows its knowledge of the
game. Its knowledge of the rules is the share of positions in which its best move of all is legal.

    pip install stable-baselines3
    python examples/sb3_dqn.py --steps 30000
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch._dynamo  # noqa: F401  # before a library that imports TensorFlow where it is installed: docs/install.md
import tyro
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env

from ttt_envs import Game, as_policy
from ttt_eval.exact import result_lines


@dataclass
class Options:
    """What the command line sets."""

    steps: int = 30_000
    """moves that it learns from"""
    opponent: str = "optimal:epsilon=0.5"
    """whom it learns against, a spec string"""
    seed: int = 0
    """of all that is drawn"""


options = tyro.cli(Options, description=__doc__)
torch.set_num_threads(1)  # for a small net, more threads only wait for each other

game = Game(3, 3, 3)
settings = {"opponent": options.opponent, "seat": "alternate", "illegal_action": "lose"}
envs = make_vec_env("ttt_envs:ttt/TicTacToe-v0", n_envs=8, seed=options.seed, env_kwargs=settings)
model = DQN(
    "MlpPolicy", envs, gamma=1.0, learning_rate=1e-3, learning_starts=1_000, train_freq=1,
    target_update_interval=1_000,
    exploration_fraction=0.5, policy_kwargs={"net_arch": [128, 128]}, seed=options.seed,
    device="cpu",
)  # fmt: skip
model.learn(options.steps)

legal = []
for _ in range(200):
    observations = envs.reset()
    over = np.zeros(envs.num_envs, bool)
    while not over.any():
        masks = np.stack(envs.env_method("action_masks"))
        actions, _ = model.predict(observations, deterministic=True)
        legal.extend(masks[np.arange(len(actions)), actions])
        observations, _, over, _ = envs.step(actions)
print(f"best move of all is legal: {np.mean(legal):.2%} of {len(legal)} positions that it met")

policy = as_policy(model, game)
print(result_lines(game, policy))
