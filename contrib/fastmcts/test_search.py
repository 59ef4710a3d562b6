import numpy as np

from fastmcts.games.tictactoe import TicTacToeGameState
from fastmcts.tree.nodes import TwoPlayersGameMonteCarloTreeSearchNode
from fastmcts.tree.search import MonteCarloTreeSearch

BOARD = np.array([[1, 1, 0], [-1, -1, 0], [0, 0, 0]])


def best_result(board, next_to_move):
    """Result after the best move: 1 if x has won, -1 if o has won."""
    state = TicTacToeGameState(board, next_to_move=next_to_move)
    root = TwoPlayersGameMonteCarloTreeSearchNode(state=state)
    return MonteCarloTreeSearch(root).best_action(simulations_number=500).state.game_result


def test_if_1_takes_a_win():
    assert best_result(BOARD, 1) == 1


def test_if_minus_1_takes_a_win():
    assert best_result(-BOARD, -1) == -1
