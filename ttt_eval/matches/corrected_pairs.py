"""Scores of pairs of games without luck."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ttt_envs.core.jit import Float64Array, Int64Array

NUM_BINS = 401
"""Number of bins of corrected scores of pairs."""
_LOWEST_SCORE, _WIDTH = -1.505, 0.01


@dataclass(frozen=True)
class CorrectedPairs:
    """Distribution of the corrected scores of pairs of games: the mean of both games, 0 to 1 for results without luck.

    Scores are counted in bins .01 wide, the first and last of which are open. Mean and variance are exact.

    Attributes:
        counts: int64[NUM_BINS].
        sums, squares: float64[NUM_BINS]: sums of the scores in each bin, and of their squares.
    """

    counts: Int64Array
    sums: Float64Array
    squares: Float64Array

    @classmethod
    def from_scores(cls, scores: Float64Array) -> CorrectedPairs:
        """Return the distribution of float64[P]."""
        bins = np.clip(((scores - _LOWEST_SCORE) / _WIDTH).astype(np.int64), 0, NUM_BINS - 1)
        counts = np.bincount(bins, minlength=NUM_BINS).astype(np.int64)
        sums, squares = (np.bincount(bins, part, NUM_BINS).astype(np.float64) for part in (scores, scores * scores))
        return cls(counts, sums, squares)

    def __add__(self, other: CorrectedPairs) -> CorrectedPairs:
        """Return the distribution of the pairs of both."""
        return CorrectedPairs(self.counts + other.counts, self.sums + other.sums, self.squares + other.squares)

    def reversed(self) -> CorrectedPairs:
        """Return the distribution from the other player's view."""
        squares = self.counts - 2 * self.sums + self.squares
        return CorrectedPairs(self.counts[::-1], (self.counts - self.sums)[::-1], squares[::-1])

    @property
    def num(self) -> int:
        """Number of pairs."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """Mean score."""
        return float(self.sums.sum() / self.num)

    @property
    def variance(self) -> float:
        """Sample variance of a pair's score."""
        return max(0.0, float(self.squares.sum()) - self.num * self.mean**2) / max(1, self.num - 1)

    def support(self) -> tuple[Float64Array, Float64Array]:
        """Return a discrete distribution with the same mean and variance, and the ends 0 and 1.

        Each bin has two points of equal weight, a standard deviation of the bin below and above its mean.

        Returns:
            counts float64[K] and points float64[K].
        """
        filled = self.counts > 0
        counts = self.counts[filled].astype(np.float64)
        means = self.sums[filled] / counts
        deviations = np.sqrt(np.maximum(0.0, self.squares[filled] / counts - means * means))
        points = np.concatenate([means - deviations, means + deviations, [0.0, 1.0]])
        return np.concatenate([counts / 2, counts / 2, [0.0, 0.0]]), points

    def to_list(self) -> list[Any]:
        """Return JSON-ready data: [bin, count, sum, sum of squares] of each bin that is not empty."""
        parts = (self.counts, self.sums, self.squares)
        return [[int(i), *(part[i].item() for part in parts)] for i in np.flatnonzero(self.counts)]

    @classmethod
    def from_list(cls, data: object) -> CorrectedPairs:
        """Return the distribution stored by :meth:`to_list`.

        Raises:
            ValueError: anything else.
        """
        counts, (sums, squares) = np.zeros(NUM_BINS, np.int64), np.zeros((2, NUM_BINS))
        for entry in data if isinstance(data, list) else [data]:
            match entry:
                case [int(i), int(count), float(total), float(square)] if (
                    0 <= i < NUM_BINS and 0 < count < 1 << 50 and math.isfinite(total) and math.isfinite(square)
                ):
                    counts[i], sums[i], squares[i] = count, total, square
                case _:
                    raise ValueError(
                        f"{ascii(entry)[:60]} is no bin of corrected scores: [bin, count, sum, sum of squares] is"
                    )
        return cls(counts, sums, squares)
