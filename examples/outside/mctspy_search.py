"""mctspy: UCT with rollouts."""

from mctspy.tree.nodes import TwoPlayersGameMonteCarloTreeSearchNode
from mctspy.tree.search import MonteCarloTreeSearch

from examples.outside.position import Position, by_action


class State(Position):
    next_to_move = property(Position.get_mover)
    game_result = property(Position.get_result)
    get_legal_actions = Position.actions
    is_game_over = Position.over
    move = Position.after


def search(game, board, evaluator, simulations, seed):
    root = TwoPlayersGameMonteCarloTreeSearchNode(State(game, board))
    MonteCarloTreeSearch(root).best_action(simulations)
    visits = by_action(game, {child.state.action: child.n for child in root.children})
    return visits, sum(child.q for child in root.children) / visits.sum()
