"""Tianshou's DQN (2.x) with masks, over the Gymnasium environment, measured exactly.

Tianshou reads masks from an observation with the keys ``obs`` and ``mask``, and its collector takes
a vector of games that it resets by itself, some at a time: ``Games`` is ours in this form. The
games are those of Tianshou's ``DummyVectorEnv`` of single environments with the same seeds. DQN
then plays, explores and bootstraps from legal moves alone. The opponent is part of the environment,
so each step leads from its own move to its own next move. (Tianshou's PettingZoo wrapper puts a
policy into each seat; see docs/clients.md. There, a DQN would bootstrap from the opponent's
position as if it were its own.)

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
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

from ttt_envs import Game, as_policy
from ttt_eval.exact import exploitability, result_lines


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


class Games:
    """The vector environment as Tianshou's collector takes it, which must step all games, as with
    ``n_step``.
    """

    is_async = False

    def __init__(self, count, **settings):
        mode = gymnasium.vector.AutoresetMode.DISABLED
        name = "ttt_envs:ttt/TicTacToe-v0"
        self.games = gymnasium.make_vec(
            name, count, observation="dict", autoreset_mode=mode, **settings
        )
        self.action_space = [self.games.single_action_space] * count

    def __len__(self):
        return self.games.num_envs

    def seed(self, seed):
        """Seed game i with ``seed + i``."""
        self.games.reset(seed=seed)

    def reset(self, env_id=None, **options):
        """Begin new games, by default everywhere, and return their observations and infos."""
        rows = np.arange(len(self)) if env_id is None else np.asarray(env_id)
        mask = np.isin(np.arange(len(self)), rows)
        observation, _ = self.games.reset(options={"reset_mask": mask}, **options)
        return self.show(observation)[rows], self.infos()[rows]

    def step(self, action, id=None):
        """Make a move in every game."""
        observation, rewards, terminated, truncated, _ = self.games.step(np.asarray(action))
        return self.show(observation), rewards, terminated, truncated, self.infos()

    def show(self, observation):
        """Return the batch with Tianshou's keys; its arrays are those of the environment."""
        return Batch(obs=observation["observation"], mask=observation["action_mask"])

    def infos(self):
        """Return what the collector requires of infos."""
        return np.array([{"env_id": index} for index in range(len(self))])

    def close(self):
        """Close the games."""
        self.games.close()


game = Game(3, 3, 3)
epochs = 5
# a forgotten mask is an error
envs = Games(16, opponent=options.opponent, seat="alternate", illegal_action="raise")
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
for epoch in range(epochs):
    algorithm.run_training(
        OffPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=options.steps // epochs,
            collection_step_num_env_steps=64,
            update_step_num_gradient_steps_per_sample=0.05,
            batch_size=256,
            show_progress=False,
            verbose=False,
        )
    )
    agent = as_policy(lambda planes: net(planes)[0], Game(3, 3, 3), "planes", "values", batch=True)
    print(
        f"{options.steps // epochs * (epoch + 1):8,} moves, exploitability "
        f"{exploitability(game, agent):.4f}"
    )

print(result_lines(game, agent))
