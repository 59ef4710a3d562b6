"""gamesolver: a table of all positions. A move is a cell."""

from gamesolver.Solvers.Solver import Solver
from gamesolver.util import GameValue

from examples.outside.position import Position


class State(Position):
    generateMoves = Position.actions
    doMove = Position.after
    serialize = Position.key

    def primitive(self):
        if self.result is None:
            return GameValue.UNDECIDED
        return GameValue.LOSE if self.result else GameValue.TIE


SOLVER = Solver()


def search(game, board, evaluator, simulations, seed):
    return SOLVER.generateMove(State(game, board))
