"""Scores of the benchmark: files, aggregates and their intervals."""

import json

import numpy as np
import pytest
from commands import error_of, json_of, text_of
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from msgspec.structs import replace
from pages import check_in_browser, in_browser, read_page

from ttt_apps import evaluate
from ttt_envs import Game
from ttt_eval.benchmark import TASKS, comparison
from ttt_eval.benchmark.comparison import compare_submissions, to_json
from ttt_eval.benchmark.records import CheckpointScore, Cost, RunScore, SubmissionScores, read_scores, write_scores
from ttt_eval.exact.dynamic_programming import outcome
from ttt_eval.reports.benchmark import count_reversals, describe_leader, write_benchmark

# float64[5 runs, 6 tasks]
A, B = (
    np.array(
        [
            [round((i * 37 + j * 11 + shift * 5) % 41 / 41 * 1.3 - 0.1 + shift * 0.03, 3) for j in range(6)]
            for i in range(5)
        ]
    )
    for shift in (0, 3)
)
# results of rliable 1.2.0 on them: mean, interquartile mean and optimality gap, with 20,000 bootstrap samples
RLIABLE = {
    "a": (A, (0.5616333333, 0.57, 0.4593), (0.43153, 0.38363, 0.33977), (0.69167, 0.75031, 0.58097)),
    "b": (B, (0.6072666667, 0.5826875, 0.4211), (0.50267, 0.45975, 0.3305), (0.71503, 0.71744, 0.5105)),
}
WIN_OR_BLOCK = sum(
    (outcome(Game(), *pair) if seat == 0 else outcome(Game(), *pair).reversed()).win / 2
    for seat, pair in enumerate((("win-or-block", "random"), ("random", "win-or-block")))
)
"""Exact win rate against random play."""
THRESHOLDS = np.array([0, 0.25, 0.5, 0.75])
matrices = arrays(np.float64, (3, 4), elements=st.floats(-1, 1))


@pytest.mark.parametrize("name", RLIABLE)
def test_aggregates_are_those_of_rliable(name):
    scores, means, lows, highs = RLIABLE[name]
    for measure, mean, low, high in zip(
        (comparison.mean, comparison.interquartile_mean, comparison.optimality_gap), means, lows, highs, strict=True
    ):
        [found] = comparison.bootstrap_intervals([scores], measure, count=20_000)
        assert found.mean == pytest.approx(mean, abs=1e-9)
        assert found.low == pytest.approx(low, abs=0.006)
        assert found.high == pytest.approx(high, abs=0.006)


def test_profiles_and_improvements_are_those_of_rliable():
    def profile(scores):
        return comparison.performance_profile(scores, THRESHOLDS)

    found = comparison.bootstrap_intervals([A], profile, count=20_000)
    expected = [(26, 22, 29), (20, 16, 24), (16, 12, 20), (12, 8, 16)]  # of 30 runs
    np.testing.assert_allclose(found, np.array(expected) / 30, atol=1e-9)
    [found] = comparison.bootstrap_intervals([A, B], comparison.probability_of_improvement, count=5_000)
    np.testing.assert_allclose(found, (0.4066666667, 0.26, 0.5666666667), atol=0.02)
    assert found.mean == pytest.approx(0.4066666667, abs=1e-9)


@given(matrices, matrices)
def test_improvements_of_two_sum_to_one(one, other):
    both = [comparison.probability_of_improvement(*pair) for pair in ((one, other), (other, one))]
    assert sum(both) == pytest.approx(1)
    assert comparison.probability_of_improvement(one, one + 3) == 0
    assert comparison.probability_of_improvement(one, one) == pytest.approx(0.5)


def submission(
    name="mine", tasks=("random", "svd", "chance-10", "self-play"), seeds=(0, 1, 2), lift=0.0, steps=100, **more
):
    runs = tuple(
        RunScore(task, seed, steps, min(1.0, lift + 0.1 * place + 0.01 * seed), True, **more)
        for place, task in enumerate(tasks)
        for seed in seeds
    )
    checkpoints = tuple(CheckpointScore(run.task, run.seed, run.steps, run.score, 0.5, ("0" * 64,)) for run in runs)
    return SubmissionScores(name, runs=runs, checkpoints=checkpoints)


def to_file(path, *submissions):
    """Write scores as ``bench score`` does."""
    write_scores(path, submissions)
    return path


def test_scores_are_read(tmp_path):
    cost = Cost(1.5, peak_rss_bytes=2.0**28)
    both = submission(cost=cost, win_random=0.75), submission("other", cost=Cost(2.0))
    assert read_scores(to_file(tmp_path / "scores.json", *both)) == both


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"version": "v0"}, "version"),
        ({"submissions": [1]}, r"submissions\[0\]"),
        ({"submission": {"runs": []}}, r"submissions\[0\].runs"),
        ({"submission": {"name": "a" * 61}}, r"submissions\[0\].name"),
        ({"run": {"score": 1.5}}, "score"),
        ({"run": {"task": "none"}}, "there is no task 'none'"),
        ({"run": {"seed": 1}}, "two scores of the same run"),
        ({"run": {"cost": {}}}, "cpu_s"),
    ],
)
def test_damaged_scores_are_one_sentence(change, place, tmp_path):
    path = to_file(tmp_path / "scores.json", submission())
    content = json.loads(path.read_text())
    content["submissions"][0]["runs"][0].update(change.pop("run", {}))
    content["submissions"][0].update(change.pop("submission", {}))
    path.write_text(json.dumps({**content, **change}))
    with pytest.raises(ValueError, match=place) as problem:
        read_scores(path)
    assert "\n" not in str(problem.value)


def test_submissions_are_compared_on_common_tasks_and_seeds():
    one = submission("one")
    one = replace(one, runs=[*one.runs, RunScore("critic", 0, 100, 0.5, False)])
    found = compare_submissions([one, submission("other", ("svd", "random"), (3,), 0.5)])
    assert found.tasks == ("random", "svd")
    assert [entry.name for entry in found.entries] == ["other", "one"]
    np.testing.assert_allclose(found.entries[0].scores, [[0.63, 0.53]])
    np.testing.assert_allclose(found.entries[1].scores, [[0, 0.1], [0.01, 0.11], [0.02, 0.12]])
    assert found.improvement["other", "one"].mean == 1
    assert found.improvement["one", "other"].mean == 0
    text = " ".join(found.notes)
    assert "lacks are left out of the aggregates: chance-10, self-play, critic." in text
    assert "These have fewer than 5 seeds, which decide nothing: all submissions." in text
    assert found.undecided == ["one"]


def test_partial_submissions_are_shown_as_what_they_are(tmp_path, capsys):
    """Of two with all chosen tasks one has more seeds, of which one is in a single task; the third lacks a task."""
    whole, few = submission("whole", seeds=(0, 1, 2)), submission("few", seeds=(0, 1), lift=0.2)
    whole = replace(whole, runs=[*whole.runs, RunScore("svd", 3, 100, 0.9, True)])
    part = submission("part", ("random", "masks"), (0,), 0.5)
    found = compare_submissions([part, whole, few], tasks=("svd", "random"))
    assert found.tasks == ("random", "svd")
    assert [(one.name, one.scores.shape) for one in found.entries] == [("few", (2, 2)), ("whole", (3, 2))]
    assert [one.name for one in found.unranked] == ["part"]
    means = found.task_means()
    assert list(means) == ["random", "svd", "chance-10", "self-play", "masks"]
    assert means["svd"] == [(pytest.approx(0.305), 2), (pytest.approx((0.1 + 0.11 + 0.12 + 0.9) / 4), 4), None]
    assert means["masks"] == [None, None, (pytest.approx(0.6), 1)]
    assert "part has no rank, because it has no seed in all of these tasks." in found.notes
    assert "whole has seed 3 in some of these tasks alone: left out." in found.notes
    assert json.loads(json.dumps(to_json(found)))["task_means"]["svd"]["part"] is None

    files = [to_file(tmp_path / f"{one.name}.json", one) for one in (part, whole, few)]
    board, page = tmp_path / "board.md", tmp_path / "page.html"
    board.write_text("before\n<!-- bench report: full -->\nold\n<!-- until here -->\nafter\n")
    words = ("bench", "report", *files, "--task", "svd", "random", "--out", page, "--markdown", board)
    text_of(capsys, *words, "--section", "full")
    lines = board.read_text().splitlines()
    assert (lines[:2], lines[-2:]) == (["before", "<!-- bench report: full -->"], ["<!-- until here -->", "after"])
    assert "old" not in lines
    assert lines[3] == f"`python evaluate.py {' '.join(map(str, words[:-4]))} --markdown {board} --section full`"
    assert {"| svd | 0.305 | 0.307 (n = 4) | - |", "| masks | - | - | 0.600 (n = 1) |"} <= set(lines)
    assert "0.307 (n = 4)" in read_page(page).text()
    error_of(capsys, evaluate.main, *words, "--section", "quick")


def test_clear_leads_are_decided_and_equals_are_not():
    five = range(5)
    found = compare_submissions([submission("b", seeds=five), submission("a", seeds=five, lift=0.5)])
    assert found.undecided == []
    assert describe_leader(found).startswith("a is best of 2: interquartile mean 0.670 (")
    found = compare_submissions([submission("b", seeds=five), submission("a", seeds=range(4), lift=0.5)])
    assert found.undecided == ["b"]
    found = compare_submissions([submission("b", seeds=five), submission("a", seeds=five)])
    assert found.undecided == ["b"]
    assert describe_leader(found).startswith("Undecided: a came out first of 2")
    assert found.entries[0].axes["basics"].mean == pytest.approx(0.07)
    assert found.entries[0].axes["self-play"].mean == pytest.approx(0.32)


def test_the_reverse_of_an_improvement_has_the_mirrored_interval():
    better = compare_submissions([submission("a"), submission("b", lift=0.01)]).improvement
    one, other = better["a", "b"], better["b", "a"]
    assert one.low < one.mean < one.high
    assert other == pytest.approx((1 - one.mean, 1 - one.high, 1 - one.low))


ONE, TWO = submission("one"), SubmissionScores("two", runs=[RunScore("random", 0, 1, 0.5), RunScore("svd", 1, 1, 0.5)])


@pytest.mark.parametrize(
    ("submissions", "tasks", "message"),
    [
        ([ONE, ONE], (), "the same name, 'one'"),
        ([ONE, submission("two", ("masks",))], (), "no task in common"),
        ([ONE, submission("quick", steps=50)], (), "of the same length only"),
        ([TWO], (), "no submission has a seed in all of the tasks random, svd"),
        ([ONE], ("random", "masks"), "no submission has a seed in all of the tasks random, masks"),
    ],
)
def test_submissions_that_cannot_be_compared_are_rejected(submissions, tasks, message):
    with pytest.raises(ValueError, match=message):
        compare_submissions(submissions, tasks=tasks)


def test_win_rates_that_mislead_are_found():
    better, worse = submission("better", lift=0.5, win_random=0.8), submission("worse", win_random=0.9)
    assert count_reversals(compare_submissions([better, worse])) == (4, 4)
    assert count_reversals(compare_submissions([better, submission("worse", win_random=0.7)])) == (0, 4)
    assert count_reversals(compare_submissions([better, submission("worse")])) == (0, 0)


# ---------------------------------------------------------------------------------------------------------------------
# The page


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    tasks = [task.name for task in TASKS]
    scores = to_file(
        folder / "scores.json",
        submission("one <b>", tasks, range(5), lift=-0.9, cost=Cost(1.5), win_random=0.75),
        submission("two", tasks, range(5), lift=-0.5, cost=Cost(15.0), win_random=0.5),
        submission("three", tasks, range(5), lift=-0.7, cost=Cost(30.0), win_random=0.6),
    )
    write_benchmark(folder / "page.html", compare_submissions(read_scores(scores)), [scores])
    return folder / "page.html"


def test_the_page_begins_with_the_verdict(page, tmp_path):
    text = read_page(page).text()
    parts = ("two is best of 3", "Axes", "Performance profiles", "the Pareto front: two, one <b>.")
    places = [text.index(part) for part in (*parts, "names the wrong one", "evaluate.py bench report")]
    assert places == sorted(places)
    write_benchmark(tmp_path / "page.html", compare_submissions([submission(seeds=(0,))]), [])
    text = read_page(tmp_path / "page.html").text()
    for missing in ("The CPU time of the runs is not known.", "fewer than 5 seeds"):
        assert missing in text


@in_browser
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_accessible_and_fits_at_any_width(page, browser, dark):
    check_in_browser(browser, [page], dark=dark)


def test_the_command_compares_folders_and_files(tmp_path, capsys):
    """Scores of a folder are those of its tables, which ``bench score`` writes into a file."""
    folder, file, page, board = (tmp_path / name for name in ("folder", "scores.json", "page.html", "board.md"))
    words = ["--agent", "win-or-block", "--task", "random", "--seeds", "1", "--steps", "200", "--every", "9"]
    evaluate.main(["bench", "run", *words, "--out", str(folder)])
    evaluate.main(["bench", "score", str(folder), "--out", str(file)])
    cost = Cost(2.0, peak_rss_bytes=2.0**28)
    other = submission("a|b", ("random",), (0,), steps=200, lift=-1.0, cost=cost, win_random=0.1)
    arguments = ["bench", "report", to_file(tmp_path / "other.json", other)]
    outputs = ["--out", page, "--csv", tmp_path / "all.csv", "--markdown", board]
    capsys.readouterr()
    assert f"a page to look at: {page}" in text_of(capsys, *arguments, folder, *outputs)
    by_folder, by_file = (json_of(capsys, *arguments, source, "--out", page) for source in (folder, file))
    assert by_folder == by_file
    first = by_folder["leaderboard"][0]
    assert first["tasks"]["random"]["win_random"] == pytest.approx(WIN_OR_BLOCK, abs=1e-3)
    lines = (tmp_path / "all.csv").read_text().splitlines()
    assert (lines[0], len(lines)) == ("submission,task,seed,steps,score,value,sha256", 1 + 1 + 2)
    [last] = [line for line in board.read_text().splitlines() if line.startswith("| a\\|b | one | -1.000 ")]
    assert last.endswith(" | 2.0 s | 256 MiB | 1 |")
