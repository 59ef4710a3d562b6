"""perfect-game-player: minimax and alpha-beta, to the end."""

from pgameplayer.minimax_tree import NINF, PINF, alpha_beta_pruning_minimax, minimax

from examples.outside.position import Position


class State(Position):
    if_leaf = Position.over
    evaluate = Position.get_result
    state = property(lambda self: self.action)

    def generate_moves(self, player):
        return self.children()


def search(game, board, evaluator, simulations, seed):
    root = State(game, board)
    value = alpha_beta_pruning_minimax(root, root.mover == 1, NINF, PINF)
    return root.best_move, root.mover * value


def plain_minimax(game, board, evaluator, simulations, seed):
    root = State(game, board)
    action, value = minimax(root, root.mover == 1)
    return action, root.mover * value
