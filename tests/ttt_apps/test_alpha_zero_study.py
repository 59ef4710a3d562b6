"""The study of alpha-zero: measurements, and verdicts that follow from them."""

import dataclasses
import json

import numpy as np
import pytest

from learners.alpha_zero import AlphaZeroConfig
from ttt_apps.studies.alpha_zero import ablation, curves, proved_positions, study, training_runs
from ttt_envs import Game
from ttt_eval.exact.proved_positions import ProvedPosition
from ttt_eval.matches.games import Move, PlayedGame
from ttt_eval.reports.study import write_report_files
from ttt_eval.study import run_units

SKIPS = Game(skip_chance=0.25)


def curve(exploitability, cpu_s=None):
    count = len(exploitability)
    times = np.arange(1.0, count + 1) if cpu_s is None else np.array(cpu_s)
    return training_runs.TrainingCurve(100 * np.arange(1.0, count + 1), times, np.array(exploitability))


def test_a_threshold_is_reached_if_it_is_never_exceeded_later():
    assert curve([0.5, 0.0, 0.3, 0.0, 0.0]).reach(training_runs.ROUNDING) == (400, 4)
    assert curve([0.0, 0.0]).reach(training_runs.ROUNDING) == (100, 1)
    assert curve([0.0, 0.5]).reach(training_runs.ROUNDING) == (np.inf, np.inf)
    assert curve([0.5, 0.2, 0.1]).at(2.5) == 0.2
    assert curve([0.5, 0.2, 0.1]).at(0.5) == 1.0  # nothing was measured so early
    assert training_runs.format_cpu_seconds([1.0, np.inf, 3.0]) == "in 2 of 3 runs after 2.0 (1.0 to 3.0) CPU s"
    assert training_runs.format_cpu_seconds([np.inf]) == "never"


@pytest.mark.parametrize("learner", ["q-learning", "naive-mc"])
def test_measurements_are_reproducible(learner):
    unit = training_runs.training_unit(learner, Game(2, 3, 2), 6_000, 3)
    unit |= {"marks": (0.25, 1.0), "searched": (), "simulations": 0}
    one, other = training_runs.train_and_measure(unit), training_runs.train_and_measure(json.loads(json.dumps(unit)))
    assert one["games"] == other["games"]
    assert one["games"][-1] == 6_000
    assert one["exploitability"] == other["exploitability"]
    assert all(np.diff(one["cpu_s"]) > 0)
    assert one["searched"] == [None, None]


def test_learners_that_cannot_stop_between_steps_are_rejected():
    with pytest.raises(ValueError, match="value-net trains in a loop of its own"):
        training_runs.make_training(
            {"learner": "value-net", "settings": {}, "game": Game().to_dict(), "games": 1, "seed": 0}
        )


@pytest.mark.needs("tensorflow")
def test_the_search_is_measured_from_a_stored_run():
    unit = training_runs.training_unit(training_runs.NAME, SKIPS, 16, 0, hidden=(8,), gradient_steps=2)
    found = training_runs.train_and_measure({**unit, "marks": (1.0,), "searched": (1.0,), "simulations": 64})
    assert 0 < found["searched"][0] < 0.5 * found["exploitability"][0]


def units_of(module, result):
    """All units of a part in its full form, with ``result(unit)`` for each."""
    return [(json.loads(json.dumps(unit)), result(unit)) for unit in module.units(False)]


def flat(unit, exploitability, searched=0.0, cpu_s=1.0):
    marks = unit["marks"]
    return {
        "games": [round(mark * unit["games"]) for mark in marks],
        "cpu_s": [cpu_s * (number + 1) for number in range(len(marks))],
        "exploitability": [exploitability] * len(marks),
        "searched": [searched if mark in unit["searched"] else None for mark in marks],
    }


def test_goals_must_be_reached_in_every_seed():
    def result(unit, lazy=()):
        perfect = unit["learner"] == training_runs.NAME and unit["seed"] not in lazy
        return flat(unit, 0.0 if perfect else 0.3 + 0.01 * unit["seed"])

    found = curves.analyse(units_of(curves, result))
    assert [claim.holds for claim in found.claims] == [True] * 17  # five goals, six games and two others
    found = curves.analyse(units_of(curves, lambda unit: result(unit, lazy=(3,))))
    assert [claim.holds for claim in found.claims[:5]] == [False, False, True, False, False]  # the search is perfect
    share = "4 of 5 seeds, a share of 0.800 (0.376 to 0.964) of all seeds; for good in 4 of 5 runs after 1.0 CPU s"
    assert share in found.claims[0].evidence
    late = units_of(curves, lambda unit: {**result(unit), "cpu_s": [9.0 + i for i in range(len(unit["marks"]))]})
    slow = curves.analyse(late)
    assert slow.claims[0].holds is False  # perfect, but not within five seconds
    alike = curves.analyse(units_of(curves, lambda unit: flat(unit, 0.0)))
    # equal runs show no difference, nor that there is none
    assert {claim.holds for claim in alike.claims[5:]} == {None}


def test_claims_are_undecided_with_some_units():
    some = units_of(curves, lambda unit: flat(unit, 0.0))[:36]
    assert {claim.holds for claim in curves.analyse(some).claims} == {None}


def test_variants_differ_from_the_default_in_their_settings():
    seen = {}
    default = json.loads(json.dumps(dataclasses.asdict(AlphaZeroConfig())))
    for unit in json.loads(json.dumps(ablation.units(False))):
        changed = {name for name, value in unit["settings"].items() if value != default[name]}
        assert changed == {name for name, value in ablation.VARIANTS[unit["variant"]].items() if value != default[name]}
        assert bool(changed) == (unit["variant"] != ablation.DEFAULT)
        seen.setdefault(unit["variant"], set()).add(unit["game"]["skip_chance"])
    assert seen["no chance nodes"] == {0.25}  # elsewhere they are the same
    assert set(ablation.PARTS.values()) <= set(ablation.VARIANTS)


@pytest.mark.parametrize("module", [curves, ablation])
def test_every_mark_of_a_figure_is_in_its_legend(module):
    from matplotlib.figure import Figure

    figure = Figure()
    next(iter(module.analyse(units_of(module, lambda unit: flat(unit, 0.0))).pictures.values()))(figure)
    [legend] = figure.legends
    shown = {text.get_text() for text in legend.get_texts()}
    assert {curves: {"single runs", "q-net"}, ablation: {"median", "never", "a run of a variant"}}[module] <= shown


def test_a_part_is_useful_if_all_boards_show_it():
    def result(unit, without):
        late = unit["variant"] != ablation.DEFAULT and unit["game"]["skip_chance"] in without
        return flat(unit, 0.0, cpu_s=(20.0 if late else 1.0) + 0.1 * unit["seed"])

    everywhere = ablation.analyse(units_of(ablation, lambda unit: result(unit, (0.0, 0.25))))
    assert [claim.holds for claim in everywhere.claims] == [True] * 6
    with_skips = ablation.analyse(units_of(ablation, lambda unit: result(unit, (0.25,))))
    assert {claim.words: claim.holds for claim in with_skips.claims}[
        "with chance nodes play is below 0.01 for good after less CPU"
    ] is True
    assert [claim.holds for claim in with_skips.claims].count(None) == 5  # without skips they are alike
    without_skips = ablation.analyse(units_of(ablation, lambda unit: result(unit, (0.0,))))
    assert {claim.holds for claim in without_skips.claims} == {None}  # with skips they are alike
    rows = {row.what: row for row in with_skips.rows}
    assert rows["3 x 3, skip 0.25: PUCT"].ours.endswith(": later")
    assert rows["3 x 3, skip 0: PUCT"].ours.endswith(": undecided")


# ---------------------------------------------------------------------------------------------------------------------
# Proved positions


@pytest.mark.parametrize(
    ("text", "moves", "actions", "held"),
    [
        ("xx./.../oo. o", "..l/lll/..w", (8,), (True, True)),  # o wins, as it must
        ("xx./.../oo. o", "..l/lll/..w", (3, 2), (False, True)),  # and gives it away: x does better than it must
        ("oo./.../xx. x", "..l/lll/..w", (8,), (True, True)),
        ("oo./.../xx. x", "..l/lll/..w", (3, 2), (True, False)),
    ],
)
def test_kept_results_of_games(text, moves, actions, held):
    winner = (0 if text[-1] == "o" else 1) if len(actions) == 1 else (1 if text[-1] == "o" else 0)
    played = PlayedGame(Game(), ("a", "b"), tuple(Move(cell) for cell in actions), winner, opening=text)
    one = ProvedPosition(text, moves.replace("/", ""), 1)
    assert proved_positions._is_result_kept(played, one, "a") == held
    turned = dataclasses.replace(played, players=("b", "a"))
    assert proved_positions._is_result_kept(turned, one, "a") == held[::-1]


def test_perfect_play_keeps_proved_results():
    positions = proved_positions._select(proved_positions.read_proved(proved_positions.BOARDS[0].slug), 6)
    found = proved_positions._play_from_proved(
        proved_positions.BOARDS[0], "expectiminimax:depth=6", "random", positions, 0
    )
    assert sum(found["held"]) == sum(found["theirs"]) == sum(found["ahead"]) == 6
    assert found["held"][2] >= 5
    assert found["theirs"][0] + found["theirs"][1] >= 5


def proof_of(unit, lost, kept):
    other = {
        "name": "mcts:simulations=1",
        "cpu_s": 0.003,
        "keep_rate": [0.5, 0.4, 0.6],
        "empty": [[0, 25, 0], [0, 25 - lost, lost]],
        "held": [0, 100 - kept, kept],
        "theirs": [0, kept, 100 - kept],
        "ahead": [0, 100 - kept, 0, kept, 0],
    }
    players = [
        {"simulations": n, "cpu_s": 0.003, "keep_rate": [0.8, 0.7, 0.9], "others": [other]} for n in unit["simulations"]
    ]
    return {"games": 1_000, "cpu_s": 300.0, "alone": [0.7, 0.6, 0.8], "players": players}


def test_verdicts_on_larger_boards_follow_from_the_games():
    good = proved_positions.analyse(units_of(proved_positions, lambda unit: proof_of(unit, 0, 90)))
    assert [claim.holds for claim in good.claims] == [None, True] * 6  # no loss in 50 games is not never
    bad = proved_positions.analyse(units_of(proved_positions, lambda unit: proof_of(unit, 1, 10)))
    assert [claim.holds for claim in bad.claims] == [False, False] * 6
    open_ = proved_positions.analyse(units_of(proved_positions, lambda unit: proof_of(unit, 0, 52)))
    assert [claim.holds for claim in open_.claims[:2]] == [None, None]
    quick = [(unit, proof_of(unit, 0, 90)) for unit in proved_positions.units(True)]
    assert {claim.holds for claim in proved_positions.analyse(quick).claims} == {None}


# ---------------------------------------------------------------------------------------------------------------------
# Parts


def test_results_of_one_part_are_reused_for_the_whole(tmp_path, monkeypatch):
    unit = training_runs.training_unit("q-learning", Game(2, 2, 2), 50, 0)
    one = {**unit, "marks": (1.0,), "searched": (), "simulations": 0}
    part = dataclasses.replace(
        study.STUDY, units=lambda quick: [{"part": "curves", **one}, {"part": "ablation", **one}]
    )
    asked = []
    monkeypatch.setattr(study.PARTS["ablation"], "measure", lambda unit: asked.append(unit) or curves.measure(unit))
    [(unit, _)] = run_units(part, tmp_path, {}, part="curves")
    assert unit["part"] == "curves"
    assert not asked
    before = (tmp_path / "units.jsonl").read_text()
    assert [unit["part"] for unit, _ in run_units(part, tmp_path, {})] == ["curves", "ablation"]
    assert (tmp_path / "units.jsonl").read_text().startswith(before)
    assert len(asked) == 1


def test_reports_name_their_part(tmp_path):
    found = study.analyse(units_of(ablation, lambda unit: flat(unit, 0.0)))
    assert list(found.data) == ["ablation"]
    paths = write_report_files(study.STUDY, "alpha-zero", found, tmp_path, False, "ablation")
    assert [path.name for path in paths] == [f"alpha-zero-ablation{end}" for end in (".png", ".svg")]
    assert "`python evaluate.py reproduce alpha-zero --part ablation`" in (tmp_path / "table.md").read_text()
