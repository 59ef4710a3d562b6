"""Tournaments: everybody against everybody in pairs of games, and ratings from what came of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evaluation.statistics import Interval
from ttt_envs.compiling import Integers, Reals

PRIOR = 0.2
"""how often each of the five results of a pair is taken for seen beforehand, in every pairing that was played: one
pair in all, so that a perfect score does not mean an infinite rating"""
DRAWS = 1000
"""samples from which intervals of ratings are read"""
_PER_NAT = 400 / math.log(10)  # Elo in a logarithm of strength
_LEAST = 1e-6  # a score nearer to 0 or 1 than this cannot be told from it, and would have no finite rating
_PIN = 1e6  # known ratings weigh as much as so many times all games that were played


def bradley_terry(
    pentanomials: Integers,
    *,
    anchor: int | None = None,
    known: Sequence[float | None] | None = None,
    confidence: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> list[Interval]:
    """Ratings, in Elo, under which the scores that were made are likeliest (Bradley and Terry, 1952), by choix.

    A draw counts half a win. Before anything is played each pairing is taken to have seen one pair of games, a fifth
    of it with each of the five results (:data:`PRIOR`): a policy that won all 100 pairs stands 920 above its opponent,
    not infinitely high. Intervals are the quantiles of ratings found again from samples of the chances of a pair's
    results, which come from the Dirichlet distribution of what was seen and the prior (Rubin, 1981, The Bayesian
    bootstrap): pairs are the independent samples, so seats and shared skips widen or narrow them as they should.
    Beyond a perfect score only the prior bounds them.

    Args:
        pentanomials: int64[N, N, 5]: entry [i, j] is the pairs in which i made 0, 1/2, 1, 3/2 and 2 points against j.
            Only one of [i, j] and [j, i] need be filled; those of both are added up. All 0 where two never met.
        anchor: whose rating is 0; by default the mean of all is.
        known: ratings that are held fixed, None for each that is asked for. Games between those are not looked at.
        confidence: that an interval holds the truth.
        draws: samples for the intervals.
        seed: of the samples.

    Returns:
        A rating for each of the N; one that is known or the anchor's is a point.

    Raises:
        ValueError: somebody who is connected with the rest by no games; an anchor beside known ratings.
    """
    seen = np.asarray(pentanomials, np.float64)
    seen = np.triu((seen + seen.swapaxes(0, 1)[:, :, ::-1]).transpose(2, 0, 1), 1).transpose(1, 2, 0)
    players = len(seen)
    first, second = np.nonzero(seen.sum(axis=2))
    fixed = np.array([math.nan if one is None else one for one in known or [None] * players], np.float64)
    if anchor is not None and known is not None:
        raise ValueError(f"anchor={anchor} would move ratings that are known: choose one of anchor and known")
    _check_connected(first, second, fixed)
    counts = seen[first, second]  # float64[pairings, 5]
    pins = _pins(fixed, 2 * counts.sum())
    weights = counts + PRIOR

    def rate(scores: Reals) -> Reals:
        """float64[N], from the score of the first of each pairing."""
        games = 2 * weights.sum(axis=1)
        wins = pins.copy()
        np.add.at(wins, (first, second), games * scores)
        np.add.at(wins, (second, first), games * (1 - scores))
        ratings = _PER_NAT * _strengths(wins)
        held = np.isfinite(fixed)
        if held.any():
            return np.where(held, fixed, ratings + float(np.mean((fixed - ratings)[held])))
        return ratings - (float(ratings.mean()) if anchor is None else float(ratings[anchor]))

    points = np.arange(5) / 4
    mean = rate(weights @ points / weights.sum(axis=1))
    # gamma variates divided by their sum are the Dirichlet's
    sampled = np.random.default_rng(seed).standard_gamma(weights, (draws, *weights.shape))
    scores = np.clip(sampled @ points / sampled.sum(axis=2), _LEAST, 1 - _LEAST)
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.array([rate(one) for one in scores]), (tail, 1 - tail), axis=0)
    return [Interval(float(mean[i]), float(low[i]), float(high[i])) for i in range(players)]


def _strengths(wins: Reals) -> Reals:
    """float64[N]: logarithms of strengths, from float64[N, N] of wins of the row against the column."""
    from choix import ilsr_pairwise_dense

    return np.asarray(ilsr_pairwise_dense(wins, max_iter=10_000), np.float64)


def _pins(fixed: Reals, games: float) -> Reals:
    """float64[N, N]: wins that hold the differences of known ratings, for there is so much more of them."""
    held = np.isfinite(fixed)
    ratings = np.where(held, fixed, 0) / _PER_NAT
    scores = 1 / (1 + np.exp(ratings[None, :] - ratings[:, None]))
    return _PIN * games * scores * (held[:, None] & held[None, :] & ~np.eye(len(fixed), dtype=bool))


def _check_connected(first: Integers, second: Integers, fixed: Reals) -> None:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    players = len(fixed)
    held = np.flatnonzero(np.isfinite(fixed))
    rows, columns = np.concatenate([first, held[:-1]]), np.concatenate([second, held[1:]])
    graph = coo_array((np.ones(len(rows)), (rows, columns)), (players, players))
    count, labels = connected_components(graph, directed=False)
    if count > 1:
        alone = int(np.flatnonzero(labels != labels[0])[0])
        raise ValueError(f"no games connect player {alone} with player 0: ratings need some between all, by others too")
