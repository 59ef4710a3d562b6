"""Planted errors are found and right calls are not: subsets of what tools/check_power.py counts."""

import re
from dataclasses import replace
from itertools import cycle, islice

import check_power
import pytest
from check_power import CHECKS, one_sided_bound, rate_cause
from documents import ROOT
from numpy.testing import assert_allclose
from planted_errors import ERRORS, FAMILIES, plant_loop, plant_search
from right_calls import GAMES, KINDS
from right_loop import check_loop
from right_search import RETURNED

from ttt_eval.checks import check_search
from ttt_eval.store.result_store import UNITS


@pytest.mark.more
@pytest.mark.parametrize(
    ("error", "call", "row"),
    [
        ("", "", ""),
        ("draws recorded as losses", "values", "draws"),
        ("priors ignored", "search", "priors"),
        ("images of boards, not of policies", "policy", "block"),
    ],
)
def test_the_three_calls_of_a_loop(error, call, row):
    checks = check_loop(plant_loop(error).train())
    failed = [name for name, check in checks.items() if check.failed]
    assert failed == [call] * bool(call)
    assert not call or row in checks[call].failed


def test_the_numbers_of_errors_are_those_of_the_page():
    page = "docs/how-to/check-search.md"
    rows = re.findall(r"\| (\d+) \| (\d+)(?: \| \d+){4} \|\n", (ROOT / page).read_text())
    counts = [
        (len(names), sum(not ERRORS[name]["harmless"] for name in names))
        for names in FAMILIES.values()
    ]
    assert [tuple(map(int, row)) for row in rows] == counts, (
        f'the columns "planted" and "do harm" in {page} are to be {counts}'
    )


@pytest.mark.parametrize("error", ERRORS)
def test_planted_texts_are_texts_of_the_code(error):
    plant_loop(error)
    right_cause, broad_cause = ERRORS[error]["causes"]
    assert right_cause
    assert broad_cause


@pytest.mark.more
@pytest.mark.parametrize("family", FAMILIES)
def test_planted_errors_are_found_and_named(family):
    for error in FAMILIES[family][1:10:4]:
        failed = [check for check in CHECKS[family](error).values() if check.failed]
        assert failed, error
        assert rate_cause(error, failed[0]) != "wrong", error


@pytest.mark.more
@pytest.mark.parametrize("turns", GAMES)
@pytest.mark.parametrize("error", ["leaf taken for the other player", "sign never flipped"])
def test_wrong_signs_of_uct_are_found_with_any_seed(error, turns):
    search = plant_search(error, "uct")
    for seed in range(3):
        assert "rollouts" in check_search(search, turns, None, seed=seed).failed
        assert "signs" in check_search(search, turns, seed=seed, priors=False).failed


@pytest.mark.more
@pytest.mark.parametrize("num_seeds", [4, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize("turns", ["turns", "plain"])
@pytest.mark.parametrize(
    ("error", "hides"),
    {
        "results from the root's view": "",
        "no bonus": "",
        "sign alternates with depth": "plain",
        "edge value of the next mover": "",
        "finished games of the other player": "",
        "leaf taken for the other player": "none",
        "selection by the child's side": "",
    }.items(),
)
def test_common_errors_of_rollouts_are_found_with_any_seed(error, hides, turns, num_seeds):
    search = plant_search(error, "uct")
    for seed, returned in enumerate(islice(cycle(RETURNED), num_seeds)):
        if hides not in {turns, returned}:
            check = check_search(replace(search, returned=returned), turns, None, seed=seed)
            assert check.failed, seed


@pytest.mark.more
@pytest.mark.parametrize("kind", KINDS)
def test_right_calls_pass(kind):
    calls = list(KINDS[kind](3))
    for name, call in calls[:: max(1, len(calls) // 10)]:
        assert call().ok, name


@pytest.mark.more
def test_a_log_of_right_calls_goes_on(monkeypatch, tmp_path, capsys):
    calls = {kind: lambda seed, make=make: list(make(seed))[:1] for kind, make in KINDS.items()}
    monkeypatch.setattr(check_power, "KINDS", calls)
    for count, lines in ((1, 5), (2, 10)):
        check_power.main("alarms", count=count, log=tmp_path)
        assert len((tmp_path / UNITS).read_text("utf-8").splitlines()) == 1 + lines
    assert f"| {', '.join(KINDS)} | 10 | 0 | 25.89% |" in capsys.readouterr().out


def test_bounds_of_probabilities():
    assert_allclose(one_sided_bound(0, 1_500), 1 - 0.05 ** (1 / 1_500))  # none of 1,500
    assert one_sided_bound(1, 1) == 1
