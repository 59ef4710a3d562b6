"""mcts-solver: UCT with rollouts and proofs."""

from mcts_solver.mcts_solver import AntLionMcts

from examples.outside.mcts_package import State


def search(game, board, evaluator, simulations, seed):
    return AntLionMcts(iterationLimit=simulations).search(State(game, board))
