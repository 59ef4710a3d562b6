"""Tianshou's DQN (2.x) with masks, over the Gymnasium environment, measured exactly.

Tianshou reads masks from an observation with the keys ``obs`` and ``mask``: DQN then plays,
explores and bootstraps from legal moves alone. The opponent is part of the environment, so each
step leads from its own move to its own next move. (Tianshou's PettingZoo wrapper puts a policy into
each seat; see docs/clients.md. There, a DQN would bootstrap from the opponent's position as if it
were its own.)

    pip install "tianshou>=2"
    python examples/tianshou_dqn.py --steps 50000
"""

from dataclasses import dataclass

import gymnasium
import numpy as np
import torch
import torch._dynamo  # noqa: F401  # before a library that imports TensorFlow where it is installed: docs/install.md
import tyro
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

from ttt_envs import Game, as_policy
from ttt_eval.exact import result_lines


@dataclass
class Options:
    """What the command line sets."""

    steps: int = 50_000
    """moves that it learns from"""
    opponent: str = "optimal:epsilon=0.5"
    """whom it learns against, a spec string"""
    seed: int = 0
    """of all that is drawn"""


options = tyro.cli(Options, description=__doc__)
np.random.seed(options.seed)  # noqa: NPY002 - from which Tianshou draws
torch.manual_seed(options.seed)
torch.set_num_threads(1)  # for a small net, more threads only wait for each other


def make_env():
    """Return an environment whose observations have Tianshou's keys."""
    env = gymnasium.make(
        "ttt_envs:ttt/TicTacToe-v0", observation="dict", opponent=options.opponent,
        seat="alternate", illegal_action="raise",  # a forgotten mask is an error
    )  # fmt: skip
    return gymnasium.wrappers.TransformObservation(
        env, lambda shown: {"obs": shown["observation"], "mask": shown["action_mask"]}, None
    )


envs = DummyVectorEnv([make_env] * 16)
envs.seed(options.seed)
net = Net(state_shape=(3, 3, 2), action_shape=9, hidden_sizes=[128, 128])
policy = DiscreteQLearningPolicy(model=net, action_space=envs.action_space[0], eps_training=0.3)
algorithm = DQN(
    policy=policy, optim=AdamOptimizerFactory(lr=1e-3), gamma=1.0, target_update_freq=200
)
collector = Collector(
    algorithm, envs, VectorReplayBuffer(20_000, len(envs)), exploration_noise=True
)
collector.reset()
algorithm.run_training(
    OffPolicyTrainerParams(
        training_collector=collector,
        max_epochs=5,
        epoch_num_steps=options.steps // 5,
        collection_step_num_env_steps=64,
        update_step_num_gradient_steps_per_sample=0.05,
        batch_size=256,
        show_progress=False,
        verbose=False,
    )
)
game = Game(3, 3, 3)
agent = as_policy(lambda planes: net(planes)[0], game, "planes", "values", batch=True)
print(result_lines(game, agent))
