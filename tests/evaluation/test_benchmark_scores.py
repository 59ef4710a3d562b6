"""Scores of the benchmark: files, aggregates and their intervals."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evaluation.benchmark import aggregates
from evaluation.benchmark.scores import (
    SCORES,
    ScoreRow,
    Submission,
    compare_submissions,
    write_scores,
)
from evaluation.reports.benchmark_scores import read_scores

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
THRESHOLDS = np.array([0, 0.25, 0.5, 0.75])
matrices = arrays(np.float64, (3, 4), elements=st.floats(-1, 1))


@pytest.mark.parametrize("name", RLIABLE)
def test_aggregates_are_those_of_rliable(name):
    scores, means, lows, highs = RLIABLE[name]
    for measure, mean, low, high in zip(
        (aggregates.mean, aggregates.interquartile_mean, aggregates.optimality_gap), means, lows, highs, strict=True
    ):
        [found] = aggregates.bootstrap_intervals([scores], measure, count=20_000)
        assert found.mean == pytest.approx(mean, abs=1e-9)
        assert found.low == pytest.approx(low, abs=0.006)
        assert found.high == pytest.approx(high, abs=0.006)


def test_profiles_and_improvements_are_those_of_rliable():
    def profile(scores):
        return aggregates.performance_profile(scores, THRESHOLDS)

    found = aggregates.bootstrap_intervals([A], profile, count=20_000)
    expected = [(26, 22, 29), (20, 16, 24), (16, 12, 20), (12, 8, 16)]  # of 30 runs
    np.testing.assert_allclose(found, np.array(expected) / 30, atol=1e-9)
    [found] = aggregates.bootstrap_intervals([A, B], aggregates.probability_of_improvement, count=5_000)
    np.testing.assert_allclose(found, (0.4066666667, 0.26, 0.5666666667), atol=0.02)
    assert found.mean == pytest.approx(0.4066666667, abs=1e-9)


@given(matrices, matrices)
def test_improvements_of_two_sum_to_one(one, other):
    both = [aggregates.probability_of_improvement(*pair) for pair in ((one, other), (other, one))]
    assert sum(both) == pytest.approx(1)
    assert aggregates.probability_of_improvement(one, one + 3) == 0
    assert aggregates.probability_of_improvement(one, one) == pytest.approx(0.5)


@given(matrices, st.floats(-1, 1))
def test_aggregates_of_shifted_scores_are_shifted(scores, shift):
    for measure in (aggregates.mean, aggregates.interquartile_mean):
        assert measure(scores + shift) == pytest.approx(measure(scores) + shift, abs=1e-9)
    assert aggregates.optimality_gap(scores) == pytest.approx(1 - aggregates.mean(scores), abs=1e-9)
    assert scores.min() - 1e-9 <= aggregates.interquartile_mean(scores) <= scores.max() + 1e-9


@given(matrices)
def test_resampled_runs_are_runs_of_the_same_task(scores):
    samples = aggregates.resample(scores, np.random.default_rng(0), 20)
    for task in range(scores.shape[1]):
        assert np.isin(samples[:, :, task], scores[:, task]).all()


def rows(task="random", seeds=(0, 1), scores=(0.25, 0.5), **more):
    return [
        ScoreRow(task, seed, 100 * (index + 1), score + seed / 100, 0.0, "0" * 64, **more)
        for seed in seeds
        for index, score in enumerate(scores)
    ]


def test_scores_are_written_and_read(tmp_path):
    submission = Submission("mine", [*rows(cpu_s=1.5, peak_rss_bytes=9, win_random=0.75), *rows("svd")], "tuned", 7)
    write_scores(tmp_path / SCORES, submission)
    assert read_scores(tmp_path) == read_scores(tmp_path / SCORES) == submission


def test_score_of_a_run_is_that_of_its_last_checkpoint_or_the_mean_of_all():
    found = Submission("mine", [*rows("opponents"), *reversed(rows("random"))]).final_scores()
    assert list(found) == ["random", "opponents"]
    assert found["random"] == pytest.approx({0: 0.5, 1: 0.51})
    assert found["opponents"] == pytest.approx({0: 0.375, 1: 0.385})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "run"}, "it is no file of scores"),
        ({"version": "v0"}, "of version 'v0', and this is v1"),
        ({"rows": []}, "it has no scores"),
        ({"rows": [1]}, "a list of objects"),
        ({"setting": "all"}, "must be one or tuned"),
        ({"name": 3}, "name is 3, and must be a text"),
        ({"row": {"score": 1.5}}, "score is 1.5, and must be"),
        ({"row": {"score": True}}, "score is True"),
        ({"row": {"task": "none"}}, "there is no task 'none'"),
        ({"row": {"seed": -1}}, "seed is -1"),
        ({"row": {"win_random": 2}}, "win_random is 2"),
        ({"row": {"seed": 1, "steps": 100}}, "two scores of the same checkpoint"),
    ],
)
def test_damaged_scores_are_one_sentence(change, message, tmp_path):
    write_scores(tmp_path / SCORES, Submission("mine", rows()))
    content = json.loads((tmp_path / SCORES).read_text())
    content["rows"][0].update(change.pop("row", {}))
    (tmp_path / SCORES).write_text(json.dumps({**content, **change}))
    with pytest.raises(ValueError, match=message) as problem:
        read_scores(tmp_path)
    assert "\n" not in str(problem.value)


def test_submissions_are_compared_on_common_tasks_and_seeds():
    one = Submission("one", [*rows(), *rows("svd", (0, 1, 2)), *rows("critic", (4,))])
    other = Submission("other", [*rows(seeds=(3,)), *rows("svd", (3,))])
    found = compare_submissions([one, other])
    assert found.tasks == ("random", "svd")
    np.testing.assert_allclose(found.scores["one"], [[0.5, 0.5], [0.51, 0.51]])
    assert found.scores["other"].shape == (1, 2)
    text = " ".join(found.notes)
    assert "Left out, because a submission lacks them: critic." in text
    assert "other has one run of each task" in text


def test_submissions_that_cannot_be_compared_are_rejected():
    one = Submission("one", rows())
    with pytest.raises(ValueError, match="the same name, 'one'"):
        compare_submissions([one, one])
    with pytest.raises(ValueError, match="no task in common"):
        compare_submissions([one, Submission("two", rows("svd"))])
    with pytest.raises(ValueError, match="two has no seed in all of its tasks"):
        compare_submissions([Submission("two", [*rows(), *rows("svd", (7,))])])
