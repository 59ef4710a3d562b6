"""mcts-solver: UCT with rollouts and proofs."""

from mcts_solver.mcts_solver import AntLionMcts

from examples.outside.position import Position


class State(Position):
    getCurrentPlayer = Position.get_mover
    getPossibleActions = Position.actions
    takeAction = Position.after
    isTerminal = Position.over
    getReward = Position.get_result


def search(game, board, evaluator, simulations, seed):
    return AntLionMcts(iterationLimit=simulations).search(State(game, board))
