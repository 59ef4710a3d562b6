"""fastmcts: UCT with rollouts on the tic-tac-toe that it brings along."""

import numpy as np
from fastmcts.games.tictactoe import TicTacToeGameState
from fastmcts.tree.nodes import TwoPlayersGameMonteCarloTreeSearchNode
from fastmcts.tree.search import MonteCarloTreeSearch

from examples.outside.position import Position


def search(game, board, evaluator, simulations, seed):
    player = Position(game, board).mover
    state = TicTacToeGameState(player * np.reshape(board, (3, 3)), next_to_move=player)
    root = TwoPlayersGameMonteCarloTreeSearchNode(state)
    MonteCarloTreeSearch(root).best_action(simulations)
    visits = np.zeros((3, 3))
    for child in root.children:
        visits[child.parent_action.x_coordinate, child.parent_action.y_coordinate] = child.n
    return visits.ravel()
