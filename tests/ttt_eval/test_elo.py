"""Elo, net scores and sequential tests, compared with published values, plain sums and simulated
matches.
"""

import math

import numpy as np
import pytest
from scipy.stats import norm

from studies.slides import MASTER_RATES, ROWS
from ttt_eval.matches.elo import (
    elo,
    elo_from_score,
    likelihood_of_superiority,
    pair_probabilities,
    pairs_needed,
    probability_within,
    score_from_elo,
)
from ttt_eval.matches.score import Score
from ttt_eval.matches.sprt import SPRT

pytestmark = pytest.mark.more

from_pentanomial = Score.from_pentanomial


def test_net_score_probabilities_are_those_published():
    chances = pair_probabilities(*MASTER_RATES)
    for pairs, row in ROWS.items():
        results = [round(1000 * probability_within(chances, pairs, score)) for score in range(21)]
        assert results == row["within"]  # they round to three digits
    deviation = math.sqrt(chances @ np.arange(-2, 3) ** 2)
    assert deviation == pytest.approx(
        1.16, abs=0.005
    )  # "sqrt(1.16 n)" is a slip: it is 1.16 sqrt(n)


def test_needed_pairs_have_the_requested_confidence_and_power():
    equal = pair_probabilities(0.4, 0.3)
    difference = 0.05
    pairs = pairs_needed(equal, difference, power=0.8)
    better = (
        equal + np.array([-1, 0, 0, 0, 1]) * difference
    )  # 4 * difference more of a pair's -2 to 2
    results = np.random.default_rng(0).multinomial(pairs, better, size=4000) @ np.arange(-2, 3)
    exceeded = next(
        score for score in range(pairs) if probability_within(equal, pairs, score) >= 0.95
    )
    assert np.mean(results > exceeded) == pytest.approx(0.8, abs=0.04)
    with pytest.raises(ValueError, match="difference=0 is no advantage per game"):
        pairs_needed(equal, 0)
    with pytest.raises(ValueError, match="are no chances of one game"):
        pair_probabilities(0.7, 0.4)


def test_elo_by_hand():
    assert elo_from_score(0.75) == pytest.approx(190.848501887865)
    assert score_from_elo(-190.848501887865) == pytest.approx(0.25)
    assert (elo_from_score(0.0), elo_from_score(1.0)) == (-math.inf, math.inf)
    even = elo(from_pentanomial([10, 20, 40, 20, 10]))
    perfect = elo(from_pentanomial([0, 0, 0, 0, 9]))
    assert (even.mean, even.low) == pytest.approx((0, -even.high), abs=1e-9)
    assert perfect.mean == math.inf > perfect.low > 0


def test_likelihood_of_superiority():
    for even in ([10, 20, 40, 20, 10], [0, 0, 7, 0, 0]):
        assert likelihood_of_superiority(from_pentanomial(even)) == pytest.approx(0.5)
    assert (
        0.5 < likelihood_of_superiority(from_pentanomial([0, 0, 0, 0, 1])) < 0.8
    )  # one pair is no certainty
    # all pairs one win and one loss, but for 16: after z**2 / 4 more pairs at each end, mean and
    # variance are known
    added = norm.ppf(0.975) ** 2 / 4
    total = 100 + 2 * added
    mean = (58 + added) / total
    variance = (84 / 4 + 16 + added) / total - mean**2
    result = likelihood_of_superiority(from_pentanomial([0, 0, 84, 0, 16]))
    assert result == pytest.approx(norm.cdf((mean - 0.5) / math.sqrt(variance / total)))


def fishtest_llr(results, elo0, elo1):
    """Return the LLR of fishtest, with logistic Elo and theta by bisection.

    Van den Bergh, Maximum likelihood estimation for multinomial distributions, Prop. 1.1.
    """
    results = [max(count, 1e-3) for count in results]
    total = sum(results)
    values = [k / (len(results) - 1) for k in range(len(results))]

    def likeliest(score):
        low = -1 / (1 - score)
        high = 1 / score
        for _ in range(200):
            theta = (low + high) / 2
            slope = sum(
                n * (a - score) / (1 + theta * (a - score))
                for n, a in zip(results, values, strict=True)
            )
            low, high = (theta, high) if slope > 0 else (low, theta)
        return [n / total / (1 + theta * (a - score)) for n, a in zip(results, values, strict=True)]

    chances = [likeliest(1 / (1 + 10 ** (-rating / 400))) for rating in (elo0, elo1)]
    return sum(n * math.log(p1 / p0) for n, p0, p1 in zip(results, *chances, strict=True))


@pytest.mark.parametrize(
    "counts", [[10, 20, 40, 25, 12], [3, 120, 840, 160, 7], [0, 0, 84, 0, 16], [900, 1, 1, 1, 950]]
)
def test_likelihood_ratio_is_that_of_fishtest(counts):
    for hypotheses in ((0, 5), (-3, 1), (0, 50)):
        result = SPRT(*hypotheses).decide(from_pentanomial(counts)).llr
        # fishtest adds a pseudo-count only to unseen results, we to all
        assert result == pytest.approx(fishtest_llr(counts, *hypotheses), rel=2e-3, abs=2e-3)


def test_bounds_are_those_of_wald():
    assert SPRT(0, 10, 0.01, 0.1).bounds == pytest.approx(
        (math.log(0.1 / 0.99), math.log(0.9 / 0.01))
    )
    for settings in ({"beta": 0.5}, {"elo0": 20}):
        with pytest.raises(ValueError, match=next(iter(settings))):
            SPRT(**settings)
