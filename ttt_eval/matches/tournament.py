"""Tournaments: a round robin in pairs of games, and ratings from the results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from ttt_envs.agents.specs import make_policy
from ttt_envs.core.files import write_json
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.core.parallel import Jobs
from ttt_envs.game.game import Game
from ttt_eval.exact.strength import differences_within
from ttt_eval.matches.luck import OFF
from ttt_eval.matches.match import MatchSettings
from ttt_eval.matches.match_blocks import PlayedBlock, describe_match, play_matches
from ttt_eval.matches.openings import Openings
from ttt_eval.matches.score import Score
from ttt_eval.policy_identity import policy_identity
from ttt_eval.statistics import Interval

RESULT, COST = "result.json", "cost.json"

PRIOR = 0.2
"""Pseudo-count of each of the five results of a pair in every pairing that was played: one pair in all, so that a
perfect score has a finite rating."""
DRAWS = 1000
"""Number of samples for the intervals of ratings."""
_PER_NAT = 400 / math.log(10)  # Elo per unit of log strength
MAX_GAMES_PER_PAIRING = 1_000_000
"""Maximum number of games of a pairing."""
_LEAST = 1e-6  # minimum distance of a score from 0 and 1, for finite ratings
_PIN = 1e6  # weight of known ratings, as a multiple of all games played


def bradley_terry(
    pentanomials: Int64Array | Float64Array,
    *,
    anchor: int | None = None,
    known: Sequence[float | None] | None = None,
    precision: Float64Array | None = None,
    confidence: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> list[Interval]:
    """Return maximum likelihood ratings in Elo (Bradley and Terry, 1952), by choix.

    A draw counts half a win. Each pairing has a prior of one pair of games, a fifth of it with each of the five results
    (:data:`PRIOR`): a policy that won all 100 pairs is 920 above its opponent, not infinitely high. Intervals are
    quantiles of the ratings of resampled result probabilities, drawn from the Dirichlet distribution of the counts and
    the prior (Rubin, 1981, The Bayesian bootstrap). Pairs are the independent samples, so the intervals account for
    seats and shared skips. Beyond a perfect score only the prior bounds them.

    Args:
        pentanomials: int64[N, N, 5]: entry [i, j] counts the pairs in which i made 0, 1/2, 1, 3/2 and 2 points against
            j; float64 for fractional pairs. Only one of [i, j] and [j, i] need be filled; both are added. All 0 where
            two never met.
        anchor: player with rating 0; by default the mean of all is 0.
        known: ratings that are held fixed, None for each unknown one. Games between known players are ignored.
        precision: float64[N, N]: number of independent pairs for each one counted, as of :attr:`Score.precision`, which
            only the intervals depend on; 0 where not filled. None is 1 for all.
        confidence: confidence level of the intervals.
        draws: number of samples for the intervals.
        seed: of the samples.

    Returns:
        A rating for each of the N; one that is known or the anchor's is a point.

    Raises:
        ValueError: a player not connected with the rest by games; an anchor beside known ratings.
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
    pins = _fixed_wins(fixed, 2 * counts.sum())
    weights = counts + PRIOR

    def rate(scores: Float64Array, near: Float64Array | None = None) -> Float64Array:
        """Return float64[N], from the score of the first of each pairing; ``near`` starts the solver closer."""
        games = 2 * weights.sum(axis=1)
        wins = pins.copy()
        np.add.at(wins, (first, second), games * scores)
        np.add.at(wins, (second, first), games * (1 - scores))
        ratings = _PER_NAT * _strengths(wins, None if near is None else near / _PER_NAT)
        held = np.isfinite(fixed)
        if held.any():
            return np.where(held, fixed, ratings + float(np.mean((fixed - ratings)[held])))
        return ratings - (float(ratings.mean()) if anchor is None else float(ratings[anchor]))

    points = np.arange(5) / 4
    mean = rate(weights @ points / weights.sum(axis=1))
    # normalized gamma variates are Dirichlet distributed
    independent = 1.0 if precision is None else np.maximum(precision, precision.T)[first, second, None]
    sampled = np.random.default_rng(seed).standard_gamma(weights * independent, (draws, *weights.shape))
    scores = np.clip(sampled @ points / sampled.sum(axis=2), _LEAST, 1 - _LEAST)
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.array([rate(one, mean) for one in scores]), (tail, 1 - tail), axis=0)
    return [Interval(float(mean[i]), float(low[i]), float(high[i])) for i in range(players)]


def _strengths(wins: Float64Array, near: Float64Array | None) -> Float64Array:
    """Return log strengths float64[N] from float64[N, N], the wins of the row against the column."""
    from choix import ilsr_pairwise_dense

    return np.asarray(ilsr_pairwise_dense(wins, initial_params=near, max_iter=10_000), np.float64)


def _fixed_wins(fixed: Float64Array, games: float) -> Float64Array:
    """Return float64[N, N]: virtual wins, many enough to hold the differences of known ratings."""
    held = np.isfinite(fixed)
    ratings = np.where(held, fixed, 0) / _PER_NAT
    scores = 1 / (1 + np.exp(ratings[None, :] - ratings[:, None]))
    return _PIN * games * scores * (held[:, None] & held[None, :] & ~np.eye(len(fixed), dtype=bool))


def _check_connected(first: Int64Array, second: Int64Array, fixed: Float64Array) -> None:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    players = len(fixed)
    held = np.flatnonzero(np.isfinite(fixed))
    rows, columns = np.concatenate([[first, second], [held[:-1], held[1:]]], axis=1).astype(np.int32)  # for SciPy 1.11
    graph = coo_array((np.ones(len(rows)), (rows, columns)), (players, players))
    count, labels = connected_components(graph, directed=False)
    if count > 1:
        alone = int(np.flatnonzero(labels != labels[0])[0])
        raise ValueError(f"no games connect player {alone} with player 0: ratings need some between all, by others too")


# ---------------------------------------------------------------------------------------------------------------------
# Round robin


@dataclass(frozen=True)
class Tournament:
    """Result of a tournament.

    Attributes:
        players: spec strings, as given.
        identities: by player, of :func:`ttt_eval.policy_identity.policy_identity`.
        scores: by pairing: of the first against the second, where i < j are numbers of players.
        ratings: of each player, in Elo.
        settings: JSON-ready: everything else that determines the result.
        differences: of the two with the highest ratings: ``a``, ``b``, numbers of players, and ``positions``; None if
            unknown.
    """

    players: Sequence[str]
    identities: Mapping[str, str]
    scores: Mapping[tuple[int, int], Score]
    ratings: Sequence[Interval]
    settings: Mapping[str, Any]
    differences: Mapping[str, Any] | None = None

    def score(self, row: int, column: int) -> Score:
        """Return the score of one player against another."""
        if row < column:
            return self.scores[row, column]
        return self.scores[column, row].reversed()

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data; docs/files.md documents the keys."""
        everybody = range(len(self.players))
        overall = [
            sum((self.score(i, j) for j in everybody if j != i), Score(np.zeros((3, 3), np.int64))) for i in everybody
        ]
        return {
            "format": 1,
            "kind": "tournament",
            **self.settings,
            "players": [
                {
                    "spec": spec,
                    "identity": self.identities[spec],
                    "rating": self.ratings[i]._asdict(),
                    **overall[i].to_dict(),
                }
                for i, spec in enumerate(self.players)
            ],
            "pairings": [
                {"a": i, "b": j, **score.to_record(), **score.to_dict()} for (i, j), score in self.scores.items()
            ],
            "differences": self.differences,
        }


@dataclass(frozen=True)
class TournamentSettings:
    """Definition of a tournament.

    Attributes:
        game: the game.
        players: spec strings, at least two.
        pairs: number of pairs in each pairing.
        seed: seed of all random numbers; all pairings use the same random numbers.
        openings: start positions of the pairs; None for the empty board.
        anchor: player with rating 0; None where the mean of all is 0.
        luck_correction: of :class:`ttt_eval.matches.match.MatchSettings`, a spec.

    Raises:
        ValueError: too few players or pairs, a duplicate player, an anchor that does not play.
    """

    game: Game
    players: Sequence[str]
    pairs: int
    seed: int = 0
    openings: Openings | None = None
    anchor: str | None = None
    luck_correction: str = OFF

    def __post_init__(self) -> None:
        players = self.players
        if len(players) < 2:
            raise ValueError(f"{len(players)} player makes no tournament: name two or more")
        for number, spec in enumerate(players):
            if spec in players[:number]:
                raise ValueError(f"{spec} is named twice: name each player once")
        if self.anchor is not None and self.anchor not in players:
            raise ValueError(f"anchor={self.anchor!r} does not play: choose one of {', '.join(players)}")
        if not 1 <= self.pairs <= MAX_GAMES_PER_PAIRING // 2:
            raise ValueError(f"pairs={self.pairs} makes no pairing: choose 1 to {MAX_GAMES_PER_PAIRING // 2:,}")

    def match(self, a: str, b: str) -> MatchSettings:
        """Return the match of two players."""
        return MatchSettings(self.game, a, b, self.seed, self.openings, luck_correction=self.luck_correction)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data, without the players; docs/files.md documents the keys."""
        return {
            **describe_match(self.match(*self.players[:2])),
            "games_per_pairing": 2 * self.pairs,
            "anchor": self.anchor,
            "prior": PRIOR,
            "draws": DRAWS,
            "rated_by": {"choix": metadata.version("choix")},
        }


def run_tournament(
    settings: TournamentSettings,
    folder: Path,
    provenance: Mapping[str, Any],
    *,
    jobs: Jobs = 1,
    progress: Callable[[int], None] | None = None,
) -> Tournament:
    """Play pairs of games between any two of the players.

    Every block of pairs is stored in the folder as soon as it is played: after a kill the same call resumes, and one
    with more players or more pairs plays only the missing blocks. At the end it writes ``result.json``, which does not
    depend on the workers, and ``cost.json``: the CPU time of each pairing.

    Args:
        settings: the tournament.
        folder: folder of the blocks.
        provenance: JSON-ready: versions and code; the same at every call.
        jobs: the workers.
        progress: called with the number of pairs of each finished block.

    Raises:
        ValueError: an unknown policy, another process that works in the folder.
    """
    players = tuple(settings.players)
    for spec in players:
        make_policy(spec, settings.game)  # a wrong name is reported before anything is written
    identities = {spec: policy_identity(spec) for spec in players}
    pairings = list(combinations(range(len(players)), 2))
    # sorted, so that stored games are found in any order of the names
    matches = [settings.match(*sorted((players[i], players[j]))) for i, j in pairings]
    blocks: dict[int, PlayedBlock] = {}
    other_files = (RESULT, COST, "*.html")
    played = play_matches(matches, settings.pairs, identities, folder, provenance, jobs=jobs, other_files=other_files)
    with closing(played):
        for number, block in played:
            blocks[number] = block
            if progress is not None:
                progress(block.score.games // 2)
    scores = {pairing: Score(np.zeros((3, 3), np.int64)) for pairing in pairings}
    seconds = dict.fromkeys(pairings, 0.0)
    for number in sorted(blocks):  # in order, so that the first forfeit does not depend on the workers
        match, score, cpu_s = blocks[number]
        i, j = pairings[match]
        scores[i, j] += score if players[i] < players[j] else score.reversed()
        seconds[i, j] += cpu_s
    counts, precision = np.zeros((len(players), len(players), 5)), np.zeros((len(players), len(players)))
    for (i, j), score in scores.items():
        counts[i, j], precision[i, j] = score.effective_pentanomial, score.precision
    anchor = None if settings.anchor is None else players.index(settings.anchor)
    ratings = bradley_terry(counts, anchor=anchor, precision=precision, seed=settings.seed)
    best, second, *_ = sorted(range(len(players)), key=lambda i: -ratings[i].mean)
    positions = differences_within(settings.game, players[best], players[second])
    differences = None if positions is None else {"a": best, "b": second, "positions": positions}
    described = {**settings.to_dict(), "provenance": dict(provenance)}
    found = Tournament(players, identities, scores, ratings, described, differences)
    write_json(folder / RESULT, found.to_dict())
    costs = [{"a": i, "b": j, "cpu_s": cpu_s} for (i, j), cpu_s in seconds.items()]
    write_json(folder / COST, {"format": 1, "players": list(players), "pairings": costs})
    return found
