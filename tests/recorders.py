"""An opponent whose player remembers the positions in which it has moved."""

import numpy as np

from ttt_envs import Policy
from ttt_envs.agents.policy import Player


class Counting(Policy):
    """Plays the empty cell whose index among them is the number of moves that its player
    remembers.
    """

    pure = False

    def __init__(self, game):
        self.game = game

    def player(self):
        return Memory()


class Memory(Player):
    """``positions`` are those since the game began."""

    def begin(self, slots):
        self.positions = []

    def act(self, boards, slots, rng, time_left=None):
        empty = np.flatnonzero(boards.cells[0] == 0)
        cell = empty[len(self.positions) % len(empty)]
        self.positions.append(boards.position(0))
        return np.array([cell])
