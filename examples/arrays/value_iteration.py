"""Value iteration in ten lines: perfect play in every position, from the arrays of a game.

python examples/arrays/value_iteration.py
"""

import numpy as np

from ttt_envs import Game
from ttt_envs.arrays import game_arrays


def iterate_values(arrays):
    """Return the optimal values of positions for their movers, and those of actions."""
    values = np.zeros(arrays.over + 1)
    for _ in arrays.layers:  # as many sweeps as a game has moves
        other, again = np.moveaxis(values[arrays.next], 2, 0)
        expected = arrays.skip_chance * again - (1 - arrays.skip_chance) * other
        action_values = np.where(arrays.legal, arrays.rewards + expected, -np.inf)
        values = action_values.max(axis=1)
        values[arrays.over] = 0
    return values, action_values


if __name__ == "__main__":
    for skip_chance in (0.0, 0.25):
        values, action_values = iterate_values(game_arrays(Game(skip_chance=skip_chance)))
        print(f"skip chance {skip_chance}: the first player's value is {values[0]:.6f}")
        print(action_values[0].reshape(3, 3).round(4))
