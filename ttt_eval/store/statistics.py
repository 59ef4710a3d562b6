"""Confidence intervals for results of games.

scipy is imported where it is needed, because its import takes longer than most commands.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ttt_envs.core.jit import Int64Array

NORMAL = statistics.NormalDist()


class Interval(NamedTuple):
    """An estimate and its confidence interval."""

    mean: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float | None]:
        """Return JSON-ready data."""
        # JSON has no infinity
        return {
            name: float(value) if math.isfinite(value) else None
            for name, value in self._asdict().items()
        }

    def complement(self) -> Interval:
        """Return the interval of 1 minus the quantity."""
        return Interval(1 - self.mean, 1 - self.high, 1 - self.low)


def two_sided_quantile(confidence: float) -> float:
    """Return the number of standard deviations about the mean of a normal distribution that have
    this probability.
    """
    return NORMAL.inv_cdf((1 + confidence) / 2)


def wilson(mean: float, count: float, confidence: float = 0.95) -> Interval:
    """Return the Wilson (1927) interval of a proportion ``mean`` of ``count`` independent samples.

    It stays within [0, 1] and is no point if all samples agree. ``count`` may be an effective
    sample size.
    """
    if count <= 0:
        return Interval(mean, 0.0, 1.0)
    spread = two_sided_quantile(confidence) ** 2 / count
    centre = (mean + spread / 2) / (1 + spread)
    half_width = math.sqrt(spread * (mean * (1 - mean) + spread / 4)) / (1 + spread)
    return Interval(mean, max(0.0, centre - half_width), min(1.0, centre + half_width))


class GuardedMean(NamedTuple):
    """Mean of scores of pairs of games with a few more pairs at 0, and as many at 1.

    So the standard error is not 0 where all pairs so far are equal, and changes little with the
    first that differs.
    """

    centre: float
    standard_error: float

    def interval(self, mean: float, confidence: float = 0.95) -> Interval:
        """Return the normal interval within [0, 1] of the sample mean, which it contains."""
        half_width = two_sided_quantile(confidence) * self.standard_error
        mean = min(max(mean, 0.0), 1.0)
        return Interval(
            mean,
            min(mean, max(0.0, self.centre - half_width)),
            max(mean, min(1.0, self.centre + half_width)),
        )


def guarded_mean(mean: float, variance: float, pairs: int, guard: float) -> GuardedMean:
    """Return the guarded mean of ``pairs`` scores with this sample mean and sample variance.

    Args:
        mean, variance, pairs: of the sample.
        guard: number of pairs added at 0, and at 1; see :func:`agresti_coull`.
    """
    total = pairs + 2 * guard
    centre = (pairs * mean + guard) / total
    square = ((pairs - 1) * variance + pairs * mean * mean + guard) / total
    return GuardedMean(centre, math.sqrt(max(0.0, square - centre * centre) / total))


def agresti_coull(confidence: float) -> float:
    """Return the pairs added at each end for results of games: for independent games they are the
    z**2 / 2 successes and failures that Agresti and Coull (1998) add to a proportion.
    """
    return two_sided_quantile(confidence) ** 2 / 4


def interval_from_pairs(
    mean: float, variance: float, pairs: int, confidence: float = 0.95
) -> Interval:
    """Return the interval of a quantity in [0, 1] from the means of pairs of games, the independent
    samples.

    Args:
        mean: over all pairs.
        variance: of one pair's mean.
        pairs: number of pairs.
        confidence: confidence level of the interval.
    """
    if pairs < 1:
        return Interval(mean, 0.0, 1.0)
    return guarded_mean(mean, variance, pairs, agresti_coull(confidence)).interval(mean, confidence)


def interval_from_seeds(
    values: Sequence[float],
    confidence: float = 0.95,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Interval:
    """Return the mean of independent runs with its Student's t interval; of a single run the
    interval is ``bounds``.

    Runs that agree do not show that all others would: N equal values are observed with probability
    1 - confidence where a share of 1 - (1 - confidence) ** (1 / N) of all runs differs (Clopper and
    Pearson, 1934), 63% with three runs. So the interval then extends to the means in which such a
    share has an extreme value. Without bounds, as for times and memory, which vary continuously, it
    is a point.

    Coverage of 95%, computed for runs of two values, 0 and 1, in any shares: at least 95% with up
    to 4 runs, 93% with 5, 87% with 10. Skewed values need more runs: if half of the runs have 0 and
    the others u**4, with u uniform in [0, 1], it is 79% with 2 runs, 72% with 3, 71% with 5 and 80%
    with 10.

    Args:
        values: of the runs.
        confidence: confidence level of the interval.
        bounds: range of possible values; the interval is clipped to it.
    """
    mean = statistics.fmean(values)
    lower, upper = bounds
    if len(values) < 2:
        return Interval(mean, lower, upper)
    if max(values) - min(values) < 1e-9 and math.isfinite(upper - lower):  # equal but for rounding
        share = 1 - (1 - confidence) ** (1 / len(values))
        return Interval(mean, mean - share * (mean - lower), mean + share * (upper - mean))
    from scipy.special import stdtrit

    half_width = (
        float(stdtrit(len(values) - 1, (1 + confidence) / 2))
        * statistics.stdev(values)
        / math.sqrt(len(values))
    )
    return Interval(mean, max(lower, mean - half_width), min(upper, mean + half_width))


def difference(estimate: Interval, other: Interval) -> Interval:
    """Return the difference of two independent estimates (Newcombe, 1998)."""
    mean = estimate.mean - other.mean
    low = math.hypot(estimate.mean - estimate.low, other.high - other.mean)
    return Interval(
        mean, mean - low, mean + math.hypot(estimate.high - estimate.mean, other.mean - other.low)
    )


def median(counts: Int64Array, confidence: float = 0.95) -> Interval:
    """Return the median of whole numbers 0, 1, ... with these counts, and its interval, by order
    statistics.

    Args:
        counts: int64[N]: count of each of 0 to N - 1.
        confidence: minimum confidence level of the interval.
    """
    cumulative = counts.cumsum()
    total = int(cumulative[-1])
    if not total:
        return Interval(0.0, 0.0, float(len(counts) - 1))
    from scipy.stats import binom

    rank_below = max(1.0, float(binom.ppf((1 - confidence) / 2, total, 0.5)))
    return Interval(
        *(
            float(np.searchsorted(cumulative, rank))
            for rank in (total / 2, rank_below, total + 1 - rank_below)
        )
    )
