"""The loop of CleanRL's ``ppo.py`` in torch, with masks and the sign of self-play."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

EPOCHS = 4
GAE_LAMBDA = 0.95
CLIP = 0.2
ENTROPY_COEFFICIENT = 0.1
VALUE_COEFFICIENT = 0.25
MAX_GRAD_NORM = 0.5


class CleanRLTraining:
    """PPO in self-play on tic-tac-toe.

    Args:
        num_envs: games in parallel.
        num_steps: steps of a rollout.
        minibatch: samples of a minibatch.
    """

    def __init__(self, num_envs: int, num_steps: int, minibatch: int) -> None:
        torch.set_num_threads(1)
        self.env = gymnasium.make_vec(
            "ttt_envs:ttt/TicTacToe-v0", num_envs=num_envs, opponent="self"
        )
        trunk = nn.Sequential(nn.Linear(18, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.net = nn.Sequential(trunk, nn.Linear(64, 10))
        self.adam = torch.optim.Adam(self.net.parameters(), 3e-3, eps=1e-5)
        self.minibatch = minibatch
        shape = num_steps, num_envs
        self.observations = torch.zeros(*shape, 18)
        self.masks = torch.zeros(*shape, 9, dtype=torch.bool)
        self.actions = torch.zeros(shape, dtype=torch.long)
        self.plays = torch.zeros(shape, dtype=torch.bool)
        self.rewards = torch.zeros(shape)
        self.discounts = torch.zeros(shape)
        self.old_log_p = torch.zeros(shape)
        self.values = torch.zeros(num_steps + 1, num_envs)
        self.finished = 0
        self.over = np.zeros(num_envs, bool)
        self.obs, self.info = self.env.reset(seed=0)

    def evaluate(self, obs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logarithms of probabilities, and the values."""
        outputs = self.net(obs)
        return outputs[:, :9].masked_fill(~mask, -1e8).log_softmax(1), outputs[:, 9]

    @torch.no_grad()
    def collect(self) -> None:
        """Play a rollout."""
        for t in range(len(self.actions)):
            self.observations[t] = torch.from_numpy(self.obs)
            self.masks[t] = torch.from_numpy(self.info["action_mask"]).bool()
            self.plays[t] = torch.from_numpy(~self.over)
            mover = self.info["mover"]
            log_p, self.values[t] = self.evaluate(self.observations[t], self.masks[t])
            self.actions[t] = torch.multinomial(log_p.exp(), 1)[:, 0]
            self.old_log_p[t] = log_p.gather(1, self.actions[t][:, None])[:, 0]
            step = self.env.step(self.actions[t].numpy())
            self.obs, reward, self.over, _, self.info = step
            self.rewards[t] = torch.from_numpy(reward)
            sign = np.where(self.info["mover"] == mover, 1.0, -1.0)
            self.discounts[t] = torch.from_numpy(sign * ~self.over)
            self.finished += int(self.over.sum())
        mask = torch.from_numpy(self.info["action_mask"]).bool()
        self.values[-1] = self.evaluate(torch.from_numpy(self.obs), mask)[1]

    def estimate_advantages(self) -> Tensor:
        """Return GAE."""
        advantages = torch.zeros_like(self.rewards)
        carried = torch.zeros_like(self.rewards[0])
        for t in reversed(range(len(advantages))):
            following = self.values[t + 1] + GAE_LAMBDA * carried
            carried = self.rewards[t] + self.discounts[t] * following - self.values[t]
            advantages[t] = carried
        return advantages

    def loss(
        self, obs: Tensor, mask: Tensor, action: Tensor, old_log_p: Tensor, advantage: Tensor,
        target: Tensor,
    ) -> Tensor:  # fmt: skip
        """Return the loss of a minibatch."""
        log_p, value = self.evaluate(obs, mask)
        ratio = (log_p.gather(1, action[:, None])[:, 0] - old_log_p).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
        policy_loss = -torch.minimum(ratio * advantage, clipped * advantage).mean()
        entropy = -(log_p.exp() * log_p).sum(1).mean()
        value_loss = ((value - target) ** 2).mean()
        return policy_loss - ENTROPY_COEFFICIENT * entropy + VALUE_COEFFICIENT * value_loss

    def update(self) -> None:
        """Learn from a rollout, without the steps in which games begin again."""
        advantages = self.estimate_advantages()
        columns: list[Any] = [
            self.observations, self.masks, self.actions, self.old_log_p, advantages,
            advantages + self.values[:-1],
        ]  # fmt: skip
        batch = [column[self.plays] for column in columns]
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(batch[0])).split(self.minibatch):
                loss = self.loss(*(column[rows] for column in batch))
                self.adam.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), MAX_GRAD_NORM)
                self.adam.step()

    def run(self, games: int) -> None:
        """Train for a number of games."""
        while self.finished < games:
            self.collect()
            self.update()
