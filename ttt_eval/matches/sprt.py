"""Sequential tests: pairs of games are played and stored until a test of two Elo differences
decides.

A test stops when the mean so far is far from the middle of its hypotheses, so the mean at the stop
exaggerates. The estimate after a test allows for that: outcomes are ordered from an early stop at
the lower bound over later ones to an early stop at the upper bound, and at the same look by the
mean. The probability of an outcome at most as high as the observed one decreases in the true mean.
The estimate is the mean at which it is 1/2, the median of estimates but for approximations; the
ends of the interval are those at which it is near 1 and 0 (Siegmund, Sequential Analysis, 1985,
section 3.6; fishtest estimates Elo in this way).

The walk is that of the log-likelihood ratio. If nearly all pairs are equal, the ratio is far from
that of normal samples, because rare results weigh more than the variance; and by a mean beyond both
hypotheses it gains less than between them. So its gain is measured on the sample itself, between
the hypotheses, or up to a mean beyond them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from msgspec import Meta

from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.core.parallel import Jobs
from ttt_eval.matches.elo import likelihood_of_superiority, score_from_elo
from ttt_eval.matches.match import MatchSettings, play_matches
from ttt_eval.matches.results import MatchResult, compare_moves
from ttt_eval.matches.score import Score
from ttt_eval.store.result_store import Data, no_progress
from ttt_eval.store.statistics import Interval

MAX_ELO = 4_000
"""Maximum Elo difference of a hypothesis: the score of one that is larger rounds to 1."""
MAX_LOOKS = 100
"""Maximum number of looks that are computed; more are replaced by fewer at bounds that are nearer.
"""
_GRID = 201
# mean overshoot of a bound by a normal random walk, in standard deviations of a step
_OVERSHOOT = 0.5826


class Decision(NamedTuple):
    """State of a sequential test."""

    llr: float
    """logarithm of the likelihood ratio of the two hypotheses"""
    low: float
    """lower bound: at or below it ``elo0`` is accepted"""
    high: float
    """upper bound: at or above it ``elo1`` is accepted"""

    @property
    def accepted(self) -> Literal["elo0", "elo1"] | None:
        """The accepted hypothesis; None while the test continues."""
        if self.llr >= self.high:
            return "elo1"
        return "elo0" if self.llr <= self.low else None


@dataclass(frozen=True)
class SPRT:
    """The generalized sequential probability ratio test (Wald, 1945) of two Elo differences.

    The distribution of a pair's result is unknown beyond its mean: each hypothesis uses the maximum
    likelihood distribution with its mean (Van den Bergh, The generalized maximum likelihood ratio
    for the expectation value of a distribution, 2019), as is usual in computer chess.

    Raises:
        ValueError: hypotheses or error rates that define no test.
    """

    elo0: float = 0.0
    elo1: float = 20.0
    alpha: float = 0.05
    """maximum probability of accepting ``elo1`` if ``elo0`` is true"""
    beta: float = 0.05
    """maximum probability of accepting ``elo0`` if ``elo1`` is true"""

    def __post_init__(self) -> None:
        if not -MAX_ELO <= self.elo0 < self.elo1 <= MAX_ELO:
            raise Refusal(
                f"elo0={self.elo0:g} must be below elo1={self.elo1:g}, both within {MAX_ELO:,} Elo "
                "of 0"
            )
        for name in ("alpha", "beta"):
            if not 0 < getattr(self, name) < 0.5:
                raise Refusal(
                    f"{name}={getattr(self, name)} is no chance of an error: choose above 0, below "
                    "0.5"
                )

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the log-likelihood ratio: at the lower one ``elo0`` is accepted, at the upper
        one ``elo1``.
        """
        return math.log(self.beta / (1 - self.alpha)), math.log((1 - self.beta) / self.alpha)

    def decide(self, score: Score) -> Decision:
        """Return the state of the test after the pairs played so far, the independent samples."""
        ratio = likelihood_ratio(
            *score.sample(), score_from_elo(self.elo0), score_from_elo(self.elo1)
        )
        return Decision(ratio, *self.bounds)


# pseudo-count of each result, so that an unseen result is not taken for impossible
_NEVER_SEEN = 1e-3


def likelihood_ratio(
    counts: Float64Array | Int64Array, points: Float64Array, score0: float, score1: float
) -> float:
    """Return the log of the ratio of the maximum likelihoods with the means ``score1`` and
    ``score0``.

    Args:
        counts: float64[K]: count of each result.
        points: float64[K]: score of each result; at least one is below both means, and one above.
        score0, score1: the means of the two hypotheses, in (0, 1).
    """
    positive_counts = counts + _NEVER_SEEN
    shares = positive_counts / positive_counts.sum()
    log_likelihood1 = np.log(_maximum_likelihood(shares, points - score1))
    log_likelihood0 = np.log(_maximum_likelihood(shares, points - score0))
    return float(positive_counts @ (log_likelihood1 - log_likelihood0))


def _maximum_likelihood(shares: Float64Array, values: Float64Array) -> Float64Array:
    """Return the maximum likelihood probabilities, given the observed shares, under which
    ``values`` has mean 0.
    """
    from scipy.optimize import brentq  # see ttt_eval/store/statistics.py

    low = -1 / values.max()
    high = -1 / values.min()
    inside = 1e-9 * (high - low)
    theta = brentq(
        lambda x: float(shares @ (values / (1 + x * values))), low + inside, high - inside
    )
    return np.asarray(shares / (1 + theta * values))


# --------------------------------------------------------------------------------------------------
# Estimates after a test


class RandomWalk(NamedTuple):
    """A random walk with normal steps of variance ``step`` that begins at 0 and stops at the first
    look at which it is not between ``low`` and ``high``.
    """

    low: float
    high: float
    looks: int
    """number of looks until the walk ended"""
    step: float

    def coarser(self) -> RandomWalk:
        """Return a walk with at most ``MAX_LOOKS`` looks and nearly the same probabilities.

        Between looks the walk overshoots a bound by a multiple of the standard deviation of a step
        (Siegmund, 1985, section 10.4), so larger steps have nearer bounds.
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
        root = math.sqrt(step)
        mean = drift * step
        if looks == 1:
            return float(ndtr((end - mean) / root))
        grid = low + (np.arange(_GRID) + 0.5) * (high - low) / _GRID
        weight = (high - low) / _GRID
        # row i of the kernel: density of a step from point i to each point
        kernel = _density((grid - grid[:, None] - mean) / root) * (weight / root)
        stops_low = ndtr((low - grid - mean) / root)
        lower = float(ndtr((low - mean) / root))
        # probabilities of the points
        mass = _density((grid - mean) / root) * (weight / root)
        for _ in range(looks - 2):
            lower += float(mass @ stops_low)
            mass = mass @ kernel
        return min(1.0, lower + float(mass @ ndtr((end - grid - mean) / root)))


def _density(x: Float64Array) -> Float64Array:
    return np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def stopped_score(test: SPRT, score: Score, looks: int, confidence: float = 0.95) -> Interval:
    """Return the estimate and interval of a's score per game, in [0, 1], after a sequential test,
    stopped or not.

    Args:
        test: the test.
        score: of the pairs that it evaluated, at least one.
        looks: number of looks at them, equally many pairs apart, the last at the end.
        confidence: confidence level of the interval.
    """
    from scipy.optimize import brentq

    mean, variance = score.moments()
    gain, intercept = _secant(test, score)

    def true_mean(probability: float, standard_error: float) -> float:
        """Return the true mean, in [0, 1], by which an outcome at most as high has a
        probability.
        """
        llr_variance = (gain * standard_error) ** 2
        walk = RandomWalk(*test.bounds, looks, llr_variance / looks).coarser()

        def excess(true_mean: float) -> float:
            drift = (gain * true_mean + intercept) / llr_variance
            return walk.probability_of_lower(drift, gain * mean + intercept) - probability

        if excess(0.0) <= 0:
            return 0.0
        if excess(1.0) >= 0:
            return 1.0
        return float(brentq(excess, 0.0, 1.0, xtol=1e-7))

    guarded_error = score.guarded_mean(confidence).standard_error
    error = max(math.sqrt(variance / (score.games // 2)), guarded_error / 4)
    tail = (1 - confidence) / 2
    estimate = true_mean(0.5, error)
    low = true_mean(1 - tail, guarded_error)
    high = true_mean(tail, guarded_error)
    return Interval(estimate, min(estimate, low), max(estimate, high))


def _secant(test: SPRT, score: Score) -> tuple[float, float]:
    """Return gain and intercept of the log-likelihood ratio as a linear function of the mean of the
    same sample: between the hypotheses, or up to a mean beyond them.
    """
    mean, _ = score.moments()
    counts, points = score.sample()
    score0 = score_from_elo(test.elo0)
    score1 = score_from_elo(test.elo1)
    # with the ends of the range, which did not occur, means of 0 and 1 are possible
    all_counts = np.append(counts, (0, 0))

    def ratio(sample_mean: float) -> float:
        """Return the log-likelihood ratio of the sample, shifted to another mean."""
        shifted_points = points + (sample_mean - mean) * (counts > 0)
        all_points = np.append(shifted_points, (0.0, 1.0))
        return likelihood_ratio(all_counts, all_points, score0, score1)

    means = [min(score0, mean), max(score1, mean)]
    gain, intercept = np.polyfit(means, [ratio(end) for end in means], 1).tolist()
    return gain, intercept


# --------------------------------------------------------------------------------------------------
# Matches


class SprtResult(MatchResult, tag="sprt", kw_only=True):
    """A sequential test of a against b.

    The score is nearly median unbiased; it and its 95% interval allow for the early stop.
    """

    test: SPRT
    most_games: int
    """maximum number of games"""
    accepted: Literal["elo0", "elo1"] | None
    llr: float
    llr_low: float
    llr_high: float
    path: Annotated[list[tuple[int, float]], Meta(min_length=1)]
    """number of evaluated pairs and the log-likelihood ratio, after each block"""

    @property
    def decision(self) -> Decision:
        """State of the test at its end."""
        return Decision(self.llr, self.llr_low, self.llr_high)

    def to_dict(self) -> Data:
        """Return the content of the file, JSON-ready."""
        return {**super().to_dict(), "test": asdict(self.test)}


def summarize_test(
    test: SPRT, score: Score, path: Sequence[tuple[int, float]], **settings: Any
) -> SprtResult:
    """Return the result of a test.

    Args:
        test: the hypotheses and errors.
        score: of a, in the pairs that were evaluated.
        path: number of evaluated pairs and the log-likelihood ratio, after each block.
        settings: further fields of the result, those that determine it among them.
    """
    decision = test.decide(score)
    return SprtResult(
        **settings,
        **score.to_record(),
        test=test,
        accepted=decision.accepted,
        llr=decision.llr,
        llr_low=decision.low,
        llr_high=decision.high,
        score=stopped_score(test, score, len(path)),
        likelihood_of_superiority=likelihood_of_superiority(score),
        path=list(path),
    )


def run_sprt(
    match: MatchSettings,
    test: SPRT,
    folder: Path,
    provenance: Mapping[str, object],
    *,
    pairs: int,
    jobs: Jobs = 1,
    progress: Callable[[int, Decision], None] = no_progress,
) -> SprtResult:
    """Play pairs of games, block by block and in order, until a hypothesis is accepted.

    Every block is stored in the folder as soon as it is played, and ``result.json`` is written
    there at the end. After a kill, the same call resumes, as does one with other hypotheses or more
    pairs. The result does not depend on the workers, because games beyond the decision are ignored.

    Args:
        match: the match, between spec strings. With a clock, the games depend on the machine.
        test: the hypotheses, about a's rating minus b's.
        folder: folder of the blocks.
        provenance: JSON-ready: versions and code; the same at every call.
        pairs: maximum number of pairs.
        jobs: the workers.
        progress: called with the number of evaluated pairs, and the state of the test.

    Raises:
        ValueError: an invalid number of pairs, an unknown policy, another process that works in the
            folder.
    """
    a, b = map(str, match.players)
    total = Score.empty(match.game)
    path = []
    with closing(play_matches(match, [(a, b)], pairs, folder, provenance, jobs=jobs)) as blocks:
        for _, score in blocks:
            total += score
            decision = test.decide(total)
            path.append((total.games // 2, decision.llr))
            progress(total.games // 2, decision)
            if decision.accepted is not None:
                break
    result = summarize_test(
        test,
        total,
        path,
        **match.describe_pair(),
        most_games=2 * pairs,
        provenance=dict(provenance),
        differences=compare_moves(match.game, a, b),
        folder=folder,
    )
    result.write(folder)
    return result
