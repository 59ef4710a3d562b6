"""monte-carlo-tree-search: UCT with rollouts."""

from mcts.searcher.mcts import MCTS

from examples.outside.position import Position, by_action


class State(Position):
    get_current_player = Position.get_mover
    get_possible_actions = Position.actions
    take_action = Position.after
    is_terminal = Position.over
    get_reward = Position.get_result


def search(game, board, evaluator, simulations, seed):
    tree = MCTS(iteration_limit=simulations)
    tree.search(State(game, board))
    visits = by_action(game, {a: child.numVisits for a, child in tree.root.children.items()})
    return visits, tree.root.state.mover * tree.root.totalReward / tree.root.numVisits
