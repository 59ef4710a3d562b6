"""The numbering of positions: against lists of all boards, for all rules; test_solver.py looks up
all positions.
"""

import itertools
from dataclasses import replace

import numpy as np
import plain
import pytest
from numpy.testing import assert_array_equal

from ttt_envs import Game
from ttt_envs.game import reference
from ttt_envs.game.symmetry import symmetries
from ttt_envs.graph import numbering as numbering_module
from ttt_envs.graph.numbering import Numbering, rank, unrank

pytestmark = pytest.mark.more

GAMES = [
    Game(1, 1, 1),
    Game(3, 2, 1, 0.25),
    Game(2, 4, 3, 0.25),
    Game(3, 3, 3),
    *(replace(Game(2, 3, 2), **rules) for rules in plain.COMBINATIONS),
]


def bits(cells):
    return sum(1 << int(cell) for cell in cells)


def open_boards(game, alternates):
    """All boards without a line, up to symmetries of their cells: {(stones of the last mover, of
    the other)}.
    """
    images = symmetries(game)
    classes = {}
    for cells in itertools.product((0, 1, 2), repeat=game.cells):
        board = np.array(cells).reshape(game.rows, game.columns)
        own, other = (set(np.flatnonzero(board.ravel() == stone).tolist()) for stone in (1, 2))
        floats = game.gravity and ((board[:-1] != 0) & (board[1:] == 0)).any()
        wrong = alternates and len(own) != (len(own) + len(other) + 1) // 2
        taken = board.ravel() != 0
        least = min(bits(np.flatnonzero(taken[image])) for image in images)
        if floats or wrong or bits(np.flatnonzero(taken)) != least:
            continue
        if not reference.has_line(game, own) and not reference.has_line(game, other):
            classes.setdefault(len(own) + len(other), set()).add((bits(own), bits(other)))
    return classes


@pytest.mark.parametrize("with_codes", [True, False])
@pytest.mark.parametrize("game", GAMES, ids=str)
def test_every_open_board_has_one_entry(game, with_codes, monkeypatch):
    """One of symmetric sets of cells, with all divisions of it; without skips on large boards, of
    alternating play.
    """
    if not with_codes:
        monkeypatch.setattr(numbering_module, "MAX_CODED_CELLS", 0)
        monkeypatch.setattr(numbering_module, "MAX_UNPAIRED_CELLS", 0)
    numbering = Numbering(game)
    classes = open_boards(game, numbering.alternates)
    assert numbering.alternates == (not with_codes and game.skip_chance == 0)
    for stones in range(game.cells + 1):
        layer = numbering.layer(stones)
        expected = classes.get(stones, set())
        positions = [unrank(entry, layer) for entry in range(layer.size)]
        assert (
            len(positions)
            == len(expected)
            == numbering.size(stones)
            == numbering.estimate(stones)[0]
        )
        assert set(positions) == expected
        assert [rank(own, other, layer) for own, other in positions] == list(range(layer.size))
        assert_array_equal(
            np.stack(numbering.positions(stones), axis=1).reshape(-1, 2),
            np.reshape(positions, (-1, 2)),
        )


def test_sizes_of_large_layers_are_estimated(monkeypatch):
    numbering = Numbering(Game(3, 7, 3))
    monkeypatch.setattr(numbering_module, "MAX_SAMPLED_WORDS", 1 << 10)
    for stones in (6, 9):
        estimated, _ = numbering.estimate(stones)
        assert estimated == pytest.approx(Numbering(numbering.game).size(stones), rel=0.1)
