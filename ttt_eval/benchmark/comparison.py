"""Scored submissions to the benchmark, compared: leaderboard, axes, tasks, and pairs of submissions.

Aggregates over tasks and runs, and their stratified bootstrap intervals, are those of Agarwal et al. (2021), Deep
Reinforcement Learning at the Edge of the Statistical Precipice (https://arxiv.org/abs/2108.13264), section 4. Scores
are float64[runs, tasks].
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ttt_envs.core import files
from ttt_envs.core.jit import Float64Array
from ttt_eval.benchmark.records import SubmissionScores
from ttt_eval.benchmark.tasks import TASKS, Axis, find_task, find_tasks
from ttt_eval.statistics import Interval

THRESHOLDS = np.linspace(0, 1, 51)
"""Thresholds of performance profiles."""
MIN_SEEDS = 5
"""Minimum number of seeds from which a bootstrap interval decides, see :func:`bootstrap_intervals`."""
RESAMPLES = 2_000
"""Default number of bootstrap samples."""


class Entry(NamedTuple):
    """A submission on the leaderboard."""

    submission: SubmissionScores
    scores: Float64Array
    """float64[runs, tasks]; runs have the seeds that all tasks have"""
    interquartile_mean: Interval
    mean: Interval
    optimality_gap: Interval
    axes: Mapping[Axis, Interval]
    """mean score of each axis"""
    profile: Sequence[Interval]
    """share of runs above each of :data:`THRESHOLDS`"""

    @property
    def name(self) -> str:
        """The name of the submission."""
        return self.submission.name


class TaskMean(NamedTuple):
    """The score of a submission on a task."""

    mean: float
    """over all its runs of the task"""
    runs: int
    """number of these runs"""


class Comparison(NamedTuple):
    """Submissions on tasks that all of them have, the best first."""

    tasks: tuple[str, ...]
    """tasks of all aggregates"""
    entries: Sequence[Entry]
    improvement: Mapping[tuple[str, str], Interval]
    """probability that a run of the first is better than one of the second"""
    undecided: Sequence[str]
    """names of submissions that are not shown to be worse than the first; all with few seeds"""
    notes: Sequence[str]
    unranked: Sequence[SubmissionScores] = ()
    """submissions that lack one of the tasks"""

    @property
    def submissions(self) -> list[SubmissionScores]:
        """All submissions: those with a rank, the best first, and the others."""
        return [*(entry.submission for entry in self.entries), *self.unranked]

    def task_means(self) -> dict[str, list[TaskMean | None]]:
        """Return for each task of any submission the means of :attr:`submissions`; None where one has no run of it."""
        means: dict[str, list[TaskMean | None]] = {}
        for task in TASKS:
            scores = [[run.score for run in own.runs if run.task == task.name] for own in self.submissions]
            if any(scores):
                means[task.name] = [TaskMean(float(np.mean(runs)), len(runs)) if runs else None for runs in scores]
        return means


def compare_submissions(
    submissions: Sequence[SubmissionScores], seed: int = 0, tasks: Sequence[str] = ()
) -> Comparison:
    """Compare submissions on common tasks, with intervals by a bootstrap over runs.

    Args:
        submissions: with different names.
        seed: of the bootstrap.
        tasks: names of the tasks of all aggregates; () for the tasks that all submissions have. Submissions without a
            seed in all of them get no rank.

    Raises:
        ValueError: two have the same name, no task is common, runs of a task have different numbers of steps, a task is
            unknown, or no submission has a seed in all of them.
    """
    names = [submission.name for submission in submissions]
    if not names:
        raise ValueError("no submission")
    if len(set(names)) < len(names):
        raise ValueError(f"two submissions have the same name, {max(names, key=names.count)!r}: rename one")
    chosen, scores, notes = _common_scores(submissions, [task.name for task in find_tasks(tasks) if tasks])
    entries = [_make_entry(own, chosen, scores[own.name], seed) for own in submissions if own.name in scores]
    entries.sort(key=lambda entry: (-entry.interquartile_mean.mean, entry.name))
    unranked = sorted((own for own in submissions if own.name not in scores), key=lambda own: own.name)
    improvement, undecided = {}, list[str]()
    for entry, other in itertools.combinations(entries, 2):
        pair = [entry.scores, other.scores]
        [better] = bootstrap_intervals(pair, probability_of_improvement, seed)
        improvement[entry.name, other.name] = better
        improvement[other.name, entry.name] = Interval(1 - better.mean, 1 - better.high, 1 - better.low)
        if entry is entries[0]:
            [lead] = bootstrap_intervals(pair, _lead, seed)
            undecided += [other.name] * (lead.low <= 0 or min(map(len, pair)) < MIN_SEEDS)
    return Comparison(tuple(chosen), entries, improvement, undecided, notes, unranked)


def _common_scores(
    submissions: Sequence[SubmissionScores], chosen: Sequence[str]
) -> tuple[list[str], dict[str, Float64Array], list[str]]:
    """Return the tasks of aggregates, the scores float64[runs, tasks] of each ranked submission, and notes for readers.

    Tasks are the ``chosen`` ones; without any those that all submissions have.
    """
    tables: dict[str, dict[str, dict[int, float]]] = {submission.name: {} for submission in submissions}
    lengths: dict[str, tuple[int, str]] = {}
    for submission in submissions:
        for run in submission.runs:
            tables[submission.name].setdefault(run.task, {})[run.seed] = run.score
            steps, name = lengths.setdefault(run.task, (run.steps, submission.name))
            if run.steps != steps:  # more steps alone would give a better rank
                raise ValueError(
                    f"a run of the task {run.task} has {run.steps:,} steps in {submission.name} and {steps:,} in "
                    f"{name}: compare runs of the same length only, such as quick ones among themselves"
                )
    tasks = list(chosen) or [task.name for task in TASKS if all(task.name in table for table in tables.values())]
    if not tasks:
        raise ValueError("the submissions have no task in common: run each of them on the same tasks, or choose some")
    notes, scores, incomplete = list[str](), dict[str, Float64Array](), list[str]()
    missing = [task.name for task in TASKS if task.name in lengths and task.name not in tasks]
    if missing and not chosen:
        notes.append(f"Tasks that a submission lacks are left out of the aggregates: {', '.join(missing)}.")
    if len(tasks) < len(TASKS):
        notes.append(f"Aggregates are over {len(tasks)} of the {len(TASKS)} tasks.")
    for submission in submissions:
        name, columns = submission.name, [tables[submission.name].get(task, {}) for task in tasks]
        seeds = sorted(set.intersection(*map(set, columns)))
        if not seeds:
            notes.append(f"{name} has no rank, because it has no seed in all of these tasks.")
            continue
        if unused := sorted(set().union(*columns).difference(seeds)):
            notes.append(f"{name} has seed {', '.join(map(str, unused))} in some of these tasks alone: left out.")
        if not all(run.complete for run in submission.runs if run.task in tasks):
            incomplete.append(name)
        scores[name] = np.array([[column[seed] for column in columns] for seed in seeds])
    if not scores:
        raise ValueError(f"no submission has a seed in all of the tasks {', '.join(tasks)}: choose fewer or others")
    few = [name for name, of_runs in scores.items() if len(of_runs) < MIN_SEEDS]
    for words, group in (
        (f"These have fewer than {MIN_SEEDS} seeds, which decide nothing", few),
        ("These have runs without all checkpoints of the benchmark", incomplete),
    ):
        if group:
            notes.append(f"{words}: {'all submissions' if len(group) == len(scores) > 1 else ', '.join(group)}.")
    return tasks, scores, notes


def _make_entry(submission: SubmissionScores, tasks: Sequence[str], scores: Float64Array, seed: int) -> Entry:
    axes = [find_task(task).axes for task in tasks]
    columns = {axis: [column for column, of_task in enumerate(axes) if axis in of_task] for axis in sum(axes, ())}
    means = {axis: bootstrap_intervals([scores[:, which]], mean, seed)[0] for axis, which in columns.items()}
    middle, average, gap = (
        bootstrap_intervals([scores], measure, seed)[0] for measure in (interquartile_mean, mean, optimality_gap)
    )
    profile = bootstrap_intervals([scores], partial(performance_profile, thresholds=THRESHOLDS), seed)
    return Entry(submission, scores, middle, average, gap, means, profile)


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison, JSON-ready; intervals are objects with ``mean``, ``low`` and ``high``."""
    names = [submission.name for submission in comparison.submissions]
    return {
        "format": 1,
        "kind": "benchmark-comparison",
        "tasks": list(comparison.tasks),
        "leaderboard": [_entry_to_json(entry, comparison.tasks) for entry in comparison.entries],
        "probability_of_improvement": [
            {"submission": first, "other": second, **value._asdict()}
            for (first, second), value in comparison.improvement.items()
        ],
        "task_means": {
            task: {name: row and row._asdict() for name, row in zip(names, means, strict=True)}
            for task, means in comparison.task_means().items()
        },
        "unranked": [submission.name for submission in comparison.unranked],
        "notes": list(comparison.notes),
    }


def _entry_to_json(entry: Entry, tasks: Sequence[str]) -> dict[str, Any]:
    submission, columns = entry.submission, zip(tasks, entry.scores.T.tolist(), strict=True)
    facts = ("setting", "tuning_steps", "cpu_s", "peak_rss_bytes")
    totals = ("interquartile_mean", "mean", "optimality_gap")
    thresholds = zip(THRESHOLDS.tolist(), entry.profile, strict=True)
    return {
        "submission": submission.name,
        **{name: getattr(submission, name) for name in facts},
        **{name: getattr(entry, name)._asdict() for name in totals},
        "axes": {axis: value._asdict() for axis, value in entry.axes.items()},
        "profile": [{"threshold": threshold, **value._asdict()} for threshold, value in thresholds],
        "tasks": {task: {"scores": runs, "win_random": submission.win_random(task)} for task, runs in columns},
    }


def write_csv(path: Path, submissions: Sequence[SubmissionScores]) -> None:
    """Write the scores of all checkpoints as CSV, a line for each: ``submission`` and the fields of
    :class:`~ttt_eval.benchmark.records.CheckpointScore`.
    """
    columns = ("task", "seed", "steps", "score", "value")
    rows = [
        [submission.name, *(getattr(row, name) for name in columns), " ".join(row.sha256)]
        for submission in submissions
        for row in submission.checkpoints
    ]
    files.write_csv(path, [["submission", *columns, "sha256"], *rows])


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


def _lead(one: Float64Array, other: Float64Array) -> Float64Array:
    return interquartile_mean(one) - interquartile_mean(other)


def optimality_gap(scores: Float64Array) -> Float64Array:
    """Return by how much runs miss 1, the best possible score, on average; float64[...] of float64[..., runs, tasks].

    Scores above 1 count as 1.
    """
    return np.asarray(1.0 - np.minimum(scores, 1.0).mean(axis=(-2, -1)))


def probability_of_improvement(one: Float64Array, other: Float64Array) -> Float64Array:
    """Return the probability that a run of one is better than a run of the other on a random task; ties count half.

    Args:
        one, other: float64[..., runs, tasks]; the numbers of runs may differ.
    """
    difference = one[..., :, None, :] - other[..., None, :, :]
    return np.asarray(((difference > 0) + 0.5 * (difference == 0)).mean(axis=(-3, -2, -1)))


def performance_profile(scores: Float64Array, thresholds: Float64Array) -> Float64Array:
    """Return the share of runs with a score above each threshold, float64[..., thresholds].

    Args:
        scores: float64[..., runs, tasks].
        thresholds: float64[thresholds].
    """
    return np.stack([(scores > threshold).mean(axis=(-2, -1)) for threshold in thresholds], axis=-1)


def bootstrap_intervals(
    scores: Sequence[Float64Array], measure: Callable[..., Float64Array], seed: int = 0, count: int = RESAMPLES
) -> list[Interval]:
    """Return the 2.5% and 97.5% percentiles of a measure in a stratified bootstrap over runs.

    With few runs this interval is too short, because samples vary less than runs do, by the factor 1 - 1 / runs in
    variance: docs/benchmark/submit.md has its coverage.

    Args:
        scores: float64[runs, tasks] for each argument of the measure.
        measure: takes as many float64[..., runs, tasks], and returns float64[...] or float64[..., values].
        seed: of the bootstrap.
        count: number of bootstrap samples.

    Returns:
        An interval for each value.
    """
    rng = np.random.default_rng(seed)
    means, samples = np.atleast_1d(measure(*scores)), list[Float64Array]()
    for of_runs in scores:  # runs are drawn for each task anew
        runs, tasks = of_runs.shape
        samples.append(of_runs[rng.integers(runs, size=(count, runs, tasks)), np.arange(tasks)])
    low, high = np.quantile(measure(*samples).reshape(count, -1), (0.025, 0.975), axis=0)
    ends = np.stack([means, np.minimum(means, low), np.maximum(means, high)], axis=1)
    return [Interval(*row) for row in ends.tolist()]
