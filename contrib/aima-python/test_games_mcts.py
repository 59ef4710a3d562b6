"""For tests/test_games.py: Monte Carlo tree search tells a draw from a loss (pytest)."""

from aima.games import GameState, TicTacToe, monte_carlo_tree_search


def test_monte_carlo_tree_search_prefers_a_draw_to_a_loss():
    #  X O X
    #  X O O     O to move: (3, 1) draws, (3, 3) loses to (3, 1)
    #  . X .
    rows = "XOX", "XOO", ".X."
    cells = {(r, c): rows[r - 1][c - 1] for r in (1, 2, 3) for c in (1, 2, 3)}
    board = {cell: player for cell, player in cells.items() if player != "."}
    for moves in [(3, 1), (3, 3)], [(3, 3), (3, 1)]:
        state = GameState(to_move="O", utility=0, board=board, moves=moves)
        assert monte_carlo_tree_search(state, TicTacToe()) == (3, 1)
