"""TorchRL's PPO as an agent of the benchmark ttt-exact.

A collector steps the environment, which raises an exception when all steps are taken; ``MaskedCategorical`` reads the
masks. In self-play the agent moves for both players. So rewards and values are those of player 0 there: ``GAE`` then
computes advantages of player 0, and those of moves of player 1 are their negatives.

    pip install torchrl
    python evaluate.py bench run --agent examples.bench_torchrl:PPO --task random --out submissions/torchrl-ppo

The file is examples/bench_torchrl.py.
"""

import gymnasium
import numpy as np
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import ActionMask, Compose, DTypeCastTransform, GymWrapper, TransformedEnv
from torchrl.modules import MaskedCategorical, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

SETTINGS = {
    "rollout": 512,
    "epochs": 4,
    "batch": 128,
    "learning_rate": 1e-3,
    "gae_lambda": 0.95,
    "max_grad_norm": 0.5,
    "hidden": 128,
}


class PPO:
    """An agent: `model` is its policy, of which the move of highest probability is played, and `critic` its values."""

    library, returns = "torchrl", "values"

    def __init__(self, task, seed):
        torch.manual_seed(seed)
        torch.set_num_threads(1)  # for a small net, more threads only wait for each other
        self.hyperparameters = SETTINGS
        self.both = task.opponent == "self"
        cells = task.games[0].cells
        inputs = 2 * cells + task.observe_skip_chance
        self.model, self.critic = make_net(inputs, cells), make_net(inputs, 1)

    def learn(self, env, steps):
        """Collect a rollout, learn from it, and begin again, until the environment ends it."""
        actor = ProbabilisticActor(
            TensorDictModule(self.model, in_keys=["observation"], out_keys=["logits"]),
            in_keys={"logits": "logits", "mask": "action_mask"},
            distribution_class=MaskedCategorical,
            return_log_prob=True,
        )
        critic = TensorDictModule(PlayerZero(self.critic), ["observation", "sign"], ["state_value"])
        advantage = GAE(gamma=1.0, lmbda=SETTINGS["gae_lambda"], value_network=critic)
        loss = ClipPPOLoss(actor, critic, normalize_advantage=True)
        optimizer = torch.optim.Adam(loss.parameters(), lr=SETTINGS["learning_rate"])
        size = SETTINGS["rollout"]
        for data in Collector(self.transform(env), actor, frames_per_batch=size, total_frames=-1):
            for _ in range(SETTINGS["epochs"]):
                with torch.no_grad():
                    advantage(data)
                data["advantage"] *= data["sign"]
                for part in data.reshape(-1)[torch.randperm(size)].split(SETTINGS["batch"]):
                    losses = loss(part)
                    optimizer.zero_grad()
                    sum(value for name, value in losses.items() if name.startswith("loss_")).backward()
                    nn.utils.clip_grad_norm_(loss.parameters(), SETTINGS["max_grad_norm"])
                    optimizer.step()

    def transform(self, env):
        """Return the environment as TorchRL steps it, with boolean masks."""
        games = GymWrapper(Masked(env, self.both), categorical_action_encoding=True)
        to_bool = DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"])
        return TransformedEnv(games, Compose(to_bool, ActionMask()))


class PlayerZero(nn.Module):
    """The value of a position for player 0, from a net for the player who moves."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, observation, sign):
        """Return the values; the sign is that of the player who moves."""
        return sign * self.net(observation)


class Masked(gymnasium.Wrapper):
    """Observations with masks and the sign of the player who moves; rewards in self-play are those of player 0."""

    def __init__(self, env, both):
        super().__init__(env)
        self.both, self.sign = both, 1.0
        cells = env.action_space.n
        self.observation_space = gymnasium.spaces.Dict(
            observation=env.observation_space,
            action_mask=gymnasium.spaces.Box(0, 1, (cells,), np.int8),
            sign=gymnasium.spaces.Box(-1, 1, (1,), np.float32),
        )

    def reset(self, **options):
        """Begin a game."""
        observation, info = self.env.reset(**options)
        return self.show(observation, info), {}

    def step(self, action):
        """Make a move."""
        sign = self.sign
        observation, reward, terminated, truncated, info = self.env.step(int(action))
        return self.show(observation, info), sign * float(reward), terminated, truncated, {}

    def show(self, observation, info):
        """Return the entries of TorchRL's data."""
        self.sign = -1.0 if self.both and info["mover"] == 1 else 1.0
        return {
            "observation": observation,
            "action_mask": info["action_mask"],
            "sign": np.array([self.sign], np.float32),
        }


def make_net(inputs, outputs):
    """Return a net with two hidden layers."""
    hidden = SETTINGS["hidden"]
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, outputs)
    )
