"""Positions as text and back, keys, and batches."""

import numpy as np
import plain
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from ttt_envs import Boards, Game, Position, chance_outcomes, from_text, to_text
from ttt_envs.game import boards
from ttt_envs.game.rules import NOT_OVER


@st.composite
def positions(draw, games):
    game = draw(games)
    return game, Position(draw(plain.cells_of_any(game)), draw(st.integers(0, 1)))


@given(positions(plain.games()))
def test_text_and_position_are_the_same_both_ways(case):
    game, position = case
    text = to_text(position, game)
    again = from_text(text, game)
    assert_array_equal(again.cells, position.cells)
    assert again.cells.dtype == np.int8
    assert again.mover == position.mover
    assert to_text(from_text(text), game) == text
    if game.rows == game.columns:
        assert to_text(position) == text


def test_text_is_read_row_by_row_from_the_top():
    position = from_text("x.o/.../..o x")
    assert position.cells.tolist() == [2, 0, 1, 0, 0, 0, 0, 0, 1]
    assert position.mover == 1
    assert from_text("o..x o").cells.tolist() == [1, 0, 0, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a position: write rows from the top, then the player to move"),
        ("x.o/.../..o", "is not a position"),
        ("x.o/.../..o x x", "is not a position"),
        ("x.o/.../..o y", "has the mover 'y': write o"),
        ("x.o/.#./..o x", "has the cell '#': write . for empty, o for player_0, x for player_1"),
        ("x.o/../..o x", "has rows of different or no length"),
        ("/ x", "has rows of different or no length"),
        (3, "3 is not a position"),
    ],
)
def test_invalid_position_texts_are_rejected(text, message):
    with pytest.raises(ValueError, match=message):
        from_text(text)


def test_positions_of_another_board_are_rejected():
    with pytest.raises(ValueError, match="is a board of 2 x 3: this game needs 3 x 2"):
        from_text("x.o/... x", Game(3, 2, 2))
    with pytest.raises(ValueError, match="a board of 6 cells is not square"):
        to_text(from_text("x.o/... x"))
    with pytest.raises(ValueError, match="no positions make no batch"):
        Boards.from_positions([])
    with pytest.raises(ValueError, match=r"cells must be int8\[9\]"):
        to_text(from_text("x.o/... x"), Game())


@given(plain.games(6).filter(lambda game: game.cells <= boards.MAX_CELLS_BASE_3).flatmap(plain.cells_of_any))
def test_adding_a_stone_increases_the_key(cells):
    key = int(boards.keys(cells[None])[0])
    assert key == sum(int(stone) * 3**cell for cell, stone in enumerate(cells))
    for cell in np.flatnonzero(cells == 0):
        for stone in (1, 2):
            more = cells.copy()
            more[cell] = stone
            assert boards.keys(more[None])[0] > key


@pytest.mark.parametrize("game", [Game(1, 1, 1), Game(), Game(5, 8, 4)], ids=str)
def test_a_key_up_to_40_cells_gives_its_board_back(game):
    cells = np.random.default_rng(0).integers(0, 3, (200, game.cells)).astype(np.int8)
    cells[0] = 2
    keys = boards.keys(cells)
    assert keys.dtype == np.uint64
    assert keys.shape == (200,)
    again = boards.from_keys(keys, game)
    assert again.dtype == np.int8
    assert_array_equal(again, cells)
    assert_array_equal(boards.keys(np.asfortranarray(cells)), keys)


@pytest.mark.parametrize("game", [Game(), Game(8, 8, 5), Game(19, 19, 5)])
def test_keys_of_an_empty_batch_are_empty(game):
    none = boards.keys(np.empty((0, game.cells), np.int8))
    assert len(none) == 0
    assert boards.from_keys(none, game).shape == (0, game.cells)


@given(st.sampled_from([Game(3, 14, 3), Game(8, 8, 5), Game(5, 13, 4), Game(19, 19, 5)]), st.data())
def test_keys_above_40_cells_are_two_planes_of_bits(game, data):
    cells = data.draw(plain.cells_of_any(game))
    others = np.repeat(cells[None], game.cells + 1, axis=0)
    for cell in range(game.cells):  # every board that differs in one cell has another key
        others[cell, cell] = (cells[cell] + 1 + cell % 2) % 3
    keys = boards.keys(others)
    assert keys.dtype == np.uint64
    assert keys.shape == (game.cells + 1, 2 * -(-game.cells // 64))
    assert len(np.unique(keys, axis=0)) == game.cells + 1
    planes = keys[-1].view("<u8").tobytes()
    half = len(planes) // 2
    assert_array_equal(boards.from_keys(keys, game), others)
    for stone, plane in ((1, planes[:half]), (2, planes[half:])):
        bits = int.from_bytes(plane, "little")
        assert bits == sum(1 << cell for cell in np.flatnonzero(cells == stone).tolist())


def test_the_mover_sees_its_own_stones_first():
    batch = Boards.from_positions([from_text("x.o/.../..o x"), from_text("x.o/.../..o o")])
    before = batch.cells.copy()
    assert batch.own_first().tolist() == [[1, 0, 2, 0, 0, 0, 0, 0, 2], [2, 0, 1, 0, 0, 0, 0, 0, 1]]
    assert batch.own_first().dtype == np.int8
    assert_array_equal(batch.cells, before)


def test_a_batch_gives_positions_and_rows_of_its_own():
    batch = plain.positions_of_random_play(Game(skip_chance=0.25), 6)
    position = batch.position(3)
    assert isinstance(position.mover, int)
    some = batch.take(np.array([3, 1]))
    again = Boards.from_positions([position, batch.position(1)])
    for one, other in zip(some, again, strict=True):
        assert one.dtype == other.dtype == np.int8
        assert_array_equal(one, other)
    position.cells[:] = some.cells[:] = 2
    assert (batch.cells[[3, 1]] != 2).any()
    start = Boards.start(Game(4, 5, 4), 3)
    assert start.cells.shape == (3, 20)
    assert not start.cells.any()
    assert not start.mover.any()


@given(plain.games())
def test_every_cell_has_a_coordinate_of_its_own(game):
    names = [boards.coordinate(cell, game) for cell in range(game.cells)]
    assert len(set(names)) == game.cells
    assert [boards.cell_at(name, game) for name in names] == list(range(game.cells))
    assert [boards.cell_at(name.upper(), game) for name in names] == list(range(game.cells))


def test_coordinates_are_columns_from_the_left_and_rows_from_the_top():
    game = Game(2, 3)
    assert [boards.coordinate(cell, game) for cell in range(6)] == ["a1", "b1", "c1", "a2", "b2", "c2"]
    assert boards.coordinate(360, Game(19, 19, 5)) == "s19"


@pytest.mark.parametrize("text", ["", "a", "2", "2,2", "a0", "a02", "a3", "d1", "a1 ", "a1b1", "t1", "a٢", "a" * 99])
def test_invalid_coordinates_are_rejected(text):
    with pytest.raises(ValueError, match="is no cell of a board of 2 x 3: write its column, a to c, and its row") as no:
        boards.cell_at(text, Game(2, 3))
    assert len(str(no.value)) < 160


@given(plain.games(4, skip=True), st.integers(0, 999))
def test_moves_in_copies_of_positions(game, seed):
    starts = plain.positions_of_random_play(game, 1, seed)
    before = starts.cells.copy()
    rows, actions = np.nonzero(starts.legal(game))
    cells, outcomes = boards.play_moves(game, starts, rows, actions)
    assert_array_equal(starts.cells, before)
    for row, action, board, outcome in zip(rows.tolist(), actions.tolist(), cells, outcomes, strict=True):
        after = chance_outcomes(game, starts.position(row), action)[0]
        assert_array_equal(board, after.position.cells)
        assert after.winner == (None if outcome == NOT_OVER else outcome)
