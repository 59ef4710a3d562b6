"""Aggregates of scores over tasks and runs, and their stratified bootstrap intervals.

Definitions are those of Agarwal et al. (2021), Deep Reinforcement Learning at the Edge of the Statistical Precipice
(https://arxiv.org/abs/2108.13264), section 4. Scores are float64[runs, tasks].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ttt_envs.core.jit import Float64Array
from ttt_eval.statistics import Interval

RESAMPLES = 2_000
"""Default number of bootstrap samples."""


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


def resample(scores: Float64Array, rng: np.random.Generator, count: int = RESAMPLES) -> Float64Array:
    """Return bootstrap samples float64[count, runs, tasks]: runs are drawn with replacement, for each task anew."""
    runs, tasks = scores.shape
    drawn = rng.integers(runs, size=(count, runs, tasks))
    return np.asarray(scores[drawn, np.arange(tasks)])


def bootstrap_intervals(
    scores: Sequence[Float64Array], measure: Callable[..., Float64Array], seed: int = 0, count: int = RESAMPLES
) -> list[Interval]:
    """Return the 2.5% and 97.5% percentiles of a measure in a stratified bootstrap over runs.

    With few runs this interval is too short, because samples vary less than runs do, by the factor 1 - 1 / runs in
    variance: docs/benchmark/index.md has its coverage.

    Args:
        scores: float64[runs, tasks] for each argument of the measure.
        measure: takes as many float64[..., runs, tasks], and returns float64[...] or float64[..., values].
        seed: of the bootstrap.
        count: number of bootstrap samples.

    Returns:
        An interval for each value.
    """
    rng = np.random.default_rng(seed)
    means = np.atleast_1d(measure(*scores))
    samples = measure(*(resample(one, rng, count) for one in scores)).reshape(count, -1)
    low, high = np.quantile(samples, (0.025, 0.975), axis=0)
    return [
        Interval(float(middle), min(float(middle), float(least)), max(float(middle), float(most)))
        for middle, least, most in zip(means, low, high, strict=True)
    ]
