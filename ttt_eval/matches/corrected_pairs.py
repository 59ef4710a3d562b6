"""Scores of pairs of games without luck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, convert

from ttt_envs.core.jit import Float64Array

NUM_BINS = 401
"""Number of bins of corrected scores of pairs."""
_LOWEST_SCORE, _WIDTH = -1.505, 0.01
_Number = Annotated[float, Meta(ge=-(10**15), le=10**15)]
_Bin = tuple[Annotated[int, Meta(ge=0, lt=NUM_BINS)], Annotated[int, Meta(gt=0, lt=1 << 50)], _Number, _Number]


@dataclass(frozen=True)
class CorrectedPairs:
    """Distribution of the corrected scores of pairs of games: the mean of both games, 0 to 1 for results without luck.

    Scores are counted in bins .01 wide, the first and last of which are open. Mean and variance are exact.

    Attributes:
        bins: float64[3, NUM_BINS]: number of scores in each bin, their sum, and the sum of their squares.
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

    @property
    def mean(self) -> float:
        """Mean score."""
        return float(self.bins[1].sum() / self.num)

    @property
    def variance(self) -> float:
        """Sample variance of a pair's score."""
        return max(0.0, float(self.bins[2].sum()) - self.num * self.mean**2) / max(1, self.num - 1)

    def support(self) -> tuple[Float64Array, Float64Array]:
        """Return a discrete distribution with the same mean and variance, and the ends 0 and 1.

        Each bin has two points of equal weight, a standard deviation of the bin below and above its mean.

        Returns:
            counts float64[K] and points float64[K].
        """
        counts, sums, squares = self.bins[:, self.bins[0] > 0]
        means = sums / counts
        deviations = np.sqrt(np.maximum(0.0, squares / counts - means * means))
        points = np.concatenate([means - deviations, means + deviations, [0.0, 1.0]])
        return np.concatenate([counts / 2, counts / 2, [0.0, 0.0]]), points

    def to_list(self) -> list[Any]:
        """Return JSON-ready data: [bin, count, sum, sum of squares] of each bin that is not empty."""
        return [[int(i), int(self.bins[0, i]), *self.bins[1:, i].tolist()] for i in np.flatnonzero(self.bins[0])]

    @classmethod
    def from_list(cls, data: object) -> CorrectedPairs:
        """Return the distribution stored by :meth:`to_list`.

        Raises:
            ValueError: anything else.
        """
        bins = np.zeros((3, NUM_BINS))
        for number, *content in convert(data, list[_Bin]):
            bins[:, number] = content
        return cls(bins)
