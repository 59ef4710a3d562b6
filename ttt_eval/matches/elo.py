"""Comparison of two players: Elo, and the exact distribution of net scores.

The independent sample is a pair of games with seats swapped, because its two games share the seat
advantage and the skips. Its result is one of five: the pentanomial 0, 1/2, 1, 3/2 and 2 points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from ttt_envs.core.checks import Refusal, check_range
from ttt_envs.core.jit import Float64Array
from ttt_eval.matches.score import Score
from ttt_eval.store.statistics import NORMAL, Interval, two_sided_quantile

__all__ = ["elo", "likelihood_of_superiority", "pair_probabilities", "pairs_needed"]

# --------------------------------------------------------------------------------------------------
# Elo


def elo_from_score(score: float) -> float:
    """Return the Elo difference whose expected logistic score is ``score``, in [0, 1]; infinite at
    its ends.
    """
    if score <= 0 or score >= 1:
        return math.copysign(math.inf, score - 0.5)
    return 400 * math.log10(score / (1 - score))


def elo_interval(score: Interval) -> Interval:
    """Convert an interval of scores to Elo differences; ends may be infinite."""
    return Interval(*map(elo_from_score, score))


def score_from_elo(elo: float) -> float:
    """Return the expected logistic score at an Elo difference: 1 / (1 + 10 ** (-elo / 400))."""
    return 1 / (1 + 10 ** (-elo / 400))


def elo(score: Score, confidence: float = 0.95) -> Interval:
    """Return a's Elo advantage over b: the confidence interval of the score, from pairs of games,
    on the logistic curve.
    """
    return elo_interval(score.rate("score", confidence))


def likelihood_of_superiority(score: Score) -> float:
    """Return the probability that a is better than b, by the normal approximation of
    :func:`guarded_mean`.
    """
    centre, error = score.guarded_mean()
    return NORMAL.cdf((centre - 0.5) / error)


def elo_to_dict(score: Score, rating: Interval | None = None) -> dict[str, object]:
    """Return the Elo interval and the likelihood of superiority, JSON-ready; docs/files.md
    documents the keys.

    Args:
        score: the score.
        rating: of it; by default :func:`elo`, of a match of fixed size.
    """
    return {
        "elo": (rating or elo(score)).to_dict(),
        "likelihood_of_superiority": likelihood_of_superiority(score),
    }


# --------------------------------------------------------------------------------------------------
# The exact distribution of net scores


def pair_probabilities(win: float, draw: float) -> Float64Array:
    """Return float64[5]: the probabilities that a pair between equal players ends -2, -1, 0, 1, 2
    for one of them.

    Args:
        win: probability that the player who moves first wins a game; draw: that it is drawn. The
            copies' games are independent (Hsu, Theory of Computer Games, concluding remarks, slide
            52, with w = 1).

    Raises:
        ValueError: invalid probabilities.
    """
    lose = 1 - win - draw
    if min(win, draw, lose) < -1e-12:
        raise Refusal(
            f"win={win} and draw={draw} are no chances of one game: they are at least 0, and at "
            "most 1 in all"
        )
    return np.convolve([lose, draw, win], [win, draw, lose])


def probability_within(chances: Sequence[float] | Float64Array, pairs: int, score: int) -> float:
    """Return Pr(abs(X[n]) <= score) exactly, for equal players (slides 53 to 57).

    Args:
        chances: float64[5], probabilities of the results -2 to 2 of one pair.
        pairs: the number n of pairs, whose results have the sum X[n].
        score: of one player, net of the other's.
    """
    # from -2 n to 2 n
    net = reduce(np.convolve, [np.asarray(chances, np.float64)] * pairs, np.ones(1))
    return float(net[np.abs(np.arange(-2 * pairs, 2 * pairs + 1)) <= score].sum())


def pairs_needed(
    chances: Sequence[float] | Float64Array,
    difference: float,
    confidence: float = 0.95,
    power: float = 0.5,
) -> int:
    """Return the number of pairs needed to detect a score advantage of ``difference`` per game.

    Args:
        chances: float64[5], of one pair between equal players.
        difference: of the score per game, wins and half the draws, above 1/2: in (0, 1/2].
        confidence: of the two-sided test.
        power: probability that the test detects the difference.

    Raises:
        ValueError: a difference out of range.
    """
    check_range("difference", difference, 0, 0.5, "is no advantage per game", above=True)
    deviation = math.sqrt(float(np.asarray(chances) @ np.arange(-2, 3) ** 2))
    quantile = two_sided_quantile(confidence) + NORMAL.inv_cdf(power)
    # a pair's result is 4 times that of a game
    return math.ceil((quantile * deviation / (4 * difference)) ** 2)
