"""The symmetries are groups; test_variants.py compares games in their images."""

import numpy as np
import plain
import pytest
from numpy.testing import assert_array_equal

from ttt_envs import Game
from ttt_envs.game.boards import from_keys, keys
from ttt_envs.game.symmetry import canonical_keys, inverse, symmetries


@pytest.mark.parametrize(
    ("game", "which", "count"),
    [
        (Game(), "all", 8),
        (Game(), "rotations", 4),
        (Game(), "none", 1),
        (Game(4, 6, 4), "all", 4),
        (Game(4, 6, 4), "rotations", 2),
        (Game(4, 6, 4), "none", 1),
        (Game(7, 7, 5), "all", 8),
        (Game(6, 4, 4), "all", 4),
        (Game(6, 7, 4, gravity=True), "all", 2),
        (Game(4, 4, 4, gravity=True), "rotations", 1),
        (Game(3, 3, 3, torus=True), "all", 72),
        (Game(3, 4, 3, torus=True), "all", 48),
        (Game(3, 3, 3, torus=True), "rotations", 4),
        (Game(4, 5, 4, torus=True, gravity=True), "all", 10),
        (Game(4, 4, 4, overlines=False, misere=True), "all", 8),
    ],
)
def test_symmetries_are_a_group(game, which, count):
    images = symmetries(game, which)
    assert images.shape == (count, game.cells)
    assert_array_equal(images[0], np.arange(game.cells))
    group = {tuple(p) for p in images.tolist()}
    assert len(group) == count
    assert {tuple(p[q].tolist()) for p in images for q in images} == group
    assert {tuple(p) for p in inverse(images).tolist()} == group
    for p, q in zip(images, inverse(images), strict=True):
        assert_array_equal(q[p], np.arange(game.cells))
        assert_array_equal(p[q], np.arange(game.cells))


@pytest.mark.parametrize("game", [Game(5, 5, 4), Game(3, 6, 3), Game(6, 3, 3)], ids=str)
def test_lines_go_to_lines(game):
    lines = {frozenset(line) for line in plain.all_lines(game)}
    for p in symmetries(game):
        assert {frozenset(p[list(line)].tolist()) for line in lines} == lines


def test_a_quarter_turn_is_a_rotation():
    half = symmetries(Game(2, 3, 2), "rotations")[1]
    assert_array_equal(half, [5, 4, 3, 2, 1, 0])
    assert sorted(map(tuple, symmetries(Game(2, 2, 2), "rotations").tolist())) == [
        (0, 1, 2, 3),
        (1, 3, 0, 2),
        (2, 0, 3, 1),
        (3, 2, 1, 0),
    ]


def test_unknown_symmetries_are_rejected():
    with pytest.raises(ValueError, match="symmetries='rotation' is not known: choose 'none', 'rotations', 'all'"):
        symmetries(Game(), "rotation")


def test_canonical_keys_identify_boards_up_to_symmetry():
    """2,862 ways to fill 9 cells with three things: (3**9 + 2 * 3**3 + 3**5 + 4 * 3**6) / 8, by Burnside's lemma."""
    game = Game()
    boards = from_keys(np.arange(3**9, dtype=np.uint64), game)
    least, same = canonical_keys(boards, symmetries(game))
    assert len(np.unique(least)) == 2862
    for image, makes in zip(symmetries(game), same.T, strict=True):
        of_image = boards[:, image]
        assert_array_equal(canonical_keys(of_image, symmetries(game))[0], least)
        assert_array_equal(keys(of_image) == least[:, 0], makes)


@pytest.mark.parametrize("game", [Game(7, 7, 5), Game(6, 8, 5), Game(19, 19, 5)], ids=str)
def test_canonical_keys_of_several_words(game):
    boards = np.random.default_rng(0).integers(0, 3, (20, game.cells)).astype(np.int8)
    images = symmetries(game)
    least, same = canonical_keys(boards, images)
    for row, board in enumerate(boards):
        of_images = keys(board[images]).tolist()
        assert least[row].tolist() == min(of_images)
        assert same[row].tolist() == [key == min(of_images) for key in of_images]
