"""Verdicts on claims and exact tests, beside scipy."""

import math

import numpy as np
import pytest

from studies import verdicts
from ttt_eval.store.statistics import Interval

pytestmark = pytest.mark.more

YES = Interval(0.2, 0.1, 0.3)
NO = Interval(-0.2, -0.3, -0.1)
OPEN = Interval(0.2, -0.1, 0.5)


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        (YES, True),
        ([YES, NO, OPEN], False),
        ({"a": YES, "b": OPEN}, None),
        ({"all": {"a": 0.5, "b": True}}, True),
        ([], True),
        (-1, False),
        (Interval(-0.5, -1, 0), None),
        (None, None),
    ],
)
def test_numbers_are_within_a_range_or_not_or_open(value, holds):
    assert verdicts.is_within(value, 0, 1) is holds


def test_an_interval_across_an_end_is_open():
    assert [verdicts.is_within(YES, low, 1) for low in (0.1, 0.25, 0.4)] == [True, None, False]
    pairs = ([True, True], [True, None], [False, None], [False, False])
    assert [verdicts.holds_for_all(pair) for pair in pairs] == [True, None, False, False]


def test_multinomial_test_is_exact():
    assert verdicts.is_sample([20, 0, 0], (1.0, 0.0, 0.0))
    assert not verdicts.is_sample([19, 1, 0], (1.0, 0.0, 0.0))
    # of (2, 0, 0) in two games at 1/2, 1/4, 1/4: no result is more likely than 1/4
    assert verdicts.is_sample([2, 0, 0], (0.5, 0.25, 0.25), level=0.999)
    # (0, 0, 2) has probability 1/16, and with (0, 2, 0) 1/8 together
    assert verdicts.is_sample([0, 0, 2], (0.5, 0.25, 0.25), level=0.1249)
    assert not verdicts.is_sample([0, 0, 2], (0.5, 0.25, 0.25), level=0.1251)


def test_is_smaller_is_the_mann_whitney_test():
    from scipy.stats import PermutationMethod, mannwhitneyu

    sample = [1.0, 2.0, 2.0, 3.0, 5.0]
    other = [4.0, 5.0, 6.0, 7.0, math.inf]
    assert verdicts.is_smaller(sample, other) is True
    assert verdicts.is_smaller(other, sample) is False
    assert verdicts.is_smaller(sample, sample) is None
    assert verdicts.is_smaller([1.0], [2.0]) is None  # two runs say nothing
    rng = np.random.default_rng(0)
    for _ in range(20):
        a = rng.integers(0, 6, 5).astype(float)
        b = rng.integers(1, 8, 5).astype(float)
        p = mannwhitneyu(a, b, method=PermutationMethod()).pvalue  # all 252 ways to deal them out
        assert (verdicts.is_smaller(a.tolist(), b.tolist(), level=0.2) is None) == (p >= 0.2), (
            a,
            b,
        )
