"""The published results, computed anew: every study runs, and its verdicts follow from what was measured."""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from evaluation.study import run_units
from ttt_apps import evaluate
from ttt_apps.evaluate import reproduce
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


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_says_what_it_does(name):
    study = load_object(STUDIES[name])
    assert all((study.title, study.source, study.about, study.left_out))
    for quick in (False, True):
        units = [json.dumps(unit) for unit in study.units(quick)]
        assert len(units) == len(set(units)) > 0
    assert len(study.units(True)) <= len(study.units(False))


def test_without_a_name_all_are_listed(capsys):
    evaluate.main(["reproduce"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in STUDIES)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["learners-nave"], "did you mean 'learners-naive'?"), (["learners-cost", "--jobs", "0"], "1 or more processes")],
)
def test_nonsense_is_told(arguments, says, capsys):
    with pytest.raises(SystemExit) as end:
        evaluate.main(["reproduce", *arguments])
    assert end.value.code == 2
    assert says in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_the_quick_form_runs(name, tmp_path, capsys):
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


def test_results_are_kept_until_what_made_them_changes(monkeypatch):
    @cache
    def made_by(study, changed):
        """What is said to have made the results of a study where these files have other contents."""
        read = Path.read_bytes
        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_bytes", lambda path: read(path) + b"#" * path.as_posix().endswith(changed))
            return reproduce._made_by(load_object(STUDIES[study]))

    for study, changed in (
        ("svd-fig4", "ttt_apps/studies/svd_fig4.py"),
        ("svd-fig4", "ttt_apps/studies/compressed.py"),
        ("compression-methods", "evaluation/exact/compression_quality.py"),
        ("learners-naive", "ttt_apps/studies/duels.py"),
        ("learners-cost", "ttt_apps/train_subprocess.py"),
        ("learners-qnet", "ttt_apps/studies/learners_qnet.py"),
        ("svd-fig4", "ttt_apps/studies/__init__.py"),
        ("learning-curves", "ttt_apps/train.py"),
        ("learning-curves", "ttt_apps/runs.py"),
        ("tree-search", "ttt_apps/studies/trees.py"),
        ("tree-search", "evaluation/matches/match.py"),
        ("tree-net", "baselines/expectiminimax/search.py"),
        ("svd-fig4", "learners/q_net.py"),
    ):
        assert made_by(study, changed) != made_by(study, "nothing"), (study, changed)
    for study, changed in (
        ("svd-fig4", "evaluation/reports/plots.py"),
        ("svd-fig4", "evaluation/reports/run.py"),
        ("tree-search", "ttt_apps/studies/svd_fig4.py"),
        ("tree-search", "ttt_apps/evaluate/solve.py"),
        ("compression-methods", "ttt_apps/evaluate/compression_levels.py"),
    ):
        assert made_by(study, changed) == made_by(study, "nothing"), (study, changed)


# ---------------------------------------------------------------------------------------------------------------------
# The report on learners


def duel(challenger=duels.PROGRAM, marks=(0, 30), seed=0):
    return {"name": "x", "challenger": challenger, "benchmark": duels.NAIVE, "marks": list(marks), "seed": seed}


@pytest.mark.parametrize("seed", [0, 1])
def test_a_duel_is_measured_from_the_challenger_s_side(seed):
    untrained, trained = duels.measure(duel(marks=(0, 300), seed=seed))
    first, draw, second = 737 / 1260, 8 / 63, 121 / 420  # random against random: nothing was learned yet
    assert untrained["exact"] == pytest.approx([second, draw, first] if seed == 0 else [first, draw, second])
    for point in (untrained, trained):
        assert sum(point["sampled"]) == 1_000
        assert np.abs(np.array(point["sampled"]) / 1_000 - point["exact"]).max() < 0.08


def test_the_same_seed_gives_the_same_duel():
    assert duels.measure(duel()) == duels.measure(duel())
    assert duels.measure(duel()) != duels.measure(duel(seed=2))


def test_a_study_is_written_as_json(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(learners_naive, "MARKS", (0, 20))
    monkeypatch.setattr(learners_naive, "SEEDS", 2)
    monkeypatch.setattr(
        learners_naive, "PAIRS", dict.fromkeys(learners_naive.PAIRS, duels.PROGRAM)
    )  # the net takes long to start
    evaluate.main(["reproduce", "learners-naive", "--json", "--out", str(tmp_path)])
    result = json.loads(capsys.readouterr().out)
    assert result == json.loads((tmp_path / "result.json").read_text())
    assert {claim["holds"] for claim in result["claims"]} == {None}  # twenty games decide nothing


def results(units, exact):
    """What a measurement gives where every run of ``units`` has the exact results ``exact(unit, games)``."""
    return [
        (
            unit,
            [
                {
                    "games": games,
                    "exact": list(exact(unit, games)),
                    "sampled": [round(200 * p) for p in exact(unit, games)],
                }
                for games in unit["marks"]
            ],
        )
        for unit in units
    ]


def test_the_report_s_words_hold_where_the_numbers_are_so(monkeypatch):
    monkeypatch.setattr(learners_naive, "SEEDS", 3)
    units = learners_naive.units(False)
    found = learners_naive.analyse(results(units, lambda unit, games: (0.8, 0.15, 0.05)))
    assert [claim.holds for claim in found.claims] == [True] * 5
    assert all(row.agrees for row in found.rows)
    found = learners_naive.analyse(results(units, lambda unit, games: (0.1, 0.15, 0.75)))
    assert [claim.holds for claim in found.claims] == [False] * 5


def test_q_learning_is_ahead_until_both_draw(monkeypatch):
    monkeypatch.setattr(learners_qnet, "SEEDS", 3)
    units = learners_qnet.units(False)
    as_told = results(units, lambda unit, games: (0.8, 0.1, 0.1) if games < 20_000 else (0, 1, 0))
    assert [claim.holds for claim in learners_qnet.analyse(as_told).claims] == [True, True]
    otherwise = results(units, lambda unit, games: (0.3, 0.1, 0.6))
    assert [claim.holds for claim in learners_qnet.analyse(otherwise).claims] == [False, False]


def spread(mean, run, runs, width):
    """Shares of wins of ``runs`` runs around a mean, so far apart."""
    return mean + width * (2 * run / (runs - 1) - 1)


def test_means_that_runs_leave_open_decide_nothing(monkeypatch):
    monkeypatch.setattr(learners_naive, "SEEDS", 4)
    units = learners_naive.units(False)

    def exact(unit, games):  # 0.95 wins and draws, 0.6 more wins than draws and losses, of runs that differ
        win = spread(0.75, unit["seed"], 4, 0.25)
        return (win, 0.05 + (1 - win) / 2 - 0.025, (1 - win) / 2 - 0.025)

    def as_far_apart(unit, games):
        lost = unit["seed"] % 4 == 0  # one run of four loses all, three draw
        return (0.0, 0.0, 1.0) if lost else (0.05, 0.95, 0.0)

    found = learners_naive.analyse(results(units, as_far_apart))
    assert [claim.holds for claim in found.claims[:3]] == [None] * 3  # 0.75 on the mean, in an interval to 1
    assert "0.750 (0.000 to 1.000)" in found.claims[0].evidence
    assert found.claims[4].holds is None
    assert learners_naive.analyse(results(units, exact)).claims[3].holds is True
    net = results(learners_qnet.units(False), lambda unit, games: (0.0, 1.0, 0.0) if unit["seed"] else (1.0, 0.0, 0.0))
    assert learners_qnet.analyse(net).claims[1].holds is None  # 0.9 of ten runs drawn: more than 0.9, or less


def test_a_better_mean_alone_is_not_the_best_optimizer():
    units = learners_optimizer.units(False)

    def exact(unit, games):
        ours = unit["name"] == "adam 0.001"
        win = spread(0.5 if ours else 0.45, unit["seed"] * (1 if ours else -1) % 3, 3, 0.3)
        return (win, 0.0, 1 - win)

    [claim] = learners_optimizer.analyse(results(units, exact)).claims
    assert claim.holds is None


def test_the_best_optimizer_is_the_one_that_loses_least():
    units = learners_optimizer.units(False)

    def best(name):
        return results(units, lambda unit, games: (0.5, 0.3, 0.2) if unit["name"] == name else (0.1, 0.3, 0.6))

    assert learners_optimizer.analyse(best("adam 0.001")).claims[0].holds is True
    assert learners_optimizer.analyse(best("sgd 0.1")).claims[0].holds is False
    assert learners_optimizer.analyse(best("none")).claims[0].holds is None  # all alike


def costs(q_net=18e-5, bend=0.0, noise=0.02):
    """What processes took where a game costs this much of user's CPU, and q-net's learning slows down by ``bend``."""
    per_game = {"naive-mc": 1e-5, "q-learning": 2e-5, "q-net": q_net}
    memory = {"naive-mc": 1.0, "q-learning": 0.85, "q-net": 7.5}
    told = []
    for unit in learners_cost.units(False):
        name, games = unit["learner"], unit["games"]
        most = max(learners_cost.GAMES[unit["batch"]][name])
        user = per_game[name] * games * (1 + noise * (unit["repeat"] - 2))
        user += (games / most) ** 2 * per_game[name] * most * (bend if name == "q-net" else 0.0)
        told.append(
            (
                unit,
                {
                    "cpu_user_s": 3 + user,
                    "cpu_system_s": 0.5 + user / 100,
                    "wall_s": 4.0,
                    "peak_rss_bytes": 1e8 * memory[name] * (1 + 0.001 * unit["repeat"]),
                },
            )
        )
    return told


def test_costs_of_a_game_leave_the_start_out():
    found = learners_cost.analyse(costs())
    assert [claim.holds for claim in found.claims] == [True] * 7
    assert found.rows[0].ours.startswith("10.1 (9.7 to 10.5) us CPU a game, of it system 1 (1 to 1)%")
    assert "18.0 (18.0 to 18.0) times one game at a time" in found.claims[0].evidence


def test_costs_that_differ_too_much_decide_nothing():
    far = costs(q_net=20e-5)
    for unit, result in far:
        if unit["learner"] == "q-net":
            result["cpu_user_s"] += unit["games"] * 5e-5 * (unit["repeat"] - 2)
    assert learners_cost.analyse(far).claims[0].holds is None  # 20 times on the mean, 10 to 30
    assert learners_cost.analyse(costs(q_net=60e-5)).claims[0].holds is False
    lost = costs()
    for unit, result in lost:  # games that take nothing, as far as noise lets one see
        if unit["learner"] == "naive-mc" and unit["repeat"] == 0:
            result["cpu_user_s"] = 3 - 1e-6 * unit["games"]
    claim = learners_cost.analyse(lost).claims[0]
    assert claim.holds is None
    assert claim.evidence.startswith("an unknown number of times one game at a time")


def test_costs_are_linear_where_a_parabola_says_so():
    linear = 5
    assert learners_cost.analyse(costs(bend=0.1)).claims[linear].holds is True
    assert learners_cost.analyse(costs(bend=4.0)).claims[linear].holds is False
    rough = costs()
    for unit, result in rough:  # one repeat of five bends
        if unit["repeat"] == 0 and unit["learner"] == "q-net":
            most = max(learners_cost.GAMES[unit["batch"]]["q-net"])
            result["cpu_user_s"] += 10 * 18e-5 * unit["games"] ** 2 / most
    assert learners_cost.analyse(rough).claims[linear].holds is None


def test_costs_are_measured_in_processes_of_their_own(tmp_path):
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


def test_figure_4_is_of_the_table_as_published():
    [point] = svd_fig4.measure({"terminal": "as_published", "ranks": [18], "batches": 1})
    assert [round(rate, 4) for rate in compressed.mean(point)] == [0.1284, 0.7933, 0.0783]  # known without us
    assert point["error"] == pytest.approx(0.41339, abs=5e-6)
    assert point["numbers"] == 5832
    assert compressed.rates_agree([point])
    assert not compressed.rates_agree([{**point, "exact": [[0.3, 0.4, 0.3]] * 2}])


@pytest.mark.parametrize(("pair", "rates"), [((3, 7), (0.382, 0.357)), ((12, 14), (0.252, 0.188))])
def test_figure_5_has_the_known_results(pair, rates):
    point = svd_fig5.measure({"terminal": "as_published", "method": "hosvd", "pair": pair, "batches": 0})
    win, _, loss = compressed.mean(point)
    assert (round(win, 3), round(loss, 3)) == rates


def test_the_paper_s_claims_about_table_1(tmp_path, capsys):
    evaluate.main(["reproduce", "svd-table1", "--out", str(tmp_path), "--json"])
    result = json.loads(capsys.readouterr().out)
    assert all(row["agrees"] for row in result["rows"])
    assert [claim["holds"] for claim in result["claims"]] == [False, False, True]


def test_a_dial_goes_from_random_play_to_the_whole_table(capsys):
    evaluate.main(["compression-levels", "svd", "--ranks", "0", "18", "81", "--json"])
    dial = json.loads(capsys.readouterr().out)
    nothing, some, whole = dial["ranks"]
    first, second = (191 / 192, 874 / 945)  # best responses to random play, known without us
    assert nothing["exploitability"] == pytest.approx((first + second) / 2)
    assert nothing["exploitability"] > some["exploitability"] > whole["exploitability"]
    assert whole["exploitability"] == pytest.approx((0.914598047 + 0.043916719) / 2, abs=1e-8)
    assert whole["win"] == pytest.approx(whole["loss"])
    assert (some["stored_numbers"], nothing["stored_numbers"]) == (5832, 0)


def test_a_dial_refuses_what_it_has_not(capsys):
    with pytest.raises(SystemExit):
        evaluate.main(["compression-levels", "svd", "--ranks", "82"])
    assert "0 to 81" in capsys.readouterr().err
