"""Learning curves: recorded lines are exact and replaced; summaries are medians with bands."""

import csv
import json
import math

import numpy as np
import pytest
from json_files import read_json, rows_of
from small_games import TINY_GAME

from ttt_eval import exact
from ttt_eval.runs.curves import (
    Curve,
    Group,
    group_curves,
    median_band,
    read_curves,
    record,
    summarize,
    summarize_groups,
    write_summaries,
)
from ttt_eval.store.versions import versions


def curve(name, values, games=(1, 10, 100), **labels):
    rows = [{"games": at, "exploitability": value} for at, value in zip(games, values, strict=True)]
    return Curve(name, {"learner": "mine", "seed": 0, "game": str(TINY_GAME), **labels}, rows)


# --------------------------------------------------------------------------------------------------
# Recording


def test_recorded_lines_are_exact(tmp_path):
    path = tmp_path / "curves" / "a"
    first = record(
        path, TINY_GAME, "random", 0, opponent="win-or-block", learner="mine", seed=3, rate=0.5
    )
    second = record(
        path,
        TINY_GAME,
        "win-or-block",
        10,
        steps=25,
        opponent="win-or-block",
        learner="mine",
        seed=3,
        rate=0.5,
    )
    result = exact.match_outcome(TINY_GAME, "random", "win-or-block")
    assert first["exploitability"] == exact.exploitability(TINY_GAME, "random")
    assert (first["exact_win"], first["exact_draw"], first["exact_loss"]) == result
    assert second["regret"] == exact.regret(TINY_GAME, "win-or-block")
    assert first["cpu_s"] == 0 <= second["cpu_s"] < 1
    [read] = read_curves([path.parent])
    assert (read.rows, read.notes) == ([first, second], [])
    labels = {
        "learner": "mine",
        "seed": 3,
        "rate": 0.5,
        "skip_chance": 0.25,
        "opponent": "win-or-block",
    }
    assert labels.items() <= read.labels.items()


def test_agents_of_any_kind_are_recorded(tmp_path):
    line = record(tmp_path / "a", TINY_GAME, lambda observation, mask: int(np.argmax(mask)), 5)
    assert 0 <= line["exploitability"] <= 1
    assert "cpu_s" not in line  # the training began before
    assert read_json(tmp_path / "a" / "config.json")["versions"] == versions()
    with pytest.raises(ValueError, match="is not pure"):
        record(tmp_path / "a", TINY_GAME, "mcts:simulations=2", 6)
    with pytest.raises(ValueError, match=r"give record as_policy\(agent, game, returns="):
        record(tmp_path / "a", TINY_GAME, lambda observation, mask: mask, 6, returns="values")


def test_a_training_that_starts_again_replaces_later_lines(tmp_path):
    for games in (0, 10, 20, 10):
        record(tmp_path, TINY_GAME, "random", games)
    assert [row["games"] for row in rows_of(tmp_path / "metrics.jsonl")] == [0, 10]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", None),  # that of another training
        ("metrics.jsonl", '{"games": 5}\n{"games": 4}\n'),
    ],
)
def test_folders_of_anything_else_are_not_changed(tmp_path, name, content):
    record(tmp_path, TINY_GAME, "random", 0, seed=1)
    if content is not None:
        (tmp_path / name).write_text(content)
    before = (tmp_path / name).read_bytes()
    with pytest.raises(ValueError, match=name if content else "holds another training"):
        record(tmp_path, TINY_GAME, "random", 0, seed=int(name != "config.json"))
    assert (tmp_path / name).read_bytes() == before


def test_a_run_is_read_with_its_settings(tiny_run):
    run = tiny_run("q-learning")
    [curve] = read_curves([run])
    assert curve.notes == []
    assert curve.labels["epsilon"] == read_json(run / "config.json")["settings"]["epsilon"]
    assert all(row["cpu_s"] >= 0 and row["steps"] >= row["games"] for row in curve.rows)


def test_a_run_of_another_format_or_number_of_games_is_refused(tiny_run, tmp_path):
    config = read_json(tiny_run("q-learning") / "config.json")
    for name, value in (("games", "200"), ("games", {"a": 200}), ("format", 2)):
        (tmp_path / "config.json").write_text(json.dumps({**config, name: value}))
        with pytest.raises(ValueError, match=name):
            read_curves([tmp_path])


# --------------------------------------------------------------------------------------------------
# Groups and summaries


def test_groups_differ_in_settings_and_not_in_the_seed():
    curves = [
        curve("a", (1, 1, 1), seed=0, epsilon=0.1),
        curve("b", (1, 1, 1), seed=1, epsilon=0.1),
        curve("c", (1, 1, 1), seed=0, epsilon=0.5),
        curve("d", (1, 1, 1), seed=0, learner="other", opponent="self"),
    ]
    groups = [(group.name, len(group.curves)) for group in group_curves(curves)]
    assert groups == [("mine, epsilon 0.1", 2), ("mine, epsilon 0.5", 1), ("other", 1)]
    [by_learner, _] = group_curves(curves, ["learner"])
    notes = summarize(by_learner, "games", "exploitability").notes
    assert "mine: its runs differ in epsilon and not only in the seed" in notes
    with pytest.raises(ValueError, match="did you mean 'epsilon'"):
        group_curves(curves, ["epsilo"])


def test_copies_different_games_and_missing_measurements_are_noted():
    [group] = group_curves([curve("a", (1, 1, 1)), curve("a again", (1, 1, 1))])
    assert any(
        "may not be independent" in note
        for note in summarize(group, "games", "exploitability").notes
    )
    groups = group_curves([curve("a", (1, 1, 1)), curve("b", (1, 1, 1), game="another")])
    _, notes = summarize_groups(groups, "games", "exploitability")
    assert notes[0] == f"the runs are of different games: {TINY_GAME}; another"
    groups = group_curves([curve("a", (1, 1, 1)), curve("b", (), games=(), learner="new")])
    result, notes = summarize_groups(groups, "games", "exploitability")
    assert [summary.name for summary in result] == ["mine"]
    assert notes[-1].startswith("b has no measurements")
    with pytest.raises(ValueError, match="b has no measurements of exploitability by games"):
        summarize_groups(groups[1:], "games", "exploitability")
    with pytest.raises(ValueError, match="of the score with --opponent"):
        summarize_groups(groups[:1], "games", "score")


def test_summary_is_the_median_with_its_band_also_in_csv(tmp_path):
    seeds = ((1, 0.5, 0.1), (1, 0.4, 0.2), (1, 0.8, 0.3))
    groups = group_curves(
        [curve(f"run {seed}", values, seed=seed) for seed, values in enumerate(seeds)]
    )
    result = summarize(groups[0], "games", "exploitability")
    assert (result.x.tolist(), result.median.tolist()) == ([1, 10, 100], [1, 0.5, 0.2])
    assert (result.low.tolist(), result.high.tolist()) == ([1, 0.4, 0.1], [1, 0.8, 0.3])
    summary = summarize(
        Group("x", {"learner": "other, too"}, [curve("x", (1, 1, 1))]), "games", "exploitability"
    )
    assert (summary.runs, summary.low, summary.high) == (1, None, None)
    write_summaries(tmp_path / "a.csv", [result, summary], "games", "exploitability")
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["learner"], row["games"], row["runs"]) for row in rows[2:4]] == [
        ("mine", "100", "3"),
        ("other, too", "1", "1"),
    ]
    assert [(float(row["exploitability"]), row["low"]) for row in rows[2:4]] == [
        (0.2, "0.1"),
        (1, ""),
    ]


@pytest.mark.parametrize("runs", [2, 3, 5, 6, 9, 20])
def test_the_band_is_the_range_of_few_runs_and_covers_the_median_of_many(runs):
    """The true median is within order statistics k and N + 1 - k but for a tail of the binomial
    distribution.
    """
    low, high = median_band(np.arange(runs, dtype=np.float64)[::-1, None])
    assert low[0] == runs - 1 - high[0]
    assert low[0] == 0 or runs > 5
    tails = [
        2 * sum(math.comb(runs, k) for k in range(int(low[0]) + more)) / 2**runs for more in (1, 2)
    ]
    assert (tails[0] <= 0.05) == (runs > 5)
    assert tails[1] > 0.05  # no narrower band would do


def test_different_marks_are_interpolated_where_all_have_measurements():
    other = curve("other", (0.9, 0.1), games=(4, 16), seed=1)
    group = Group("mine", {}, [curve("one", (1.0, 0.4, 0.0), games=(2, 8, 20)), other])
    result = summarize(group, "games", "exploitability")
    assert result.x.tolist() == [4, 8, 16]
    first = np.interp(result.x, [2, 8, 20], [1.0, 0.4, 0.0])
    second = np.interp(result.x, [4, 16], [0.9, 0.1])
    assert np.allclose(result.median, (first + second) / 2)
    assert any("interpolated between them, from 4 to 16 games" in note for note in result.notes)
    apart = Group(
        "mine", {}, [curve("one", (1, 1), games=(1, 2)), curve("two", (1, 1), games=(3, 4), seed=1)]
    )
    with pytest.raises(ValueError, match="no range in common"):
        summarize(apart, "games", "exploitability")
