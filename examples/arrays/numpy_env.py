"""A vector environment in NumPy, from the arrays of a game: self-play in a batch of games.

A game that is over begins again in its next step, whatever the action.

    python examples/arrays/numpy_env.py
"""

import numpy as np

from ttt_envs import Game
from ttt_envs.arrays import game_arrays


class NumpyEnv:
    """``num_games`` games at once; the state of each is a row of the arrays."""

    def __init__(self, arrays, num_games, seed=0):
        self.arrays = arrays
        self.rng = np.random.default_rng(seed)
        self.state = np.zeros(num_games, np.int32)

    def step(self, action, skipped=None):
        """Return the rewards of those who moved, and which games are over."""
        if skipped is None:
            skipped = self.rng.random(len(action)) < self.arrays.skip_chance
        reward = self.arrays.rewards[self.state, action]
        self.state = self.arrays.next[self.state, action, skipped.astype(np.int8)]
        return reward, self.state == self.arrays.over

    def observe(self):
        """Return the observations of those who are to move, and their legal actions."""
        return self.arrays.observations[self.state], self.arrays.legal[self.state]


if __name__ == "__main__":
    env = NumpyEnv(game_arrays(Game(skip_chance=0.25)), 10_000)
    rng = np.random.default_rng(1)
    wins = 0
    games = 0
    for _ in range(100):
        _, legal = env.observe()
        reward, over = env.step((rng.random(legal.shape) * legal).argmax(axis=1))
        wins += (reward == 1).sum()
        games += over.sum()
    print(f"random play: {games} games, {wins / games:.1%} end by a line")
