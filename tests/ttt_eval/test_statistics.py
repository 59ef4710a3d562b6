"""Intervals and tests, compared with published values and scipy."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from ttt_eval.store import statistics


def test_wilson_interval_has_its_published_values():
    # Newcombe (1998), Statistics in Medicine 17, table I, method 3: 81/263, 15/148, 0/20, 1/29
    for wins, games, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
    ):
        interval = statistics.wilson(wins / games, games)
        assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)
    assert statistics.wilson(0.5, 0) == (0.5, 0.0, 1.0)


@pytest.mark.parametrize(("draws", "pairs"), [(0.5, 20), (0.99, 2000), (1.0, 20)])
def test_coverage_of_intervals_from_pairs_with_many_draws(draws, pairs):
    rng = np.random.default_rng(pairs)
    points = np.arange(5) / 4
    chances = np.array([0, (1 - draws) / 3, draws, (1 - draws) / 3, (1 - draws) / 3])
    counts = rng.multinomial(pairs, chances, size=4000)
    means = counts @ points / pairs
    variances = (counts @ points**2 / pairs - means**2).clip(0) * pairs / (pairs - 1)
    intervals = [
        statistics.interval_from_pairs(mean, var, pairs)
        for mean, var in zip(means, variances, strict=True)
    ]
    assert (
        np.mean([low - 1e-12 <= chances @ points <= high + 1e-12 for _, low, high in intervals])
        >= 0.94
    )


def test_interval_from_seeds_is_student_s():
    # Student (1908), the additional hours of sleep of ten patients: mean .75, t(9, .975) =
    # 2.262157, s = 1.789010
    sleep = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    interval = statistics.interval_from_seeds(sleep)
    assert interval.mean == pytest.approx(0.75)
    assert interval.high - interval.mean == pytest.approx(2.262157 * 1.789010 / 10**0.5, rel=1e-6)


def test_interval_from_seeds_stays_within_bounds():
    assert statistics.interval_from_seeds([0.25]) == (0.25, -math.inf, math.inf)
    assert statistics.interval_from_seeds([0.25], bounds=(0, 1)) == (0.25, 0, 1)
    assert statistics.interval_from_seeds([0, 0, 1, 1], bounds=(0, 1)) == (
        0.5,
        0,
        1,
    )  # Student's t gives -0.42 to 1.42
    # runs that agree do not show that all others would
    assert statistics.interval_from_seeds([0, 0, 0], bounds=(0, 1)) == (
        0,
        0,
        pytest.approx(1 - 0.05 ** (1 / 3)),
    )
    assert statistics.interval_from_seeds([0.5, 0.5 + 1e-16], bounds=(0, 1)).low == pytest.approx(
        0.5 * 0.05**0.5
    )
    assert statistics.interval_from_seeds([1, 1, 1], bounds=(0, math.inf)) == (1, 1, 1)


@pytest.mark.parametrize(
    ("runs", "coverage"), [(2, 0.95), (3, 0.95), (4, 0.95), (5, 0.93), (10, 0.87)]
)
def test_exact_coverage_over_seeds_of_two_values(runs, coverage):
    intervals = [
        statistics.interval_from_seeds([1.0] * ones + [0.0] * (runs - ones), bounds=(0, 1))
        for ones in range(runs + 1)
    ]
    shares = np.linspace(0.01, 0.99, 99)[:, None]
    chances = binom.pmf(np.arange(runs + 1), runs, shares)
    inside = [
        [low - 1e-12 <= share <= high + 1e-12 for _, low, high in intervals]
        for share in shares.ravel()
    ]
    assert (chances * inside).sum(axis=1).min() >= coverage


def test_difference_has_its_published_interval():
    # Newcombe (1998), Statistics in Medicine 17, 873-890, table II, method 10: 56/70 - 48/80
    result = statistics.difference(statistics.wilson(56 / 70, 70), statistics.wilson(48 / 80, 80))
    assert [round(end, 4) for end in result] == [0.2, 0.0524, 0.3339]


def test_median_has_the_interval_of_order_statistics():
    # of 100 numbers, the 40th and the 61st: Conover (1999), Practical Nonparametric Statistics
    assert statistics.median(np.ones(100, int)) == (49, 39, 60)
    assert statistics.median(np.array([0, 3, 0, 2, 1])).mean == 1
    assert statistics.median(np.zeros(4, int)) == (0, 0, 3)
