"""Checks of agents and of values: right ones pass, planted errors fail the row that names them."""

import time
from itertools import product

import numpy as np
import pytest

from ttt_envs import Game, make_policy
from ttt_eval.checks import check_agent, check_values
from ttt_eval.checks.tables import TIE, make_table
from ttt_eval.exact import exploitability

GAMES = ("plain", "turns", "skip")


def action_values(board):
    table = make_table("plain")
    return table.action_values[table.find(board)]


def value_of(board):
    table = make_table("plain")
    return table.values[table.find(board)]


def best_move(board):
    return int(np.nanargmax(action_values(board)))


def worst_move(board):
    return int(np.nanargmin(action_values(board)))


def is_first(board):
    return np.count_nonzero(board) % 2 == 0


def draws_first(board):
    """Best moves, with draws preferred to wins."""
    values = action_values(board)
    return int(np.nanargmax(np.where(np.abs(values) < TIE, 2, values)))


def without_columns(board):
    """Wins at once but along columns, else best moves."""
    table = make_table("plain")
    row = table.find(board)
    for action in np.flatnonzero(table.reward[row]).tolist():
        cells = np.array(board).reshape(3, 3).copy()
        cells[divmod(action, 3)] = 1
        if (cells == 1).all(axis=0).any():
            others = np.flatnonzero(table.legal[row] & (table.reward[row] == 0))
            return int(others[0]) if len(others) else action
    return best_move(board)


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("board", ["3x3", "connect-four"])
def test_best_play_passes(game, board):
    table = make_table(game, board)

    def play(cells):
        return np.nanargmax(table.action_values[table.find(cells)])

    check_agent(play, game, board=board).assert_ok()


@pytest.mark.parametrize(
    ("agent", "row", "cause"),
    [
        (worst_move, "mean loss", "a sign"),
        (lambda b: best_move(b) if is_first(b) else worst_move(b), "players", "fixed player's"),
        (draws_first, "win, not draw", "draws count as wins"),
        (without_columns, "directions", "lines along one direction"),
        (lambda b: 4, "rules", "illegal moves"),
        (lambda b: {}[b], "rules", "illegal moves"),
    ],
    ids=["worst", "one player", "draws first", "columns", "illegal", "raises"],
)
def test_planted_errors_of_agents(agent, row, cause):
    check = check_agent(agent)
    assert row in check.failed
    assert cause in check.cause
    assert check.row(row).evidence


def test_visits_probabilities_and_moves_are_read_alike():
    checks = [
        check_agent(agent, own_play=True)
        for agent in (
            best_move,
            lambda board: np.eye(9)[best_move(board)] * 100,
            lambda board: np.where(np.arange(9) == best_move(board), 0.5, 0.0625),
        )
    ]
    assert checks[0].rows == checks[1].rows == checks[2].rows


@pytest.mark.parametrize(
    ("game", "spec"),
    [("plain", "random"), pytest.param("skip", "win-or-block", marks=pytest.mark.more)],
)
def test_a_policy_has_its_exact_exploitability(game, spec):
    table = make_table(game)
    policy = make_policy(spec, table.game)
    measured = exploitability(table.game, spec)
    assert f"{measured:.3f}" in check_agent(spec, game).row("exploitability").measured

    rows = np.flatnonzero(~table.ended)
    probabilities = np.zeros(table.legal.shape)
    probabilities[rows] = policy.probabilities(table.to_boards(rows))

    def shares(board):
        return probabilities[table.find(board)]

    assert f"{measured:.3f}" in check_agent(shares, game).row("exploitability").measured


def test_only_positions_of_its_own_play():
    boards = set()

    def corners_first(board):
        boards.add(board)
        order = [0, 2, 6, 8, 4, 1, 3, 5, 7]
        return next(cell for cell in order if board[cell] == 0)

    check_agent(corners_first, own_play=True)
    assert all(board[0] != 0 for board in boards if np.count_nonzero(board) > 1)


# -- values


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("board", ["3x3", "connect-four"])
def test_exact_values_pass(game, board):
    table = make_table(game, board)
    check_values(lambda cells: table.values[table.find(cells)], game, board=board).assert_ok()


@pytest.mark.parametrize(
    ("change", "row", "cause"),
    [
        (lambda value, board: -value, "sign, even", "the other player's view"),
        (lambda value, board: value if is_first(board) else -value, "sign, odd", "fixed player's"),
        (lambda value, board: 0.2 * value, "scale", "another scale"),
        (lambda value, board: value or 1.0, "draws", "draws count as wins"),
        (lambda value, board: value or -1.0, "draws", "draws count as losses"),
        # the transposed image shows only the second
        (lambda value, board: value + 0.6 * (board[0] - board[8]), "symmetry", "symmetric"),
        (lambda value, board: value + 0.6 * (board[2] - board[6]), "symmetry", "symmetric"),
        (lambda value, board: 0.0, "scale", "do not depend on the result"),
        (lambda value, board: "won", "rules", "errors"),
    ],
    ids=[
        "other view",
        "fixed view",
        "scale",
        "draws as wins",
        "draws as losses",
        "diagonal",
        "antidiagonal",
        "constant",
        "text",
    ],
)
def test_planted_errors_of_values(change, row, cause):
    check = check_values(lambda board: change(value_of(board), board))
    assert row in check.failed
    assert cause in check.cause


@pytest.mark.parametrize(
    ("board", "game"),
    [*product(["3x3"], GAMES), (Game(2, 4, 3), "skip"), (Game(5, 5, 4), "turns")],
)
def test_values_of_another_policy(game, board):
    table = make_table(game, board)

    def random_value(board):
        return table.random_values[table.find(board)]

    check = check_values(random_value, game, "random", board=board)
    check.assert_ok()
    assert "error 0.00" in check.row("error").measured
    other = check_values(random_value, game, board=board)
    assert "error 0.00" not in other.row("error").measured


def test_an_object_with_values_is_asked_for_batches():
    class Critic:
        def values(self, boards):
            own = np.where(boards.own_first() == 2, -1, boards.own_first())
            return np.array([value_of(cells) for cells in own.astype(int)])

    check_values(Critic()).assert_ok()


def test_agents_and_values_that_hang_fail_in_time():
    for check in (check_agent, check_values):
        result = check(lambda board: time.sleep(9), limit_s=0.1)
        assert result.failed == ("time",)
        assert "does not answer in time" in result.cause


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="no function"):
        check_agent(3)
    with pytest.raises(TypeError, match="no function"):
        check_values("value head")
    with pytest.raises(ValueError, match="no policy"):
        check_agent("grandmaster")
    with pytest.raises(ValueError, match="does not support"):
        check_values(lambda board: 0.0, board=Game(misere=True))
    with pytest.raises(ValueError, match="too many"):
        check_agent(best_move, board=Game(7, 7, 4))
    with pytest.raises(ValueError, match="choose longer lines"):
        check_agent(best_move, board=Game(5, 5, 2))
