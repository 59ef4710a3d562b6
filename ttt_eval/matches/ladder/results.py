"""Results of one policy against another, exact or by games, and strengths of policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import match_outcome
from ttt_eval.exact.policy_cache import make_policy_once
from ttt_eval.matches.corrected_pairs import CorrectedPairs
from ttt_eval.matches.luck import default_correction
from ttt_eval.matches.match import play_pairs
from ttt_eval.matches.score import Score
from ttt_eval.statistics import Interval

MAX_GAMES = 1_000_000
"""Maximum number of games against a rung."""
CONFIDENCE = 0.95
"""Confidence level of intervals."""
_CERTAIN = 1e6  # weight of an exact result in pairs: large enough to make the prior of ratings negligible


def pairing_seed(seed: int, number: int) -> int:
    """Return the seed of a pairing; no two pairings share random numbers, nor do two seeds."""
    return MAX_GAMES * seed + number


def check_games(games: int, least: int) -> None:
    """Raise ValueError for an odd number of games, or one not from ``least`` to :data:`MAX_GAMES`."""
    if games % 2 or not least <= games <= MAX_GAMES:
        raise ValueError(
            f"games={games} makes no pairs, two games with the seats swapped: "
            f"choose an even number from {least} to {MAX_GAMES:,}"
        )


def play_pairing(game: Game, a: str | Policy, b: str | Policy, games: int, seed: int) -> dict[str, Any]:
    """Return a's results against b: exact if ``games`` is 0."""
    first, second = make_policy_once(game, a), make_policy_once(game, b)
    if games == 0:
        found = match_outcome(game, first, second)
        return {"exact": True, "games": 0, **found._asdict(), "pentanomial": None}
    score = play_pairs(game, first, second, games // 2, seed=seed, luck_correction=default_correction(game))
    return {
        "exact": False,
        "games": score.games,
        **_outcome_shares(score),
        "pentanomial": score.pentanomial.tolist(),
        **({} if score.corrected is None else {"corrected": score.corrected.to_list()}),
    }


def _outcome_shares(score: Score) -> dict[str, float]:
    counts = score.table.sum(axis=0) / score.games
    return dict(zip(("win", "draw", "loss"), counts.tolist(), strict=True))


def pair_weights(result: Mapping[str, Any]) -> tuple[Float64Array, float]:
    """Return pair counts by result, float64[5], and their precision, as :func:`bradley_terry` takes them.

    An exact result counts as so many pairs that it has no sampling error.
    """
    if result["exact"]:
        score = result["win"] + result["draw"] / 2
        return _CERTAIN * np.array([1 - score, 0, 0, 0, score]), 1.0
    score = _read_score(result)
    return score.effective_pentanomial, score.precision


def score_from_result(result: Mapping[str, Any]) -> Interval:
    """Return the score per game: wins and half the draws."""
    if result["exact"]:
        score = result["win"] + result["draw"] / 2
        return Interval(score, score, score)
    return _read_score(result).rate("score", CONFIDENCE)


def _read_score(result: Mapping[str, Any]) -> Score:
    pairs = np.zeros((3, 3), np.int64)
    pairs[2, 2], pairs[1, 2], pairs[1, 1], pairs[0, 1], pairs[0, 0] = result["pentanomial"]
    return Score(pairs, corrected=CorrectedPairs.from_list(result["corrected"]) if "corrected" in result else None)
