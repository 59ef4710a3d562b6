"""PPO in one file, in the style of CleanRL, as an agent of the benchmark ttt-exact.

`make(task, seed)` is the class itself. `learn` never ends by itself: the environment raises an
exception when all steps are taken. Two things differ from PPO elsewhere. Masks are used when moves
are sampled, and when their probabilities are computed again. In self-play the agent moves for both
players, so the value of the next position counts with the sign of whose turn it is: +1 if the same
player moves again, -1 if the other one does, 0 if the game is over.

    pip install torch
    python evaluate.py bench run --agent examples.bench_ppo:PPO --task random --out submissions/ppo

The file is examples/bench_ppo.py.
"""

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

SETTINGS = {
    "rollout": 512,
    "epochs": 4,
    "batch": 128,
    "learning_rate": 1e-3,
    "gae_lambda": 0.95,
    "clip": 0.2,
    "entropy": 0.01,
    "value_weight": 0.5,
    "max_grad_norm": 0.5,
    "hidden": 128,
}


class PPO:
    """An agent: `model` is its policy, of which the move of highest probability is played, and
    `critic` its values.
    """

    returns = "values"

    def __init__(self, task, seed):
        torch.manual_seed(seed)
        torch.set_num_threads(1)  # for a small net, more threads only wait for each other
        self.hyperparameters = SETTINGS
        self.both = task.opponent == "self"
        cells = task.games[0].cells
        inputs = 2 * cells + task.observe_skip_chance
        self.model = make_net(inputs, cells)
        self.critic = make_net(inputs, 1)
        self.parameters = [*self.model.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=SETTINGS["learning_rate"])

    def learn(self, env, steps):
        """Collect a rollout, learn from it, and begin again."""
        observation, info = env.reset()
        while True:
            rows = []
            for _ in range(SETTINGS["rollout"]):
                row, (observation, info) = self.step(env, observation, info)
                rows.append(row)
            self.update(rows, observation)

    def step(self, env, observation, info):
        """Return what is learned from one move, and what is seen next."""
        obs = torch.as_tensor(observation)
        mask = torch.as_tensor(info["action_mask"])
        with torch.no_grad():
            moves = self.distribution(obs, mask)
            action = moves.sample()
            value = self.critic(obs).squeeze(-1)
        next_observation, reward, terminated, truncated, next_info = env.step(int(action))
        sign = -1.0 if self.both and next_info["mover"] != info["mover"] else 1.0
        if terminated or truncated:
            sign = 0.0
            next_observation, next_info = env.reset()
        row = (obs, mask, action, moves.log_prob(action), value, float(reward), sign)
        return row, (next_observation, next_info)

    def update(self, rows, observation):
        """Make the updates from a rollout; `observation` follows its last move."""
        columns = list(zip(*rows, strict=True))
        obs, mask, action, log_prob, value = map(torch.stack, columns[:5])
        reward, sign = map(np.array, columns[5:])
        with torch.no_grad():
            next_value = float(self.critic(torch.as_tensor(observation)))
        advantage = np.zeros(len(rows), np.float32)
        carried = 0.0
        for t in reversed(range(len(rows))):  # generalized advantage estimation, backwards in time
            delta = reward[t] + sign[t] * next_value - float(value[t])
            carried = delta + SETTINGS["gae_lambda"] * sign[t] * carried
            advantage[t] = carried
            next_value = float(value[t])
        gain = torch.as_tensor(advantage)
        target = gain + value
        for _ in range(SETTINGS["epochs"]):
            for part in torch.randperm(len(rows)).split(SETTINGS["batch"]):
                moves = self.distribution(obs[part], mask[part])
                ratio = (moves.log_prob(action[part]) - log_prob[part]).exp()
                scaled = (gain[part] - gain[part].mean()) / (gain[part].std() + 1e-8)
                clipped = ratio.clamp(1 - SETTINGS["clip"], 1 + SETTINGS["clip"])
                actor_loss = -torch.min(ratio * scaled, clipped * scaled).mean()
                critic_loss = (self.critic(obs[part]).squeeze(1) - target[part]).square().mean()
                loss = actor_loss + SETTINGS["value_weight"] * critic_loss
                loss = loss - SETTINGS["entropy"] * moves.entropy().mean()
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.parameters, SETTINGS["max_grad_norm"])
                self.optimizer.step()

    def distribution(self, obs, mask):
        """Return the distribution over the moves of the mask."""
        return Categorical(logits=self.model(obs).masked_fill(mask == 0, -1e8))


def make_net(inputs, outputs):
    """Return a net with two hidden layers."""
    hidden = SETTINGS["hidden"]
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.Tanh(),
        nn.Linear(hidden, hidden),
        nn.Tanh(),
        nn.Linear(hidden, outputs),
    )
