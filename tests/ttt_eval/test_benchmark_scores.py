"""Scores of the benchmark: files, aggregates and their intervals."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from equal_agents import count_false, has_difference
from json_files import read_json
from msgspec.structs import replace
from pages import check_in_browser, in_browser, read_page
from scipy.special import stdtrit
from scipy.stats import ttest_ind

from ttt_envs.core.files import write_json
from ttt_eval.benchmark import TASKS, comparison
from ttt_eval.benchmark.comparison import compare_submissions
from ttt_eval.benchmark.scores import (
    CheckpointScore,
    RunScore,
    SubmissionScores,
    read_scores,
    to_json,
)
from ttt_eval.benchmark.submission import Cost
from ttt_eval.benchmark.tasks import SEEDS, find_tasks
from ttt_eval.reports.benchmark import (
    describe_leader,
    leaderboard_markdown,
    report_command,
    write_benchmark,
)

pytestmark = pytest.mark.more
SCORES = Path(__file__).parents[2] / "benchmarks" / "scores" / "v1"
NAMES = [task.name for task in TASKS if task.name != "critic"]

# float64[5 runs, 6 tasks]
RUNS, COLUMNS = np.ogrid[:5, :6]
A, B = (
    np.round((RUNS * 37 + COLUMNS * 11 + shift * 5) % 41 / 41 * 1.3 - 0.1 + shift * 0.03, 3)
    for shift in (0, 3)
)
# results of rliable 1.2.0 on them, with 20,000 bootstrap samples
RLIABLE = [
    (A, comparison.mean, 0.5616333333, 0.43153, 0.69167),
    (A, comparison.interquartile_mean, 0.57, 0.38363, 0.75031),
    (B, comparison.interquartile_mean, 0.5826875, 0.45975, 0.71744),
]


def test_aggregates_are_those_of_rliable(monkeypatch):
    """Standard errors are those of its percentiles, times what few runs lack: runs vary more than
    samples of them.
    """
    monkeypatch.setattr(comparison, "RESAMPLES", 20_000)
    for scores, measure, mean, low, high in RLIABLE:
        result = comparison.bootstrap_interval(measure, scores)
        assert result.mean == pytest.approx(mean, abs=1e-9)
        error = (high - low) / 2 / stdtrit(1e9, 0.975)
        wider = (5 / 4) ** 0.5 * stdtrit(welch_freedom(scores), 0.975)
        assert result.high - result.mean == pytest.approx(wider * error, rel=0.04)
    result = comparison.bootstrap_interval(comparison.probability_of_improvement, A, B)
    assert result.mean == pytest.approx(0.4066666667, abs=1e-9)
    wider = (5 / 4) ** 0.5 * stdtrit(welch_freedom(A, B), 0.975) / stdtrit(1e9, 0.975)
    assert result.high - result.low == pytest.approx(wider * (0.5666666667 - 0.26), rel=0.08)


def welch_freedom(*scores):
    """Return the degrees of freedom of a mean of tasks with different variances."""
    variances = np.var(scores, axis=1, ddof=1).ravel() / 5
    return variances.sum() ** 2 / (variances**2 / 4).sum()


def test_the_interval_of_one_task_is_that_of_welch(monkeypatch):
    monkeypatch.setattr(comparison, "RESAMPLES", 40_000)
    monkeypatch.setattr(comparison, "MIN_SEEDS", 3)
    a = A[:, :1]
    b = 3 * B[:3, :1]
    result = comparison.bootstrap_interval(
        lambda x, y: comparison.mean(x) - comparison.mean(y), a, b
    )
    expected = ttest_ind(a[:, 0], b[:, 0], equal_var=False).confidence_interval()
    assert (result.low, result.high) == pytest.approx(tuple(expected), abs=0.02)


# --------------------------------------------------------------------------------------------------
# Simulated submissions


def simulate(rng, agents=1, tasks=19, lift=0.0, runs=5):
    """Return float64[runs, tasks] of agents, of which the first is better by ``lift``."""
    levels = rng.uniform(0.3, 0.8, tasks)
    lifts = [lift, *[0.0] * (agents - 1)]
    return [
        np.minimum(1, levels + more + 0.1 * rng.standard_normal((runs, tasks))) for more in lifts
    ]


def submit(scores, name="population", tasks=NAMES, seeds=range(100), **more):
    """Return a submission with these scores, float64[runs, tasks]."""
    runs = tuple(
        make_run(task, seed, score, **more)
        for seed, row in zip(seeds, scores.tolist(), strict=False)
        for task, score in zip(tasks, row, strict=False)
    )
    return SubmissionScores(name, runs=runs)


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr(comparison, "RESAMPLES", 200)


def test_equal_submissions_are_called_different_in_few_leaderboards():
    """In half of the tasks the runs vary ten times as much as in the others."""
    rng = np.random.default_rng(0)
    scores = simulate(rng, runs=100)[0]
    scores[:, ::2] += rng.choice([-0.5, 0.0], size=scores[:, ::2].shape)
    [stored] = read_scores(SCORES / "q-learning.json")
    cases = (submit(scores), 2), (submit(scores[:, :1]), 8), (stored, 8)
    shares = np.array([count_false(*case, 40) for case in cases]) / 40
    assert (shares <= 0.05 + 3 * (0.05 * 0.95 / 40) ** 0.5).all()


def test_better_submissions_are_told_apart():
    rng = np.random.default_rng(0)
    for agents in (2, 8):
        scores = simulate(rng, agents, lift=0.15)
        result = compare_submissions(
            [submit(of_agent, f"agent-{number}") for number, of_agent in enumerate(scores)]
        )
        assert (result.entries[0].name, result.undecided) == ("agent-0", [])
        assert has_difference(result)


@pytest.mark.parametrize("measure", [comparison.mean, comparison.interquartile_mean])
def test_intervals_of_five_runs_contain_the_true_aggregate(measure):
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(800):
        scores = simulate(rng, runs=2_005)[0]
        low, high = comparison.bootstrap_interval(measure, scores[:5])[1:]
        inside.append(low <= measure(scores[5:]) <= high)
    assert np.mean(inside) >= 0.93


def test_intervals_of_a_task_that_fails_at_random_cover_what_the_page_says():
    """Equal runs have intervals of width 0."""
    runs = np.random.default_rng(0).random((2_000, 5, 1)) < 0.6
    rows = [comparison.bootstrap_interval(comparison.mean, 1.0 * row) for row in runs]
    percent = 100 * np.mean([low <= 0.6 <= high for _, low, high in rows])
    page = SCORES.parents[2] / "docs/benchmark/index.md"
    [stated] = re.findall(r"0\.4\*\*5`, (.*)%, of cases", page.read_text())
    assert percent == pytest.approx(float(stated), abs=2)


def test_tasks_with_the_same_runs_are_resampled_together():
    scores = simulate(np.random.default_rng(0), tasks=1)[0]
    twice = np.concatenate([scores, scores], axis=1)
    interval = comparison.bootstrap_interval(comparison.mean, scores)
    assert comparison.bootstrap_interval(
        comparison.mean, twice, tasks=["chance-25"] * 2
    ) == pytest.approx(interval)
    low, high = comparison.bootstrap_interval(comparison.mean, twice)[1:]
    assert high - low < 0.8 * (interval.high - interval.low)
    runs = tuple(
        make_run(task, seed, 0.1 * seed) for task in ("chance-25", "critic") for seed in range(5)
    )
    [entry] = compare_submissions([SubmissionScores("both", runs=runs)]).entries
    assert entry.mean == pytest.approx(entry.axes["critic"])


# --------------------------------------------------------------------------------------------------
# Files and comparisons


def make_run(task, seed, score, steps=100, complete=True, known=False, **more):
    marks = (CheckpointScore(steps, score, score, 0.0, 1.0),)
    return RunScore(task, seed, score, complete, marks, known=known, **more)


def submission(
    name="mine", tasks=("random", "svd", "chance-10", "self-play"), seeds=SEEDS, lift=0.0, **more
):
    scores = lift + 0.1 * np.arange(len(tasks)) + 0.01 * np.array(seeds)[:, None]
    return submit(np.minimum(1.0, scores), name, tasks, seeds, **more)


def to_file(path, *submissions):
    """Write scores as ``bench score`` does."""
    write_json(path, to_json(submissions))
    return path


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"version": "v0"}, "version"),
        ({"run": {"score": 1.5}}, "score"),
        ({"run": {"score": 0.5}}, "random with the seed 0 is not"),
        ({"run": {"task": "none"}}, "there is no task 'none'"),
        ({"run": {"seed": 1}}, "two scores of the same run"),
    ],
)
def test_damaged_scores_are_one_sentence(change, place, tmp_path):
    path = to_file(tmp_path / "scores.json", submission())
    content = read_json(path)
    content["submissions"][0]["runs"][0].update(change.pop("run", {}))
    path.write_text(json.dumps({**content, **change}))
    with pytest.raises(ValueError, match=place) as problem:
        read_scores(path)
    assert "\n" not in str(problem.value)


def test_submissions_are_compared_on_common_tasks_and_seeds():
    first = submission("one", seeds=range(3))
    first = replace(first, runs=[*first.runs, make_run("critic", 0, 0.5, complete=False)])
    result = compare_submissions([first, submission("other", ("svd", "random"), (3, 7), 0.5)])
    assert result.tasks == ["random", "svd"]
    assert [(entry.name, entry.seeds) for entry in result.entries] == [("other", 1), ("one", 3)]
    assert [entry.mean.mean for entry in result.entries] == pytest.approx([0.58, 0.06])
    assert "chance-10, self-play, critic." in result.notes[0]
    assert result.notes[1] == "Other seeds than 0 to 4, which decide nothing: other."
    assert result.entries[0].mean.low == result.entries[0].mean.high  # unknown with one seed
    assert (result.undecided, result.entries[1].tasks) == (
        ["one"],
        {**first.task_means, "critic": 0.5},
    )


def test_clear_leads_are_decided_and_equals_are_not():
    result = compare_submissions([submission("b"), submission("a", lift=0.5)])
    assert result.undecided == []
    assert describe_leader(result).startswith("a is best of 2: interquartile mean 0.670 (")
    result = compare_submissions([submission("b"), submission("a", seeds=range(4), lift=0.5)])
    assert result.undecided == ["b"]
    assert result.improvement["a"]["b"] == (1, 0, 1)
    assert describe_leader(result).startswith(
        "Undecided, because there are fewer than 5 seeds: a came out first"
    )
    result = compare_submissions([submission("b"), submission("a", lift=0.001)])
    assert result.undecided == ["b"]
    better = result.improvement["a"]["b"]
    worse = result.improvement["b"]["a"]
    assert better.low < better.mean < better.high
    assert worse == pytest.approx((1 - better.mean, 1 - better.high, 1 - better.low))
    assert describe_leader(result).startswith("Undecided: a came out first of 2")
    assert result.entries[0].axes["basics"].mean == pytest.approx(0.071)
    assert result.entries[0].axes["self-play"].mean == pytest.approx(0.321)


def test_what_was_not_learned_stands_apart():
    """Intervals between others do not depend on it, nor on rows of few seeds."""
    planner = replace(submission("a", lift=0.3), hyperparameters={"knows_rules": True})
    learned = planner, submission("b")
    solved = submission("rules", lift=0.5, known=True)
    few = submission("few", seeds=(2, 6, 7, 9, 10), lift=-0.5, known=None)
    result = compare_submissions([solved, few, *learned])
    settings = [entry.setting for entry in result.entries]
    assert settings == ["one, knows rules", "one", "unknown", "not learned"]
    assert result.undecided == ["few"]
    alone = compare_submissions(learned)
    assert result.entries[:2] == alone.entries
    assert result.improvement["a"]["b"] == alone.improvement["a"]["b"]


def test_croissant_finds_the_scores():
    folder = SCORES.parents[1]
    content = read_json(folder / "croissant.json")
    [record_set] = content["recordSet"]
    name, version, *fields = (field["source"] for field in record_set["field"])
    keys = {field["extract"]["jsonPath"].rpartition(".")[2] for field in fields}
    [files] = content["distribution"]
    for file in folder.glob("scores/*/*"):
        assert any(map(file.match, files["includes"]))
        scores = read_json(file)
        [row] = scores["submissions"]
        submission = re.fullmatch(name["transform"]["regex"], file.name)[1]
        assert submission == row["name"].replace(":", "-")
        assert re.search(version["transform"]["regex"], file.as_posix())[1] == scores["version"]
        assert all(keys <= {*run, *run["checkpoints"][-1]} for run in row["runs"])
    citation = (folder.parent / "CITATION.cff").read_text()
    assert re.search('title: "(.*)"', citation)[1] in content["citeAs"]


def test_scores_at_equal_cost():
    """The last checkpoint within 10 CPU seconds stands for all later ones."""
    marks = (
        CheckpointScore(100, 0.2, 0.2, 0.0, 1.0, 4.0),
        CheckpointScore(200, 0.6, 0.6, 0.0, 1.0, 9.5),
        CheckpointScore(400, 0.4, 0.4, 0.0, 1.0, 10.5),
    )
    late = RunScore("phantom", 0, 0.4, True, marks[2:])
    runs = [RunScore(task, 0, 0.4, True, marks) for task in ("chance-25", "opponents")] + [late]
    assert [run.score_in_budget for run in runs] == pytest.approx([0.6, 1.4 / 3, 0.0])
    result = compare_submissions([SubmissionScores("fast", runs=tuple(runs))])
    assert "| fast | 0.356 | 0.400 |" in leaderboard_markdown(result, "")


def test_a_file_has_scores_of_one_version(tmp_path):
    new = submission("new", ("masks", "phantom"), cost=Cost(1.5, peak_rss_bytes=2.0**28))
    both = new, submission("other", ("phantom",))
    path = to_file(tmp_path / "v2.json", *both)
    assert (read_json(path)["version"], read_scores(path)) == ("v2", both)
    with pytest.raises(ValueError, match="no version of the benchmark"):
        to_json([submission("old"), new])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (submission("one"), "the same name, 'one'"),
        (submission("two", ("masks",)), "no task in common"),
        (submission("quick", steps=50), "of the same length only"),
        (
            SubmissionScores("two", runs=[make_run("random", 0, 0.5), make_run("svd", 1, 0.5)]),
            "no seed of 0 to 4 in all",
        ),
    ],
)
def test_submissions_that_cannot_be_compared_are_rejected(other, message):
    with pytest.raises(ValueError, match=message):
        compare_submissions([submission("one"), other])


# --------------------------------------------------------------------------------------------------
# The page


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    tasks = [task.name for task in find_tasks()]
    values = ("one <b>", -0.9, 1.5), ("two", -0.5, 15.0), ("three", -0.7, 30.0)
    entries = [submission(name, tasks, lift=lift, cost=Cost(cpu_s)) for name, lift, cpu_s in values]
    scores = to_file(folder / "scores.json", *entries)
    write_benchmark(
        folder / "page.html",
        compare_submissions(read_scores(scores)),
        report_command([scores]),
    )
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
