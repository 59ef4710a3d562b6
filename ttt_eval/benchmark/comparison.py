"""Scored submissions to the benchmark, compared: leaderboard, axes, tasks, and pairs of
submissions.

Aggregates over tasks and runs, and their stratified bootstrap, are those of Agarwal et al. (2021),
Deep Reinforcement Learning at the Edge of the Statistical Precipice
(https://arxiv.org/abs/2108.13264), section 4. Scores are float64[runs, tasks].
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct, to_builtins

from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Float64Array
from ttt_eval.benchmark.scores import NOT_LEARNED, SubmissionScores
from ttt_eval.benchmark.tasks import SEEDS, TASKS, Axis, find_task, find_tasks
from ttt_eval.store.statistics import Interval

MIN_SEEDS = 5
"""Minimum number of seeds of two submissions of which one can be called better."""
DIGITS = 12
"""Number of decimal places of a standard error that are no rounding errors."""
RESAMPLES = 1_000
"""Number of bootstrap samples."""


class Entry(Struct, frozen=True):
    """A submission on the leaderboard."""

    name: str
    setting: str
    """``SubmissionScores.kind``"""
    cpu_s: float | None
    """CPU seconds of an average run; None if they are unknown"""
    seeds: int
    """number of :data:`SEEDS` that all tasks have; with fewer than ``MIN_SEEDS`` intervals are
    points
    """
    interquartile_mean: Interval
    mean: Interval
    axes: dict[Axis, Interval]
    """mean score of each axis"""
    tasks: dict[str, float]
    """mean score of all its runs of each task that it has, also of other seeds"""


class Comparison(Struct, frozen=True):
    """Submissions on the same tasks, the best first; those that were not learned come last."""

    tasks: list[str]
    """tasks of all aggregates"""
    entries: list[Entry]
    improvement: dict[str, dict[str, Interval]]
    """probability that a run of the first is better than one of the second; see
    :func:`improvement_interval`
    """
    undecided: list[str]
    """names of those that are not shown to be worse than the first: the interval of the probability
    of improvement reaches 1/2; without those that were not learned if the first was
    """
    means_in_budget: dict[str, Interval]
    """mean of ``RunScore.score_in_budget`` of each submission for which it is known"""
    notes: list[str]


def compare_submissions(
    submissions: Sequence[SubmissionScores], tasks: Sequence[str] = ()
) -> Comparison:
    """Compare submissions on common tasks, with intervals by a bootstrap over runs.

    Submissions decide if they were learned, or none was, and have ``MIN_SEEDS`` seeds. The
    intervals of their interquartile means, means and probabilities of improvement hold at once: in
    95% of comparisons each contains its true value. Others do not make them wider.

    Args:
        submissions: with different names; only runs with :data:`SEEDS` count.
        tasks: names of the tasks of all aggregates; () for the tasks that all submissions have.

    Raises:
        ValueError: two have the same name, no task is common, runs of a task have different numbers
            of steps, a task is unknown, or a submission has no seed in all of them.
    """
    names = [submission.name for submission in submissions]
    if not names:
        raise Refusal("no submission")
    if len(set(names)) < len(names):
        raise Refusal(
            f"two submissions have the same name, {max(names, key=names.count)!r}: rename one"
        )
    task_names = _choose_tasks(submissions, tasks)
    scores = {row.name: _scores_of_runs(row, task_names) for row in submissions}
    learned = [row.name for row in submissions if row.kind != NOT_LEARNED] or names
    deciding = sum(len(scores[name]) == MIN_SEEDS for name in learned)
    statements = max(1, 2 * deciding + math.comb(deciding, 2))
    entries = sorted(
        (_make_entry(row, task_names, scores[row.name], statements) for row in submissions),
        key=lambda row: (row.name not in learned, -row.interquartile_mean.mean, row.name),
    )
    improvement: dict[str, dict[str, Interval]] = {entry.name: {} for entry in entries}
    for name, other in itertools.combinations(improvement, 2):
        probability = improvement_interval(
            scores[name], scores[other], task_names, statements=statements
        )
        improvement[name][other] = probability
        improvement[other][name] = probability.complement()
    leader = improvement[entries[0].name]
    undecided = [name for name in leader if name in learned and leader[name].low <= 0.5]
    return Comparison(
        task_names,
        entries,
        improvement,
        undecided,
        _means_in_budget(submissions, task_names),
        _make_notes(submissions, task_names, entries),
    )


def _choose_tasks(submissions: Sequence[SubmissionScores], names: Sequence[str]) -> list[str]:
    """Return the tasks of aggregates: those with these names, or without any those that all
    submissions have.
    """
    steps: dict[str, int] = {}
    for submission in submissions:
        for run in submission.runs:
            # more steps alone would give a better rank
            if run.steps != steps.setdefault(run.task, run.steps):
                raise Refusal(
                    f"a run of the task {run.task} has {run.steps:,} steps in {submission.name} "
                    f"and {steps[run.task]:,} in others: compare runs of the same length only, "
                    "such as quick ones"
                )
    common_tasks = set.intersection(*(set(submission.task_means) for submission in submissions))
    if not common_tasks and not names:
        raise Refusal(
            "the submissions have no task in common: run each of them on the same tasks, or choose "
            "some"
        )
    return [task.name for task in find_tasks(names or sorted(common_tasks))]


def _scores_of_runs(
    submission: SubmissionScores, tasks: Sequence[str], name: str = "score"
) -> Float64Array:
    """Return a score of ``RunScore`` by its name, float64[runs, tasks], NaN for None; runs have
    those of :data:`SEEDS` that all tasks have.
    """
    columns = [
        {run.seed: getattr(run, name) for run in submission.runs if run.task == task}
        for task in tasks
    ]
    seeds = sorted(set(SEEDS).intersection(*columns))
    if not seeds:
        raise Refusal(
            f"{submission.name} has no seed of 0 to 4 in all of the tasks {', '.join(tasks)}: "
            "choose fewer, or leave it out"
        )
    return np.array([[column[seed] for column in columns] for seed in seeds], np.float64)


def _means_in_budget(
    submissions: Sequence[SubmissionScores], tasks: Sequence[str]
) -> dict[str, Interval]:
    """Return ``Comparison.means_in_budget``; their intervals alone hold at once."""
    scores = {row.name: _scores_of_runs(row, tasks, "score_in_budget") for row in submissions}
    return {
        name: bootstrap_interval(mean, of_runs, tasks=tasks, statements=len(scores))
        for name, of_runs in scores.items()
        if not np.isnan(of_runs).any()
    }


def _make_entry(
    submission: SubmissionScores,
    tasks: Sequence[str],
    scores: Float64Array,
    statements: int,
) -> Entry:
    names_of_axes: dict[Axis, list[str]] = {}
    for name in tasks:
        for axis in find_task(name).axes:
            names_of_axes.setdefault(axis, []).append(name)

    def interval(measure: Callable[..., Float64Array], names: Sequence[str]) -> Interval:
        return bootstrap_interval(
            measure,
            scores[:, [tasks.index(name) for name in names]],
            tasks=names,
            statements=statements,
        )

    return Entry(
        submission.name,
        submission.kind,
        submission.cpu_s,
        len(scores),
        interval(interquartile_mean, tasks),
        interval(mean, tasks),
        {axis: interval(mean, names) for axis, names in names_of_axes.items()},
        submission.task_means,
    )


def _make_notes(
    submissions: Sequence[SubmissionScores], tasks: Sequence[str], entries: Sequence[Entry]
) -> list[str]:
    """Return what readers of a comparison should know."""
    own_tasks = {name for row in entries for name in row.tasks}.difference(tasks)
    short_runs = [
        row.name
        for row in submissions
        if not all(run.complete for run in row.runs if run.task in tasks)
    ]
    few_seeds = [row.name for row in entries if row.seeds < MIN_SEEDS]
    other_seeds = [row.name for row in submissions if {run.seed for run in row.runs} - {*SEEDS}]
    groups = {
        "Tasks left out of the aggregates": [task.name for task in TASKS if task.name in own_tasks],
        "Other seeds than 0 to 4, which decide nothing": other_seeds,
        f"Fewer than {MIN_SEEDS} seeds, which decide nothing and have no intervals": few_seeds,
        "Runs without all checkpoints of the benchmark": short_runs,
    }
    return [f"{text}: {', '.join(names)}." for text, names in groups.items() if names]


def to_json(comparison: Comparison) -> dict[str, object]:
    """Return a comparison, JSON-ready; an interval is [mean, low, high]."""
    return {"format": 1, "kind": "benchmark-comparison", **to_builtins(comparison)}


# --------------------------------------------------------------------------------------------------
# Aggregates


def mean(scores: Float64Array) -> Float64Array:
    """Return the mean over runs and tasks, float64[...] of float64[..., runs, tasks]."""
    return np.asarray(scores.mean(axis=(-2, -1)))


def interquartile_mean(scores: Float64Array) -> Float64Array:
    """Return the mean of the middle half of all runs of all tasks, float64[...] of float64[...,
    runs, tasks].

    Of each end a quarter of the values is left out, rounded down.
    """
    from scipy.stats import trim_mean

    return np.asarray(trim_mean(scores.reshape(*scores.shape[:-2], -1), 1 / 4, axis=-1))


def probability_of_improvement(scores: Float64Array, other_scores: Float64Array) -> Float64Array:
    """Return the probability that a run of ``scores`` beats one of ``other_scores`` on a random
    task; ties count half.

    Args:
        scores, other_scores: float64[..., runs, tasks]; the numbers of runs may differ.
    """
    difference = scores[..., :, None, :] - other_scores[..., None, :, :]
    return np.asarray(((difference > 0) + 0.5 * (difference == 0)).mean(axis=(-3, -2, -1)))


def bootstrap_interval(
    measure: Callable[..., Float64Array],
    *scores: Float64Array,
    tasks: Sequence[str] = (),
    statements: int = 1,
    min_error: float = 0.0,
    minimum: float = -math.inf,
) -> Interval:
    """Return a measure with its 95% interval: Student's t, with the standard error of a stratified
    bootstrap over runs.

    Each sample has one run less than there are, so that it varies as the runs do (Rao and Wu,
    Resampling inference with complex survey data, Journal of the American Statistical Association,
    1988). Degrees of freedom are those of the mean, whose variance may be that of few tasks (Welch,
    The generalization of 'Student's' problem when several different population variances are
    involved, Biometrika, 1947). The interval of fewer than ``MIN_SEEDS`` runs is a point: its error
    is unknown. That of equal runs has the width 0, so that fewer than 95% contain their true values
    where one task that fails at random has most of the variance: docs/benchmark/index.md has a
    case.

    Args:
        measure: takes as many float64[..., runs, tasks] as there are scores, and returns
            float64[...].
        scores: float64[runs, tasks] for each argument of the measure.
        tasks: their names: those with the same runs are resampled together; () if all differ.
        statements: number of intervals that all contain their true values in 95% of cases
            (Bonferroni).
        min_error: minimum standard error.
        minimum: of the measure, whose maximum is 1: the interval is clipped.
    """
    from scipy.special import stdtrit

    value = float(measure(*scores))
    samples: list[Float64Array] = []
    runs = min(map(len, scores))
    if runs < MIN_SEEDS:
        return Interval(value, value, value)
    columns = np.arange(scores[0].shape[1])
    names = [find_task(task).training for task in tasks]
    trainings, training = np.unique(names or columns, return_inverse=True)
    is_of_training = np.eye(len(trainings))[training]
    rng = np.random.default_rng(0)
    variance = 0.0
    squares = 0.0
    for run_scores in scores:  # runs are drawn for each training anew
        count = len(run_scores)
        rows = rng.integers(count, size=(RESAMPLES, count - 1, len(trainings)))
        samples.append(run_scores[rows[..., training], columns])
        of_trainings = np.var(run_scores @ is_of_training, axis=0, ddof=1) / count
        variance += of_trainings.sum()
        squares += of_trainings @ of_trainings / (count - 1)
    error = max(min_error, round(float(measure(*samples).std()), DIGITS))
    freedom = variance**2 / squares if squares else runs - 1
    half_width = float(stdtrit(freedom, 1 - 0.025 / statements)) * error
    return Interval(value, max(minimum, value - half_width), min(1.0, value + half_width))


def improvement_interval(
    scores: Float64Array,
    other_scores: Float64Array,
    tasks: Sequence[str],
    *,
    statements: int,
) -> Interval:
    """Return the probability of improvement and its interval, which is 0 to 1 with fewer than
    ``MIN_SEEDS`` runs.

    Its standard error is at least that of equal submissions (Mann and Whitney, On a test of whether
    one of two random variables is stochastically larger than the other, Annals of Mathematical
    Statistics, 1947), because that of the bootstrap is 0 where the runs of each task happen to lie
    apart.

    Args:
        scores, other_scores: float64[runs, tasks]; the numbers of runs may differ.
        tasks, statements: as in :func:`bootstrap_interval`.
    """
    runs = len(scores)
    other_runs = len(other_scores)
    if min(runs, other_runs) < MIN_SEEDS:
        return Interval(float(probability_of_improvement(scores, other_scores)), 0.0, 1.0)
    from scipy.stats import rankdata

    sizes = Counter(find_task(task).training for task in tasks)
    of_one_task = math.sqrt((runs + other_runs + 1) / (12 * runs * other_runs))
    min_error = of_one_task * math.hypot(*sizes.values()) / len(tasks)
    # of ranks the probability is the same, and the variances of tasks are alike
    ranks = rankdata(np.concatenate([scores, other_scores]), axis=0)
    return bootstrap_interval(
        probability_of_improvement,
        *np.split(ranks, [runs]),
        tasks=tasks,
        statements=statements,
        min_error=min_error,
        minimum=0.0,
    )
