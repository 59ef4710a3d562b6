"""Scores of the benchmark: files, aggregates and their intervals."""

import json

import numpy as np
import pytest
from commands import json_of, text_of
from msgspec.structs import replace
from pages import check_in_browser, in_browser, read_page

from ttt_apps import evaluate
from ttt_envs.core.files import write_json
from ttt_eval.benchmark import TASKS, comparison
from ttt_eval.benchmark.comparison import compare_submissions
from ttt_eval.benchmark.scores import CheckpointScore, RunScore, SubmissionScores, read_scores, to_json
from ttt_eval.benchmark.submission import Cost
from ttt_eval.reports.benchmark import describe_leader, write_benchmark

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
# results of rliable 1.2.0 on them: mean and interquartile mean, with 20,000 bootstrap samples
RLIABLE = {
    "a": (A, (0.5616333333, 0.57), (0.43153, 0.38363), (0.69167, 0.75031)),
    "b": (B, (0.6072666667, 0.5826875), (0.50267, 0.45975), (0.71503, 0.71744)),
}


@pytest.mark.parametrize("name", RLIABLE)
def test_aggregates_are_those_of_rliable(name):
    scores, means, lows, highs = RLIABLE[name]
    for measure, mean, low, high in zip(
        (comparison.mean, comparison.interquartile_mean), means, lows, highs, strict=True
    ):
        found = comparison.bootstrap_interval(measure, scores, count=20_000)
        assert found.mean == pytest.approx(mean, abs=1e-9)
        assert found.low == pytest.approx(low, abs=0.006)
        assert found.high == pytest.approx(high, abs=0.006)


def test_improvements_are_those_of_rliable():
    found = comparison.bootstrap_interval(comparison.probability_of_improvement, A, B, count=5_000)
    np.testing.assert_allclose(found, (0.4066666667, 0.26, 0.5666666667), atol=0.02)
    assert found.mean == pytest.approx(0.4066666667, abs=1e-9)


def make_run(task, seed, score, steps=100, complete=True, cost=None):
    return RunScore(task, seed, score, complete, (CheckpointScore(steps, score, 0.5, 0.0, 1.0),), cost)


def submission(
    name="mine", tasks=("random", "svd", "chance-10", "self-play"), seeds=(0, 1, 2), lift=0.0, steps=100, **more
):
    runs = tuple(
        make_run(task, seed, min(1.0, lift + 0.1 * place + 0.01 * seed), steps, **more)
        for place, task in enumerate(tasks)
        for seed in seeds
    )
    return SubmissionScores(name, runs=runs)


def to_file(path, *submissions):
    """Write scores as ``bench score`` does."""
    write_json(path, to_json(submissions))
    return path


def test_scores_are_read(tmp_path):
    cost = Cost(1.5, peak_rss_bytes=2.0**28)
    both = submission(cost=cost), submission("other", cost=Cost(2.0))
    assert read_scores(to_file(tmp_path / "scores.json", *both)) == both


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"version": "v0"}, "version"),
        ({"submission": {"runs": []}}, r"submissions\[0\].runs"),
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
    one = replace(one, runs=[*one.runs, make_run("critic", 0, 0.5, complete=False)])
    found = compare_submissions([one, submission("other", ("svd", "random"), (3,), 0.5)])
    assert found.tasks == ["random", "svd"]
    assert [(entry.name, entry.seeds) for entry in found.entries] == [("other", 1), ("one", 3)]
    assert [entry.mean.mean for entry in found.entries] == pytest.approx([0.58, 0.06])
    assert found.improvement["other"]["one"].mean == 1
    assert found.improvement["one"]["other"].mean == 0
    assert "chance-10, self-play, critic." in found.notes[0]
    assert found.undecided == ["one"]
    assert found.entries[1].tasks == {**one.task_means, "critic": 0.5}


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
    one, other = better["a"]["b"], better["b"]["a"]
    assert one.low < one.mean < one.high
    assert other == pytest.approx((1 - one.mean, 1 - one.high, 1 - one.low))


ONE, TWO = submission("one"), SubmissionScores("two", runs=[make_run("random", 0, 0.5), make_run("svd", 1, 0.5)])


@pytest.mark.parametrize(
    ("submissions", "tasks", "message"),
    [
        ([ONE, ONE], (), "the same name, 'one'"),
        ([ONE, submission("two", ("masks",))], (), "no task in common"),
        ([ONE, submission("quick", steps=50)], (), "of the same length only"),
        ([TWO], (), "two has no seed in all of the tasks random, svd"),
        ([ONE], ("random", "masks"), "one has no seed in all of the tasks random, masks"),
    ],
)
def test_submissions_that_cannot_be_compared_are_rejected(submissions, tasks, message):
    with pytest.raises(ValueError, match=message):
        compare_submissions(submissions, tasks=tasks)


# ---------------------------------------------------------------------------------------------------------------------
# The page


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    tasks = [task.name for task in TASKS]
    scores = to_file(
        folder / "scores.json",
        submission("one <b>", tasks, range(5), lift=-0.9, cost=Cost(1.5)),
        submission("two", tasks, range(5), lift=-0.5, cost=Cost(15.0)),
        submission("three", tasks, range(5), lift=-0.7, cost=Cost(30.0)),
    )
    write_benchmark(folder / "page.html", compare_submissions(read_scores(scores)), [scores])
    return folder / "page.html"


def test_the_page_begins_with_the_verdict(page):
    text = read_page(page).text()
    parts = ("two is best of 3", "Axes", "Tasks", "evaluate.py bench report")
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


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
    other = submission("a|b", ("random",), (0,), steps=200, lift=-1.0, cost=Cost(2.0))
    arguments = ["bench", "report", to_file(tmp_path / "other.json", other)]
    outputs = ["--out", page, "--markdown", board]
    capsys.readouterr()
    assert f"a page to look at: {page}" in text_of(capsys, *arguments, folder, *outputs)
    by_folder, by_file = (json_of(capsys, *arguments, source, "--out", page) for source in (folder, file))
    assert by_folder == by_file
    assert [entry["tasks"] for entry in by_folder["entries"]] == [
        {"random": pytest.approx(0.792, abs=1e-3)},
        {"random": -1},
    ]
    [last] = [line for line in board.read_text().splitlines() if line.startswith("| a\\|b | one | -1.000 ")]
    assert last.endswith(" | 2.0 s | 1 |")
