"""The two plainest opponents."""

import numpy as np
import plain
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from ttt_envs import Boards, Game, from_text, make_policy
from ttt_envs.game import reference


@given(plain.games(6, skip=True) | plain.variants(6, skip=True), st.integers(0, 999))
@example(Game(8, 9, 4, gravity=True, torus=True), 0)
@example(Game(8, 8, 3, misere=True, overlines=False), 0)
def test_win_or_block_equals_plain_reading(game, seed):
    """In misère a line loses, and is avoided; the other player's are left to that player."""
    boards = plain.positions_of_random_play(game, 20, seed)
    for cells, mover, p in zip(*boards, make_policy("win-or-block", game).probabilities(boards), strict=True):
        own, other = (set(np.flatnonzero(cells == stone).tolist()) for stone in (mover + 1, 2 - mover))
        legal = reference.legal_cells(game, own | other)
        wins, blocks = ([c for c in legal if reference.has_line(game, stones | {c})] for stones in (own, other))
        chosen = [c for c in legal if c not in wins] if game.misere else wins or blocks
        expected = np.zeros(game.cells)
        expected[chosen or legal] = 1
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
