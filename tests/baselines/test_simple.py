"""The two plainest opponents."""

import numpy as np
import plain
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from ttt_envs import Boards, Game, from_text, make_policy


def completing_cells(cells, mover, game):
    """The empty cells on which a stone of ``mover`` completes a line, by plain reading."""
    wins = []
    for cell in np.flatnonzero(cells == 0):
        after = cells.copy()
        after[cell] = mover + 1
        if any(cell in line and (after[line] == mover + 1).all() for line in plain.all_lines(game)):
            wins.append(cell)
    return wins


@given(plain.games(6, skip=True), st.integers(0, 999))
def test_win_or_block_equals_plain_reading(game, seed):
    boards = plain.positions_of_random_play(game, 4, seed)
    for cells, mover, p in zip(*boards, make_policy("win-or-block", game).probabilities(boards), strict=True):
        wins, blocks = completing_cells(cells, mover, game), completing_cells(cells, 1 - mover, game)
        expected = np.zeros(game.cells)
        expected[wins or blocks or np.flatnonzero(cells == 0)] = 1
        assert_allclose(p, expected / expected.sum(), rtol=1e-15)


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("oo./xx./... o", [2]),  # wins, does not block
        ("oo./xx./... x", [5]),
        ("oo./x../.x. x", [2]),  # blocks
        ("o.o/.x./o.. x", [1, 3]),  # two to block
        (".o./oxo/x.x x", [0, 2, 7]),  # several wins
        ("o../.x./... o", [1, 2, 3, 5, 6, 7, 8]),
    ],
)
def test_win_or_block_plays_known_moves(text, cells):
    p = make_policy("win-or-block", Game()).probabilities(Boards.from_positions([from_text(text)]))[0]
    assert_array_equal(np.flatnonzero(p), cells)
    assert_allclose(p[cells], 1 / len(cells))


def test_random_is_uniform():
    boards = plain.positions_of_random_play(Game(4, 5, 4), 100)
    p = make_policy("random", Game(4, 5, 4)).probabilities(boards)
    for cells, row in zip(boards.cells, p, strict=True):
        assert_array_equal(row, (cells == 0) / (cells == 0).sum())


@pytest.mark.parametrize("game", [Game(3, 4, 3, gravity=True), Game(8, 9, 4, gravity=True, wrap=True)], ids=str)
def test_only_cells_where_stones_land_are_played(game):
    boards = plain.positions_of_random_play(game, 100)
    for row, p in enumerate(make_policy("win-or-block", game).probabilities(boards)):
        cells = boards.cells[row]
        legal = plain.legal_cells(game, set(np.flatnonzero(cells).tolist()))
        lines = [
            [c for c in legal if plain.has_line(game, set(np.flatnonzero(cells == stone).tolist()) | {c})]
            for stone in (boards.mover[row] + 1, 2 - boards.mover[row])
        ]
        expected = lines[0] or lines[1] or legal
        assert np.flatnonzero(p).tolist() == expected


@pytest.mark.parametrize("game", [Game(3, 3, 3, misere=True), Game(8, 8, 3, misere=True, exact=True)], ids=str)
def test_lines_are_avoided_in_misere(game):
    boards = plain.positions_of_random_play(game, 100)
    for row, p in enumerate(make_policy("win-or-block", game).probabilities(boards)):
        own = set(np.flatnonzero(boards.cells[row] == boards.mover[row] + 1).tolist())
        legal = plain.legal_cells(game, set(np.flatnonzero(boards.cells[row]).tolist()))
        safe = [cell for cell in legal if not plain.has_line(game, own | {cell})]
        assert np.flatnonzero(p).tolist() == (safe or legal)
