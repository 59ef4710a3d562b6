"""RAVE takes a win in one move, as plain UCT does (pytest)."""

from game_sdk import mcts

LINES = (0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)


class TicTacToe:
    def __init__(self, board, player=1):
        self.board = board
        self.player = player

    def current_player(self):
        return self.player

    def get_legal_actions(self):
        return [] if self.is_game_over() else [i for i in range(9) if self.board[i] == 0]

    def move(self, action):
        return TicTacToe(
            [*self.board[:action], self.player, *self.board[action + 1 :]], -self.player
        )

    def is_game_over(self):
        return self.game_result() != 0 or 0 not in self.board

    def game_result(self):
        sums = [sum(self.board[i] for i in line) for line in LINES]
        return self.player * ((3 in sums) - (-3 in sums))


def test_rave_takes_a_win_in_one_move():
    tree = mcts.MCTS(
        selection_strategy=mcts.RAVESelectionStrategy(),
        simulation_strategy=mcts.RandomSimulationStrategy(track_moves=True),
        backpropagation_strategy=mcts.RAVEBackpropagationStrategy(),
    )
    game = TicTacToe([-1, 0, -1, 1, 0, 1, 0, 0, 0])  # 1 wins at 4
    assert {tree.search(game, 500) for _ in range(5)} == {4}
