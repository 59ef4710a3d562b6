"""pyplAI: UCT with rollouts, ended by a clock that counts its calls, and minimax."""

from itertools import count
from types import SimpleNamespace

from pyplAI import MCTS, Algoritmos, Minimax

from examples.outside.position import Position


class State(Position):
    jugadorActual = property(lambda self: (3 - self.mover) // 2)


RULES = (
    State.after,
    State.actions,
    State.over,
    lambda state, number: state.result == 3 - 2 * number,
)


def search(game, board, evaluator, simulations, seed):
    Algoritmos.time = SimpleNamespace(time=count().__next__)
    return MCTS(*RULES, 2, simulations + 1).ejecuta(State(game, board))


def minimax(game, board, evaluator, simulations, seed):
    return Minimax(*RULES, lambda state, number: 0, 2, len(board)).ejecuta(State(game, board))
