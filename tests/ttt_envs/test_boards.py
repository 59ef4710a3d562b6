"""Positions as text, keys and batches, coordinates of cells, and symmetries of boards."""

import numpy as np
import plain
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from ttt_envs import Boards, Game, Position, from_text, to_text
from ttt_envs.game import boards
from ttt_envs.game.symmetry import canonical_keys, inverse, symmetries


@given(plain.games(), st.integers(0, 1), st.data())
def test_text_and_position_are_the_same_both_ways(game, mover, data):
    position = Position(data.draw(plain.cells_of_any(game)), mover)
    text = to_text(position, game)
    again = from_text(text, game)
    assert_array_equal(again.cells, position.cells, strict=True)
    assert again.mover == mover
    assert to_text(from_text(text), game) == text
    rows = "".join(".ox"[stone] for stone in position.cells)
    assert text.replace("/", "") == f"{rows} {'ox'[mover]}"
    if game.rows == game.columns:
        assert to_text(position) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x.o/.../..o",
        "x.o/... x x",
        "x.o/.../..o y",
        "x.o/.#./..o x",
        "x.o/../..o x",
        "/ x",
        3,
        "9" * 9999,
    ],
)
def test_what_is_no_text_of_a_position_is_refused(text):
    with pytest.raises(ValueError, match=r"(?s)^(?=.*(position|mover|cell|rows)).{,500}$"):
        from_text(text)


def test_positions_of_another_board_are_refused():
    position = from_text("x.o/... x")
    for call in (
        lambda: from_text("x.o/... x", Game(3, 2, 2)),
        lambda: to_text(position),  # of no square
        lambda: to_text(position, Game()),
        lambda: Boards.from_positions([]),
    ):
        with pytest.raises(ValueError, match=r"board|cells|no positions"):
            call()


@given(
    plain.games(6) | st.sampled_from([Game(5, 8, 4), Game(3, 14, 3), Game(19, 19, 5)]), st.data()
)
def test_keys_are_numbers_in_base_3_up_to_40_cells_and_two_planes_of_bits_beyond(game, data):
    cells = data.draw(plain.cells_of_any(game))
    others = np.repeat(cells[None], game.cells + 1, axis=0)
    for cell in range(game.cells):  # every board that differs in one cell has another key
        others[cell, cell] = (cells[cell] + 1 + cell % 2) % 3
    keys = boards.keys(others)
    assert keys.dtype == np.uint64
    assert_array_equal(boards.keys(np.asfortranarray(others)), keys)
    assert_array_equal(boards.from_keys(keys, game), others)
    if game.cells <= boards.MAX_CELLS_BASE_3:
        assert keys.tolist() == [
            sum(int(stone) * 3**cell for cell, stone in enumerate(row)) for row in others
        ]
    else:
        words = -(-game.cells // 64)
        planes = [
            int.from_bytes(keys[-1].view("<u8")[half].tobytes(), "little")
            for half in (slice(words), slice(words, None))
        ]
        assert planes == [
            sum(1 << cell for cell in np.flatnonzero(cells == stone).tolist()) for stone in (1, 2)
        ]
    assert len(boards.keys(others[:0])) == 0


def test_a_batch_gives_views_positions_and_rows_of_its_own():
    batch = plain.from_texts("x.o/.../..o x", "x.o/.../..o o")
    before = batch.cells.copy()
    assert batch.own_first().tolist() == [[1, 0, 2, 0, 0, 0, 0, 0, 2], [2, 0, 1, 0, 0, 0, 0, 0, 1]]
    position = batch.position(1)
    some = batch.take(np.array([1, 0]))
    assert isinstance(position.mover, int)
    assert (position.mover, some.mover.tolist()) == (0, [0, 1])
    position.cells[:] = some.cells[:] = 2
    assert_array_equal(batch.cells, before)
    start = Boards.start(Game(4, 5, 4), 3)
    assert (start.cells.shape, start.cells.any(), start.mover.any()) == ((3, 20), False, False)


# --------------------------------------------------------------------------------------------------
# Coordinates


@given(plain.games())
def test_every_cell_has_a_coordinate_of_its_own(game):
    names = [boards.coordinate(cell, game) for cell in range(game.cells)]
    assert names == [
        f"{chr(97 + cell % game.columns)}{1 + cell // game.columns}" for cell in range(game.cells)
    ]
    assert [boards.cell_at(name, game) for name in names] == list(range(game.cells))
    assert [boards.cell_at(name.upper(), game) for name in names] == list(range(game.cells))


@pytest.mark.parametrize(
    "text", ["", "a", "2", "2,2", "a0", "a02", "a3", "d1", "a1 ", "a1b1", "a٢", "a" * 99]
)
def test_invalid_coordinates_are_refused(text):
    with pytest.raises(ValueError, match="is no cell of a board of 2 x 3") as refused:
        boards.cell_at(text, Game(2, 3))
    assert len(str(refused.value)) < 160


# --------------------------------------------------------------------------------------------------
# Symmetries; test_rules.py compares games in their images


@pytest.mark.parametrize(
    ("game", "which", "count"),
    [
        (Game(), "all", 8),
        (Game(), "rotations", 4),
        (Game(4, 6, 4), "all", 4),
        (Game(4, 6, 4), "rotations", 2),
        (Game(6, 7, 4, gravity=True), "all", 2),
        (Game(4, 4, 4, gravity=True), "rotations", 1),
        (Game(3, 3, 3, torus=True), "all", 72),
        (Game(3, 3, 3, torus=True), "rotations", 4),
        (Game(4, 5, 4, torus=True, gravity=True), "all", 10),
    ],
    ids=str,
)
def test_symmetries_are_a_group_that_keeps_lines(game, which, count):
    images = symmetries(game, which)
    assert_array_equal(images[0], np.arange(game.cells))
    group = {tuple(p) for p in images.tolist()}
    assert len(group) == len(images) == count
    assert {tuple(p[q].tolist()) for p in images for q in images} == group
    for p, q in zip(images, inverse(images), strict=True):
        assert_array_equal(q[p], np.arange(game.cells))
    lines = {frozenset(line.cells) for line in game.lines}
    assert all({frozenset(p[list(line)].tolist()) for line in lines} == lines for p in images)
    with pytest.raises(ValueError, match="rotation"):
        symmetries(game, "rotation")


def test_canonical_keys_identify_boards_up_to_symmetry():
    """2,862 ways to fill 9 cells with three things: (3**9 + 2 * 3**3 + 3**5 + 4 * 3**6) / 8, by
    Burnside's lemma.
    """
    game = Game()
    cells = plain.all_cells(game)
    least, same = canonical_keys(cells, symmetries(game))
    assert len(np.unique(least)) == 2862
    for image, makes in zip(symmetries(game), same.T, strict=True):
        assert_array_equal(canonical_keys(cells[:, image], symmetries(game))[0], least)
        assert_array_equal(boards.keys(cells[:, image]) == least[:, 0], makes)
