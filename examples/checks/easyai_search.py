"""easyAI's ``Negamax`` in ``check_search``: it searches to the end, and has no evaluator.

It is right where turns alternate. It negates at every ply, so it cannot play games in which a
player moves twice.

    pip install easyAI
    python evaluate.py check search examples.checks.easyai_search:search --evaluator none
"""

import copy

from easyAI import Negamax, TwoPlayerGame


class TableGame(TwoPlayerGame):
    """A position as easyAI asks for it; the score is that of the player to move."""

    def __init__(self, table, board):
        self.table = table
        self.board = board
        self.score = None
        self.current_player = 1

    def possible_moves(self):
        return self.table.legal_actions(self.board)

    def make_move(self, action):
        again = self.table.again[self.table.index(self.board), action] == 1
        self.board, reward, over = self.table.step(self.board, action, again)
        self.score = -reward if over else None
        if again:
            self.switch_player()  # easyAI switches after each move

    def is_over(self):
        return self.score is not None

    def scoring(self):
        return self.score or 0

    def copy(self):
        return copy.copy(self)


def search(game, board, evaluator, simulations, seed):
    algorithm = Negamax(len(board))
    action = algorithm(TableGame(game, board))
    return action, algorithm.alpha
