"""mcts: UCT with rollouts."""

from mcts import mcts

from examples.outside.position import Position, by_action


class State(Position):
    getCurrentPlayer = Position.get_mover
    getPossibleActions = Position.actions
    takeAction = Position.after
    isTerminal = Position.over
    getReward = Position.get_result


def search(game, board, evaluator, simulations, seed):
    tree = mcts(iterationLimit=simulations)
    tree.search(State(game, board))
    visits = by_action(game, {a: child.numVisits for a, child in tree.root.children.items()})
    return visits, tree.root.state.mover * tree.root.totalReward / tree.root.numVisits
