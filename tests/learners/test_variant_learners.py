"""Values one ply ahead, lines and guided searches by other rules; test_learner_conformance.py has
the learners.
"""

import numpy as np
import plain
import pytest
from numpy.testing import assert_array_equal
from small_games import SKIP_GAME

from learners.mlp import line_states
from ttt_envs import Boards, Game
from ttt_envs.game.boards import one_ply_ahead
from ttt_envs.game.rules import chance_outcomes


@pytest.mark.parametrize(
    "game",
    [
        SKIP_GAME,
        Game(3, 5, 3, 0.1, gravity=True, torus=True),
        Game(3, 3, 3, overlines=False),
        Game(3, 3, 3, misere=True),
    ],
    ids=str,
)
def test_one_ply_ahead_is_the_mean_over_outcomes(game):
    boards = plain.positions_of_random_play(game, 50)

    def values(positions):
        return positions.cells @ np.arange(game.cells) / 100 + positions.mover / 7

    means = one_ply_ahead(game, boards, values)
    assert_array_equal(np.isnan(means), ~boards.legal(game))
    for row, cell in np.argwhere(boards.legal(game)).tolist():
        position = boards.position(row)
        expected = 0.0
        for chance, next_position, winner in chance_outcomes(game, position, cell):
            if winner is None:
                value = float(values(Boards.from_positions([next_position]))[0])
                expected += chance * (value if next_position.mover == position.mover else -value)
            else:
                expected += chance * {2: 0.0, position.mover: 1.0}.get(winner, -1.0)
        assert means[row, cell] == pytest.approx(expected, abs=1e-12)


def test_a_line_that_is_too_long_counts_as_closed():
    cells = plain.from_texts("ooooo/x.x.x/...../...../..... x").own_first()
    lines = np.array([[0, 1, 2, 3], [10, 11, 12, 13], [5, 6, 7, 8]])
    assert line_states(cells, lines).tolist() == [[7, 0, 2]]
