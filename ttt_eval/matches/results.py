"""Results of matches, and what those of other comparisons share."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame
from ttt_envs.graph.estimate import MAX_BOARDS_AT_ONCE, is_measured_at_once
from ttt_eval.exact.strength import differences
from ttt_eval.matches.elo import elo_interval, elo_to_dict
from ttt_eval.matches.score import Score, StoredCorrection, StoredForfeits
from ttt_eval.store.result_store import Data
from ttt_eval.store.results import GameResult, Spec
from ttt_eval.store.statistics import Interval

CellIndex = Annotated[int, Meta(ge=0)]
CellShares = dict[CellIndex, float]
"""Probabilities of moves by cell."""


class ChosenMoves(Struct):
    """The moves of a player in a position, see :class:`ttt_eval.exact.strength.PolicyChoice`."""

    position: str
    moves: CellShares
    best: list[CellIndex] | None
    """cells; None if they are not known"""
    loss: float | None


class DifferentMoves(Struct):
    """The moves of a and b in a position, see :class:`ttt_eval.exact.strength.Difference`."""

    position: str
    best: list[CellIndex] | None
    difference: float
    likely: float
    a: CellShares
    b: CellShares
    loss_a: float | None
    loss_b: float | None

    @property
    def choices(self) -> tuple[ChosenMoves, ChosenMoves]:
        """The moves of a, and those of b."""
        return (
            ChosenMoves(self.position, self.a, self.best, self.loss_a),
            ChosenMoves(self.position, self.b, self.best, self.loss_b),
        )


def compare_moves(
    game: AnyGame, a: str | Policy, b: str | Policy, count: int = 5
) -> list[DifferentMoves] | None:
    """Return the first ``count`` :func:`ttt_eval.exact.strength.differences` that cost value; None
    if a policy is not pure, or the board is not
    :func:`~ttt_envs.graph.estimate.is_measured_at_once`.
    """
    players = make_policy(a, game), make_policy(b, game)
    are_pure = all(player.pure for player in players)
    if not isinstance(game, Game) or not are_pure or not is_measured_at_once(game):
        return None
    spots = differences(game, *players, count=MAX_BOARDS_AT_ONCE)
    costly = [spot for spot in spots if spot.costs]
    return [DifferentMoves(**spot.to_dict(game)) for spot in costly[:count]]


class PlayedResult(GameResult, kw_only=True):
    """What every result of games that were played has; the fields are those of
    :class:`ttt_eval.matches.match.MatchSettings`.
    """

    seed: int = 0
    openings: Spec | UnsetType | None = UNSET
    openings_sha256: str | UnsetType | None = UNSET
    block: int | UnsetType = UNSET
    luck_correction: Spec | UnsetType = UNSET
    clock: str | UnsetType | None = UNSET


class MatchResult(PlayedResult, tag="match", kw_only=True):
    """A match of a against b."""

    a: Spec
    b: Spec
    identities: dict[str, str] | UnsetType = UNSET
    score: Interval
    likelihood_of_superiority: float
    differences: list[DifferentMoves] | None = None
    times: list[Data] | UnsetType = UNSET
    """of :meth:`ttt_eval.matches.score.Times.to_dict`, of both players of a timed match"""
    pairs: list[list[int]]
    forfeits: StoredForfeits | UnsetType = UNSET
    corrected: StoredCorrection | UnsetType = UNSET

    @property
    def played(self) -> Score:
        """The score of the games, as it was played."""
        return Score.from_stored(self.pairs, self.forfeits, self.corrected)

    @property
    def games(self) -> int:
        """Number of games."""
        return self.played.games

    def to_dict(self) -> Data:
        """Return the content of the file, JSON-ready, with what follows from the pairs of games."""
        content = super().to_dict()
        content.pop("forfeits", None)  # of the derived ones, with names
        derived = {**self.played.to_dict(), **elo_to_dict(self.played, elo_interval(self.score))}
        for name, value in derived.items():
            content.setdefault(name, value)
        return content
