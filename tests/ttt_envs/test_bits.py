"""Boards as bits, beside a plain reading of cells and lines."""

import numpy as np
import plain
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ttt_envs import Game
from ttt_envs.game import bits, rules
from ttt_envs.game import lines as game_lines

LONG = Game(3, 19, 19)
"""the longest line that bits hold"""


@st.composite
def boards(draw):
    game = draw(plain.games())
    assume(game.cells <= bits.MAX_CELLS_IN_BITS)
    return game, draw(plain.cells_of_any(game))


@given(boards())
@example((Game(7, 9, 5), np.ones(63, np.int8)))
@example((LONG, np.repeat(np.array([2, 1, 0], np.int8), 19)))
@example((Game(1, 1, 1), np.ones(1, np.int8)))
def test_lines_are_those_of_the_board(board):
    game, cells = board
    for stone in (1, 2):
        own = {cell for cell in range(game.cells) if cells[cell] == stone}
        number = bits.to_bits(cells, np.int8(stone))
        assert number == sum(1 << cell for cell in own)
        lines = plain.all_lines(game)
        assert game_lines.has_line(number, game.parameters) == any(own.issuperset(line) for line in lines)
        wins = {cell for line in lines for cell in line if own.issuperset(set(line) - {cell}) and cells[cell] == 0}
        found = game_lines.completing_bits(number, game.parameters)
        assert {cell for cell in range(game.cells) if cells[cell] == 0 and found >> cell & 1} == wins


@given(plain.games(), st.data())
def test_cells_that_win_on_any_board(game, data):
    cells = data.draw(plain.cells_of_any(game))
    before, out = cells.copy(), np.empty(game.cells, np.int8)
    for mover in (0, 1):
        own = {cell for cell in range(game.cells) if cells[cell] == mover + 1}
        lines = plain.all_lines(game)
        wins = {cell for line in lines for cell in line if own.issuperset(set(line) - {cell}) and cells[cell] == 0}
        rules.completing_cells(cells, mover, game.parameters, out)
        assert set(np.flatnonzero(out)) == wins
    assert (cells == before).all()


@pytest.mark.parametrize("game", [Game(8, 9, 5), Game(9, 8, 8)], ids=str)
def test_every_line_is_won_by_its_last_stone_on_a_large_board(game):
    out = np.empty(game.cells, np.int8)
    for line in plain.all_lines(game):
        for last in line:
            cells = np.zeros(game.cells, np.int8)
            cells[[cell for cell in line if cell != last]] = 2
            rules.completing_cells(cells, 1, game.parameters, out)
            assert out[last] == 1


@given(st.integers(1, 2**63 - 1))
@example(2**63 - 1)
@example(1)
def test_bits_by_number(number):
    places = [place for place in range(63) if number >> place & 1]
    assert bits.count_bits(np.int64(number)) == len(places)
    assert [bits.nth_bit(np.int64(number), n) for n in range(len(places))] == places
    assert 0 <= bits.nth_bit(np.int64(number), len(places)) <= 63
    assert 0 <= bits.nth_bit(np.int64(0), 0) <= 63
