"""A drawing move is played whatever its name is (python -m unittest test_falsy_move.py)."""

import unittest

from gamesolver.Games.TTT import TTT
from gamesolver.Solvers.Solver import Solver


class NumberedTTT(TTT):
    """Cells are numbered from 0 to 8."""

    def generateMoves(self):
        return [3 * row + column for row, column in super().generateMoves()]

    def doMove(self, move):
        game = super().doMove(divmod(move, 3))
        game.__class__ = NumberedTTT
        return game


class TestSolver(unittest.TestCase):
    def test_the_move_0_is_played_where_it_alone_draws(self):
        game = NumberedTTT(turn="O")
        game.board = [list("_X_"), list("XOO"), list("XOX")]  # O at 2 loses to X at 0
        game.numPieces = 7
        self.assertEqual({Solver().generateMove(game) for _ in range(5)}, {0})
