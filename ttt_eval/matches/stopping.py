"""Estimates after a sequential test, which allow for its early stop.

A test stops when the mean so far is far from the middle of its hypotheses, so the mean at the stop exaggerates. Here
outcomes are ordered from an early stop at the lower bound over later ones to an early stop at the upper bound, and at
the same look by the mean. The probability of an outcome at most as high as the observed one decreases in the true mean.
The estimate is the mean at which it is 1/2, the median of estimates but for approximations; the ends of the interval
are those at which it is near 1 and 0 (Siegmund, Sequential Analysis, 1985, section 3.6; fishtest estimates Elo in this
way).

The walk is that of the log-likelihood ratio. If nearly all pairs are equal, the ratio is far from that of normal
samples, because rare results weigh more than the variance. So its gain by the mean is measured on the sample itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ttt_envs.core.jit import Float64Array
from ttt_eval.matches.elo import SPRT, likelihood_ratio, pair_moments, score_from_elo
from ttt_eval.matches.score import Score
from ttt_eval.statistics import Interval

MAX_LOOKS = 100
"""Maximum number of looks that are computed; more are replaced by fewer at bounds that are nearer."""
_GRID = 201
_OVERSHOOT = 0.5826  # mean overshoot of a bound by a normal random walk, in standard deviations of a step


class RandomWalk(NamedTuple):
    """A random walk with normal steps of variance ``step`` that begins at 0 and stops at the first look at which it is
    not between ``low`` and ``high``.
    """

    low: float
    high: float
    looks: int
    """number of looks until the walk ended"""
    step: float

    def coarser(self) -> RandomWalk:
        """Return a walk with at most ``MAX_LOOKS`` looks and nearly the same probabilities.

        Between looks the walk overshoots a bound by a multiple of the standard deviation of a step (Siegmund, 1985,
        section 10.4), so larger steps have nearer bounds.
        """
        looks = min(self.looks, MAX_LOOKS)
        step = self.step * self.looks / looks
        nearer = _OVERSHOOT * (math.sqrt(step) - math.sqrt(self.step))
        return RandomWalk(min(self.low + nearer, -1e-9), max(self.high - nearer, 1e-9), looks, step)

    def probability_of_lower(self, drift: float, end: float) -> float:
        """Return the probability of an outcome at most as high as an observed one.

        Args:
            drift: mean of the walk per unit of variance.
            end: where it was at its last look.
        """
        from scipy.special import ndtr

        low, high, looks, step = self
        root, mean = math.sqrt(step), drift * step
        if looks == 1:
            return float(ndtr((end - mean) / root))
        grid = low + (np.arange(_GRID) + 0.5) * (high - low) / _GRID
        weight = (high - low) / _GRID
        # row i of the kernel: density of a step from point i to each point
        kernel = _density((grid - grid[:, None] - mean) / root) * (weight / root)
        stops_low = ndtr((low - grid - mean) / root)
        lower = float(ndtr((low - mean) / root))
        at = _density((grid - mean) / root) * (weight / root)  # probabilities of the points
        for _ in range(looks - 2):
            lower += float(at @ stops_low)
            at = at @ kernel
        return min(1.0, lower + float(at @ ndtr((end - grid - mean) / root)))


def _density(x: Float64Array) -> Float64Array:
    return np.asarray(np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))


def stopped_score(test: SPRT, score: Score, looks: int, confidence: float = 0.95) -> Interval:
    """Return the estimate and interval of a's score per game, in [0, 1], after a sequential test, stopped or not.

    Args:
        test: the test.
        score: of the pairs that it evaluated, at least one.
        looks: number of looks at them, equally many pairs apart, the last at the end.
        confidence: confidence level of the interval.
    """
    from scipy.optimize import brentq

    mean, variance = pair_moments(score)
    score0, score1 = score_from_elo(test.elo0), score_from_elo(test.elo1)
    counts, points = test.sample(score)

    def ratio(sample_mean: float) -> float:
        """Return the log-likelihood ratio of the same sample, moved to another mean."""
        moved = np.append(points + (sample_mean - mean) * (counts > 0), (0.0, 1.0))
        return likelihood_ratio(np.append(counts, (0, 0)), moved, score0, score1)

    gain = (ratio(score1) - ratio(score0)) / (score1 - score0)
    even = score0 - ratio(score0) / gain  # the mean for which both hypotheses are equally likely

    def find(probability: float, standard_error: float) -> float:
        spread = (gain * standard_error) ** 2
        walk = RandomWalk(*test.bounds, looks, spread / looks).coarser()

        def excess(true_mean: float) -> float:
            return walk.probability_of_lower(gain * (true_mean - even) / spread, gain * (mean - even)) - probability

        if excess(0.0) <= 0:
            return 0.0
        return 1.0 if excess(1.0) >= 0 else float(brentq(excess, 0.0, 1.0, xtol=1e-7))

    guarded, tail = score.guarded_mean(confidence).standard_error, (1 - confidence) / 2
    estimate = find(0.5, max(math.sqrt(variance / (score.games // 2)), guarded / 4))
    return Interval(estimate, min(estimate, find(1 - tail, guarded)), max(estimate, find(tail, guarded)))
