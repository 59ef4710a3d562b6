"""``evaluate.py check`` prints what Python computes, and refuses what is not right."""

import json

import pytest
from commands import error_of

from examples.checks.puct import wrong_search
from ttt_apps import evaluate
from ttt_envs import Game, make_policy
from ttt_eval.checks import check_agent, check_search, check_values

WRONG = "examples.checks.puct:wrong_search"


def first_free(board):
    return board.index(0)


def opposite(board):
    """Values for the other player."""
    return -float(sum(board) > 0)


def is_own_evaluation(game, board, evaluator, simulations, seed):
    assert evaluator is None
    return game.legal_actions(board)[0]


def ending_of(capsys, *words):
    """The output of a command that finds an error, and the last line of its messages."""
    with pytest.raises(SystemExit) as end:
        evaluate.main(["check", *words])
    output = capsys.readouterr()
    assert end.value.code == 2
    return output.out, output.err.splitlines()[-1]


CASES = {
    ("search", WRONG, "--simulations", "20", "60"): (
        lambda: check_search(wrong_search, simulations=(20, 60))
    ),
    ("search", WRONG, "--game=skip", "--seed=3", "--simulations", "20", "60"): (
        lambda: check_search(wrong_search, "skip", simulations=(20, 60), seed=3)
    ),
    ("search", f"{__name__}:is_own_evaluation", "--evaluator=none"): (
        lambda: check_search(is_own_evaluation, evaluator=None)
    ),
    ("agent", f"{__name__}:first_free"): lambda: check_agent(first_free),
    ("agent", f"{__name__}:first_free", "--own-play", "--board=4x4", "--game=turns"): (
        lambda: check_agent(first_free, "turns", board="4x4", own_play=True)
    ),
    ("agent", "win-or-block"): lambda: check_agent("win-or-block"),
    ("values", f"{__name__}:opposite", "--seed=1"): lambda: check_values(opposite, seed=1),
    ("values", "optimal", "--policy=random"): (
        lambda: check_values(make_policy("optimal", Game()), policy="random")
    ),
}


@pytest.mark.parametrize("words", CASES, ids=" ".join)
def test_it_prints_the_check_as_text_and_json(words, capsys):
    check = CASES[words]()
    assert not check.ok
    text, message = ending_of(capsys, *words)
    assert text == f"{check}\n"
    assert message == f"error: {words[1]}: {check.verdict}"
    data = json.loads(ending_of(capsys, *words, "--json")[0])
    settings = {key: data.pop(key) for key in list(data) if key not in check.to_dict()}
    assert data == json.loads(json.dumps(check.to_dict()))
    assert (settings["name"], settings["board"]) == (
        words[1], "4x4" if "--board=4x4" in words else "3x3",
    )  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ("search", "examples.checks.puct:search", "--simulations", "20", "60"),
        ("agent", "optimal:epsilon=0.0"),
        ("values", "optimal", "--game=skip"),
    ],
    ids=" ".join,
)
def test_what_is_right_ends_without_an_error(words, capsys):
    evaluate.main(["check", *words])
    assert capsys.readouterr().out.endswith("\nverdict: no error found\n")


def test_the_page_has_the_rows_and_the_boards_of_failed_ones(tmp_path, capsys):
    page = tmp_path / "page.html"
    _, message = ending_of(capsys, "agent", "win-or-block", "--seed=2", f"--out={page}")
    check = check_agent("win-or-block", seed=2)
    assert message == f"error: win-or-block: {check.verdict}"
    text = page.read_text()
    assert f'<p class="verdict">{check.verdict}.' in text.replace("&#39;", "'")
    positions = [evidence for row in check.rows for evidence in row.evidence]
    assert text.count('role="img"') == len(positions) > 2
    for row in check.rows:
        assert f'<th scope="row">{row.name}</th> <td>{row.measured}</td>' in text
        assert (f"<h3>{row.name}</h3>" in text) == bool(row.evidence)
    assert f"python evaluate.py check agent win-or-block --out {page} --game plain" in text
    again = ("agent", "optimal", f"--out={page}")
    assert f"{page} is there already" in error_of(capsys, evaluate.main, "check", *again)
    assert page.read_text() == text


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("search", "mcts"), "'mcts' is no function"),
        (("search", "examples.checks.puct:serch"), "did you mean 'search'?"),
        (("agent", "nobody"), "there is no policy 'nobody'"),
        (("agent", "mcts:simulations=5"), "is not pure"),
        (("values", "win-or-block"), "NAME=win-or-block has no values"),
        (("values", "optimal", "--game=turns", "--policy=random"), "has no exact values here"),
        (("search", WRONG, "--simulations", "5", "50"), "too few"),
        (("agent", "optimal", "--limit-s=0"), "is no limit"),
        (("agent", "optimal", "--out=page.txt"), "is no page"),
    ],
    ids=str,
)
def test_requests_that_cannot_be_checked_are_refused(words, problem, capsys):
    assert problem in error_of(capsys, evaluate.main, "check", *words)
