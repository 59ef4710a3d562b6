"""Tianshou's DQN as an agent of the benchmark ttt-exact.

Tianshou reads masks from observations with the keys ``obs`` and ``mask``. Its collector steps the environment, which
raises an exception when all steps are taken. One thing is added for self-play, where the agent moves for both players:
the value of the next position counts negatively if the other player moves there.

    pip install "tianshou>=2"
    python evaluate.py bench run --agent examples.bench_tianshou:DQN --task random --out submissions/tianshou-dqn

The file is examples/bench_tianshou.py.
"""

import gymnasium
import numpy as np
import torch
import torch._dynamo  # noqa: F401  # before a library that imports TensorFlow where it is installed: docs/install.md
from tianshou import algorithm
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, ReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

SETTINGS = {
    "buffer": 50_000,
    "collect": 16,
    "updates_per_step": 0.125,
    "batch": 128,
    "learning_rate": 1e-3,
    "target_interval": 125,
    "epsilon": (1.0, 0.1),
    "exploration_share": 0.5,
    "hidden": [128, 128],
}


class DQN:
    """An agent: `model` gives the values of all moves, of which the highest legal one is played."""

    library, returns, batch = "tianshou", "values", True

    def __init__(self, task, seed):
        np.random.seed(seed)  # noqa: NPY002  # from which Tianshou draws
        torch.manual_seed(seed)
        torch.set_num_threads(1)  # for a small net, more threads only wait for each other
        self.hyperparameters = SETTINGS
        self.steps, cells = task.steps, task.games[0].cells
        inputs = 2 * cells + task.observe_skip_chance
        self.net = Net(state_shape=inputs, action_shape=cells, hidden_sizes=SETTINGS["hidden"])
        policy = DiscreteQLearningPolicy(
            model=self.net, action_space=gymnasium.spaces.Discrete(cells), eps_training=SETTINGS["epsilon"][0]
        )
        self.algorithm = SignedDQN(
            policy=policy,
            optim=AdamOptimizerFactory(lr=SETTINGS["learning_rate"]),
            gamma=1.0,
            target_update_freq=SETTINGS["target_interval"],
        )

    def learn(self, env, steps):
        """Collect and learn, until the environment ends it."""
        games = DummyVectorEnv([lambda: Masked(env)])
        collector = Collector(self.algorithm, games, ReplayBuffer(SETTINGS["buffer"]), exploration_noise=True)
        collector.reset()
        self.algorithm.run_training(
            OffPolicyTrainerParams(
                training_collector=collector,
                max_epochs=1,
                epoch_num_steps=steps + SETTINGS["collect"],  # more than there are
                collection_step_num_env_steps=SETTINGS["collect"],
                update_step_num_gradient_steps_per_sample=SETTINGS["updates_per_step"],
                batch_size=SETTINGS["batch"],
                training_fn=self.explore,
                show_progress=False,
                verbose=False,
            )
        )

    def explore(self, epoch, taken):
        """Decrease epsilon linearly."""
        first, last = SETTINGS["epsilon"]
        share = min(1.0, taken / (SETTINGS["exploration_share"] * self.steps))
        self.algorithm.policy.set_eps_training(first + share * (last - first))

    def model(self, observation, mask):
        """Return the values of all moves for a batch of observations."""
        with torch.no_grad():
            return self.net(observation)[0]


class SignedDQN(algorithm.DQN):
    """DQN in which a value counts for the player who moves: negatively if it is the other one who moves next."""

    def _target_q(self, buffer, indices):
        values, rows = super()._target_q(buffer, indices), buffer[indices]
        same = rows.obs.mover == rows.obs_next.mover
        return values * torch.as_tensor(np.where(same, 1.0, -1.0), dtype=values.dtype)


class Masked(gymnasium.Wrapper):
    """Observations with the mask as Tianshou reads it, and with the player who moves."""

    def reset(self, **options):
        """Begin a game."""
        observation, info = self.env.reset(**options)
        return self.show(observation, info), {}

    def step(self, action):
        """Make a move."""
        observation, reward, terminated, truncated, info = self.env.step(int(action))
        return self.show(observation, info), reward, terminated, truncated, {}

    def show(self, observation, info):
        """Return the observation of Tianshou's policy."""
        return {"obs": observation, "mask": info["action_mask"], "mover": info["mover"]}
