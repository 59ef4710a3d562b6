"""Intervals for results of games."""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.stats import norm


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
    z = float(norm.ppf((1 + confidence) / 2))
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
