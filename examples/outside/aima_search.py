"""aima-python: UCT with rollouts, in a checkout."""

from aima.games import monte_carlo_tree_search

from examples.outside.position import Position


class Rules:
    actions = staticmethod(Position.actions)
    result = staticmethod(Position.after)
    terminal_test = staticmethod(Position.over)
    to_move = staticmethod(Position.get_mover)

    def utility(self, state, player):
        return player * state.result


def search(game, board, evaluator, simulations, seed):
    return monte_carlo_tree_search(Position(game, board), Rules(), simulations)
