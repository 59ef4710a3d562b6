"""A position of the check's game, from which adapters of other libraries are derived."""

import copy

import numpy as np


class Position:
    """A position, with the names that adapters map to those of a library.

    Args:
        game: the game of the check.
        board: its numbers, 1 for a stone of the player to move.

    Attributes:
        mover: 1 or -1, who is to move; the first to move has number 1.
        result: 1, 0 or -1 for player 1 at the end, else None.
        action: the move that led here by :meth:`after`.
    """

    def __init__(self, game, board):
        self.game = game
        self.board = tuple(board)
        self.mover = 1 - 2 * (np.count_nonzero(board) % 2)
        self.result = None
        self.action = None

    def actions(self):
        """Return the legal actions; none at the end."""
        return self.game.legal_actions(self.board)

    def move(self, action):
        """Make a move."""
        again = self.game.again[self.game.index(self.board), action] == 1
        self.board, reward, over = self.game.step(self.board, action, again)
        self.result = reward * self.mover if over else None
        self.mover = self.mover if again else -self.mover

    def after(self, action):
        """Return the position after a move."""
        position = self.copy()
        Position.move(position, action)
        position.action = action
        return position

    def children(self):
        """Return the positions after all moves."""
        return [self.after(action) for action in self.actions()]

    def copy(self):
        """Return a copy."""
        return copy.copy(self)

    def __deepcopy__(self, memo):
        return self.copy()

    def restore(self, position):
        """Become a copy of another position."""
        vars(self).update(vars(position))

    def over(self):
        """Return whether the game is over."""
        return self.result is not None

    def get_mover(self):
        """Return who is to move."""
        return self.mover

    def get_result(self):
        """Return the result of player 1."""
        return self.result

    def key(self):
        """Return what tells positions apart."""
        return self.board, self.mover, self.result


def by_action(game, numbers):
    """Return numbers of actions, a dictionary, as an array."""
    visits = np.zeros(game.num_actions)
    for action, number in numbers.items():
        visits[action] = number
    return visits
