"""easyAI: four searches to the end. The score is that of the player to move."""

from functools import partial

import easyAI

from examples.outside.position import Position


class State(Position, easyAI.TwoPlayerGame):
    current_player = None
    possible_moves = Position.actions
    is_over = Position.over
    make_move = Position.move
    ttentry = Position.copy
    ttrestore = Position.restore

    def switch_player(self):
        """Position.move has done it."""

    def scoring(self):
        return self.mover * (self.result or 0)


def search(game, board, evaluator, simulations, seed, kind=easyAI.Negamax):
    algorithm = kind(len(board))
    action = algorithm(State(game, board))
    return action, algorithm.alpha


sss = partial(search, kind=easyAI.SSS)
dual = partial(search, kind=easyAI.DUAL)
non_recursive = partial(search, kind=easyAI.NonRecursiveNegamax)
