"""``evaluate.py check`` prints what Python computes, and refuses what is not right."""

import json

import numpy as np
import pytest

from examples.checks import losses, puct, q_learning
from ttt_apps import evaluate
from ttt_apps.evaluate import COMMANDS
from ttt_envs import Game, make_policy
from ttt_eval.checks import (
    check_advantages,
    check_agent,
    check_learner,
    check_loss,
    check_search,
    check_values,
    gae,
)

WRONG = "examples.checks.puct:wrong_search"


def first_free(board):
    return board.index(0)


def opposite(board):
    """Values for the other player."""
    return -float(sum(board) > 0)


def is_own_evaluation(game, board, evaluator, simulations, seed):
    assert evaluator is None
    return game.legal_actions(board)[0]


def train_nothing(make_env, steps, seed):
    assert make_env(4).num_envs == 4
    return lambda observations: np.zeros((len(observations), 9))


def run_check(capsys, *words):
    """The exit code, the output and the messages of a command."""
    code = 0
    try:
        evaluate.main(["check", *words])
    except SystemExit as end:
        code = end.code
    return code, *capsys.readouterr()


CASES = {
    ("search", "examples.checks.puct:search", "--simulations", "20", "40", "--seed=1"): (
        lambda: check_search(puct.search, simulations=(20, 40), seed=1)
    ),
    ("agent", "optimal", "--game=skip"): lambda: check_agent("optimal", "skip"),
    ("values", "optimal", "--seed=5"): (
        lambda: check_values(make_policy("optimal", Game()), seed=5)
    ),
    ("advantages", "gae", "--game=2x3/2"): lambda: check_advantages(gae, "2x3/2"),
    ("loss", "examples.checks.losses:policy_gradient", "--game=2x3/2"): (
        lambda: check_loss(losses.policy_gradient, "2x3/2")
    ),
    ("learner", "examples.checks.q_learning:train", "--probes=bandit", "--seeds=1"): (
        lambda: check_learner(q_learning.train, ["bandit"], seeds=1)
    ),
    ("search", WRONG, "--game=skip", "--seed=3", "--simulations", "20", "60", "--no-priors"): (
        lambda: check_search(puct.wrong_search, "skip", simulations=(20, 60), seed=3, priors=False)
    ),
    ("search", f"{__name__}:is_own_evaluation", "--evaluator=none"): (
        lambda: check_search(is_own_evaluation, evaluator=None)
    ),
    ("agent", f"{__name__}:first_free", "--own-play", "--board=connect-four", "--game=turns"): (
        lambda: check_agent(first_free, "turns", board="connect-four", own_play=True)
    ),
    ("values", f"{__name__}:opposite", "--seed=1"): lambda: check_values(opposite, seed=1),
    ("learner", f"{__name__}:train_nothing", "--probes", "bandit", "trap", "--family=dqn"): (
        lambda: check_learner(train_nothing, ["bandit", "trap"], "dqn")
    ),
}


def test_every_check_has_a_case():
    assert {words[0] for words in CASES} == {*COMMANDS["check"]["commands"]}


@pytest.mark.parametrize("words", CASES, ids=" ".join)
def test_it_prints_the_check_as_text_and_json(words, capsys):
    check = CASES[words]()
    code, text, messages = run_check(capsys, *words)
    assert text == f"{check}\n"
    assert code == (0 if check.ok else 2)
    assert check.ok or messages.endswith(f"error: {words[1]}: {check.verdict}\n")
    _, text, _ = run_check(capsys, *words, "--json")
    data = json.loads(text)
    assert data["name"] == words[1]
    assert data | json.loads(json.dumps(check.to_dict())) == data


def test_the_page_has_the_rows_and_the_boards_of_failed_ones(tmp_path, capsys):
    page = tmp_path / "page.html"
    run_check(capsys, "agent", "win-or-block", f"--out={page}")
    check = check_agent("win-or-block")
    text = page.read_text().replace(' class="long"', "")
    assert f'<p class="verdict">{check.verdict}.' in text.replace("&#39;", "'")
    assert text.count('role="img"') == sum(len(row.evidence) for row in check.rows) > 2
    for row in check.rows:
        assert f'<th scope="row">{row.name}</th> <td>{row.measured}</td>' in text
        assert (f"<h3>{row.name}</h3>" in text) == bool(row.evidence)
    assert f"python evaluate.py check agent win-or-block --out {page} --game plain" in text


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("search", "mcts"), "'mcts' is no function"),
        (("values", "win-or-block"), "NAME=win-or-block has no values"),
        (("search", WRONG, "--simulations", "5", "50"), "too few"),
        (("agent", "optimal", "--out=page.txt"), "is no page"),
        (("learner", "dqn"), "'dqn' is no function"),
        (("learner", f"{__name__}:first_free", "--probes=slow"), "there is no probe 'slow'"),
    ],
    ids=str,
)
def test_requests_that_cannot_be_checked_are_refused(words, problem, evaluate_py):
    assert problem in evaluate_py.error("check", *words)
