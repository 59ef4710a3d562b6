"""Tournaments: a round robin in pairs of games, and ratings from the results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from ttt_envs.core.checks import Refusal, check_choice
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.core.parallel import Jobs
from ttt_eval.matches.match import MatchSettings, play_matches
from ttt_eval.matches.results import DifferentMoves, PlayedResult, compare_moves
from ttt_eval.matches.score import Score, StoredScore
from ttt_eval.store.result_store import Data, no_progress
from ttt_eval.store.results import Spec
from ttt_eval.store.statistics import Interval

PRIOR = 0.2
"""Pseudo-count of each of the five results of a pair in every pairing that was played: one pair in
all, so that a perfect score has a finite rating."""
DRAWS = 1000
"""Number of samples for the intervals of ratings."""
_PER_NAT = 400 / math.log(10)  # Elo per unit of log strength
_MIN_DISTANCE = 1e-6  # minimum distance of a score from 0 and 1, for finite ratings
_POINTS = np.arange(5) / 4  # per game, of a pair
_MAX_STEP = 2.0  # of a log strength, in one iteration


def bradley_terry(
    pairings: Mapping[tuple[int, int], tuple[Float64Array, float]],
    players: int,
    *,
    anchor: int | None = None,
    fixed: Sequence[float | None] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> list[Interval]:
    """Return maximum likelihood ratings in Elo (Bradley and Terry, 1952) with 95% intervals.

    A draw counts half a win. Each pairing has a prior of one pair of games, a fifth of it with each
    of the five results (:data:`PRIOR`): a policy that won all 100 pairs is 920 above its opponent,
    not infinitely high. Intervals are quantiles of the ratings of resampled result probabilities,
    drawn from the Dirichlet distribution of the counts and the prior (Rubin, 1981, The Bayesian
    bootstrap). Pairs are the independent samples, so the intervals account for seats and shared
    skips. Beyond a perfect score only the prior bounds them.

    Args:
        pairings: by the numbers (i, j) of two players, in either order: float64[5], the pairs of
            games in which i made 0, 1/2, 1, 3/2 and 2 points against j; and the number of
            independent pairs for each one counted, as of :meth:`Score.weights`, which only the
            intervals depend on.
        players: number N of players.
        anchor: player with rating 0; by default the mean of all is 0.
        fixed: ratings that are held, None for each free one. Games between players with fixed
            ratings are ignored.
        draws: number of samples for the intervals; with 0 they are points.
        seed: of the samples.

    Returns:
        A rating for each of the N; one that is fixed or the anchor's is a point.

    Raises:
        ValueError: a player not connected with the rest by games; an anchor beside fixed ratings.
    """
    if anchor is not None and fixed is not None:
        raise Refusal(
            f"anchor={anchor} would move ratings that are fixed: choose one of anchor and fixed"
        )
    first, second, counts, precision = _sort_pairings(pairings)
    weights = counts + PRIOR
    games = weights.sum(axis=1)
    known_ratings = {
        player: rating for player, rating in enumerate(fixed or ()) if rating is not None
    }
    known_ratings = known_ratings or {anchor or 0: 0.0}
    ratings = np.zeros(players)
    ratings[list(known_ratings)] = list(known_ratings.values())
    unknown = np.setdiff1d(np.arange(players), list(known_ratings))
    # of the ratings in the difference of each pairing
    signs = np.eye(players)[first] - np.eye(players)[second]
    if len(unknown) and np.linalg.matrix_rank(signs[:, unknown]) < len(unknown):
        raise Refusal(
            "games do not connect all players: ratings need some between all, by others too"
        )
    fit = partial(_newton, signs[:, unknown], signs @ ratings / _PER_NAT, games)
    estimate = fit(weights @ _POINTS / games, np.zeros(len(unknown)))
    samples = _resample(weights, precision, draws, seed)
    strengths = [estimate, *(fit(scores, estimate) for scores in samples)]
    all_ratings = np.tile(ratings, (1 + draws, 1))
    all_ratings[:, unknown] = _PER_NAT * np.array(strengths)
    if anchor is None and fixed is None:
        all_ratings -= all_ratings.mean(axis=1, keepdims=True)
    ends = np.quantile(all_ratings[min(1, draws) :], (0.025, 0.975), axis=0)
    return [Interval(*column) for column in np.vstack([all_ratings[0], ends]).T.tolist()]


def _sort_pairings(
    pairings: Mapping[tuple[int, int], tuple[Float64Array, float]],
) -> tuple[Int64Array, Int64Array, Float64Array, Float64Array]:
    """Return the first and the second player of each pairing, int64[P], the first with the lower
    number, its pairs of games float64[P, 5], and its precision float64[P].
    """
    rows = {
        (min(i, j), max(i, j)): (pairs if i < j else pairs[::-1], precision)
        for (i, j), (pairs, precision) in pairings.items()
    }
    keys = sorted(rows)
    first, second = np.array(keys).T
    counts = np.array([rows[key][0] for key in keys])
    return first, second, counts, np.array([rows[key][1] for key in keys])


def _resample(
    weights: Float64Array, precision: Float64Array, draws: int, seed: int
) -> Float64Array:
    """Return the scores of the first players of pairings in samples of result probabilities,
    float64[draws, P].
    """
    # normalized gamma variates are Dirichlet distributed
    variates = np.random.default_rng(seed).standard_gamma(
        weights * precision[:, None], (draws, *weights.shape)
    )
    scores = variates @ _POINTS / variates.sum(axis=2)
    return np.asarray(np.clip(scores, _MIN_DISTANCE, 1 - _MIN_DISTANCE))


def _newton(
    signs: Float64Array,
    known_part: Float64Array,
    games: Float64Array,
    scores: Float64Array,
    strengths: Float64Array,
) -> Float64Array:
    """Return the maximum likelihood log strengths float64[F] of some players, by Newton's method.

    Args:
        signs: float64[P, F]: 1 and -1 for the first and second of each pairing.
        known_part: float64[P]: difference of the strengths of other players in it.
        games, scores: float64[P], their number and the score of the first.
        strengths: float64[F], to start from.
    """
    from scipy.special import expit

    for _ in range(100):
        expected = expit(known_part + signs @ strengths)
        slope = signs.T @ (games * (scores - expected))
        curvature = (signs.T * (games * expected * (1 - expected))) @ signs
        step = np.linalg.solve(curvature, slope)
        size = float(np.abs(step).max(initial=0.0))
        strengths = strengths + step * min(1.0, _MAX_STEP / max(size, 1e-300))
        if size < 1e-9:
            break
    return strengths


# --------------------------------------------------------------------------------------------------
# Round robin


class RatedPlayer(Struct):
    """A player of a tournament."""

    spec: Spec
    identity: str
    """of :func:`ttt_eval.store.policy_identity.policy_identity`"""
    rating: Interval
    """in Elo"""


class PlayedPairing(StoredScore, kw_only=True):
    """The games of player number a against player number b."""

    a: int
    b: int


class LargestDifferences(Struct):
    """Positions in which players number a and b differ most."""

    a: int
    b: int
    positions: list[DifferentMoves]


class TournamentResult(PlayedResult, tag="tournament", kw_only=True):
    """A round robin."""

    players: Annotated[list[RatedPlayer], Meta(min_length=2)]
    pairings: list[PlayedPairing]
    games_per_pairing: int
    anchor: Spec | UnsetType | None = UNSET
    prior: float | UnsetType = UNSET
    draws: int | UnsetType = UNSET
    differences: LargestDifferences | None = None
    """of the two with the highest ratings; None if not computed"""

    @property
    def scores(self) -> dict[tuple[int, int], Score]:
        """The score of each player against each other one."""
        scores = {(pairing.a, pairing.b): pairing.played for pairing in self.pairings}
        return {**scores, **{(b, a): score.reversed() for (a, b), score in scores.items()}}

    @property
    def total_scores(self) -> list[Score]:
        """The score of each player against all others."""
        totals = [Score.empty() for _ in self.players]
        for (player, _), score in self.scores.items():
            totals[player] += score
        return totals

    def to_dict(self) -> Data:
        """Return the content of the file, JSON-ready, with what follows from the pairs of games."""
        content = super().to_dict()
        for player, score in zip(content["players"], self.total_scores, strict=True):
            player.update(score.to_dict())
        for entry, pairing in zip(content["pairings"], self.pairings, strict=True):
            entry.update(pairing.played.to_dict())
        return content


def summarize_tournament(
    identities: Mapping[str, str],
    scores: Mapping[tuple[int, int], Score],
    ratings: Sequence[Interval],
    **settings: Any,
) -> TournamentResult:
    """Return the result of a tournament.

    Args:
        identities: by player, of :func:`ttt_eval.store.policy_identity.policy_identity`.
        scores: by pairing: of the first against the second, where i < j are numbers of players.
        ratings: of each player, in Elo.
        settings: further fields of the result, those that determine it among them.
    """
    players = [
        RatedPlayer(spec, identity, rating)
        for (spec, identity), rating in zip(identities.items(), ratings, strict=True)
    ]
    pairings = [PlayedPairing(a=a, b=b, **score.to_record()) for (a, b), score in scores.items()]
    return TournamentResult(players=players, pairings=pairings, **settings)


def run_tournament(
    match: MatchSettings,
    folder: Path,
    provenance: Mapping[str, object],
    *,
    pairs: int,
    anchor: str | None = None,
    jobs: Jobs = 1,
    progress: Callable[[int, int], None] = no_progress,
) -> TournamentResult:
    """Play pairs of games between any two of the players, all with the same random numbers.

    Every block of pairs is stored in the folder as soon as it is played: after a kill the same call
    resumes, and one with more players or more pairs plays only the missing blocks. At the end it
    writes ``result.json``, which does not depend on the workers.

    Args:
        match: the players, by spec, and everything else that determines the games.
        folder: folder of the blocks.
        provenance: JSON-ready: versions and code; the same at every call.
        pairs: number of pairs in each pairing.
        anchor: player with rating 0; None where the mean of all is 0.
        jobs: the workers.
        progress: called with the number of pairs done, and the total.

    Raises:
        ValueError: too few players or pairs, a duplicate or unknown player, an anchor that does not
            play, another process that works in the folder.
    """
    players = [str(player) for player in match.players]
    if len(set(players)) < max(2, len(players)):
        raise Refusal(
            f"{', '.join(players)} make no tournament: name two or more, and each player once"
        )
    check_choice("anchor", anchor, (None, *players))
    pairings = list(combinations(range(len(players)), 2))
    # sorted, so that stored games are found in any order of the names
    names = [(min(players[i], players[j]), max(players[i], players[j])) for i, j in pairings]
    scores = dict.fromkeys(pairings, Score.empty())
    try:
        with closing(play_matches(match, names, pairs, folder, provenance, jobs=jobs)) as blocks:
            for number, score in blocks:
                i, j = pairings[number]
                scores[i, j] += score if players[i] < players[j] else score.reversed()
                progress(sum(score.games for score in scores.values()) // 2, pairs * len(pairings))
    except Exception as problem:
        finished = [
            f"{players[i]} {score.rate('score').mean:.3f} against {players[j]}"
            for (i, j), score in scores.items()
            if 0 < score.games == 2 * pairs
        ]
        if finished:
            problem.add_note(f"finished and kept in {folder}: {', '.join(finished)}")
        raise
    weights = {pairing: score.weights() for pairing, score in scores.items()}
    anchor_index = None if anchor is None else players.index(anchor)
    ratings = bradley_terry(weights, len(players), anchor=anchor_index, seed=match.seed)
    best, second, *_ = sorted(range(len(players)), key=lambda i: -ratings[i].mean)
    positions = compare_moves(match.game, players[best], players[second])
    result = summarize_tournament(
        match.identities(),
        scores,
        ratings,
        **match.to_dict(),
        games_per_pairing=2 * pairs,
        anchor=anchor,
        prior=PRIOR,
        draws=DRAWS,
        differences=None if positions is None else LargestDifferences(best, second, positions),
        provenance=dict(provenance),
        folder=folder,
    )
    result.write(folder)
    return result
