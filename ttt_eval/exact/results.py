"""Results of exact evaluation, for positions and for phantom games."""

from __future__ import annotations

from typing import NamedTuple, Self, TypeVar

from ttt_envs.core.jit import Float64Array
from ttt_envs.graph.passes import DRAW, ILLEGAL

Side = TypeVar("Side")


class OutcomeProbabilities(NamedTuple):
    """Probabilities of the results of a game, from one player's view."""

    win: float
    draw: float
    loss: float

    @classmethod
    def from_results(cls, results: Float64Array, seat: int) -> Self:
        """Return the probabilities for the player in a seat, 0 or 1, from those of a game, in which
        the other player makes no illegal move.

        Args:
            results: float64[4], as :func:`ttt_envs.graph.passes.forward` adds them up.
            seat: the player's.
        """
        return cls(
            float(results[seat]),
            float(results[DRAW]),
            float(results[1 - seat] + results[ILLEGAL]),
        )

    @classmethod
    def from_ends(cls, win: float, loss: float) -> Self:
        """Return the probabilities, given those of a win and of a loss, whose sum may exceed 1 by
        rounding.
        """
        return cls(float(win), max(0.0, float(1 - win - loss)), float(loss))

    @property
    def value(self) -> float:
        """Expected result, -1 to 1."""
        return self.win - self.loss

    @property
    def score(self) -> float:
        """Expected score, 0 to 1: a draw counts half."""
        return self.win + self.draw / 2

    @property
    def text(self) -> str:
        """Shares of wins, draws and losses in percent."""
        return f"{self.win:.2%} won, {self.draw:.2%} drawn, {self.loss:.2%} lost"

    def reversed(self) -> OutcomeProbabilities:
        """Return the same from the other player's view."""
        return OutcomeProbabilities(self.loss, self.draw, self.win)

    def mean(self, other: OutcomeProbabilities) -> OutcomeProbabilities:
        """Return the mean of two games, or of both seats."""
        return OutcomeProbabilities(*((x + y) / 2 for x, y in zip(self, other, strict=True)))


class Exploitation(NamedTuple):
    """Results of the best responders to a policy."""

    first: OutcomeProbabilities
    """of the responder who moves first"""
    second: OutcomeProbabilities
    """of the responder who moves second"""
    game_value: float | None
    """value of perfect play, for player_0; None where the board is too large to solve"""

    @property
    def exploitability(self) -> float:
        """(value as first + value as second) / 2, which is NashConv / 2: the value of the game
        cancels.
        """
        # rounding may give -1e-17 for perfect play
        return max(0.0, (self.first.value + self.second.value) / 2)

    @property
    def gains(self) -> tuple[float, float] | None:
        """Each responder's gain over perfect play against perfect play: moving first, and moving
        second.
        """
        if self.game_value is None:
            return None
        return self.first.value - self.game_value, self.second.value + self.game_value


def in_seats(player: Side, other: Side, seat: int) -> tuple[Side, Side]:
    """Return two players in the order of their seats, of which ``player`` has this one."""
    return (player, other) if seat == 0 else (other, player)
