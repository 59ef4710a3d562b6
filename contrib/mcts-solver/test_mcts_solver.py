"""A loss in one move is prevented (python -m unittest test_mcts_solver.py)."""

import unittest

from mcts_solver.mcts_solver import AntLionMcts

LINES = (0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)


class State:
    def __init__(self, board, player):
        self.board = board
        self.player = player

    def getCurrentPlayer(self):
        return self.player

    def getPossibleActions(self):
        return [cell for cell in range(9) if self.board[cell] == 0]

    def takeAction(self, action):
        board = [*self.board[:action], self.player, *self.board[action + 1 :]]
        return State(board, -self.player)

    def isTerminal(self):
        return self.getReward() != 0 or 0 not in self.board

    def getReward(self):
        sums = [sum(self.board[cell] for cell in line) for line in LINES]
        return (3 in sums) - (-3 in sums)


class TestSearch(unittest.TestCase):
    def test_a_loss_is_prevented(self):
        state = State([1, 1, 0, -1, 0, 0, 0, 0, 0], player=-1)  # else 1 wins at 2
        moves = {AntLionMcts(iterationLimit=1000).search(state) for _ in range(5)}
        self.assertEqual(moves, {2})
