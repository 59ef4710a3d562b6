"""The study of what forgetting costs: its quick form with fewer updates, and verdicts that follow from the numbers."""

import json

import pytest

from ttt_apps import evaluate
from ttt_apps.studies import what_forgetting_costs as study
from ttt_envs.game.phantom import PhantomGame


def test_the_quick_form_with_fewer_updates(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(study, "QUICK_UPDATES", 5)
    evaluate.main(["reproduce", "what-forgetting-costs", "--quick", "--out", str(tmp_path)])
    assert "quick form" in capsys.readouterr().out
    assert (tmp_path / "what-forgetting-costs-classic.png").stat().st_size > 10_000
    assert not (tmp_path / "what-forgetting-costs-abrupt.png").exists()
    measured = json.loads((tmp_path / "result.json").read_text())["data"]
    assert [unit["setting"] for unit in measured] == [study.NONE, study.ANNEALED]
    for unit in measured:
        assert [row["updates"] for row in unit["rows"]] == [0, 5]
        first, last = (row["exploitability"] for row in unit["rows"])
        assert last < first - 0.1
        for row in unit["rows"]:
            assert row["exploitability"] == pytest.approx((row["first"] + row["second"]) / 2, abs=1e-12)
            assert -row["second"] <= row["value"] <= row["first"]


def results(exploitability):
    """Measurements of the full form in the classic variant: ``exploitability(setting, seed)`` after the last update."""
    return [
        (
            unit,
            [
                {
                    "updates": mark,
                    "value": 0.5,
                    "first": 0.7 + unit["seed"] / 100,
                    "second": -0.6 + unit["seed"] / 100,
                    "exploitability": exploitability(unit["setting"], unit["seed"]),
                }
                for mark in unit["marks"]
            ],
        )
        for unit in study.units(False)
        if unit["phantom"] == "classic"
    ]


@pytest.mark.parametrize(
    ("exploitability", "small", "annealed"),
    [
        (lambda name, seed: 0.1 + seed / 1000 if name == study.ANNEALED else 0.5 - seed / 1000, True, True),
        (lambda name, seed: 0.5 + seed / 1000 if name == study.ANNEALED else 0.3 - seed / 1000, False, False),
        (lambda name, seed: (0.0, 0.9, 0.3)[seed if name == study.NONE else 2 - seed], None, None),
    ],
    ids=["better", "worse", "undecided"],
)
def test_verdicts_follow_from_the_numbers(exploitability, small, annealed, monkeypatch):
    monkeypatch.setattr(study, "exploitability", lambda game, policy: 0.79 * (game == PhantomGame(kind="classic")))
    assert [claim.holds for claim in study.analyse(results(exploitability)).claims] == [small, annealed]


@pytest.mark.parametrize(("published", "agrees"), [(0.6667, True), (0.59, False), (0.71, False)])
def test_the_published_value_is_compared_with_the_best_bounds(published, agrees, monkeypatch):
    monkeypatch.setattr(study, "exploitability", lambda game, policy: 0.79)
    monkeypatch.setitem(study.PUBLISHED_VALUES, "classic", published)
    row = study.analyse(results(lambda name, seed: 0.1)).rows[-1]
    assert (row.published, row.agrees) == (f"{published:+.4f}", agrees)
    assert row.ours.startswith("+0.6000 to +0.7000")
