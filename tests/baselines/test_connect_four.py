"""The solver of Connect Four, against plain solving, published scores and known results."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import plain
import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_files import read_json
from numpy.testing import assert_array_equal

from baselines.connect_four import ColumnBoard, Solver, is_solvable, mirror, winning_cells
from baselines.exact import Optimal, SearchedSolution, solve
from ttt_envs import Boards, Game, Position
from ttt_envs.game import rules
from ttt_envs.game.boards import from_text
from ttt_envs.game.rules import DRAW

SCORED = read_json(Path(__file__).parents[1] / "data" / "connect-four.json")
MIDDLE = SCORED["scores"]["middle, 14 to 27 left"]
EASY = ("end, 0 to 13 left", "middle, 0 to 13 left", "beginning, 0 to 13 left")


def drop(rows, columns, win_length):
    return Game(rows, columns, win_length, gravity=True)


@cache
def solver_of(game):
    return Solver(game, memory=1 << 22)


def played(columns, game):
    """The position after moves, each as the number of a column from 1."""
    cells = np.zeros((game.rows, game.columns), np.int8)
    for ply, column in enumerate(columns):
        row = np.flatnonzero(cells[:, int(column) - 1] == 0)[-1]
        cells[row, int(column) - 1] = 1 + ply % 2
    return Position(cells.ravel(), len(columns) % 2)


CONNECT_FOUR = drop(6, 7, 4)


@pytest.mark.parametrize(
    ("rows", "columns", "value", "distance"),
    [(4, 4, 0, 16), (4, 5, 0, 20), (5, 4, 0, 20), (5, 5, 0, 25), (4, 6, -1, 24), (6, 4, 0, 24)],
)
def test_small_boards_have_the_known_results(rows, columns, value, distance):
    """Tromp, "John's Connect Four Playground": all draws, but 4 rows x 6 columns is won by the
    second player.
    """
    solver = Solver(drop(rows, columns, 4))
    result = solver.score(played("", drop(rows, columns, 4)))
    assert (result.value, solver.distance(result.low, 0)) == (value, distance)


@pytest.mark.slow
def test_connect_four_is_won_in_the_middle_in_41_plies():
    """Allen (1988) and Allis (1988): the winner; Tromp: the number of plies."""
    solver = Solver(CONNECT_FOUR, memory=1 << 30)
    assert (solver.score(played("", CONNECT_FOUR)).score, solver.distance(1, 0)) == (1, 41)
    assert [value == 1 for value in solver.values(0, 0).values()] == [
        column == 3 for column in range(7)
    ]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow] * (kind not in EASY))
        for kind in SCORED["scores"]
    ],
)
def test_scores_are_those_of_another_program(kind):
    solver = solver_of(CONNECT_FOUR)
    results = {
        columns: solver.score(played(columns, CONNECT_FOUR)).score
        for columns in SCORED["scores"][kind]
    }
    assert results == SCORED["scores"][kind]


@pytest.mark.parametrize("kind", EASY)
def test_best_play_ends_after_the_distance(kind):
    game = CONNECT_FOUR
    solver = solver_of(CONNECT_FOUR)
    for columns, score in list(SCORED["scores"][kind].items())[:10]:
        value = int(np.sign(score))
        start = len(columns)
        for remainder in range(solver.distance(score, start), 0, -1):
            now = solver.score(played(columns, game))
            assert (solver.distance(now.low, len(columns)), now.value) == (
                remainder,
                value * (-1) ** (len(columns) - start),
            )
            scores = solver.scores(played(columns, game))
            columns += str(max(scores, key=lambda cell: scores[cell].low) % 7 + 1)
        assert (
            rules.winner(game, played(columns, game).cells)
            == {0: DRAW, 1: 0, -1: 1}[value * (-1) ** (start % 2)]
        )


@pytest.mark.parametrize("nodes", [0, 1, 100, 10_000])
def test_limited_searches_bound_the_score(nodes):
    for columns, score in list(MIDDLE.items())[:20]:
        result = Solver(CONNECT_FOUR, memory=0).score(played(columns, CONNECT_FOUR), nodes=nodes)
        assert result.low <= score <= result.high
        assert result.nodes <= nodes
        assert result.score in (None, score)


def test_interruptions_do_not_change_a_score(monkeypatch):
    (columns, score), *_ = MIDDLE.items()
    position = played(columns, CONNECT_FOUR)
    calls = []
    monkeypatch.setattr("baselines.connect_four.SLICE", 1000)
    result = Solver(CONNECT_FOUR, progress=calls.append).score(position)
    assert result.score == score
    assert calls == [*range(1000, result.nodes, 1000), result.nodes]


@given(
    game=plain.games(longest=12).map(lambda game: replace(game, gravity=True)).filter(is_solvable),
    data=st.data(),
)
def test_lines_are_found_as_in_plain_reading(game, data):
    """In any filling of the columns from below."""
    board = ColumnBoard.from_game(game)
    height = game.rows + 1
    heights = data.draw(st.tuples(*[st.integers(0, game.rows)] * game.columns))

    def bit(row, column):
        return 1 << column * height + game.rows - 1 - row

    cells = [
        (row, column)
        for column, full in enumerate(heights)
        for row in range(game.rows - full, game.rows)
    ]
    chosen = data.draw(st.sets(st.sampled_from(cells))) if cells else set()
    bits = sum(bit(*cell) for cell in chosen)
    stones = {row * game.columns + column for row, column in chosen}
    lines = [set(line) for line in plain.all_lines(game)]
    wins = winning_cells(bits, board)
    for row, column in np.ndindex(game.rows, game.columns):
        if (row, column) not in cells:
            cell = row * game.columns + column
            completes = any(cell in line and line <= stones | {cell} for line in lines)
            assert bool(wins & bit(row, column)) == completes
    assert mirror(bits, board) == sum(bit(row, game.columns - 1 - column) for row, column in chosen)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("......./o...... o", "comes from no game without skips"),
        ("o....../....... x", "a stone above an empty cell"),
        ("xxx..../oooo... x", "is over"),
    ],
)
def test_impossible_positions_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        Solver(CONNECT_FOUR, memory=0).score(from_text("......./" * 4 + rows, CONNECT_FOUR))


SIZES = [
    (4, 4, 4),
    (4, 4, 3),
    (3, 4, 2),
    (5, 3, 3),
    (2, 6, 3),
    (3, 5, 4),
    (5, 3, 5),
    (1, 8, 3),
    (7, 1, 7),
    (2, 3, 1),
]


@pytest.mark.parametrize("size", [*SIZES, (1, 1, 1)], ids=str)
def test_searched_solutions_are_those_of_the_layered_solver(size):
    game = drop(*size)
    searched = SearchedSolution(game, memory=0)
    layers = solve(game)
    boards = plain.positions_of_random_play(game, 300)
    for answer in ("values", "action_values", "optimal_actions", "distance"):
        assert_array_equal(getattr(searched, answer)(boards), getattr(layers, answer)(boards))


def test_4_x_4_has_the_known_number_of_positions():
    """Tromp, "John's Connect Four Playground"."""
    assert solve(drop(4, 4, 4)).counts.boards == 161_029


def test_optimal_plays_connect_four_by_searches():
    game = drop(5, 4, 4)
    positions = [
        played(columns, game)
        for columns in ("", "1", "1223", "234432", "12341234123", "1111122222333")
    ]
    boards = Boards.from_positions(positions)
    policy = Optimal(game)
    values = [solver_of(game).score(position).value for position in positions]
    assert_array_equal(policy.values(boards), values)
    best = policy.action_values(boards) == np.array(values)[:, None]
    assert_array_equal(policy.probabilities(boards), plain.shares_of(best))


@pytest.mark.parametrize(
    "game",
    [
        Game(6, 7, 4, 0.1, gravity=True),
        drop(8, 8, 4),
        Game(6, 7, 4),
        Game(6, 7, 4, gravity=True, torus=True),
    ],
    ids=str,
)
def test_games_that_cannot_be_solved_are_refused(game):
    with pytest.raises(ValueError, match="choose gravity=True"):
        Solver(game)
