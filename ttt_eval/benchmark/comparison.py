"""Scored submissions to the benchmark, compared: leaderboard, axes, tasks, and pairs of submissions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ttt_envs.core import files
from ttt_envs.core.jit import Float64Array
from ttt_eval.benchmark.aggregates import (
    bootstrap_intervals,
    interquartile_mean,
    mean,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
)
from ttt_eval.benchmark.records import MAX_SEED, SubmissionScores
from ttt_eval.benchmark.tasks import TASKS, Axis, find_tasks
from ttt_eval.statistics import Interval

THRESHOLDS = np.linspace(0, 1, 51)
"""Thresholds of performance profiles."""
MIN_SEEDS = 5
"""Minimum number of seeds from which a bootstrap interval decides, see :func:`bootstrap_intervals`."""
TOTALS = ("interquartile_mean", "mean", "optimality_gap")


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
    lead: Mapping[str, Interval]
    """difference of the interquartile means of the first entry and each other one"""
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

    def undecided(self) -> list[str]:
        """Return the names of submissions that are not shown to be worse than the first; all with few seeds."""
        first, *others = self.entries
        return [
            other.name
            for other in others
            if min(len(first.scores), len(other.scores)) < MIN_SEEDS or self.lead[other.name].low <= 0
        ]


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
    places, scores, notes = _common_scores(submissions, [TASKS.index(task) for task in find_tasks(tasks) if tasks])
    entries = [_make_entry(own, places, scores[own.name], seed) for own in submissions if own.name in scores]
    entries.sort(key=lambda entry: (-entry.interquartile_mean.mean, entry.name))
    unranked = sorted((own for own in submissions if own.name not in scores), key=lambda own: own.name)
    improvement, lead = {}, {}
    for entry, other in itertools.combinations(entries, 2):
        pair = [entry.scores, other.scores]
        [better] = bootstrap_intervals(pair, probability_of_improvement, seed)
        improvement[entry.name, other.name] = better
        improvement[other.name, entry.name] = Interval(1 - better.mean, 1 - better.high, 1 - better.low)
        if entry is entries[0]:
            [lead[other.name]] = bootstrap_intervals(
                pair, lambda best, rest: interquartile_mean(best) - interquartile_mean(rest), seed
            )
    return Comparison(tuple(TASKS[place].name for place in places), entries, improvement, lead, notes, unranked)


def _common_scores(
    submissions: Sequence[SubmissionScores], chosen: Sequence[int]
) -> tuple[list[int], dict[str, Float64Array], list[str]]:
    """Return the tasks of aggregates, the scores float64[runs, tasks] of each ranked submission, and notes for readers.

    Tasks are places in ``TASKS``: the ``chosen`` ones; without any those that all submissions have.
    """
    numbers = {task.name: place for place, task in enumerate(TASKS)}
    tables = {submission.name: np.full((MAX_SEED + 1, len(TASKS)), np.nan) for submission in submissions}
    lengths: dict[str, tuple[int, str]] = {}
    for submission in submissions:
        for run in submission.runs:
            tables[submission.name][run.seed, numbers[run.task]] = run.score
            steps, name = lengths.setdefault(run.task, (run.steps, submission.name))
            if run.steps != steps:  # more steps alone would give a better rank
                raise ValueError(
                    f"a run of the task {run.task} has {run.steps:,} steps in {submission.name} and {steps:,} in "
                    f"{name}: compare runs of the same length only, such as quick ones among themselves"
                )
    has = np.stack([~np.isnan(table).all(axis=0) for table in tables.values()])
    places = list(chosen) or np.flatnonzero(has.all(axis=0)).tolist()
    if not places:
        raise ValueError("the submissions have no task in common: run each of them on the same tasks, or choose some")
    notes, scores, incomplete = list[str](), dict[str, Float64Array](), list[str]()
    missing = [task.name for place, task in enumerate(TASKS) if has[:, place].any() and place not in places]
    if missing and not chosen:
        notes.append(f"Tasks that a submission lacks are left out of the aggregates: {', '.join(missing)}.")
    if len(places) < len(TASKS):
        notes.append(f"Aggregates are over {len(places)} of the {len(TASKS)} tasks.")
    for submission in submissions:
        name, runs = submission.name, ~np.isnan(tables[submission.name][:, places])
        whole = runs.all(axis=1)
        if not whole.any():
            notes.append(f"{name} has no rank, because it has no seed in all of these tasks.")
            continue
        if unused := np.flatnonzero(runs.any(axis=1) & ~whole).tolist():
            notes.append(f"{name} has seed {', '.join(map(str, unused))} in some of these tasks alone: left out.")
        if not all(run.complete for run in submission.runs if numbers[run.task] in places):
            incomplete.append(name)
        scores[name] = tables[name][whole][:, places].copy()
    if not scores:
        names = ", ".join(TASKS[place].name for place in places)
        raise ValueError(f"no submission has a seed in all of the tasks {names}: choose fewer or others")
    few = [name for name, of_runs in scores.items() if len(of_runs) < MIN_SEEDS]
    for words, group in (
        (f"These have fewer than {MIN_SEEDS} seeds, which decide nothing", few),
        ("These have runs without all checkpoints of the benchmark", incomplete),
    ):
        if group:
            notes.append(f"{words}: {'all submissions' if len(group) == len(scores) > 1 else ', '.join(group)}.")
    return places, scores, notes


def _make_entry(submission: SubmissionScores, places: Sequence[int], scores: Float64Array, seed: int) -> Entry:
    axes = [TASKS[place].axes for place in places]
    columns = {axis: [column for column, of_task in enumerate(axes) if axis in of_task] for axis in sum(axes, ())}
    middle, average, gap = (
        bootstrap_intervals([scores], measure, seed)[0] for measure in (interquartile_mean, mean, optimality_gap)
    )
    means = {axis: bootstrap_intervals([scores[:, which]], mean, seed)[0] for axis, which in columns.items()}
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
    submission, scores, *totals, axes, profile = entry
    facts = {name: getattr(submission, name) for name in ("setting", "tuning_steps", "cpu_s", "peak_rss_bytes")}
    thresholds = zip(THRESHOLDS.tolist(), profile, strict=True)
    columns = zip(tasks, scores.T.tolist(), strict=True)
    return {
        "submission": submission.name,
        **facts,
        **{name: value._asdict() for name, value in zip(TOTALS, totals, strict=True)},
        "axes": {axis: value._asdict() for axis, value in axes.items()},
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
