"""Scored submissions to the benchmark, compared: leaderboard, axes, tasks, and pairs of submissions.

Aggregates over tasks and runs, and their stratified bootstrap intervals, are those of Agarwal et al. (2021), Deep
Reinforcement Learning at the Edge of the Statistical Precipice (https://arxiv.org/abs/2108.13264), section 4. Scores
are float64[runs, tasks].
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, to_builtins

from ttt_envs.core.jit import Float64Array
from ttt_eval.benchmark.scores import SubmissionScores
from ttt_eval.benchmark.tasks import TASKS, Axis, find_task, find_tasks
from ttt_eval.statistics import Interval

MIN_SEEDS = 5
"""Minimum number of seeds from which a bootstrap interval decides, see :func:`bootstrap_interval`."""
RESAMPLES = 2_000
"""Default number of bootstrap samples."""


class Entry(Struct, frozen=True):
    """A submission on the leaderboard."""

    name: str
    setting: str
    cpu_s: float | None
    """CPU seconds of an average run; None if they are unknown"""
    seeds: int
    """number of seeds that all tasks have"""
    interquartile_mean: Interval
    mean: Interval
    axes: dict[Axis, Interval]
    """mean score of each axis"""
    tasks: dict[str, float]
    """mean score of all its runs of each task that it has"""


class Comparison(Struct, frozen=True):
    """Submissions on the same tasks, the best first."""

    tasks: list[str]
    """tasks of all aggregates"""
    entries: list[Entry]
    improvement: dict[str, dict[str, Interval]]
    """probability that a run of the first is better than one of the second"""
    undecided: list[str]
    """names of submissions that are not shown to be worse than the first; all with few seeds"""
    notes: list[str]


def compare_submissions(
    submissions: Sequence[SubmissionScores], seed: int = 0, tasks: Sequence[str] = ()
) -> Comparison:
    """Compare submissions on common tasks, with intervals by a bootstrap over runs.

    Args:
        submissions: with different names.
        seed: of the bootstrap.
        tasks: names of the tasks of all aggregates; () for the tasks that all submissions have.

    Raises:
        ValueError: two have the same name, no task is common, runs of a task have different numbers of steps, a task is
            unknown, or a submission has no seed in all of them.
    """
    names = [submission.name for submission in submissions]
    if not names:
        raise ValueError("no submission")
    if len(set(names)) < len(names):
        raise ValueError(f"two submissions have the same name, {max(names, key=names.count)!r}: rename one")
    chosen = _choose_tasks(submissions, tasks)
    scores = {submission.name: _scores_of_runs(submission, chosen) for submission in submissions}
    entries = [_make_entry(submission, chosen, scores[submission.name], seed) for submission in submissions]
    entries.sort(key=lambda entry: (-entry.interquartile_mean.mean, entry.name))
    improvement: dict[str, dict[str, Interval]] = {entry.name: {} for entry in entries}
    undecided: list[str] = []
    for name, other in itertools.combinations([entry.name for entry in entries], 2):
        pair = [scores[name], scores[other]]
        better = bootstrap_interval(probability_of_improvement, *pair, seed=seed)
        improvement[name][other] = better
        improvement[other][name] = Interval(1 - better.mean, 1 - better.high, 1 - better.low)
        if name == entries[0].name:
            lead = bootstrap_interval(lambda a, b: interquartile_mean(a) - interquartile_mean(b), *pair, seed=seed)
            undecided += [other] * (lead.low <= 0 or min(map(len, pair)) < MIN_SEEDS)
    return Comparison(chosen, entries, improvement, undecided, _make_notes(submissions, chosen, entries))


def _choose_tasks(submissions: Sequence[SubmissionScores], names: Sequence[str]) -> list[str]:
    """Return the tasks of aggregates: those with these names, or without any those that all submissions have."""
    steps: dict[str, int] = {}
    for submission in submissions:
        for run in submission.runs:
            if run.steps != steps.setdefault(run.task, run.steps):  # more steps alone would give a better rank
                raise ValueError(
                    f"a run of the task {run.task} has {run.steps:,} steps in {submission.name} and "
                    f"{steps[run.task]:,} in others: compare runs of the same length only, such as quick ones"
                )
    common = set.intersection(*({run.task for run in submission.runs} for submission in submissions))
    if not common and not names:
        raise ValueError("the submissions have no task in common: run each of them on the same tasks, or choose some")
    return [task.name for task in find_tasks(names or sorted(common))]


def _scores_of_runs(submission: SubmissionScores, tasks: Sequence[str]) -> Float64Array:
    """Return float64[runs, tasks]; runs have the seeds that all tasks have."""
    columns = [{run.seed: run.score for run in submission.runs if run.task == task} for task in tasks]
    seeds = sorted(set.intersection(*map(set, columns)))
    if not seeds:
        raise ValueError(
            f"{submission.name} has no seed in all of the tasks {', '.join(tasks)}: choose fewer, or leave it out"
        )
    return np.array([[column[seed] for column in columns] for seed in seeds])


def _make_entry(submission: SubmissionScores, tasks: Sequence[str], scores: Float64Array, seed: int) -> Entry:
    columns: dict[Axis, list[int]] = {}
    for column, task in enumerate(tasks):
        for axis in find_task(task).axes:
            columns.setdefault(axis, []).append(column)
    return Entry(
        submission.name,
        submission.setting,
        submission.cpu_s,
        len(scores),
        bootstrap_interval(interquartile_mean, scores, seed=seed),
        bootstrap_interval(mean, scores, seed=seed),
        {axis: bootstrap_interval(mean, scores[:, of_axis], seed=seed) for axis, of_axis in columns.items()},
        submission.task_means,
    )


def _make_notes(submissions: Sequence[SubmissionScores], tasks: Sequence[str], entries: Sequence[Entry]) -> list[str]:
    """Return what readers of a comparison should know."""
    others = [task.name for task in TASKS if any(task.name in entry.tasks for entry in entries)]
    groups = {
        "Tasks left out of the aggregates": [name for name in others if name not in tasks],
        f"Fewer than {MIN_SEEDS} seeds, which decide nothing": [row.name for row in entries if row.seeds < MIN_SEEDS],
        "Runs without all checkpoints of the benchmark": [
            row.name for row in submissions if not all(run.complete for run in row.runs if run.task in tasks)
        ],
    }
    return [f"{text}: {', '.join(names)}." for text, names in groups.items() if names]


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison, JSON-ready; an interval is [mean, low, high]."""
    return {"format": 1, "kind": "benchmark-comparison", **to_builtins(comparison)}


# ---------------------------------------------------------------------------------------------------------------------
# Aggregates


def mean(scores: Float64Array) -> Float64Array:
    """Return the mean over runs and tasks, float64[...] of float64[..., runs, tasks]."""
    return np.asarray(scores.mean(axis=(-2, -1)))


def interquartile_mean(scores: Float64Array) -> Float64Array:
    """Return the mean of the middle half of all runs of all tasks, float64[...] of float64[..., runs, tasks].

    Of each end a quarter of the values is left out, rounded down.
    """
    ordered = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = ordered.shape[-1] // 4
    return np.asarray(ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1))


def probability_of_improvement(scores: Float64Array, others: Float64Array) -> Float64Array:
    """Return the probability that a run of ``scores`` beats one of ``others`` on a random task; ties count half.

    Args:
        scores, others: float64[..., runs, tasks]; the numbers of runs may differ.
    """
    difference = scores[..., :, None, :] - others[..., None, :, :]
    return np.asarray(((difference > 0) + 0.5 * (difference == 0)).mean(axis=(-3, -2, -1)))


def bootstrap_interval(
    measure: Callable[..., Float64Array], *scores: Float64Array, seed: int = 0, count: int = RESAMPLES
) -> Interval:
    """Return the 2.5% and 97.5% percentiles of a measure in a stratified bootstrap over runs.

    With few runs this interval is too short, because samples vary less than runs do, by the factor 1 - 1 / runs in
    variance: docs/benchmark/index.md has its coverage.

    Args:
        measure: takes as many float64[..., runs, tasks] as there are scores, and returns float64[...].
        scores: float64[runs, tasks] for each argument of the measure.
        seed: of the bootstrap.
        count: number of bootstrap samples.
    """
    rng = np.random.default_rng(seed)
    value, samples = float(measure(*scores)), list[Float64Array]()
    for of_runs in scores:  # runs are drawn for each task anew
        runs, tasks = of_runs.shape
        samples.append(of_runs[rng.integers(runs, size=(count, runs, tasks)), np.arange(tasks)])
    low, high = np.quantile(measure(*samples), (0.025, 0.975)).tolist()
    return Interval(value, min(value, low), max(value, high))
