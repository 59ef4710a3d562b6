"""DQN in one file, in the style of CleanRL, as an agent of the benchmark ttt-exact.

`make(task, seed)` is the class itself. `learn` never ends by itself: the environment raises an
exception when all steps are taken. Masks are used in exploration, in play and in the target. In
self-play the agent moves for both players, so the value of the next position counts with the sign
of whose turn it is: +1 if the same player moves again, -1 if the other one does, 0 if the game is
over.

    pip install torch
    python evaluate.py bench run --agent examples.bench_dqn:DQN --task random --out submissions/dqn

The file is examples/bench_dqn.py.
"""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import smooth_l1_loss

SETTINGS = {
    "buffer": 50_000,
    "learning_starts": 500,
    "train_frequency": 4,
    "batch": 128,
    "learning_rate": 1e-3,
    "target_interval": 1_000,
    "epsilon": (1.0, 0.1),
    "exploration_share": 0.5,
    "hidden": 128,
}


class DQN:
    """An agent: `model` gives the values of all moves, of which the highest legal one is played."""

    returns = "values"

    def __init__(self, task, seed):
        torch.manual_seed(seed)
        torch.set_num_threads(1)  # for a small net, more threads only wait for each other
        self.rng = np.random.default_rng(seed)
        self.hyperparameters = SETTINGS
        self.both = task.opponent == "self"
        self.steps = task.steps
        cells = task.games[0].cells
        inputs = 2 * cells + task.observe_skip_chance
        self.model = make_net(inputs, cells)
        self.target = make_net(inputs, cells)
        self.target.load_state_dict(self.model.state_dict())
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=SETTINGS["learning_rate"])
        size = SETTINGS["buffer"]
        self.buffer = {
            "seen": np.zeros((size, inputs), np.float32),
            "action": np.zeros(size, np.int64),
            "reward": np.zeros(size, np.float32),
            "sign": np.zeros(size, np.float32),
            "next_seen": np.zeros((size, inputs), np.float32),
            "next_mask": np.zeros((size, cells), np.int8),
        }

    def learn(self, env, steps):
        """Play, store and learn."""
        observation, info = env.reset()
        taken = 0
        while True:
            action = self.explore(observation, info["action_mask"], taken)
            next_observation, reward, terminated, truncated, next_info = env.step(action)
            sign = -1.0 if self.both and next_info["mover"] != info["mover"] else 1.0
            is_over = terminated or truncated
            sign = 0.0 if is_over else sign
            row = (observation, action, reward, sign, next_observation, next_info["action_mask"])
            for name, value in zip(self.buffer, row, strict=True):
                self.buffer[name][taken % SETTINGS["buffer"]] = value
            observation, info = env.reset() if is_over else (next_observation, next_info)
            taken += 1
            if taken >= SETTINGS["learning_starts"] and taken % SETTINGS["train_frequency"] == 0:
                self.update(min(taken, SETTINGS["buffer"]))
            if taken % SETTINGS["target_interval"] == 0:
                self.target.load_state_dict(self.model.state_dict())

    def explore(self, observation, mask, taken):
        """Return an epsilon-greedy move; epsilon decreases linearly."""
        first, last = SETTINGS["epsilon"]
        share = min(1.0, taken / (SETTINGS["exploration_share"] * self.steps))
        if self.rng.random() < first + share * (last - first):
            return int(self.rng.choice(np.flatnonzero(mask)))
        with torch.no_grad():
            values = self.model(torch.as_tensor(observation)).numpy()
        return int(np.where(mask == 1, values, -np.inf).argmax())

    def update(self, size):
        """Make one update from a batch of the replay buffer, of which `size` rows are filled."""
        drawn = self.rng.integers(0, size, SETTINGS["batch"])
        data = {name: torch.as_tensor(column[drawn]) for name, column in self.buffer.items()}
        with torch.no_grad():
            values = self.target(data["next_seen"]).masked_fill(data["next_mask"] == 0, -1e8)
            # a full board has no legal move, and no value after the game is over
            ahead = torch.where(data["sign"] == 0, 0.0, data["sign"] * values.max(dim=1).values)
        chosen = self.model(data["seen"]).gather(1, data["action"][:, None]).squeeze(1)
        loss = smooth_l1_loss(chosen, data["reward"] + ahead)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def make_net(inputs, outputs):
    """Return a net with two hidden layers."""
    hidden = SETTINGS["hidden"]
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, outputs),
    )
