"""Stable-Baselines3's PPO without masks, measured exactly during training by a callback like its
EvalCallback.

``illegal_action="penalize"`` makes it try again at a cost of 1, so that games are long enough to
learn from. The callback plays no games: its results are exact, and the model learns the same with
and without it. With ``deterministic=False`` it measures PPO's distribution over the legal moves,
else its best legal move.

    pip install stable-baselines3
    python examples/sb3_ppo.py --steps 30000
"""

import argparse

import torch
import torch._dynamo  # noqa: F401  # before a library that imports TensorFlow where it is installed: docs/install.md
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from ttt_envs import Game, as_policy
from ttt_eval.exact import exploitability, match_outcome
from ttt_eval.runs.sb3_callback import ExactEvalCallback

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--steps", type=int, default=30_000, help="moves that it learns from")
parser.add_argument(
    "--opponent", default="optimal:epsilon=0.5", help="whom it learns against, a spec string"
)
parser.add_argument("--seed", type=int, default=0, help="of all that is drawn")
options = parser.parse_args()
torch.set_num_threads(1)  # for a small net, more threads only wait for each other

game = Game(3, 3, 3)
settings = {"opponent": options.opponent, "seat": "alternate", "illegal_action": "penalize"}
envs = make_vec_env("ttt_envs:ttt/TicTacToe-v0", n_envs=16, seed=options.seed, env_kwargs=settings)
model = PPO(
    "MlpPolicy", envs, n_steps=64, batch_size=256, n_epochs=5, learning_rate=1e-3, gamma=1.0,
    ent_coef=0.01,
    seed=options.seed, device="cpu",
)  # fmt: skip
# number of calls of the callback, each a step of all games
eval_freq = max(1, options.steps // (6 * envs.num_envs))
exact = ExactEvalCallback(game, "random", eval_freq=eval_freq, deterministic=False, verbose=0)
model.learn(options.steps, exact)

print("   steps  exploitability     win    loss   of its distribution, against random")
for line in exact.evaluations:
    print(
        f"{line['timesteps']:8,}  {line['exploitability']:14.4f}  {line['win']:6.2%}  "
        f"{line['loss']:6.2%}"
    )

policy = as_policy(model, game)
for opponent in ("random", "optimal"):
    result = match_outcome(game, policy, opponent)
    print(
        f"against {opponent}: {result.win:.2%} won, {result.draw:.2%} drawn, {result.loss:.2%} lost"
    )
print(f"exploitability: {exploitability(game, policy):.4f}")
