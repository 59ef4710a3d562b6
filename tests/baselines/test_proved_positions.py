"""The results of single positions, against those of the solver."""

import numpy as np
import plain
import pytest

from baselines.exact import build
from baselines.proof_number import LOSS, TAKEN, TIED, UNDECIDED, WIN, Prover
from ttt_envs import Game
from ttt_envs.game.boards import from_text

SOLVED = [Game(), Game(3, 4, 3), Game(4, 4, 4), Game(4, 4, 3), Game(2, 5, 3), Game(1, 9, 3)]


@pytest.mark.parametrize(
    ("game", "nodes", "shares"),
    [
        *((game, 100_000, False) for game in SOLVED),
        *((Game(4, 4, 3), nodes, True) for nodes in (25, 2000)),
    ],
    ids=str,
)
def test_every_move_has_the_result_that_the_solver_has_or_is_undecided(game, nodes, shares):
    """Undecided only after so few nodes that proofs do not end."""
    boards = plain.positions_of_random_play(game, 60, seed=1)
    kinds = set()
    for row, values in enumerate(build(game).action_values(boards)):
        position = boards.position(row)
        results = Prover(game, nodes=nodes).results(position, shares=shares)
        expected = np.where(np.isnan(values), TAKEN, np.nan_to_num(values))
        proved = results != UNDECIDED
        assert results[proved].tolist() == expected[proved].tolist(), (game, position)
        kinds.update(results.tolist())
    assert kinds - {TIED, UNDECIDED} == {TAKEN, WIN, LOSS}
    assert (UNDECIDED in kinds) == (nodes == 25)


def test_a_position_is_given_up_after_so_many_nodes():
    start = from_text("...../...../...../...../..... o")
    assert set(Prover(Game(5, 5, 4), nodes=10).results(start).tolist()) == {UNDECIDED}
    assert set(Prover(Game(5, 5, 4), nodes=1 << 40).results(start).tolist()) == {TIED}


def test_threats_decide_on_a_large_board():
    position = from_text("......./......./..ooo../......./...xx../......./....... x")
    results = Prover(Game(7, 7, 5)).results(position).reshape(7, 7)
    assert results[2].tolist() == [LOSS, TIED, TAKEN, TAKEN, TAKEN, TIED, LOSS]


@pytest.mark.parametrize(
    ("game", "text", "message"),
    [
        (Game(), "ooo/xx./... x", "a position to be proved is over"),
        (Game(), "o../.../... o", "a position to be proved comes from no game without skips"),
    ],
)
def test_what_is_no_position_of_a_game_without_skips_is_refused(game, text, message):
    with pytest.raises(ValueError, match=message):
        Prover(game).results(from_text(text))
