"""Scores of the benchmark: files, aggregates and their intervals."""

import json

import numpy as np
import pytest
from json_files import read_json
from msgspec.structs import replace
from pages import check_in_browser, in_browser, read_page
from scipy.special import stdtrit

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
from ttt_eval.reports.benchmark import describe_leader, report_command, write_benchmark

pytestmark = pytest.mark.more

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
    (B, comparison.mean, 0.6072666667, 0.50267, 0.71503),
    (B, comparison.interquartile_mean, 0.5826875, 0.45975, 0.71744),
]


def test_aggregates_are_those_of_rliable():
    """Intervals are as long as its percentiles, times what few runs lack: runs vary more than
    samples of them, and Student's t is wider than the normal distribution."""
    wider = (5 / 4) ** 0.5 * stdtrit(4 * 6, 0.975) / stdtrit(1e9, 0.975)
    for scores, measure, mean, low, high in RLIABLE:
        result = comparison.bootstrap_interval(measure, scores, count=20_000)
        assert result.mean == pytest.approx(mean, abs=1e-9)
        assert result.high - result.low == pytest.approx(wider * (high - low), rel=0.04)
    result = comparison.bootstrap_interval(comparison.probability_of_improvement, A, B, count=5_000)
    assert result.mean == pytest.approx(0.4066666667, abs=1e-9)
    wider = (5 / 4) ** 0.5 * stdtrit(2 * 4 * 6, 0.975) / stdtrit(1e9, 0.975)
    assert result.high - result.low == pytest.approx(wider * (0.5666666667 - 0.26), rel=0.08)


# --------------------------------------------------------------------------------------------------
# Simulated submissions


def simulate(rng, agents=1, tasks=19, lift=0.0, runs=5):
    """Return float64[runs, tasks] of agents, of which the first is better by ``lift``."""
    levels = rng.uniform(0.3, 0.8, tasks)
    lifts = [lift, *[0.0] * (agents - 1)]
    return [
        np.minimum(1, levels + more + 0.1 * rng.standard_normal((runs, tasks))) for more in lifts
    ]


def compare_simulated(rng, agents, tasks=19, lift=0.0):
    names = [task.name for task in TASKS if task.name != "critic"][:tasks]
    submissions = []
    for agent, scores in enumerate(simulate(rng, agents, tasks, lift)):
        runs = tuple(
            make_run(task, seed, score)
            for seed, row in enumerate(scores.tolist())
            for task, score in zip(names, row, strict=True)
        )
        submissions.append(SubmissionScores(f"agent-{agent}", runs=runs))
    return compare_submissions(submissions)


@pytest.fixture
def few_resamples(monkeypatch):
    monkeypatch.setitem(comparison.bootstrap_interval.__kwdefaults__, "count", 200)


@pytest.mark.parametrize(
    ("agents", "tasks", "tables"), [(2, 19, 200), (8, 19, 60), (2, 1, 300), (8, 1, 60)]
)
def test_equal_submissions_are_called_different_in_few_tables(few_resamples, agents, tasks, tables):
    rng = np.random.default_rng(agents)
    wrong = 0
    for _ in range(tables):
        result = compare_simulated(rng, agents, tasks)
        is_decided = any(
            value.low > 0.5 for row in result.improvement.values() for value in row.values()
        )
        wrong += is_decided or len(result.undecided) < agents - 1
    assert wrong / tables <= 0.05 + 3 * (0.05 * 0.95 / tables) ** 0.5


def test_better_submissions_are_told_apart(few_resamples):
    rng = np.random.default_rng(0)
    for agents in (2, 8):
        result = compare_simulated(rng, agents, lift=0.15)
        assert (result.entries[0].name, result.undecided) == ("agent-0", [])
        assert all(value.low > 0.5 for value in result.improvement["agent-0"].values())


@pytest.mark.parametrize("measure", [comparison.mean, comparison.interquartile_mean])
def test_intervals_of_five_runs_contain_the_true_aggregate(measure):
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(800):
        scores = simulate(rng, runs=2_005)[0]
        low, high = comparison.bootstrap_interval(measure, scores[:5], count=200)[1:]
        inside.append(low <= measure(scores[5:]) <= high)
    assert np.mean(inside) >= 0.93


def test_tasks_with_the_same_runs_are_resampled_together():
    scores = simulate(np.random.default_rng(0), tasks=1)[0]
    twice = np.concatenate([scores, scores], axis=1)
    interval = comparison.bootstrap_interval(comparison.mean, scores)
    assert comparison.bootstrap_interval(
        comparison.mean, twice, trainings=["chance-25"] * 2
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


def make_run(task, seed, score, steps=100, complete=True, cost=None):
    return RunScore(
        task, seed, score, complete, (CheckpointScore(steps, score, 0.5, 0.0, 1.0),), cost
    )


def submission(
    name="mine",
    tasks=("random", "svd", "chance-10", "self-play"),
    seeds=(0, 1, 2),
    lift=0.0,
    steps=100,
    **more,
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
        ({"run": {"score": 1.5}}, "score"),
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
    first = submission("one")
    first = replace(first, runs=[*first.runs, make_run("critic", 0, 0.5, complete=False)])
    result = compare_submissions([first, submission("other", ("svd", "random"), (3,), 0.5)])
    assert result.tasks == ["random", "svd"]
    assert [(entry.name, entry.seeds) for entry in result.entries] == [("other", 1), ("one", 3)]
    assert [entry.mean.mean for entry in result.entries] == pytest.approx([0.58, 0.06])
    assert (result.improvement["other"]["one"].mean, result.improvement["one"]["other"].mean) == (
        1,
        0,
    )
    assert "chance-10, self-play, critic." in result.notes[0]
    assert (result.undecided, result.entries[1].tasks) == (
        ["one"],
        {**first.task_means, "critic": 0.5},
    )


def test_clear_leads_are_decided_and_equals_are_not():
    five = range(5)
    result = compare_submissions(
        [submission("b", seeds=five), submission("a", seeds=five, lift=0.5)]
    )
    assert result.undecided == []
    assert describe_leader(result).startswith("a is best of 2: interquartile mean 0.670 (")
    result = compare_submissions(
        [submission("b", seeds=five), submission("a", seeds=range(4), lift=0.5)]
    )
    assert result.undecided == ["b"]
    assert result.improvement["a"]["b"] == (1, 0, 1)
    assert describe_leader(result).startswith(
        "Undecided, because there are fewer than 5 seeds: a came out first"
    )
    result = compare_submissions(
        [submission("b", seeds=five), submission("a", seeds=five, lift=0.001)]
    )
    assert result.undecided == ["b"]
    better = result.improvement["a"]["b"]
    worse = result.improvement["b"]["a"]
    assert better.low < better.mean < better.high
    assert worse == pytest.approx((1 - better.mean, 1 - better.high, 1 - better.low))
    assert describe_leader(result).startswith("Undecided: a came out first of 2")
    assert result.entries[0].axes["basics"].mean == pytest.approx(0.071)
    assert result.entries[0].axes["self-play"].mean == pytest.approx(0.321)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (submission("one"), "the same name, 'one'"),
        (submission("two", ("masks",)), "no task in common"),
        (submission("quick", steps=50), "of the same length only"),
        (
            SubmissionScores("two", runs=[make_run("random", 0, 0.5), make_run("svd", 1, 0.5)]),
            "no seed in all",
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
    tasks = [task.name for task in TASKS]
    values = ("one <b>", -0.9, 1.5), ("two", -0.5, 15.0), ("three", -0.7, 30.0)
    entries = [
        submission(name, tasks, range(5), lift=lift, cost=Cost(cpu_s))
        for name, lift, cpu_s in values
    ]
    scores = to_file(folder / "scores.json", *entries)
    write_benchmark(
        folder / "page.html",
        compare_submissions(read_scores(scores), 3),
        report_command([scores], (), 3),
    )
    return folder / "page.html"


def test_the_page_begins_with_the_verdict(page):
    text = read_page(page).text()
    parts = ("two is best of 3", "Axes", "Tasks", "evaluate.py bench report", "--seed 3")
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


@in_browser
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_accessible_and_fits_at_any_width(page, browser, dark):
    check_in_browser(browser, [page], dark=dark)
