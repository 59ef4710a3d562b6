"""Intervals for results of games, and what they say.

scipy takes longer to import than most commands take, and is imported where it is needed.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ttt_envs.compiling import Integers

NORMAL = statistics.NormalDist()


class Interval(NamedTuple):
    """An estimate and its confidence interval."""

    mean: float
    low: float
    high: float


def wilson(mean: float, count: float, confidence: float = 0.95) -> Interval:
    """The interval of Wilson (1927) for a proportion ``mean`` of ``count`` independent samples.

    It stays within [0, 1] and is no point where all samples agree. ``count`` may be an effective number of samples.
    """
    if count <= 0:
        return Interval(mean, 0.0, 1.0)
    z = NORMAL.inv_cdf((1 + confidence) / 2)
    centre = (mean + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(mean * (1 - mean) / count + z * z / (4 * count * count))
    return Interval(mean, max(0.0, centre - half), min(1.0, centre + half))


def of_pairs(mean: float, variance: float, pairs: int, confidence: float = 0.95) -> Interval:
    """The interval of a quantity in [0, 1] from the means of pairs of games, which are the independent samples.

    Wilson's, with the number of samples that would give a proportion the variance seen: a pair counts for two games
    where its games are independent, for less where they agree, for more where they make up for each other.

    Args:
        mean: over all pairs.
        variance: of one pair's mean.
        pairs: how many.
        confidence: probability that the interval holds the truth.
    """
    bound = mean * (1 - mean)
    # where no pair differs from another the data say nothing of their dependence: take the pairs themselves
    effective = pairs * bound / variance if variance > 0 and bound > 0 else float(pairs)
    return wilson(mean, effective, confidence)


def of_seeds(
    values: Sequence[float], confidence: float = 0.95, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> Interval:
    """The mean of independent runs and its interval by Student's t; nothing but the mean where there is one run.

    Args:
        values: of the runs. Where all are alike the interval is a point.
        confidence: probability that the interval holds the truth.
        bounds: between which the values can lie; the interval is cut there.
    """
    mean, (least, most) = statistics.fmean(values), bounds
    if len(values) < 2:
        return Interval(mean, least, most)
    from scipy.special import stdtrit

    half = float(stdtrit(len(values) - 1, (1 + confidence) / 2)) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, max(least, mean - half), min(most, mean + half))


def difference(one: Interval, other: Interval) -> Interval:
    """How much larger one is, where the two are independent (Newcombe, 1998)."""
    mean = one.mean - other.mean
    low = math.hypot(one.mean - one.low, other.high - other.mean)
    return Interval(mean, mean - low, mean + math.hypot(one.high - one.mean, other.mean - other.low))


def median(counts: Integers, confidence: float = 0.95) -> Interval:
    """The median of whole numbers 0, 1, ... that occurred so often, and its interval, by order statistics.

    Args:
        counts: int64[N]: how often each of 0 to N - 1 was seen.
        confidence: probability that the interval holds the truth, at least.
    """
    seen = counts.cumsum()
    total = int(seen[-1])
    if not total:
        return Interval(0.0, 0.0, float(len(counts) - 1))
    from scipy.stats import binom

    below = max(1.0, float(binom.ppf((1 - confidence) / 2, total, 0.5)))
    ranks = (total / 2, below, total + 1 - below)
    return Interval(*(float(np.searchsorted(seen, rank)) for rank in ranks))


def smaller(one: Sequence[float], other: Sequence[float], level: float = 0.05) -> bool | None:
    """Whether the values of some runs are smaller than those of others: the exact two-sided test of ranks, with ties.

    It is that of Mann and Whitney (1947) over all ways to deal the values out. An infinite value, of a run that never
    came to where it was to come, is one more rank.

    Args:
        one, other: of independent runs, of ten or so each.
        level: the probability below which what was seen is no chance.

    Returns:
        Yes, no where they are larger, None where the runs leave it open.
    """
    values = np.array([*one, *other])
    ranks = (values[:, None] > values).sum(axis=1) + ((values[:, None] == values).sum(axis=1) + 1) / 2
    expected = len(one) * (len(values) + 1) / 2
    seen = ranks[: len(one)].sum() - expected
    dealt = np.array([sum(some) for some in itertools.combinations(ranks.tolist(), len(one))]) - expected
    if (np.abs(dealt) >= abs(seen)).mean() >= level:
        return None
    return bool(seen < 0)


def above(values: Iterable[Interval], bound: float = 0.0) -> bool | None:
    """Whether all values are above a bound: no where an interval lies below it, None where intervals leave it open."""
    values = list(values)
    if any(value.high < bound for value in values):
        return False
    return True if all(value.low > bound for value in values) else None


def within(value: Interval, low: float, high: float) -> bool | None:
    """Whether a value is from ``low`` to ``high``; None where its interval leaves it open."""
    if value.high < low or value.low > high:
        return False
    return True if low <= value.low and value.high <= high else None


def all_of(verdicts: Iterable[bool | None]) -> bool | None:
    """Whether all hold; None where none fails and one is open."""
    verdicts = set(verdicts)
    return False if False in verdicts else None if None in verdicts else True


def any_of(verdicts: Iterable[bool | None]) -> bool | None:
    """Whether one holds; None where none does and one is open."""
    verdicts = set(verdicts)
    return True if True in verdicts else None if None in verdicts else False


def is_sample(counts: Sequence[int], probabilities: Sequence[float], level: float = 0.05) -> bool:
    """Whether counts of wins, draws and losses may well come from games with these exact probabilities.

    The exact multinomial test: the probability of all results that are no more likely than the one seen is at least
    ``level``. For up to some thousand games.
    """
    from scipy.special import gammaln, xlogy

    games = sum(counts)
    wins = np.arange(games + 1)
    draws = wins[:, None]
    losses = games - wins - draws
    # the logarithm of the multinomial probability, up to a constant; -inf where there cannot be so many losses
    parts = [xlogy(wins, p) - gammaln(wins + 1) for p in probabilities]
    likely = np.where(losses >= 0, parts[0][wins] + parts[1][draws] + parts[2][np.maximum(losses, 0)], -np.inf)
    seen = likely[counts[1], counts[0]]
    weights = np.exp(likely - likely.max())
    return float(weights[likely <= seen + 1e-7].sum() / weights.sum()) >= level


def are_samples(counts: Iterable[Sequence[int]], probabilities: Iterable[Sequence[float]], level: float = 0.05) -> bool:
    """Whether :func:`is_sample` says no of no more of many samples than chance brings, but in one study of 200."""
    from scipy.stats import binom

    told = [is_sample(one, exact, level) for one, exact in zip(counts, probabilities, strict=True)]
    return bool(told.count(False) <= binom.ppf(0.995, len(told), level))
