"""Policies for tests of what plays against any policy."""

import random

import numpy as np
import plain

from ttt_envs import Policy
from ttt_envs.game.rules import legal


class FirstEmpty(Policy):
    """Takes the first empty cell."""

    def __init__(self, game=None):
        """Specs pass the game."""

    def __str__(self):
        return "first-empty"

    def probabilities(self, boards, rng=None):
        return np.eye(boards.cells.shape[1])[np.argmax(boards.cells == 0, axis=1)]


class Cheat(FirstEmpty):
    """Takes the first cell, also where it is not empty."""

    def act(self, boards, rng):
        rng.random(len(boards.mover))
        return np.zeros(len(boards.mover), np.int64)


def stuck(observation, mask):
    """A function that is stopped while it thinks."""
    raise KeyboardInterrupt


def drawn(observation, mask):
    """A random function."""
    return random.choice(np.flatnonzero(mask))


class Scripted(Policy):
    """Takes the first empty cell of a list, by default of all cells."""

    def __init__(self, *cells):
        self.cells = cells

    def probabilities(self, boards, rng=None):
        p = np.zeros(boards.cells.shape)
        for row, cells in enumerate(boards.cells):
            p[row, next(cell for cell in self.cells or range(len(cells)) if cells[cell] == 0)] = 1
        return p


class Drawn(FirstEmpty):
    """A random distribution over legal moves for each position; a share ``never`` of them has
    probability 0.
    """

    def __init__(self, game, seed=0, never=0.4):
        rng = np.random.default_rng(seed)
        self.powers = 3 ** np.arange(game.cells)
        empty = legal(game, plain.all_cells(game))
        shape = (2, *empty.shape)
        weights = rng.random(shape) * (rng.random(shape) >= never) * empty
        weights = np.where(weights.sum(axis=2, keepdims=True) > 0, weights, empty)
        self.table = weights / np.maximum(weights.sum(axis=2, keepdims=True), 1e-9)

    def probabilities(self, boards, rng=None):
        return self.table[boards.mover, boards.cells @ self.powers]


class Impure(Policy):
    """Draws its weights with the generator, and records the boards of its turns."""

    pure = False

    def __init__(self):
        self.boards = []

    def __repr__(self):
        return "Impure"

    def probabilities(self, boards, rng=None):
        self.boards.append(boards.cells.copy())
        p = (boards.cells == 0) * rng.random(boards.cells.shape) ** rng.integers(1, 4)
        return plain.shares_of(p)
