"""Reproductions of published results: every study runs, and its verdicts follow from the measurements."""

import json
import re

import numpy as np
import pytest
from commands import json_of

from ttt_apps import evaluate
from ttt_apps.studies import (
    STUDIES,
    compressed,
    duels,
    learners_cost,
    learners_naive,
    learners_optimizer,
    learners_qnet,
    svd_fig4,
    svd_fig5,
)
from ttt_envs.agents.specs import load_object
from ttt_eval.study import run_units


@pytest.mark.parametrize("name", STUDIES)
def test_studies_are_described_and_have_distinct_units(name):
    study = load_object(STUDIES[name])
    assert all((study.title, study.source, study.about, study.left_out))
    for quick in (False, True):
        units = [json.dumps(unit) for unit in study.units(quick)]
        assert len(units) == len(set(units)) > 0
    assert len(study.units(True)) <= len(study.units(False))


def test_without_a_name_all_studies_are_listed(capsys):
    evaluate.main(["reproduce"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in STUDIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_quick_form(name, tmp_path, capsys):
    evaluate.main(["reproduce", name, "--quick", "--out", str(tmp_path)])
    shown = capsys.readouterr().out
    assert "quick form" in shown
    assert "written" in shown
    named = re.findall(r"!\[.*\]\((.*)\)", (tmp_path / "table.md").read_text())
    assert sorted(named) == sorted(path.name for path in tmp_path.glob("*.png"))
    assert named or name in ("svd-table1", "compression-4x4")  # which are tables alone
    for picture in named:
        assert (tmp_path / picture).stat().st_size > 10_000
        assert (tmp_path / picture).with_suffix(".svg").read_text().startswith("<?xml")
    assert json.loads((tmp_path / "result.json").read_text())["quick"] is True


# ---------------------------------------------------------------------------------------------------------------------
# The report on learners


def duel(challenger=duels.PROGRAM, marks=(0, 30), seed=0):
    return {"name": "x", "challenger": challenger, "benchmark": duels.NAIVE, "marks": list(marks), "seed": seed}


@pytest.mark.parametrize("seed", [0, 1])
def test_duels_are_measured_from_the_challengers_side(seed):
    untrained, trained = duels.measure(duel(marks=(0, 300), seed=seed))
    first, draw, second = 737 / 1260, 8 / 63, 121 / 420  # random against random: nothing was learned yet
    assert untrained["exact"] == pytest.approx([second, draw, first] if seed == 0 else [first, draw, second])
    for point in (untrained, trained):
        assert sum(point["sampled"]) == 1_000
        assert np.abs(np.array(point["sampled"]) / 1_000 - point["exact"]).max() < 0.08


def test_duels_depend_on_their_seed_only():
    assert duels.measure(duel()) == duels.measure(duel())
    assert duels.measure(duel()) != duels.measure(duel(seed=2))


def test_results_as_json(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(learners_naive, "MARKS", (0, 20))
    monkeypatch.setattr(learners_naive, "SEEDS", 2)
    # the net takes long to start
    monkeypatch.setattr(learners_naive, "PAIRS", dict.fromkeys(learners_naive.PAIRS, duels.PROGRAM))
    result = json_of(capsys, "reproduce", "learners-naive", "--out", tmp_path)
    assert result == json.loads((tmp_path / "result.json").read_text())
    assert {claim["holds"] for claim in result["claims"]} == {None}  # twenty games decide nothing


def verdicts(report):
    return [claim.holds for claim in report.claims]


def results(study, exact, monkeypatch=None, seeds=None):
    """Measurements of a full study in which a run has nearly the exact results ``exact(unit, games)``: runs differ."""
    if seeds:
        monkeypatch.setattr(study, "SEEDS", seeds)

    def point(unit, games):
        rates = np.array(exact(unit, games), np.float64)
        rates[[rates.argmax(), rates.argmin()]] += 1e-6 * unit["seed"] * np.array([-1, 1])
        return {"games": games, "exact": list(rates), "sampled": [round(200 * rate) for rate in rates]}

    return [(unit, [point(unit, games) for games in unit["marks"]]) for unit in study.units(False)]


def wins_around(mean, run, runs, width):
    """The share of wins of one of ``runs`` evenly spread runs."""
    return mean + width * (2 * run / (runs - 1) - 1)


GOOD, BAD = (0.8, 0.15, 0.05), (0.1, 0.15, 0.75)


@pytest.mark.parametrize(
    ("table", "net", "holds"),
    [(GOOD, GOOD, [True] * 5), (BAD, BAD, [False] * 5), (GOOD, BAD, [True, True, False, False, False])],
)
def test_naive_claims_follow_from_the_rates(table, net, holds, monkeypatch):
    def exact(unit, games):
        return net if "q-net" in unit["name"] else table

    report = learners_naive.analyse(results(learners_naive, exact, monkeypatch, 3))
    assert verdicts(report) == holds
    assert all(row.agrees for row in report.rows)


def test_qnet_claims_follow_from_the_rates(monkeypatch):
    for early, late, holds in (((0.8, 0.1, 0.1), (0, 1, 0), True), ((0.3, 0.1, 0.6), (0.3, 0.1, 0.6), False)):
        found = results(learners_qnet, lambda unit, games: early if games < 20_000 else late, monkeypatch, 3)  # noqa: B023
        assert verdicts(learners_qnet.analyse(found)) == [holds, holds]
    monkeypatch.undo()
    mixed = results(learners_qnet, lambda unit, games: (0.0, 1.0, 0.0) if unit["seed"] else (1.0, 0.0, 0.0))
    assert verdicts(learners_qnet.analyse(mixed))[1] is None  # nine of ten runs drawn: more than 0.9, or less


def test_claims_about_means_are_undecided_if_runs_differ(monkeypatch):
    def one_of_four_loses(unit, games):
        return (0.05, 0.95, 0.0) if unit["seed"] % 4 else (0.0, 0.0, 1.0)

    def more_wins_than_draws(unit, games):
        win = wins_around(0.75, unit["seed"], 4, 0.25)
        return (win, 0.05 + (1 - win) / 2 - 0.025, (1 - win) / 2 - 0.025)

    report = learners_naive.analyse(results(learners_naive, one_of_four_loses, monkeypatch, 4))
    assert verdicts(report)[:3] == [None] * 3  # 0.75 on the mean, in an interval to 1
    assert "0.750 (0.000 to 1.000)" in report.claims[0].evidence
    assert verdicts(report)[4] is None
    assert verdicts(learners_naive.analyse(results(learners_naive, more_wins_than_draws, monkeypatch, 4)))[3] is True


@pytest.mark.parametrize(
    ("best", "holds"), [("adam 0.001", True), ("sgd 0.1", False), ("none", None), ("adam 0.001, by its mean", None)]
)
def test_the_best_optimizer_follows_from_the_values(best, holds):
    def exact(unit, games):
        name = unit["name"]
        if "mean" not in best:
            return (0.5, 0.3, 0.2) if name == best else (0.1, 0.3, 0.6)
        ours = name == "adam 0.001"
        win = wins_around(0.5 if ours else 0.45, unit["seed"] * (1 if ours else -1) % 3, 3, 0.3)
        return (win, 0.0, 1 - win)

    assert verdicts(learners_optimizer.analyse(results(learners_optimizer, exact))) == [holds]


def costs(q_net=18e-5, bend=0.0, noise=0.02):
    """Costs of processes in which a game of q-net takes ``q_net`` user CPU, and q-net slows down by ``bend``."""
    per_game = {"naive-mc": 1e-5, "q-learning": 2e-5, "q-net": q_net}
    memory = {"naive-mc": 1.0, "q-learning": 0.85, "q-net": 7.5}
    found = []
    for unit in learners_cost.units(False):
        name, games = unit["learner"], unit["games"]
        most = max(learners_cost.GAMES[unit["batch"]][name])
        user = per_game[name] * games * (1 + noise * (unit["repeat"] - 2))
        user += (games / most) ** 2 * per_game[name] * most * (bend if name == "q-net" else 0.0)
        peak = 1e8 * memory[name] * (1 + 0.001 * unit["repeat"])
        cost = {"cpu_user_s": 3 + user, "cpu_system_s": 0.5 + user / 100, "wall_s": 4.0, "peak_rss_bytes": peak}
        found.append((unit, cost))
    return found


def test_cost_per_game_excludes_the_startup():
    found = learners_cost.analyse(costs())
    assert [claim.holds for claim in found.claims] == [True] * 7
    assert found.rows[0].ours.startswith("10.1 (9.7 to 10.5) us CPU a game, of it system 1 (1 to 1)%")
    assert "18.0 (18.0 to 18.0) times one game at a time" in found.claims[0].evidence


def test_cost_claims_are_undecided_if_repeats_differ():
    far = costs(q_net=20e-5)
    for unit, result in far:
        if unit["learner"] == "q-net":
            result["cpu_user_s"] += unit["games"] * 5e-5 * (unit["repeat"] - 2)
    assert learners_cost.analyse(far).claims[0].holds is None  # 20 times on the mean, 10 to 30
    assert learners_cost.analyse(costs(q_net=60e-5)).claims[0].holds is False
    lost = costs()
    for unit, result in lost:  # noise exceeds the cost of games
        if unit["learner"] == "naive-mc" and unit["repeat"] == 0:
            result["cpu_user_s"] = 3 - 1e-6 * unit["games"]
    claim = learners_cost.analyse(lost).claims[0]
    assert claim.holds is None
    assert claim.evidence.startswith("an unknown number of times one game at a time")


def test_linear_cost_is_tested_by_a_parabola():
    linear = 5
    assert learners_cost.analyse(costs(bend=0.1)).claims[linear].holds is True
    assert learners_cost.analyse(costs(bend=4.0)).claims[linear].holds is False
    rough = costs()
    for unit, result in rough:  # one repeat of five bends
        if unit["repeat"] == 0 and unit["learner"] == "q-net":
            most = max(learners_cost.GAMES[unit["batch"]]["q-net"])
            result["cpu_user_s"] += 10 * 18e-5 * unit["games"] ** 2 / most
    assert learners_cost.analyse(rough).claims[linear].holds is None


def test_costs_are_measured_in_separate_processes(tmp_path):
    study = load_object(STUDIES["learners-cost"])
    assert study.alone
    unit = {**study.units(True)[0], "games": 5}
    [(_, measured)] = run_units(
        learners_cost.Study("", "", "", lambda quick: [unit], study.measure, study.analyse, ""), tmp_path, {}
    )
    assert measured["cpu_user_s"] > 0.1
    assert measured["peak_rss_bytes"] > 2**25


# ---------------------------------------------------------------------------------------------------------------------
# The paper on compressed tables


def test_figure_4_uses_the_table_as_published():
    [point] = svd_fig4.measure({"terminal": "as_published", "ranks": [18], "batches": 1})
    assert [round(rate, 4) for rate in compressed.mean(point)] == [0.1284, 0.7933, 0.0783]  # known without us
    assert point["error"] == pytest.approx(0.41339, abs=5e-6)
    assert point["numbers"] == 5832
    assert compressed.rates_agree([point])
    assert not compressed.rates_agree([{**point, "exact": [[0.3, 0.4, 0.3]] * 2}])


@pytest.mark.parametrize(("pair", "rates"), [((3, 7), (0.382, 0.357)), ((12, 14), (0.252, 0.188))])
def test_figure_5_has_known_results(pair, rates):
    point = svd_fig5.measure({"terminal": "as_published", "method": "hosvd", "pair": pair, "batches": 0})
    win, _, loss = compressed.mean(point)
    assert (round(win, 3), round(loss, 3)) == rates


def test_claims_about_table_1(tmp_path, capsys):
    result = json_of(capsys, "reproduce", "svd-table1", "--out", tmp_path)
    assert all(row["agrees"] for row in result["rows"])
    assert [claim["holds"] for claim in result["claims"]] == [False, False, True]


def test_compression_levels_range_from_random_play_to_the_whole_table(capsys):
    nothing, some, whole = json_of(capsys, "compression-levels", "svd", "--ranks", "0", "18", "81")["ranks"]
    first, second = (191 / 192, 874 / 945)  # best responses to random play, known without us
    assert nothing["exploitability"] == pytest.approx((first + second) / 2)
    assert nothing["exploitability"] > some["exploitability"] > whole["exploitability"]
    assert whole["exploitability"] == pytest.approx((0.914598047 + 0.043916719) / 2, abs=1e-8)
    assert whole["win"] == pytest.approx(whole["loss"])
    assert (some["stored_numbers"], nothing["stored_numbers"]) == (5832, 0)
