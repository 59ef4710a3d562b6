"""Exact credit for the turns of a text game: what each decision changed, and what was luck.

A value function splits a game into a sum: the value of its start, the change by each move, and the
luck of each chance event add up to the result. There are two value functions:

* *Optimal* values (:func:`optimal_credit`). The change by a move is minus its *regret*, the value
  that it loses if both players are perfect from there on. These rewards teach minimax play. They
  never teach to exploit an opponent: a move that sets a trap for a weak player loses value against
  a perfect one.
* *Best-response* values against the actual opponent (:func:`opponent_credit`), which has to be
  pure. The change by an own move is its *advantage*: at most 0, and 0 for a best response to this
  opponent. The change by a move of the opponent is luck with mean 0, because its move probabilities
  are known.

The accounting is that of :mod:`ttt_eval.matches.account`, in values for the player of one seat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ttt_envs.agents.policy import Policy
from ttt_envs.core.checks import Refusal
from ttt_envs.game.boards import Boards, PositionValues
from ttt_envs.game.game import Game
from ttt_envs.game.rules import NOT_OVER
from ttt_envs.text import Turn
from ttt_envs.text.text_game import result_reward
from ttt_eval.exact.best_response_values import BestResponseValues
from ttt_eval.matches.account import account_moves
from ttt_eval.matches.games import Ply
from ttt_eval.matches.luck import EXACT, LuckCorrection, make_correction


class TurnCredit(NamedTuple):
    """One turn in values for the player of one seat."""

    value: float
    """expected result before the turn"""
    change: float
    """change of the value by the decision or the forfeit"""
    luck: float
    """change of the value by the chance event after the move, and by the draw of a move whose
    expectation is known
    """


Credit = Callable[[Sequence[Turn], int], list[TurnCredit]]
"""credit of consecutive turns of a game, for a seat"""


def optimal_credit(game: Game) -> Credit:
    """Return the credit by optimal values: the change by an own move is minus its regret.

    Raises:
        ValueError: the board is too large for exact values.
    """
    correction = make_correction(EXACT, game)
    assert correction is not None
    return lambda turns, seat: turn_credits(turns, seat, correction)


def opponent_credit(game: Game, opponent: str | Policy) -> Credit:
    """Return the credit by best-response values of a seat against the opponent in the other: the
    change by an own move is its advantage, the change by a move of the opponent the luck of its
    draw.

    Raises:
        ValueError: the opponent is not pure, or the board is too large.
    """
    values = [BestResponseValues(game, opponent, seat) for seat in (0, 1)]
    corrections = [LuckCorrection(game, of_seat) for of_seat in values]

    def credit(turns: Sequence[Turn], seat: int) -> list[TurnCredit]:
        if turns:
            values[seat].check_reached(Boards.from_positions([turn.position for turn in turns]))
        return turn_credits(turns, seat, corrections[seat])

    return credit


def turn_credits(
    turns: Sequence[Turn],
    seat: int,
    correction: LuckCorrection,
    expected_values: PositionValues | None = None,
) -> list[TurnCredit]:
    """Return the credit of consecutive turns of a game for the player of a seat, by a value
    function.

    Args:
        turns: the turns.
        seat: the seat.
        correction: the value function.
        expected_values: of positions before the opponent's draws, for player_0, if known: then the
            luck of a turn of the opponent is that of its draw, too.
    """
    sign = 1.0 - 2.0 * seat
    decisions = [turn for turn in turns if turn.action >= 0]
    credits = []
    value = 0.0
    if decisions:
        steps = [Ply(turn.position, turn.action, turn.skip) for turn in decisions]
        value, moves, _ = account_moves(steps, correction)
        for turn, move in zip(decisions, moves, strict=True):
            change = move.change
            luck = move.luck
            if expected_values is not None and turn.by == "opponent":
                change = (
                    float(expected_values.values(Boards.from_positions([turn.position]))[0]) - value
                )
                luck += move.change - change
            credits.append(TurnCredit(sign * value, sign * change, sign * luck))
            value += move.change + move.luck
    if len(decisions) < len(turns):  # the last turn is a forfeit, or a refused answer
        last = turns[-1]
        value = float(correction.values(Boards.from_positions([last.position]))[0])
        result = value if last.outcome == NOT_OVER else 1.0 - 2.0 * last.outcome.winner
        credits.append(TurnCredit(sign * value, sign * (result - value), 0.0))
    return credits


@dataclass(frozen=True)
class TurnReward:
    """A reward for consecutive turns: a weighted sum of the result, minus the regret, the
    advantage, and of errors.

    It is the ``reward`` of the text environments, which call it with the turns since the previous
    answer, and with a refused answer as a turn of its own. ``TextGame.turns`` has the refused
    answers of a turn when the turn has ended; until then they are in ``TextGame.problems``.
    """

    game: Game
    result: float = 1.0
    """weight of the result: 1 win, 0 draw, -1 loss"""
    regret: float = 0.0
    """weight of minus the regret of own moves"""
    advantage: float = 0.0
    """weight of the advantage of own moves against the opponent"""
    illegal: float = 0.0
    """weight of -1 for each answer that is no legal move, paid at once"""
    opponent: str | Policy | None = None
    """the opponent, which the advantage needs"""

    _credits: list[tuple[float, Credit]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.regret:
            self._credits.append((self.regret, optimal_credit(self.game)))
        if self.advantage:
            if self.opponent is None:
                raise Refusal(
                    f"advantage={self.advantage} needs opponent=, the policy that plays the other "
                    "seat"
                )
            self._credits.append((self.advantage, opponent_credit(self.game, self.opponent)))

    def __call__(self, turns: Sequence[Turn], seat: int) -> float:
        """Return the reward of consecutive turns, of both players, for the player of a seat."""
        own = [turn for turn in turns if turn.position.mover == seat]
        reward = -self.illegal * sum(len(turn.problems) for turn in own)
        for weight, credit in self._credits:
            pairs = zip(turns, credit(turns, seat), strict=True)
            reward += weight * sum(
                item.change for turn, item in pairs if turn.position.mover == seat
            )
        return reward + self.result * result_reward(turns, seat)
