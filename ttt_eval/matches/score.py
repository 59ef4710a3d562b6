"""The score of a match: pairs of games by result and without luck, forfeits, times, and rates with
intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.game import Game
from ttt_eval.store.result_store import Data
from ttt_eval.store.statistics import (
    GuardedMean,
    Interval,
    agresti_coull,
    guarded_mean,
    interval_from_pairs,
)

NUM_BINS = 401
"""Number of bins of corrected scores of pairs."""
_LOWEST_SCORE = -1.505
_WIDTH = 0.01
_Number = Annotated[float, Meta(ge=-(10**15), le=10**15)]
_Bin = tuple[
    Annotated[int, Meta(ge=0, lt=NUM_BINS)],
    Annotated[int, Meta(gt=0, lt=1 << 50)],
    _Number,
    _Number,
]
StoredCorrection = list[_Bin]
"""of :meth:`CorrectedPairs.to_list`"""
StoredForfeits = tuple[int, int, str] | Data
"""of :class:`Forfeits`, without or with their names"""


@dataclass(frozen=True)
class CorrectedPairs:
    """Distribution of the corrected scores of pairs of games: the mean of both games, 0 to 1 for
    results without luck.

    Scores are counted in bins .01 wide, the first and last of which are open. Mean and variance are
    exact.

    Attributes:
        bins: float64[3, NUM_BINS]: number of scores in each bin, their sum, and the sum of their
            squares.
    """

    bins: Float64Array

    @classmethod
    def from_scores(cls, scores: Float64Array) -> CorrectedPairs:
        """Return the distribution of float64[P]."""
        numbers = np.clip(((scores - _LOWEST_SCORE) / _WIDTH).astype(np.int64), 0, NUM_BINS - 1)
        powers = np.ones(len(scores)), scores, scores * scores
        return cls(np.stack([np.bincount(numbers, power, NUM_BINS) for power in powers]))

    def __add__(self, other: CorrectedPairs) -> CorrectedPairs:
        """Return the distribution of the pairs of both."""
        return CorrectedPairs(self.bins + other.bins)

    def reversed(self) -> CorrectedPairs:
        """Return the distribution from the other player's view."""
        counts, sums, squares = self.bins[:, ::-1]
        return CorrectedPairs(np.stack([counts, counts - sums, counts - 2 * sums + squares]))

    @property
    def num(self) -> int:
        """Number of pairs."""
        return int(self.bins[0].sum())

    def moments(self) -> tuple[float, float]:
        """Return the mean and the sample variance of a pair's score."""
        num, total, square = self.bins.sum(axis=1).tolist()
        mean = total / num
        return mean, max(0.0, square - num * mean**2) / max(1, num - 1)

    def support(self) -> tuple[Float64Array, Float64Array]:
        """Return a discrete distribution with the same mean and variance, and the ends 0 and 1.

        Each bin has two points of equal weight, a standard deviation of the bin below and above its
        mean.

        Returns:
            counts float64[K] and points float64[K].
        """
        counts, sums, squares = self.bins[:, self.bins[0] > 0]
        means = sums / counts
        deviations = np.sqrt(np.maximum(0.0, squares / counts - means * means))
        points = np.concatenate([means - deviations, means + deviations, [0.0, 1.0]])
        return np.concatenate([counts / 2, counts / 2, [0.0, 0.0]]), points

    def to_list(self) -> StoredCorrection:
        """Return JSON-ready data: [bin, count, sum, sum of squares] of each bin that is not
        empty.
        """
        numbers = np.flatnonzero(self.bins[0]).tolist()
        counts, sums, squares = self.bins[:, numbers].tolist()
        rows = zip(numbers, map(int, counts), sums, squares, strict=True)
        return list(rows)

    @classmethod
    def from_stored(cls, data: StoredCorrection | UnsetType | None) -> CorrectedPairs | None:
        """Return the distribution stored by :meth:`to_list`; None if nothing is stored."""
        if not isinstance(data, list):
            return None
        bins = np.zeros((3, NUM_BINS))
        for number, *content in data:
            bins[:, number] = content
        return cls(bins)


class Forfeits(NamedTuple):
    """Forfeited games, lost by their players: see :class:`ttt_envs.agents.policy.Forfeit`."""

    a: int = 0
    b: int = 0
    first: str = ""
    """reason for the first forfeit"""

    @classmethod
    def from_stored(cls, data: StoredForfeits | UnsetType) -> Forfeits:
        """Return stored forfeits; none if nothing is stored."""
        if isinstance(data, dict):
            return cls(**data)
        return cls(*(data or ()))

    def plus(self, other: Forfeits) -> Forfeits:
        """Return the sum over the games of both."""
        return Forfeits(self.a + other.a, self.b + other.b, self.first or other.first)

    def describe(self, a: str, b: str) -> str:
        """Describe the forfeits in a sentence."""
        counts = [f"{count:,} by {name}" for count, name in ((self.a, a), (self.b, b)) if count]
        return f"games were given up, and so lost: {', '.join(counts)}. The first: {self.first}"

    def reversed(self) -> Forfeits:
        """Return the same forfeits from the other player's view."""
        return Forfeits(self.b, self.a, self.first)


@dataclass(frozen=True)
class Times:
    """Time statistics of one player of a timed match.

    Attributes:
        seconds: float64[moves], for each of its moves.
        least_left: minimum time left after a move, before the increment, in seconds; below 0 if it
            lost on time.
        lost: number of games lost on time.
    """

    seconds: Float64Array
    least_left: float
    lost: int

    def __add__(self, other: Times) -> Times:
        """Return the statistics of the games of both."""
        seconds = np.append(self.seconds, other.seconds)
        least_left = min(self.least_left, other.least_left)
        return Times(seconds, least_left, self.lost + other.lost)

    def to_dict(self) -> Data:
        """Return JSON-ready data; docs/files.md documents the keys."""
        has_moves = len(self.seconds) > 0
        return {
            "moves": len(self.seconds),
            "median_s": float(np.median(self.seconds)) if has_moves else None,
            "largest_s": float(self.seconds.max()) if has_moves else None,
            "least_left_s": self.least_left if has_moves else None,
            "lost_on_time": self.lost,
        }


NO_FORFEITS = Forfeits()
CORRECTED_GUARD = 0.5
"""Pairs added at 0, and at 1, to corrected scores: fewer than to results, because most are near
their mean.
"""
_POINTS = np.array([1, 0.5, 0])  # of a win, a draw and a loss


@dataclass(frozen=True)
class Score:
    """Result of a against b.

    Attributes:
        pairs: int64[3, 3]: pairs of games by a's result as player_0 (row) and as player_1 (column):
            win, draw, loss.
        lengths: int64[2, 3, cells + 1]: games by a's seat, a's result and the stones on the board
            at the end; None if not counted.
        forfeits: games among them that a and b forfeited.
        corrected: the scores of the pairs without luck; None if luck is not corrected.
        times: of a and b in a timed match; None in an untimed one, or if they were not stored.
    """

    pairs: Int64Array
    lengths: Int64Array | None = None
    forfeits: Forfeits = NO_FORFEITS
    corrected: CorrectedPairs | None = None
    times: tuple[Times, Times] | None = None

    @classmethod
    def empty(cls, game: Game | None = None) -> Score:
        """Return the score of no games; with a game, lengths are counted."""
        lengths = None if game is None else np.zeros((2, 3, game.cells + 1), np.int64)
        return cls(np.zeros((3, 3), np.int64), lengths)

    @classmethod
    def from_games(
        cls, results: Int64Array, luck: Float64Array | None = None, **more: Any
    ) -> Score:
        """Return the score of pairs of games.

        Args:
            results: int64[2, P]: of a as player_0, and as player_1: 0 win, 1 draw, 2 loss.
            luck: float64[2, P]: of a; None if it is not corrected.
            more: further attributes.
        """
        pairs = np.zeros((3, 3), np.int64)
        correction = None
        np.add.at(pairs, tuple(results), 1)
        if luck is not None:
            correction = CorrectedPairs.from_scores(((2 - results - luck) / 2).sum(axis=0) / 2)
        return cls(pairs, corrected=correction, **more)

    @classmethod
    def from_pentanomial(
        cls, counts: Sequence[int], corrected: CorrectedPairs | None = None
    ) -> Score:
        """Return a score with these numbers of pairs of 0, 1/2, 1, 3/2 and 2 points, each pair in
        one of its forms.
        """
        pairs = np.zeros((3, 3), np.int64)
        pairs[[2, 1, 1, 0, 0], [2, 2, 1, 1, 0]] = counts
        return cls(pairs, corrected=corrected)

    def __add__(self, other: Score) -> Score:
        """Return the sum over the games of both."""
        if not self.games:  # of no games, nothing is to be corrected
            return other
        lengths = (
            None if self.lengths is None or other.lengths is None else self.lengths + other.lengths
        )
        correction = self.corrected if not other.games else None
        if self.corrected is not None and other.corrected is not None:
            correction = self.corrected + other.corrected
        times = self.times
        if self.times is not None and other.times is not None:
            times = self.times[0] + other.times[0], self.times[1] + other.times[1]
        return Score(
            self.pairs + other.pairs, lengths, self.forfeits.plus(other.forfeits), correction, times
        )

    @classmethod
    def from_stored(
        cls,
        pairs: Sequence[Sequence[int]],
        forfeits: StoredForfeits | UnsetType,
        corrected: StoredCorrection | UnsetType,
    ) -> Score:
        """Return the score of the three parts of a :class:`StoredScore`."""
        return cls(
            np.array(pairs, np.int64),
            forfeits=Forfeits.from_stored(forfeits),
            corrected=CorrectedPairs.from_stored(corrected),
        )

    def to_record(self) -> Data:
        """Return what is stored of a score, the fields of :class:`StoredScore`, JSON-ready: all but
        lengths and times.
        """
        return {
            "pairs": self.pairs.tolist(),
            **({"forfeits": list(self.forfeits)} if self.forfeits.first else {}),
            **({} if self.corrected is None else {"corrected": self.corrected.to_list()}),
        }

    def reversed(self) -> Score:
        """Return the score of the same games from the other player's view, without lengths and
        times.
        """
        correction = self.corrected and self.corrected.reversed()
        return Score(
            np.ascontiguousarray(self.pairs[::-1, ::-1].T),
            None,
            self.forfeits.reversed(),
            correction,
        )

    @property
    def games(self) -> int:
        """Number of games."""
        return 2 * int(self.pairs.sum())

    @property
    def table(self) -> Int64Array:
        """int64[2, 3]: a's wins, draws and losses as player_0 and as player_1."""
        return np.stack([self.pairs.sum(axis=1), self.pairs.sum(axis=0)])

    @property
    def is_degenerate(self) -> bool:
        """Whether, of several pairs, all games in each seat ended in the same result after as many
        stones.

        Games that fill the board have equal lengths anyway: if all do, this is False.
        """
        if self.lengths is None or self.games <= 2 or not self.lengths[..., :-1].any():
            return False
        return bool((np.count_nonzero(self.lengths, axis=(1, 2)) == 1).all())

    @property
    def pentanomial(self) -> Int64Array:
        """int64[5]: number of pairs in which a made 0, 1/2, 1, 3/2 and 2 points."""
        half_points = np.add.outer([2, 1, 0], [2, 1, 0]).ravel()
        return np.bincount(half_points, self.pairs.ravel(), minlength=5).astype(np.int64)

    def weights(self) -> tuple[Float64Array, float]:
        """Return the pentanomial, float64[5], and its precision, which ratings are made from.

        Where luck is corrected, it has as many pairs of 0 and 2 points with the mean of the
        corrected scores. The precision is the number of pairs of it whose mean has the same
        standard error, relative to the pairs played: 1 where luck is not corrected.
        """
        if self.corrected is None:
            return self.pentanomial.astype(np.float64), 1.0
        num = self.corrected.num
        mean = min(max(self.moments()[0], 0.0), 1.0)
        centre, error = self.guarded_mean()
        centre = min(max(centre, 0.0), 1.0)
        precision = max(1e-3, centre * (1 - centre) / error**2 / num)
        return np.array([1 - mean, 0, 0, 0, mean]) * num, precision

    def sample(self) -> tuple[Float64Array | Int64Array, Float64Array]:
        """Return the independent samples, of pairs: the count of each result, and its score,
        float64[K].
        """
        if self.corrected is not None:
            return self.corrected.support()
        return self.pentanomial, np.arange(5) / 4

    def rate(self, result: str, confidence: float = 0.95) -> Interval:
        """Return the rate per game of ``"wins"``, ``"draws"``, ``"losses"`` or ``"score"`` (wins
        and half the draws), the last without luck where it is corrected.
        """
        if result == "score":
            return self.guarded_mean(confidence).interval(self.moments()[0], confidence)
        of_game = np.array([result == name for name in ("wins", "draws", "losses")], np.float64)
        return interval_from_pairs(*self._moments_of(of_game), self.games // 2, confidence)

    def guarded_mean(self, confidence: float = 0.95) -> GuardedMean:
        """Return the guarded mean of the pairs' scores, without luck where it is corrected."""
        guard = agresti_coull(confidence) if self.corrected is None else CORRECTED_GUARD
        return guarded_mean(*self.moments(), self.games // 2, guard)

    def moments(self) -> tuple[float, float]:
        """Return the sample mean and variance of a pair's mean score, 0 to 1; without luck where it
        is corrected.
        """
        return self._moments_of(_POINTS) if self.corrected is None else self.corrected.moments()

    def _moments_of(self, points: Float64Array) -> tuple[float, float]:
        """Return the sample mean and variance of a pair's mean of ``points``, float64[3] by the
        result of a game.
        """
        per_pair = np.add.outer(points, points) / 2
        num = self.games // 2
        mean = float((per_pair * self.pairs).sum() / num)
        return mean, float(((per_pair - mean) ** 2 * self.pairs).sum() / max(1, num - 1))

    @property
    def raw(self) -> Score:
        """The same games without luck correction."""
        return replace(self, corrected=None)

    @property
    def variance_reduction(self) -> float | None:
        """Variance of a pair's raw score divided by that of its corrected score; None if unknown.

        A match with the corrected scores is as precise as one of as many times more games without.
        """
        if self.corrected is None:
            return None
        _, variance = self.moments()
        return self.raw.moments()[1] / variance if variance > 0 else None

    def to_dict(self) -> Data:
        """Return JSON-ready data; docs/files.md documents the keys."""
        data: Data = {"games": self.games}
        data |= {name: self.rate(name)._asdict() for name in ("score", "wins", "draws", "losses")}
        if self.corrected is not None:
            ratio = self.variance_reduction
            data |= {"raw_score": self.raw.rate("score")._asdict(), "variance_reduction": ratio}
            data["equivalent_games"] = None if ratio is None else round(self.games * ratio)
        first, second = self.table.tolist()
        data |= {"first": first, "second": second, "pentanomial": self.pentanomial.tolist()}
        return data | ({"forfeits": self.forfeits._asdict()} if self.forfeits.first else {})


class StoredScore(Struct, kw_only=True):
    """A score as in files, in results beside what it is of."""

    pairs: list[list[int]]
    forfeits: StoredForfeits | UnsetType = UNSET
    corrected: StoredCorrection | UnsetType = UNSET

    @property
    def played(self) -> Score:
        """The score of a."""
        return Score.from_stored(self.pairs, self.forfeits, self.corrected)
