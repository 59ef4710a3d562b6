"""A vector environment in torch, from the arrays of a game, on any device: used as ``NumpyEnv``.

A game that is over begins again in its next step, whatever the action.
"""

import torch


class TorchEnv:
    """``num_games`` games at once; the state of each is a row of the arrays."""

    def __init__(self, arrays, num_games, device="cpu"):
        tables = (arrays.observations, arrays.legal, arrays.next, arrays.rewards)
        tensors = [torch.tensor(table, device=device) for table in tables]
        self.observations, self.legal, self.next, self.rewards = tensors
        self.skip_chance = arrays.skip_chance
        self.over = arrays.over
        self.state = torch.zeros(num_games, dtype=torch.int64, device=device)

    def step(self, action, skipped=None):
        """Return the rewards of those who moved, and which games are over."""
        if skipped is None:
            skipped = torch.rand(len(action), device=action.device) < self.skip_chance
        reward = self.rewards[self.state, action]
        self.state = self.next[self.state, action, skipped.long()].long()
        return reward, self.state == self.over

    def observe(self):
        """Return the observations of those who are to move, and their legal actions."""
        return self.observations[self.state], self.legal[self.state]
