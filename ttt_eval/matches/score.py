"""The score of a match: pairs of games by result, forfeits, and rates with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.game import Game
from ttt_eval.matches.corrected_pairs import CorrectedPairs
from ttt_eval.statistics import GuardedMean, Interval, agresti_coull, guarded_mean, interval_from_pairs


class Forfeits(NamedTuple):
    """Forfeited games, lost by their players: see :class:`ttt_envs.agents.policy.Forfeit`."""

    a: int = 0
    b: int = 0
    first: str = ""
    """reason for the first forfeit"""

    def plus(self, other: Forfeits) -> Forfeits:
        """Return the sum over the games of both."""
        return Forfeits(self.a + other.a, self.b + other.b, self.first or other.first)

    def describe(self, a: str, b: str) -> str:
        """Describe the forfeits in a sentence."""
        by = ", ".join(f"{count:,} by {name}" for count, name in ((self.a, a), (self.b, b)) if count)
        return f"games were given up, and so lost: {by}. The first: {self.first}"

    def reversed(self) -> Forfeits:
        """Return the same forfeits from the other player's view."""
        return Forfeits(self.b, self.a, self.first)


@dataclass(frozen=True)
class Times:
    """Time statistics of one player of a timed match.

    Attributes:
        seconds: float64[moves], for each of its moves.
        least_left: minimum time left after a move, before the increment, in seconds; below 0 if it lost on time.
        lost: number of games lost on time.
        guesses, hits: number of times that it pondered until its turn came, and number of ponder hits.
    """

    seconds: Float64Array
    least_left: float
    lost: int = 0
    guesses: int = 0
    hits: int = 0

    def __add__(self, other: Times) -> Times:
        """Return the statistics of the games of both."""
        return Times(
            np.concatenate([self.seconds, other.seconds]),
            min(self.least_left, other.least_left),
            self.lost + other.lost,
            self.guesses + other.guesses,
            self.hits + other.hits,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data; docs/files.md documents the keys."""
        moved = len(self.seconds) > 0
        return {
            "moves": len(self.seconds),
            "median_s": float(np.median(self.seconds)) if moved else None,
            "largest_s": float(self.seconds.max()) if moved else None,
            "least_left_s": self.least_left if moved else None,
            "lost_on_time": self.lost,
            "ponder_guesses": self.guesses,
            "ponder_hits": self.hits,
        }


NO_FORFEITS = Forfeits()
CORRECTED_GUARD = 0.5
"""Pairs added at 0, and at 1, to corrected scores: fewer than to results, because most are near their mean."""


@dataclass(frozen=True)
class Score:
    """Result of a against b.

    Attributes:
        pairs: int64[3, 3]: pairs of games by a's result as player_0 (row) and as player_1 (column): win, draw, loss.
        lengths: int64[2, 3, cells + 1]: games by a's seat, a's result and the stones on the board at the end; None if
            not counted.
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
    def empty(cls, game: Game) -> Score:
        """Return the score of no games."""
        return cls(np.zeros((3, 3), np.int64), np.zeros((2, 3, game.cells + 1), np.int64))

    def __add__(self, other: Score) -> Score:
        """Return the sum over the games of both."""
        lengths = None if self.lengths is None or other.lengths is None else self.lengths + other.lengths
        if self.corrected is None or other.corrected is None:  # of no games, nothing is to be corrected
            corrected = other.corrected if not self.games else None if other.games else self.corrected
        else:
            corrected = self.corrected + other.corrected
        times = self.times or other.times
        if self.times is not None and other.times is not None:
            times = self.times[0] + other.times[0], self.times[1] + other.times[1]
        return Score(self.pairs + other.pairs, lengths, self.forfeits.plus(other.forfeits), corrected, times)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Score:
        """Return the score stored by :meth:`to_record`."""
        corrected = CorrectedPairs.from_list(record["corrected"]) if "corrected" in record else None
        return cls(np.array(record["pairs"], np.int64), None, Forfeits(*record.get("forfeits", ())), corrected)

    def to_record(self) -> dict[str, Any]:
        """Return what is stored of a score, JSON-ready: all but lengths and times."""
        return {
            "pairs": self.pairs.tolist(),
            **({"forfeits": list(self.forfeits)} if self.forfeits.first else {}),
            **({} if self.corrected is None else {"corrected": self.corrected.to_list()}),
        }

    def reversed(self) -> Score:
        """Return the score of the same games from the other player's view, without lengths and times."""
        corrected = self.corrected and self.corrected.reversed()
        return Score(np.ascontiguousarray(self.pairs[::-1, ::-1].T), None, self.forfeits.reversed(), corrected)

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
        """Whether, of several pairs, all games in each seat ended in the same result after as many stones.

        Games that fill the board have equal lengths anyway: if all do, this is False.
        """
        if self.lengths is None or self.games <= 2 or not self.lengths[..., :-1].any():
            return False
        return bool((np.count_nonzero(self.lengths, axis=(1, 2)) == 1).all())

    @property
    def pentanomial(self) -> Int64Array:
        """int64[5]: number of pairs in which a made 0, 1/2, 1, 3/2 and 2 points."""
        half_points = np.array([2, 1, 0])
        total = (half_points[:, None] + half_points).ravel()
        return np.bincount(total, self.pairs.ravel(), minlength=5).astype(np.int64)

    @property
    def effective_pentanomial(self) -> Float64Array:
        """float64[5]: the pentanomial; where luck is corrected, as many pairs of 0 and 2 points with the mean of the
        corrected scores.
        """
        if self.corrected is None:
            return self.pentanomial.astype(np.float64)
        mean = min(max(self.corrected.mean, 0.0), 1.0)
        return np.array([1 - mean, 0, 0, 0, mean]) * self.corrected.num

    @property
    def precision(self) -> float:
        """Number of pairs of the effective pentanomial whose mean has the same standard error, relative to the number
        of pairs played: 1 where luck is not corrected.
        """
        if self.corrected is None:
            return 1.0
        centre, error = self.guarded_mean()
        centre = min(max(centre, 0.0), 1.0)
        return max(1e-3, centre * (1 - centre) / error**2 / self.corrected.num)

    @property
    def variance_ratio(self) -> float:
        """Variance of a pair's score, relative to that of two independent games.

        A value below 1 is the variance reduction from shared skips and openings: fewer games give the same precision.
        NaN where all games in a seat end alike.
        """
        points = np.array([1, 0.5, 0])
        shares = self.pairs / self.pairs.sum()
        first, second = shares.sum(axis=1), shares.sum(axis=0)
        alone = sum(points**2 @ each - (points @ each) ** 2 for each in (first, second))
        common = points @ shares @ points - (points @ first) * (points @ second)
        return float(1 + 2 * common / alone) if alone else float("nan")

    def rate(self, result: str, confidence: float = 0.95) -> Interval:
        """Return the rate per game of ``"wins"``, ``"draws"``, ``"losses"`` or ``"score"`` (wins and half the
        draws), the last without luck where it is corrected.
        """
        if result == "score":
            return self.guarded_mean(confidence).interval(self.moments()[0], confidence)
        of_game = np.array({"wins": [1, 0, 0], "draws": [0, 1, 0], "losses": [0, 0, 1]}[result])
        return interval_from_pairs(*self._moments_of(of_game), self.games // 2, confidence)

    def guarded_mean(self, confidence: float = 0.95) -> GuardedMean:
        """Return the guarded mean of the pairs' scores, without luck where it is corrected."""
        guard = agresti_coull(confidence) if self.corrected is None else CORRECTED_GUARD
        return guarded_mean(*self.moments(), self.games // 2, guard)

    def moments(self) -> tuple[float, float]:
        """Return the sample mean and variance of a pair's mean score, 0 to 1; without luck where it is corrected."""
        if self.corrected is not None:
            return self.corrected.mean, self.corrected.variance
        return self._moments_of(np.array([1, 0.5, 0]))

    def _moments_of(self, points: Float64Array) -> tuple[float, float]:
        """Return the sample mean and variance of a pair's mean of ``points``, float64[3] by the result of a game."""
        per_pair, num = (points[:, None] + points) / 2, self.games // 2
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
        if self.corrected is None or not self.corrected.variance > 0:
            return None
        return self.raw.moments()[1] / self.corrected.variance

    def _describe_correction(self) -> dict[str, Any]:
        reduction = self.variance_reduction
        equivalent = None if reduction is None else round(self.games * reduction)
        return {
            "raw_score": self.raw.rate("score")._asdict(),
            "variance_reduction": reduction,
            "equivalent_games": equivalent,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data; docs/files.md documents the keys."""
        rates = {name: self.rate(name)._asdict() for name in ("score", "wins", "draws", "losses")}
        return {
            "games": self.games,
            **rates,
            **({} if self.corrected is None else self._describe_correction()),
            "first": [int(n) for n in self.table[0]],
            "second": [int(n) for n in self.table[1]],
            "pentanomial": [int(n) for n in self.pentanomial],
            **({"forfeits": self.forfeits._asdict()} if self.forfeits.first else {}),
        }
