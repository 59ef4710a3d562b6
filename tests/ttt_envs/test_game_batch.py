"""What ``ttt_envs.envs.game_batch`` asks of an engine and environments do not show; the games are
compared with the reference in test_environments.py and test_vector_env.py.
"""

import numpy as np
import pytest

from ttt_envs.envs.config import BoardConfig, EnvConfig
from ttt_envs.envs.engine import make_games
from ttt_envs.envs.game_batch import pack_result, unpack_result
from ttt_envs.game.boards import from_text


def test_a_reset_to_a_position_and_a_seat_lets_the_opponent_reply():
    rows = np.arange(3)
    games = make_games(EnvConfig(), len(rows))
    position = from_text("ox./.../..o x")
    out = games.output()
    games.reset(rows, out, position=position, seat=0)
    assert (games.column("stones") == 4).all()
    assert (out["seat"] == 0).all()
    assert (out["planes"][:, 0] == (position.cells == 1)).all()


@pytest.mark.parametrize("size", [3, 8])
def test_a_result_in_one_number_has_the_mover_and_the_outcome(size):
    games = make_games(BoardConfig(size=size, win_length=3), 1)
    out = games.output()
    games.reset(np.zeros(1, np.int64), out)
    results = [unpack_result(games.step_one(action, out)) for action in (0, size, 1, size + 1, 2)]
    assert results == [(1, -1), (0, -1), (1, -1), (0, -1), (0, 0)]
    assert unpack_result(games.step_one(2, games.output())) == (0, 0)  # the game is over
    assert all(
        unpack_result(pack_result(mover, outcome)) == (mover, outcome)
        for mover in (0, 1)
        for outcome in range(-1, 6)
    )
