"""Verdicts on claims: True, False, or None where intervals leave it open; and exact tests.

scipy is imported where it is needed, because its import takes longer than most commands.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ttt_eval.store.statistics import Interval

RISING = (False, None, True)
"""Verdicts, from a failure to what holds."""


def is_smaller(sample: Sequence[float], other: Sequence[float], level: float = 0.05) -> bool | None:
    """Test whether the values of some runs are smaller than those of others: exact two-sided rank
    test, with ties.

    This is the test of Mann and Whitney (1947) over all permutations of the values. An infinite
    value, of a run that never reached its target, is one more rank.

    Args:
        sample, other: of independent runs, of ten or so each.
        level: significance level.

    Returns:
        True if smaller, False if larger, None if not significant.
    """
    from scipy.stats import rankdata

    ranks = rankdata([*sample, *other])
    expected = len(sample) * (len(ranks) + 1) / 2
    statistic = ranks[: len(sample)].sum() - expected
    samples = itertools.combinations(ranks.tolist(), len(sample))
    statistics = np.array([sum(sample_ranks) for sample_ranks in samples]) - expected
    if (np.abs(statistics) >= abs(statistic)).mean() >= level:
        return None
    return bool(statistic < 0)


def is_within(value: Any, low: float, high: float) -> bool | None:
    """Return whether a number, or every one of a sequence or mapping, is from ``low`` to ``high``.

    Both bounds are in the range, for numbers and for the ends of an :class:`Interval`: it is within
    if both of its ends are, not within if it has no number of the range, and else open, None. None
    is open too.
    """
    if value is None:
        return None
    if isinstance(value, Mapping):
        return is_within([*value.values()], low, high)
    if isinstance(value, Interval):
        if value.high < low or value.low > high:
            return False
        return True if low <= value.low and value.high <= high else None
    if isinstance(value, Sequence):
        return holds_for_all(is_within(part, low, high) for part in value)
    return bool(low <= value <= high)


def holds_for_all(verdicts: Iterable[bool | None]) -> bool | None:
    """Return whether all verdicts hold; None if none fails and one is open."""
    return min(verdicts, key=RISING.index, default=True)


def is_sample(counts: Sequence[int], probabilities: Sequence[float], level: float = 0.05) -> bool:
    """Test whether counts of wins, draws and losses are plausible for games with these exact
    probabilities.

    This is the exact multinomial test: the total probability of all results at most as likely as
    the observed one is at least ``level``. For up to some thousand games.
    """
    from scipy.stats import multinomial

    games = sum(counts)
    wins, draws = np.indices((games + 1, games + 1))
    losses = games - wins - draws
    outcomes = np.stack([wins, draws, losses], axis=-1)[losses >= 0]
    likelihoods = multinomial.pmf(outcomes, games, probabilities)
    likelihood = multinomial.pmf(counts, games, probabilities)
    is_as_likely = likelihoods <= likelihood * (1 + 1e-7)
    return bool(likelihoods[is_as_likely].sum() >= level)
