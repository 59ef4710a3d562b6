"""An opponent that prefers the border."""

import numpy as np


class Edges:
    """Plays a random cell at the border; inner cells if it is full, or if ``firmly`` is below 1."""

    pure = True  # a function of the board: it can be computed exactly

    def __init__(self, game, firmly: float = 1.0):
        rows, columns = np.divmod(np.arange(game.cells), game.columns)
        border = np.isin(rows, [0, game.rows - 1]) | np.isin(columns, [0, game.columns - 1])
        self.weight = np.where(border, 1.0, 1.0 - firmly + 1e-9)

    def probabilities(self, boards, rng=None):
        """float64[B, cells]: the probability of each legal move."""
        weight = np.where(boards.cells == 0, self.weight, 0.0)
        return weight / weight.sum(axis=1, keepdims=True)
