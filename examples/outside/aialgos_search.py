"""aialgos: minimax and alpha-beta, to the end."""

from functools import partial

from aialgos.adversarial import alpha_beta_best_move, minimax_best_move

from examples.outside.position import Position


def search(game, board, evaluator, simulations, seed, best_move=alpha_beta_best_move):
    root = Position(game, board)

    def score(state):
        return root.mover * (state.result or 0)

    return best_move(root, Position.children, score, len(board)).action


minimax = partial(search, best_move=minimax_best_move)
