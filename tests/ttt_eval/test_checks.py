"""Checks of searches: the games as arrays, right searches, planted errors, and broken functions."""

import inspect
import json
import logging
import random
import re
import sys
import threading
import time
from copy import copy
from functools import cache

import numpy as np
import pytest
from documents import ROOT
from evaluators import find_rows
from IPython.core.formatters import HTMLFormatter
from numpy.testing import assert_allclose
from planted_errors import FAMILIES, plant_search
from right_search import PlainSearch

from baselines.exact import solve
from ttt_envs.core.files import read_table
from ttt_eval.checks import Check, CheckRow, Evidence, check_search, search, session
from ttt_eval.checks.calls import open_caller
from ttt_eval.checks.causes import Facts, patterns
from ttt_eval.checks.tables import BOARDS, GameTable, PlantedEvaluator, make_table
from ttt_eval.exact import evaluate_policy

GAMES = ("plain", "turns", "skip")
UNFINISHED = 4_520
"""Positions of tic-tac-toe that are not over: of 5,478 in all, 958 are."""


# -- games as arrays


def test_the_plain_table_has_the_known_number_of_positions():
    assert np.count_nonzero(~make_table("plain").ended) == UNFINISHED


@pytest.mark.parametrize("turns", ["plain", "skip"])
def test_values_are_those_of_the_solver_and_of_random_play(turns):
    table = make_table(turns)
    evaluation = evaluate_policy(table.game, "random")
    rows = find_rows(table, evaluation.boards)
    assert min(rows) >= 0
    assert len(set(rows)) == np.count_nonzero(~table.ended)
    assert_allclose(table.random_values[rows], evaluation.values, atol=1e-12)
    solution = solve(table.game)
    assert_allclose(table.values[rows], solution.values(evaluation.boards), atol=1e-12)
    assert_allclose(
        table.action_values[rows], solution.action_values(evaluation.boards), atol=1e-12
    )


@pytest.mark.parametrize("board", ["4x4", "connect-four"])
def test_values_on_larger_boards_are_those_of_the_solver(board):
    table = make_table("plain", board)
    rows = np.flatnonzero(~table.ended)[::50]
    expected = solve(table.game).values(table.to_boards(rows))
    assert_allclose(table.values[rows], expected, atol=1e-12)


@pytest.mark.parametrize("turns", GAMES)
@pytest.mark.parametrize("board", BOARDS)
def test_steps_and_arrays_agree(turns, board):
    table = GameTable(turns, board)
    rng = np.random.default_rng(0)
    for row in rng.choice(np.flatnonzero(~table.ended), 50).tolist():
        action = int(rng.choice(np.flatnonzero(table.legal[row])))
        again = table.again[row, action] > rng.random()
        next_board, reward, over = table.step(table.board(row), action, again)
        next_row = table.next[row, action, int(again)]
        assert table.index(next_board) == next_row
        assert (reward, over) == (table.reward[row, action], table.over[row, action])
        assert over == table.ended[next_row]
        assert table.num_free[next_row] == table.num_free[row] - 1
    assert not table.illegal_steps


@pytest.mark.parametrize(
    ("board", "action", "again", "problem"),
    [
        ((-1, 0, 0, 0, 0, 0, 0, 0, 0), 0, False, "the illegal action 0"),
        ((0,) * 9, 9, False, "the illegal action 9"),
        ((-1, -1, -1, 1, 1, 0, 0, 0, 0), 5, False, "a move on a finished board"),
        ((0,) * 9, 0, True, "an impossible turn"),
        ((1,) * 9, 0, False, "no position of this game"),
        ([(0,) * 9] * 2, 0, False, "not one board of 9 cells: write .game.index"),
    ],
)
def test_illegal_steps_are_refused(board, action, again, problem):
    table = GameTable("turns")
    with pytest.raises(ValueError, match=problem):
        table.step(board, action, again)


# -- right searches


RIGHT = {
    "puct": (PlainSearch("puct"), "owned"),
    "uct": (PlainSearch("uct"), None),
    "gumbel": (PlainSearch("gumbel"), "owned"),
    "puct with a solver": (PlainSearch("puct", solver=True), "owned"),
}


@cache
def check_right_search(name, turns):
    search, evaluator = RIGHT[name]
    return check_search(search, turns, evaluator)


def more(name):
    return pytest.param(name, marks=pytest.mark.more)


@pytest.mark.parametrize("turns", ["turns", more("plain"), more("skip")])
@pytest.mark.parametrize("name", ["puct", "uct", more("gumbel"), more("puct with a solver")])
def test_right_searches_pass(turns, name):
    check = check_right_search(name, turns)
    check.assert_ok()
    assert check.cause == ""
    assert check.verdict.startswith("no error found")


@pytest.mark.more
@pytest.mark.parametrize("turns", GAMES)
@pytest.mark.parametrize("board", ["4x4", "connect-four"])
def test_right_searches_pass_on_larger_boards(turns, board):
    check_search(PlainSearch("puct"), turns, board=board).assert_ok()


def test_the_page_has_the_rows_of_the_check():
    """Those of a right search, and others that the code names."""
    page = "docs/how-to/check-search.md"
    text = (ROOT / page).read_text()
    described = ", ".join(re.findall(r"^\| (.+?) \|", text, re.M)).split(", ")
    rows = check_right_search("puct", "turns").rows
    code = inspect.getsource(search) + inspect.getsource(session)
    named = re.findall(r'(?:judge\w*|remark)\(\s*"(.+?)"', code)
    missing = {*named, *(row.name for row in rows)}.difference(described)
    assert not missing, f"{page} lacks {missing}"
    assert f"of {len(rows)} rows are shown" in text, f"{page}: there are {len(rows)} rows"


# -- planted errors

FOUND_BY, ROLLOUTS_FOUND_BY = read_table(__file__).values()
"""Game, failed row, and part of the cause, by the planted error of PUCT, and of UCT."""
QUICK = {
    "sign alternates with depth",
    "illegal moves searched",
    "tree of another position kept",
    "rows and columns exchanged for the evaluator",
    "no bonus",
    "draws of rollouts as wins",
}
"""Planted errors of ``make test``, one or two of each kind."""


@pytest.mark.parametrize("error", [e if e in QUICK else more(e) for e in FOUND_BY])
def test_planted_errors_fail_the_row_that_names_them(error):
    turns, row, cause = FOUND_BY[error]
    check = check_search(plant_search(error), turns)
    assert row in check.failed
    assert cause in check.cause
    assert all(check.row(failed).evidence for failed in check.failed)


def test_the_lists_of_planted_errors_are_complete():
    missing = set(FAMILIES["puct"]) - set(FOUND_BY)
    assert missing == {"sum for mean"}, (  # greedy, and hardly harmful here
        f'[puct] of tests/ttt_eval/test_checks.toml lacks {missing}: only "sum for mean" may'
    )


@pytest.mark.parametrize("error", [e if e in QUICK else more(e) for e in ROLLOUTS_FOUND_BY])
def test_planted_errors_of_rollouts(error):
    turns, row, cause = ROLLOUTS_FOUND_BY[error]
    check = check_search(plant_search(error, "uct"), turns, None)
    assert row in check.failed
    assert cause in check.cause


@pytest.mark.more
@pytest.mark.parametrize("turns", GAMES)
@pytest.mark.parametrize("rule", ["puct", "uct"])
@pytest.mark.parametrize("image", [np.transpose, np.fliplr, np.flip])
def test_another_board_for_the_evaluator_is_named(image, rule, turns):
    def search(game, board, evaluator, *arguments):
        def evaluate(board):
            return evaluator(image(np.reshape(board, (3, 3))))

        return PlainSearch(rule)(game, board, evaluate, *arguments)

    check = check_search(search, turns, priors=rule == "puct")
    assert check.row("elsewhere").limit == "at most 0.004"
    assert "asked about another board" in check.cause


@pytest.mark.more
def test_results_of_the_other_player_are_named():
    def search(game, board, *arguments):
        def step(*move):
            after, reward, over = game.step(*move)
            return after, -reward, over

        other = copy(game)
        other.step = step
        return PlainSearch("uct")(other, board, *arguments)

    cause = check_search(search, "turns", None).cause
    assert "results of finished games have the wrong sign" in cause


@pytest.mark.more
def test_the_least_visited_move_is_named_with_too_many_visits():
    def search(game, board, evaluator, simulations, seed):
        visits, value = PlainSearch("uct")(game, board, evaluator, simulations, seed)
        return game.legal[game.index(board)] * (simulations - visits), value

    check = check_search(search, "turns", None)
    assert "visits" in check.failed
    assert "plays what it visits least" in check.cause


@pytest.mark.more
def test_random_visits_and_a_constant_value_are_named():
    def search(game, board, evaluator, simulations, seed):
        moves = np.random.default_rng(seed).choice(game.legal_actions(board), simulations)
        return np.bincount(moves, minlength=9), 0.0

    causes = check_search(search, "turns", None).causes
    assert "value is the same on all boards; moves are random" in "; ".join(causes)


@pytest.mark.more
def test_a_search_that_uses_no_priors_is_judged_without_them():
    def search(game, board, evaluator, *arguments):
        assert not np.ptp(evaluator(board)[0])
        return PlainSearch("uct")(game, board, evaluator, *arguments)

    assert check_search(search, priors=False).verdict == "no error found; not judged: priors"


@pytest.mark.more
def test_alternating_turns_hide_the_sign_that_follows_depth():
    check_search(plant_search("sign alternates with depth"), "plain").assert_ok()


@cache
def alternating_values(game, board):
    """Values of actions, if the value of every next position is the other player's."""
    values = {}
    for action in game.legal_actions(board):
        again = game.again[game.index(board), action] == 1
        next_board, reward, over = game.step(board, action, again)
        values[action] = reward if over else -max(alternating_values(game, next_board).values())
    return values


def alternating_negamax(game, board, evaluator, simulations, seed):
    """The best move and its value."""
    values = alternating_values(game, board)
    best = max(values, key=values.get)
    return best, values[best]


def test_a_search_that_takes_turns_to_alternate_is_named():
    check_search(alternating_negamax, "plain", None).assert_ok()
    check = check_search(alternating_negamax, "turns", None)
    assert "results" in check.failed
    assert check.cause == "turns are assumed to alternate: the search is right only where they do"


def likely_causes(**facts):
    """Return the causes of failed moves, by what was measured."""
    found = patterns(Facts(**facts), {"near the end"})
    return [cause for cause, fits in found.items() if fits]


def test_results_of_both_signs_are_not_called_draws():
    facts = {"errors": {"wins": -1.0, "draws": 0.0, "losses": 0.7}, "largest_error": 1.0}
    assert likely_causes(**facts, win_size=0.0)[0] == "wins and losses count as draws"
    assert likely_causes(**facts, win_size=0.8)[0].startswith(
        "results are backed up with the wrong"
    )


def test_values_that_are_all_too_large_are_no_draws_that_count_as_wins():
    errors = dict.fromkeys(("wins", "draws", "losses"), 0.4)
    causes = likely_causes(errors=errors, draw_error=0.4, largest_error=0.4)
    assert not any(cause.startswith("draws") for cause in causes)


def test_right_results_are_not_said_to_alternate():
    for error, cause in ((0.0, "selection"), (0.5, "turns are assumed to alternate")):
        errors = {"wins": error, "draws": 0.0, "losses": error}
        causes = likely_causes(errors=errors, largest_error=error, alternating_share=0.0)
        assert causes[0].startswith(cause)


def in_batches(search, reverse=False):
    def search_batch(game, boards, evaluator, simulations, seed):
        answers = [
            search(game, tuple(board), evaluator, simulations, seed + b)
            for b, board in enumerate(boards.tolist())
        ]
        visits, values = zip(*(answers[::-1] if reverse else answers), strict=True)
        return np.array(visits), np.array(values)

    return search_batch


@pytest.mark.more
def test_rows_of_a_batch_that_are_mixed():
    check_search(in_batches(PlainSearch("uct")), "turns", None, batch=True).assert_ok()
    check = check_search(in_batches(PlainSearch("uct"), True), "turns", None, batch=True)
    assert "near the end" in check.failed


def test_an_evaluator_that_is_never_called_is_the_only_cause():
    def rollouts(game, board, evaluator, simulations, seed):
        return PlainSearch("uct")(game, board, None, simulations, seed)

    check = check_search(rollouts, "turns")
    assert check.row("evaluator").measured == "the evaluator was never called"
    [cause] = check.causes
    assert "evaluator=None" in cause
    # exact values need no evaluator; an error comes before it
    check_search(alternating_negamax, "plain").assert_ok()
    assert "raises an error" in check_search(lambda *_: raise_(KeyError("x")), "turns").cause


@pytest.mark.more
def test_noise_and_unseeded_searches_are_remarks():
    puct = PlainSearch("puct")

    def noisy(game, board, evaluator, simulations, seed):
        noise = np.random.default_rng(seed).dirichlet(np.full(9, 0.3))
        root = game.index(board)
        priors = evaluator.priors.copy()
        priors[root] = 0.75 * priors[root] + 0.25 * noise
        mixed = PlantedEvaluator(game, evaluator.values, priors)
        return puct(game, board, mixed, simulations, seed)

    fresh = np.random.default_rng()

    def unseeded(game, board, evaluator, simulations, seed):
        return puct(game, board, evaluator, simulations, int(fresh.integers(1_000_000)))

    assert "noise at the root" in check_search(noisy, "plain").row("noise").measured
    check = check_search(unseeded, "skip")
    assert check.row("repeatable").status == "remark"
    assert check.row("signs").status == "no evidence"
    assert check.ok


# -- functions that break


class UnprintableError(Exception):
    def __str__(self):
        raise ValueError


def raise_(error):
    raise error


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda: None, "None is no move"),
        (lambda: "e4", "ValueError"),
        (lambda: 9, "is no move from 0 to 8"),
        (lambda: 0.5, "is no move"),
        (lambda: ([1, 2, 3], 0.0), "numbers of the shape \\(1, 9\\)"),
        (lambda: ([float("nan")] * 9, 0.0), "finite numbers"),
        (lambda: ([0] * 9, 0.0), "visits without a move"),
        (lambda: ([1] * 9, "good"), "ValueError"),
        (lambda: ([1] * 9, 0.0), "illegal moves"),
        (lambda: raise_(SystemExit(3)), "SystemExit: 3"),
        (lambda: raise_(KeyError("x")), "KeyError: 'x' \\(test_checks.py:"),
        (lambda: raise_(UnprintableError()), "exception str\\(\\) failed"),
    ],
)
def test_broken_answers_end_in_a_row(answer, problem):
    check = check_search(lambda *_: answer(), "plain")
    assert check.row("rules").status == "fails"
    assert any(
        re.search(problem, text)
        for text in (check.row("rules").measured, *(e.note for e in check.row("rules").evidence))
    )


@pytest.mark.parametrize("wait", [lambda: time.sleep(0.01), lambda: None])
def test_a_search_that_hangs_costs_its_limit(wait):
    def hang(game, board, evaluator, simulations, seed):
        while True:
            wait()

    begin = time.monotonic()
    check = check_search(hang, "plain", limit_s=0.3)
    assert time.monotonic() - begin < 30
    assert check.failed == ("time",)
    assert check.row("time").evidence
    assert "does not end" in check.cause


def test_output_is_kept_and_global_generators_are_restored(capsys):
    def noisy(game, board, evaluator, simulations, seed):
        print("thinking", random.random(), np.random.random())  # noqa: NPY002
        print("hard", file=sys.stderr)
        return game.legal_actions(board)[0]

    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    expected = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    check = check_search(noisy, "plain")
    assert (random.getstate(), np.random.get_state()[1].tolist()) == expected  # noqa: NPY002
    assert "thinking" in check.row("output").measured
    assert capsys.readouterr() == ("", "")


def test_notices_of_this_package_are_no_output_of_a_search(monkeypatch, capsys):
    logger = logging.getLogger("ttt_envs")
    monkeypatch.setattr(logger, "propagate", False)  # to no handler of pytest

    def compiled(game, board, evaluator, simulations, seed):
        logger.warning("compiling for this processor")
        print("thinking")
        return game.legal_actions(board)[0]

    check = check_search(compiled, "plain")
    assert "thinking" in check.row("output").measured
    assert "compiling" not in check.row("output").measured
    assert "compiling" in capsys.readouterr().err
    assert not logger.handlers


@pytest.mark.more
def test_a_search_without_values_is_judged_by_its_moves():
    puct = PlainSearch("puct")
    check = check_search(lambda *a: puct(*a)[0], "turns")
    check.assert_ok()
    assert {check.row(name).status for name in ("results", "signs", "ends")} == {"no evidence"}


@pytest.mark.parametrize(
    "options",
    [
        {"game": "chess"},
        {"board": "8x8"},
        {"evaluator": "mine"},
        {"simulations": (5, 500)},
        {"simulations": (50, 20)},
        {"seed": -1},
        {"limit_s": 0},
    ],
)
def test_wrong_options_are_refused(options):
    with pytest.raises(ValueError, match="|".join(options)):
        check_search(PlainSearch(), **options)
    with pytest.raises(TypeError, match="no function"):
        check_search("a name")


def test_the_thread_of_a_check_ends_with_it():
    number = threading.active_count()
    with open_caller(None):
        pass
    assert threading.active_count() == number


# -- results


def test_a_check_as_text_page_and_data():
    evidence = Evidence("x.o/.../..o o", "plays <1>")
    rows = [
        CheckRow("rules", "0 broken", "holds", "none"),
        CheckRow("results", "error 0.30", "fails", "at most 0.05", (evidence,)),
        CheckRow("noise", "none", "remark"),
    ]
    check = Check("a search", rows, ("draws count as wins", "a discount"))
    assert (check.ok, check.failed) == (False, ("results",))
    text = str(check)
    assert "fails        results  error 0.30 (limit: at most 0.05)" in text
    assert "x . o   o to move: plays <1>\n. . .\n. . o" in text
    assert text.endswith("verdict: wrong: draws count as wins\n  or: a discount")
    assert "plays &lt;1&gt;" in HTMLFormatter()(check)
    assert json.loads(json.dumps(check.to_dict()))["rows"][1]["evidence"][0]["note"] == "plays <1>"
    with pytest.raises(AssertionError, match="draws count as wins"):
        check.assert_ok()
    assert Check("a search", rows[:1]).ok
    unknown = Check("a search", rows[1:2])
    assert unknown.cause == "none of the known patterns fits"
    empty = Check("a search", rows[2:])
    assert not empty.ok
    assert empty.verdict == "nothing could be measured"
