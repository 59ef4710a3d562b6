"""The rules: against a plain reading of the board, and against counts, values and frequencies known without us."""

import json
import os
from collections import Counter
from itertools import product

import numpy as np
import plain
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from processes import run_python

from ttt_envs import Game, Position, chance_outcomes, from_text
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game import lines as game_lines
from ttt_envs.game import rules

T3, SKIP3 = Game(), Game(skip_chance=0.25)

# ---------------------------------------------------------------------------------------------------------------------
# A game


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"rows": 0}, ValueError, "rows=0 is not the edge of a board: choose 1 to 19 rows"),
        ({"columns": 20}, ValueError, "columns=20 is not the edge of a board: choose 1 to 19 columns"),
        ({"rows": 2.0}, TypeError, "rows=2.0 is not a whole number"),
        ({"columns": "3"}, TypeError, "columns='3' is not a whole number"),
        ({"win_length": True}, TypeError, "win_length=True is not a whole number"),
        ({"rows": 3, "columns": 5, "win_length": 6}, ValueError, "does not fit a board of 3 x 5: choose 1 to 5"),
        ({"win_length": 0}, ValueError, "win_length=0 does not fit a board of 3 x 3: choose 1 to 3"),
        ({"skip_chance": 1}, ValueError, "skip_chance=1 is not a probability below 1"),
        ({"skip_chance": -0.1}, ValueError, "skip_chance=-0.1 is not a probability below 1"),
        ({"skip_chance": float("nan")}, ValueError, "skip_chance=nan is not a probability below 1"),
        ({"skip_chance": "0.25"}, TypeError, "skip_chance='0.25' is not a number"),
        ({"skip_chance": True}, TypeError, "skip_chance=True is not a number"),
    ],
)
def test_invalid_games_are_rejected(arguments, error, message):
    with pytest.raises(error, match=message):
        Game(**arguments)


def test_a_size_is_an_edge_or_rows_and_columns():
    assert Game.of_size(4, 3) == Game(4, 4, 3)
    assert Game.of_size((5, 6), 4, 0.25) == Game.of_size([5, 6], 4, 0.25) == Game(5, 6, 4, 0.25)
    assert Game.of_size(np.int64(4)) == Game(4, 4, 4)
    lengths = {1: 1, 2: 2, (1, 2): 2, (2, 2): 2, (1, 3): 3, 3: 3, 4: 4, 5: 4, 6: 4, 7: 5, 19: 5, (3, 19): 3, (7, 6): 4}
    assert {size: Game.of_size(size).win_length for size in lengths} == lengths
    for size in ((3,), (3, 3, 3)):
        with pytest.raises(ValueError, match=r"is not a board: write size=3 or size=\(5, 6\), rows first"):
            Game.of_size(size)
    for size in ("3", 3.0, True, None, (3, 2.5)):
        with pytest.raises(TypeError, match="is not a board: write size=3"):
            Game.of_size(size)


@given(plain.games(skip=True))
def test_a_game_is_stored_and_read(game):
    data = json.loads(json.dumps(game.to_dict()))
    assert data.pop("format") == 1
    assert Game.from_dict(data) == Game.from_dict({"format": 1, **data}) == game
    assert game.cells == game.rows * game.columns
    assert game.parameters[:4] == (game.rows, game.columns, game.win_length, game.skip_chance)


def test_missing_fields_get_defaults_and_unknown_fields_are_rejected():
    assert Game.from_dict({"rows": 4, "columns": 4}) == Game(4, 4, 3)
    for data, field in (({"colums": 4}, "'colums'"), ({"format": 2}, "format=2"), ({"rows": 3.0}, "rows=3.0")):
        with pytest.raises(ValueError, match=field):
            Game.from_dict(data)
    assert str(Game(3, 4, 3)) == "3 x 4, 3 to win"
    assert str(Game(3, 4, 3, 0.25)) == "3 x 4, 3 to win, skip 0.25"


# ---------------------------------------------------------------------------------------------------------------------
# Lines and ends


@st.composite
def boards_with_a_last_stone(draw, games):
    """(game, cells, cell): any board on which every line of the stone on ``cell`` goes through ``cell``."""
    game = draw(games)
    cells = draw(plain.cells_of_any(game)).copy()
    row, column = draw(st.integers(0, game.rows - 1)), draw(st.integers(0, game.columns - 1))
    stone = draw(st.sampled_from([1, 2]))
    down, right = draw(st.sampled_from([(0, 1), (1, 0), (1, 1), (1, -1)]))
    ends = st.integers(0, game.win_length - 1)
    for i in range(-draw(ends), draw(ends) + 1):  # a row of stones through the cell, more than chance would give
        if 0 <= row + i * down < game.rows and 0 <= column + i * right < game.columns:
            cells[(row + i * down) * game.columns + column + i * right] = stone
    cell = row * game.columns + column
    cells[cell] = stone
    for line in plain.all_lines(game):
        if cell not in line and (cells[line] == stone).all():
            cells[line[draw(st.integers(0, len(line) - 1))]] = 0
    return game, cells, cell


SHAPES = [
    Game(1, 19, 1),
    Game(1, 19, 5),
    Game(19, 1, 19),
    Game(2, 12, 12),
    Game(12, 2, 3),
    Game(1, 1, 1),
    Game(5, 5, 5),
]


@given(boards_with_a_last_stone(plain.games() | plain.games(5) | st.sampled_from(SHAPES)))
def test_lines_agree_with_a_plain_reading(case):
    game, cells, cell = case
    lines = [line for line in plain.all_lines(game) if (cells[line] == cells[cell]).all()]
    assert game_lines.makes_line(cells, cell, game.parameters) == bool(lines)


@pytest.mark.parametrize("game", [*SHAPES, Game(19, 19, 19), Game(6, 7, 4), Game(3, 9, 5), Game(4, 6, 3)], ids=str)
def test_every_line_is_one_and_one_stone_less_is_none(game):
    for line in plain.all_lines(game):
        cells = np.zeros(game.cells, np.int8)
        cells[line] = 2
        assert game_lines.makes_line(cells, line[len(line) // 2], game.parameters)
        assert rules.winner(game, cells) == 1
        if game.win_length > 1:
            cells[line[0]] = 1
            assert not game_lines.makes_line(cells, line[-1], game.parameters)


@pytest.mark.parametrize(
    ("text", "winner"),
    [
        (".../.o./... x", None),
        ("ooo/xx./... x", 0),
        ("x.o/xo./x.o o", 1),
        ("oxo/xxo/oox x", rules.DRAW),
        *((text, None) for text in ("..o/o../o.. o", ".oo/o../... o")),  # lines end at the edge of the board
        *((text, None) for text in ("..../...x/x.../.x.. o", "......o/o....../o...... o")),
        ("oooo./...../...../...../..... x", 0),  # longer than the winning length
    ],
)
def test_winners_of_positions(text, winner):
    position = from_text(text)
    rows = text.count("/") + 1
    assert rules.winner(Game(rows, len(position.cells) // rows), position.cells) == winner


def test_an_illegal_move_changes_nothing():
    cells = from_text("o../.x./... o").cells
    before = cells.copy()
    for cell in (-1, 0, 4, 9, 1 << 40):
        assert rules.place(cells, 0, cell, 2, T3.parameters) == rules.ILLEGAL
        assert_array_equal(cells, before)


# ---------------------------------------------------------------------------------------------------------------------
# Chance


def test_splitmix64_gives_its_published_numbers():
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert [splitmix64(np.uint64(1234567), n) for n in range(5)] == published
    assert [plain.splitmix64(1234567, n) for n in range(5)] == published


@given(st.integers(0, plain.WORD), st.integers(0, 3), st.integers(0, 2**32 - 1))
@example(plain.WORD, 3, 2**32 - 1)
def test_uniform_numbers_are_those_of_the_stream_and_the_ply(key, stream, n):
    u = uniform(np.uint64(key), stream, n)
    assert u == (plain.splitmix64(key, (stream << 32) + n) >> 11) / 2**53
    assert 0 <= u < 1


def test_the_mover_moves_again_when_the_number_is_below_the_skip_chance():
    for mover in (0, 1):
        assert rules.next_mover(mover, 0.2499, 0.25) == mover
        assert rules.next_mover(mover, 0.25, 0.25) == 1 - mover
        assert rules.next_mover(mover, 0.0, 0.0) == 1 - mover


@given(st.integers(0, plain.WORD), st.data())
def test_rows_of_a_batch_are_games_of_their_own(key, data):
    boards = plain.positions_of_random_play(SKIP3, 5)
    rows = np.array(data.draw(st.lists(st.integers(0, 4), unique=True, max_size=5)), np.int64)
    actions = np.array([data.draw(st.integers(0, 8)) for _ in rows], np.int64)
    cells, mover, stones = boards.cells.copy(), boards.mover.copy(), np.count_nonzero(boards.cells, axis=1)
    episode_keys = np.array([plain.splitmix64(key, n) for n in range(5)], np.uint64)
    outcomes = np.full(5, 77, np.int8)
    rules.play_rows(cells, mover, stones, episode_keys, rows, actions, SKIP3.parameters, outcomes)
    for row in range(5):
        one, mover_of_one, count = boards.cells[row].copy(), int(boards.mover[row]), np.count_nonzero(boards.cells[row])
        outcome, moved = 77, False
        if row in rows:
            action = int(actions[list(rows).index(row)])
            outcome, mover_of_one = rules.play(
                one, mover_of_one, action, int(count), episode_keys[row], SKIP3.parameters
            )
            moved = outcome != rules.ILLEGAL
        assert_array_equal(cells[row], one)
        assert (mover[row], stones[row], outcomes[row]) == (mover_of_one, count + moved, outcome)


@given(plain.games(4, skip=True) | plain.variants(4, skip=True), st.data())
def test_the_outcomes_of_a_move_are_all_of_the_probability(game, data):
    boards = plain.positions_of_random_play(game, 1, data.draw(st.integers(0, 999)))
    position = boards.position(0)
    before = position.cells.copy()
    action = data.draw(st.sampled_from(np.flatnonzero(rules.legal(game, before)).tolist()))
    outcomes = chance_outcomes(game, position, action)
    assert sum(outcome.probability for outcome in outcomes) == pytest.approx(1, abs=1e-15)
    assert_array_equal(position.cells, before)
    for outcome in outcomes:
        assert outcome.position.cells[action] == position.mover + 1
        assert outcome.winner == rules.winner(game, outcome.position.cells)
    movers = [outcome.position.mover for outcome in outcomes]
    if outcomes[0].winner is not None:
        assert movers == [position.mover]
    else:
        assert movers == [1 - position.mover, position.mover][: 2 if game.skip_chance else 1]


STARTED, EMPTY = from_text("o../.x./... o"), np.zeros(9, np.int8)


@pytest.mark.parametrize(
    ("position", "action", "error", "message"),
    [
        (from_text("ooo/xx./... x"), 5, ValueError, "the game is over in this position: no action leads on from it"),
        (STARTED, 4, ValueError, r"action 4 is illegal, the cell holds a stone: choose an empty one \(1, 2, 3,"),
        (STARTED, 9, ValueError, "action 9 is no cell of a board of 3 x 3: choose 0 to 8"),
        (STARTED, -1, ValueError, "action -1 is no cell of a board of 3 x 3: choose 0 to 8"),
        (STARTED, 1.0, TypeError, "action 1.0 is not a whole number: an action is the index of a cell, 0 to 8"),
        (STARTED, True, TypeError, "action True is not a whole number"),
        (STARTED, None, TypeError, "action None is not a whole number"),
        (STARTED, "a", TypeError, "action 'a' is not a whole number"),
        (from_text("o./.x o"), 1, ValueError, r"cells must be int8\[9\] for a board of 3 x 3.* but got int8\[4\]"),
        (Position(EMPTY, 2), 0, ValueError, "mover=2 is no player: use 0"),
        (Position(EMPTY.astype(np.int64), 0), 0, ValueError, r"cells must be int8\[9\].* but got int64\[9\]"),
        (Position([0] * 9, 0), 0, ValueError, r"cells must be int8\[9\].* but got list\[9\]"),
        (Position(EMPTY + np.int8(3), 0), 0, ValueError, "cells holds 3: use 0 empty, 1 player_0, 2 player_1"),
    ],
)
def test_chance_outcomes_of_illegal_moves_and_invalid_positions_are_rejected(position, action, error, message):
    with pytest.raises(error, match=message):
        chance_outcomes(T3, position, action)


# ---------------------------------------------------------------------------------------------------------------------
# Facts known without us


def count_ways(game, plies):
    """The number of sequences of moves of this length, without those of games that end earlier."""
    ways, ended = {bytes(game.cells): 1}, 0
    for ply in range(plies):
        following, ended = Counter(), 0
        for board, cell in product(ways, range(game.cells)):
            cells = np.frombuffer(bytearray(board), np.int8)
            outcome = rules.place(cells, ply % 2, cell, ply, game.parameters)
            if outcome == rules.NOT_OVER:
                following[cells.tobytes()] += ways[board]
            elif outcome != rules.ILLEGAL:
                ended += ways[board]
        ways = following
    return sum(ways.values()) + ended


def test_tic_tac_toe_can_be_played_in_the_known_number_of_ways(known):
    ways = known["counts_3x3x3_no_skip"]["first_plies_ways"]
    assert {plies: count_ways(T3, int(plies)) for plies in ways} == ways


def test_random_moves_fall_on_each_empty_cell_alike():
    cells = from_text("o.x/.o./x.. o").cells
    empty = np.flatnonzero(cells == 0)
    picked = [rules.nth_empty_cell(cells, u) for u in np.arange(500) / 500]
    assert_array_equal(np.bincount(picked, minlength=9)[empty], 100)
    assert rules.nth_empty_cell(cells, np.nextafter(1, 0)) == empty[-1]
    assert rules.nth_empty_cell(np.ones(9, np.int8), 0.5) == -1


# ---------------------------------------------------------------------------------------------------------------------
# Compiled and not

needs_the_compiler = pytest.mark.skipif(bool(int(os.environ.get("NUMBA_DISABLE_JIT", "0"))), reason="runs compiled")
PLAIN_PYTHON = (
    test_lines_agree_with_a_plain_reading,
    test_every_line_is_one_and_one_stone_less_is_none,
    test_winners_of_positions,
    test_an_illegal_move_changes_nothing,
    test_splitmix64_gives_its_published_numbers,
    test_uniform_numbers_are_those_of_the_stream_and_the_ply,
    test_the_mover_moves_again_when_the_number_is_below_the_skip_chance,
    test_rows_of_a_batch_are_games_of_their_own,
    test_the_outcomes_of_a_move_are_all_of_the_probability,
    test_random_moves_fall_on_each_empty_cell_alike,
)


@needs_the_compiler
def test_the_rules_are_the_same_without_the_compiler():
    tests = [f"{__file__}::{test.__name__}" for test in PLAIN_PYTHON]
    done = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, NUMBA_DISABLE_JIT="1")
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout
