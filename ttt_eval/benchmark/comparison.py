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
from ttt_eval.benchmark.records import SubmissionScores
from ttt_eval.benchmark.tasks import TASKS, Axis, find_task, find_tasks
from ttt_eval.statistics import Interval

THRESHOLDS = np.linspace(0, 1, 51)
"""Thresholds of performance profiles."""
MIN_SEEDS = 5
"""Minimum number of seeds from which a bootstrap interval decides, see :func:`bootstrap_intervals`."""


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
    lead: Mapping[tuple[str, str], Interval]
    """difference of the interquartile means"""
    notes: Sequence[str]
    unranked: Sequence[SubmissionScores] = ()
    """submissions that lack one of the tasks"""

    @property
    def submissions(self) -> list[SubmissionScores]:
        """All submissions: those with a rank, the best first, and the others."""
        return [*(one.submission for one in self.entries), *self.unranked]

    def task_means(self) -> dict[str, list[TaskMean | None]]:
        """Return for each task of any submission the means of :attr:`submissions`; None where one has no run of it."""
        means = {task.name: [_task_mean(one, task.name) for one in self.submissions] for task in TASKS}
        return {task: found for task, found in means.items() if any(found)}

    def undecided(self) -> list[str]:
        """Return the names of submissions that are not shown to be worse than the first; all with few seeds."""
        first, *others = self.entries
        return [
            one.name
            for one in others
            if min(len(first.scores), len(one.scores)) < MIN_SEEDS or self.lead[first.name, one.name].low <= 0
        ]


def _task_mean(submission: SubmissionScores, task: str) -> TaskMean | None:
    scores = [run.score for run in submission.runs if run.task == task]
    return TaskMean(float(np.mean(scores)), len(scores)) if scores else None


def compare_submissions(
    submissions: Sequence[SubmissionScores], seed: int = 0, tasks: Sequence[str] = ()
) -> Comparison:
    """Compare submissions on common tasks, with intervals by a bootstrap over runs.

    Args:
        submissions: with different names.
        seed: of the bootstrap.
        tasks: names of the tasks of all aggregates; submissions that have no seed in all of them get no rank. ()
            for the tasks that all submissions have.

    Raises:
        ValueError: two have the same name, no task is common, runs of a task have different numbers of steps, or a
            submission has no seed in all of its tasks; with ``tasks``: an unknown one, or none has all of them.
    """
    names = [one.name for one in submissions]
    if not names:
        raise ValueError("no submission")
    if len(set(names)) < len(names):
        raise ValueError(f"two submissions have the same name, {max(names, key=names.count)!r}: rename one")
    _check_steps(submissions)
    chosen = [task.name for task in find_tasks(tasks)] if tasks else []
    common, scores, notes = _common_scores(submissions, chosen)
    entries = [_make_entry(one, common, scores[one.name], seed) for one in submissions if one.name in scores]
    unranked = sorted((one for one in submissions if one.name not in scores), key=lambda one: one.name)
    entries.sort(key=lambda entry: (-entry.interquartile_mean.mean, entry.name))
    improvement, lead = {}, {}
    for one, other in itertools.combinations(entries, 2):
        pair = [one.scores, other.scores]
        [found] = bootstrap_intervals(pair, probability_of_improvement, seed)
        improvement[one.name, other.name] = found
        improvement[other.name, one.name] = Interval(1 - found.mean, 1 - found.high, 1 - found.low)
        [lead[one.name, other.name]] = bootstrap_intervals(pair, _lead, seed)
    return Comparison(tuple(common), entries, improvement, lead, notes, unranked)


def _check_steps(submissions: Sequence[SubmissionScores]) -> None:
    """Raise ValueError if runs of a task have different numbers of steps: more steps alone would give a better rank."""
    first: dict[str, tuple[int, str]] = {}
    for submission in submissions:
        for run in submission.runs:
            steps, name = first.setdefault(run.task, (run.steps, submission.name))
            if run.steps != steps:
                raise ValueError(
                    f"a run of the task {run.task} has {run.steps:,} steps in {submission.name} and {steps:,} in "
                    f"{name}: compare runs of the same length only, such as quick ones among themselves"
                )


def _lead(one: Float64Array, other: Float64Array) -> Float64Array:
    return interquartile_mean(one) - interquartile_mean(other)


def _common_scores(
    submissions: Sequence[SubmissionScores], chosen: Sequence[str]
) -> tuple[list[str], dict[str, Float64Array], list[str]]:
    """Return the tasks of aggregates, the scores float64[runs, tasks] of each ranked submission, and notes for readers.

    The tasks are the ``chosen`` ones; without any those that all submissions have.
    """
    finals: dict[str, dict[str, dict[int, float]]] = {one.name: {} for one in submissions}
    for one in submissions:
        for run in one.runs:
            finals[one.name].setdefault(run.task, {})[run.seed] = run.score
    everything = [task.name for task in TASKS if any(task.name in final for final in finals.values())]
    tasks = list(chosen) or [name for name in everything if all(name in final for final in finals.values())]
    if not tasks:
        raise ValueError("the submissions have no task in common: run each of them on the same tasks, or choose some")
    notes = []
    left_out = [name for name in everything if name not in tasks]
    if left_out and not chosen:
        notes.append(f"Tasks that a submission lacks are left out of the aggregates: {', '.join(left_out)}.")
    if len(tasks) < len(TASKS):
        notes.append(f"Aggregates are over {len(tasks)} of the {len(TASKS)} tasks.")
    scores, incomplete = {}, []
    for one in submissions:
        final = finals[one.name]
        seeds = sorted(set.intersection(*(set(final.get(task, ())) for task in tasks)))
        runs = [run for run in one.runs if run.task in tasks]
        if not seeds:
            if not chosen:
                raise ValueError(f"{one.name} has no seed in all of its tasks: run each task with the same seeds")
            notes.append(f"{one.name} has no rank, because it has no seed in all of these tasks.")
            continue
        unused = sorted({run.seed for run in runs} - set(seeds))
        if unused:
            notes.append(f"{one.name} has seed {', '.join(map(str, unused))} in some of these tasks alone: left out.")
        if not all(run.complete for run in runs):
            incomplete.append(one.name)
        scores[one.name] = np.array([[final[task][seed] for task in tasks] for seed in seeds])
    if not scores:
        raise ValueError(f"no submission has all of the tasks {', '.join(tasks)}: choose fewer or others")
    few = [name for name, of_runs in scores.items() if len(of_runs) < MIN_SEEDS]
    for words, names in (
        (f"These have fewer than {MIN_SEEDS} seeds, which decide nothing", few),
        ("These have runs without all checkpoints of the benchmark", incomplete),
    ):
        if names:
            notes.append(f"{words}: {'all submissions' if len(names) == len(scores) > 1 else ', '.join(names)}.")
    return tasks, scores, notes


def _make_entry(submission: SubmissionScores, tasks: Sequence[str], scores: Float64Array, seed: int) -> Entry:
    columns: dict[Axis, list[int]] = {}
    for column, name in enumerate(tasks):
        for axis in find_task(name).axes:
            columns.setdefault(axis, []).append(column)
    middle, average, gap = (
        bootstrap_intervals([scores], measure, seed)[0] for measure in (interquartile_mean, mean, optimality_gap)
    )
    return Entry(
        submission,
        scores,
        middle,
        average,
        gap,
        {axis: bootstrap_intervals([scores[:, which]], mean, seed)[0] for axis, which in columns.items()},
        bootstrap_intervals([scores], partial(performance_profile, thresholds=THRESHOLDS), seed),
    )


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison, JSON-ready; intervals are objects with ``mean``, ``low`` and ``high``."""
    return {
        "format": 1,
        "kind": "benchmark-comparison",
        "tasks": list(comparison.tasks),
        "leaderboard": [
            {
                "submission": one.name,
                "setting": one.submission.setting,
                "tuning_steps": one.submission.tuning_steps,
                "cpu_s": one.submission.cpu_s,
                "peak_rss_bytes": one.submission.peak_rss_bytes,
                **{name: getattr(one, name)._asdict() for name in ("interquartile_mean", "mean", "optimality_gap")},
                "axes": {axis: value._asdict() for axis, value in one.axes.items()},
                "profile": [
                    {"threshold": float(threshold), **value._asdict()}
                    for threshold, value in zip(THRESHOLDS, one.profile, strict=True)
                ],
                "tasks": {
                    task: {"scores": one.scores[:, column].tolist(), "win_random": one.submission.win_random(task)}
                    for column, task in enumerate(comparison.tasks)
                },
            }
            for one in comparison.entries
        ],
        "probability_of_improvement": [
            {"submission": one, "other": other, **value._asdict()}
            for (one, other), value in comparison.improvement.items()
        ],
        "task_means": {
            task: {
                submission.name: None if one is None else one._asdict()
                for submission, one in zip(comparison.submissions, means, strict=True)
            }
            for task, means in comparison.task_means().items()
        },
        "unranked": [one.name for one in comparison.unranked],
        "notes": list(comparison.notes),
    }


def write_csv(path: Path, submissions: Sequence[SubmissionScores]) -> None:
    """Write the scores of all checkpoints as CSV, a line for each: ``submission`` and the fields of
    :class:`~ttt_eval.benchmark.records.CheckpointScore`.
    """
    columns = ["task", "seed", "steps", "score", "value", "sha256"]
    rows = [
        [one.name, row.task, row.seed, row.steps, row.score, row.value, " ".join(row.sha256)]
        for one in submissions
        for row in one.checkpoints
    ]
    files.write_csv(path, [["submission", *columns], *rows])
