"""sb3-contrib's MaskablePPO, with masks in training and in evaluation, where they are easily
forgotten.

MaskablePPO finds the environment's ``action_masks()`` by itself during training.
Stable-Baselines3's own ``evaluate_policy`` passes no masks: the model then plays illegal moves and
loses by them. The script prints that number beside the correct one, from
``sb3_contrib.common.maskable.evaluation``, and the exact one, computed without games.

    pip install sb3-contrib
    python examples/sb3_maskable_ppo.py --steps 30000
"""

from dataclasses import dataclass

import torch
import torch._dynamo  # noqa: F401  # before a library that imports TensorFlow where it is installed: docs/install.md
import tyro
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy as evaluate_with_masks
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy as evaluate_without_masks

from ttt_envs import Game, as_policy
from ttt_eval.exact import match_outcome, result_lines


@dataclass
class Options:
    """What the command line sets."""

    steps: int = 30_000
    """moves that it learns from"""
    opponent: str = "optimal:epsilon=0.5"
    """whom it learns against, a spec string"""
    games: int = 1_000
    """of each evaluation that is sampled"""
    seed: int = 0
    """of all that is drawn"""


options = tyro.cli(Options, description=__doc__)
torch.set_num_threads(1)  # for a small net, more threads only wait for each other

game = Game(3, 3, 3)
settings = {"opponent": options.opponent, "seat": "alternate"}
name = "ttt_envs:ttt/TicTacToe-v0"
envs = make_vec_env(
    name, n_envs=16, seed=options.seed, env_kwargs={**settings, "illegal_action": "raise"}
)
model = MaskablePPO(
    "MlpPolicy", envs, n_steps=64, batch_size=256, n_epochs=5, learning_rate=1e-3, gamma=1.0,
    ent_coef=0.01,
    seed=options.seed, device="cpu",
)  # fmt: skip
model.learn(options.steps)

others = make_vec_env(
    name, n_envs=16, seed=options.seed + 100, env_kwargs={**settings, "illegal_action": "lose"}
)
wrong, _ = evaluate_without_masks(model, others, options.games)
right, _ = evaluate_with_masks(model, others, options.games)
policy = as_policy(model, game)  # masks are applied
result = match_outcome(game, policy, options.opponent)
print(f"mean result in {options.games} games, masks forgotten: {wrong:.4f}")
print(f"mean result in {options.games} games, with masks: {right:.4f}")
print(f"mean result, exactly: {result.value:.4f}")

print(result_lines(game, policy))
