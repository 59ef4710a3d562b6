"""SSS agrees with Negamax, whatever the scale of the score (pytest)."""

import pytest

from easyAI import SSS, AI_Player, Negamax
from easyAI.games import TicTacToe

ALGORITHMS = [Negamax, SSS]  # DUAL does not end with small scores


class SmallScores(TicTacToe):
    def scoring(self):
        return -1 if self.lose() else 0


def make_game(kind):
    """O O X    player 1 (O) is to move and wins at 5, where X threatens to win too
    X . X
    . . O
    """
    game = kind([AI_Player(None), AI_Player(None)])
    game.board = [1, 1, 2, 2, 0, 2, 0, 0, 1]
    return game


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_win_is_taken_with_small_scores(algorithm):
    assert algorithm(3)(make_game(SmallScores)) == 5


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_argument_scoring_is_used(algorithm):
    ai_algo = algorithm(3, scoring=lambda game: 0)
    ai_algo(make_game(TicTacToe))
    assert ai_algo.alpha == 0
