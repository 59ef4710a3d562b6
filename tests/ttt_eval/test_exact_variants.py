"""Exact results of rule variants, alone and combined, compared with plain Python and with facts known without us."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from exactly import SMALL_VARIANTS, assert_as_plain, values_of
from plain import COMBINATIONS

from ttt_envs import Game
from ttt_envs.core.work import Work
from ttt_envs.game.boards import from_keys
from ttt_envs.game.rules import check_cells
from ttt_eval.exact.dynamic_programming import perfect_value
from ttt_eval.exact.estimate import boards_by_stones

LARGER = [replace(Game(3, 3, 2 + number % 2), **chosen) for number, chosen in enumerate(COMBINATIONS)]
QUICK = [
    Game(3, 3, 3, gravity=True),
    Game(3, 3, 3, misere=True),
    Game(3, 3, 3, torus=True),
    Game(3, 3, 2, overlines=False),
]
SLOW = [pytest.param(game, marks=() if game in QUICK else pytest.mark.slow) for game in (*QUICK, *LARGER)]
skips = pytest.mark.parametrize("skip", [0.0, 0.25])
games = pytest.mark.parametrize("game", [*SMALL_VARIANTS, *SLOW], ids=str)


@skips
@games
def test_results_are_those_of_plain_python(game, skip):
    game = replace(game, skip_chance=skip)
    for a, b in (("random", "win-or-block"), ("drawn1", "drawn2"), ("win-or-block", "drawn1")):
        assert_as_plain(game, a, b)


@skips
@games
def test_perfect_play_is_that_of_plain_python(game, skip):
    game = replace(game, skip_chance=skip)
    expected = values_of(game)[0][bytes(game.cells), 0]
    assert perfect_value(game) == pytest.approx(expected, abs=1e-12)
    assert perfect_value(game, work=Work(chunk=3)) == perfect_value(game)


@pytest.mark.parametrize(
    ("game", "expected"),
    [
        (Game(3, 3, 3, misere=True), 0),  # Golomb and Hales: the centre, then mirroring
        (Game(3, 3, 3, torus=True), 1),
        (Game(4, 4, 4, gravity=True), 0),  # Tromp: Connect Four on small boards is drawn
        pytest.param(Game(4, 5, 4, gravity=True), 0, marks=pytest.mark.slow),
        pytest.param(Game(5, 4, 4, gravity=True), 0, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_known_values(game, expected):
    assert perfect_value(game) == expected


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (4, 4, 0.128586702049),
        (4, 5, 0.169643568512),
        pytest.param(5, 4, 0.139749051505, marks=pytest.mark.slow),
        pytest.param(5, 5, 0.155540992322, marks=pytest.mark.slow),
    ],
)
def test_layers_and_reachable_positions_have_the_same_value(rows, columns, expected):
    """The values were computed over the reachable positions in which no player has missed a win, up to 5 x 5."""
    game = Game(rows, columns, 4, 0.25, gravity=True)
    assert perfect_value(game) == pytest.approx(expected, abs=1e-12)
    if game.cells <= 16:
        with mock.patch("ttt_eval.exact.dynamic_programming.is_layered", return_value=False):
            assert perfect_value(game) == pytest.approx(expected, abs=1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# Arrangements of stones


@skips
@pytest.mark.parametrize("game", [*SMALL_VARIANTS, *QUICK[::2], Game(), Game(2, 3, 3), Game(3, 4, 2)], ids=str)
def test_arrangements_are_counted(game, skip):
    game = replace(game, skip_chance=skip)
    cells = from_keys(np.arange(3**game.cells, dtype=np.uint64), game)
    o, x = (cells == 1).sum(axis=1), (cells == 2).sum(axis=1)
    if game.skip_chance == 0:
        cells = cells[(o == x) | (o == x + 1)]
    if game.gravity:
        cells = cells[[_stands(game, board) for board in cells]]
    cells = cells[(cells == 0).any(axis=1)]
    stones = np.count_nonzero(cells, axis=1)
    assert boards_by_stones(game) == np.bincount(stones).tolist()


def _stands(game, board):
    try:
        check_cells(game, board)
    except ValueError:
        return False
    return True
