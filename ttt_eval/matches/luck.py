"""Luck correction of match results: control variates from a value function.

The corrected result of a game is its result for player_0 minus its luck. The luck of a chance event
is the value after it minus the expected value before it, and so is that of a draw from a player's
known move probabilities. Each of these has mean 0 whatever came before. So the corrected result has
the expected value of the result, for any value function and any players; its variance is the
smaller, the better the values are (Burch, Schmid, Moravčík, Morrill and Bowling, AIVAT: a new
variance reduction technique for agent evaluation in imperfect information games, AAAI 2018, section
4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np

from baselines.exact import Optimal
from baselines.exact.layers import MAX_LAYERED_CELLS
from ttt_envs.agents.policy import Policy
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, int64, kernel
from ttt_envs.game.boards import Boards, PositionValues, base_3
from ttt_envs.game.game import Game
from ttt_envs.game.rules import DRAW, NOT_OVER, value_over_skip, values_over_skip
from ttt_eval.exact.policy_cache import make_once, make_policy_once

EXACT = "exact"
"""Name of the exact values in place of a policy's."""
OFF = "off"
"""Name of no value function."""
MAX_CELLS_BY_DEFAULT = 12
"""Maximum number of cells at which matches are corrected without being asked: a table of exact
values takes less than a second."""


class StateValues(Protocol):
    """The part of :class:`ttt_envs.agents.policy.Values` that a correction needs."""

    def values(self, boards: Boards) -> Float64Array:
        """Return float64[B], for the mover."""
        ...


def default_correction(game: Game) -> str:
    """Return the value function of matches of a game if none is chosen.

    It is ``"exact"`` for small boards with skips, else ``"off"``. Without skips only the players'
    draws are luck, and exact values may not fit weak players: the variance can increase.
    """
    return EXACT if game.cells <= MAX_CELLS_BY_DEFAULT and game.skip_chance > 0 else OFF


def make_correction(spec: str | StateValues, game: Game) -> LuckCorrection | None:
    """Return the correction by a value function: ``"exact"``, ``"off"`` (None) or a policy with
    values.

    Raises:
        ValueError: an unknown policy, one of another game or without values, a board too large for
            exact values.
    """
    return (
        make_once(_make_correction, spec, game)
        if isinstance(spec, str)
        else LuckCorrection(game, spec)
    )


def check_correction(spec: str, game: Game) -> str:
    """Return the value function that corrects luck, by default that of the game, checked.

    Raises:
        ValueError: an unknown one, or one of another game.
    """
    spec = spec or default_correction(game)
    make_correction(spec, game)
    return spec


def _make_correction(spec: str, game: Game) -> LuckCorrection | None:
    if spec == OFF:
        return None
    if spec == EXACT:
        if game.cells > MAX_LAYERED_CELLS:
            raise Refusal(
                f"{game} has {game.cells} cells, and exact values are known up to "
                f"{MAX_LAYERED_CELLS}: correct luck with the values of a policy, such as run:PATH, "
                "or choose off"
            )
        return LuckCorrection(game, Optimal(game))
    policy = make_policy_once(game, spec)
    if policy.values is None:
        raise Refusal(
            f"{spec} has no values of positions to correct luck with: choose exact, a run with "
            "values such as one of value-net or alpha-zero, or off"
        )
    return LuckCorrection(game, cast("StateValues", policy))


class LuckCorrection(PositionValues):
    """Luck of chance events and of draws from known probabilities, by one value function.

    Its ``values`` are those of player_0, in positions that are not over.

    Args:
        game: the game.
        evaluator: the value function; exact values also correct the draws of players with known
            probabilities.
    """

    def __init__(self, game: Game, evaluator: StateValues) -> None:
        super().__init__(game, self._evaluate)
        self._evaluator = evaluator
        self.exact = isinstance(evaluator, Optimal)

    def _evaluate(self, boards: Boards) -> Float64Array:
        if not len(boards.mover):
            return np.zeros(0)
        return np.asarray(self._evaluator.values(boards), np.float64) * (1.0 - 2.0 * boards.mover)

    def expected_values(self, policy: Policy) -> PositionValues | None:
        """Return the expected values for player_0 of positions before a policy draws its move
        there.

        They are known by exact values where its probabilities are: if it is pure and has no memory.
        """
        optimal = self._evaluator
        if not isinstance(optimal, Optimal) or not policy.pure or policy.player is not None:
            return None

        def expect(boards: Boards) -> Float64Array:
            values = optimal.action_values(boards) * (1.0 - 2.0 * boards.mover[:, None])
            return np.asarray(
                np.where(np.isnan(values), 0.0, policy.probabilities(boards) * values).sum(axis=1)
            )

        return PositionValues(self.game, expect)

    def values_after(
        self, cells: Int8Array, mover: Int8Array, next_mover: Int8Array
    ) -> tuple[Float64Array, Float64Array]:
        """Return values for player_0 after chance events, and their expectations before these,
        float64[B] each.

        Args:
            cells: int8[B, cells]: boards after the moves, none of which ends the game.
            mover: int8[B]: who moved.
            next_mover: int8[B]: who moves next.
        """
        other = self.values(Boards(cells, 1 - mover))
        # without skips, no player moves twice
        own = self.values(Boards(cells, mover)) if self.game.skip_chance > 0 else other
        return np.where(next_mover == mover, own, other), values_over_skip(
            own, other, self.game.skip_chance
        )


class LuckTracker:
    """Luck of the games of a block, for player_0, while they are played.

    Args:
        correction: the correction.
        values: expected values of each player; None for a player whose probabilities are not known.
        cells: int8[B, cells]: the first boards; the array changes with the games.
    """

    def __init__(
        self, correction: LuckCorrection, values: Sequence[PositionValues | None], cells: Int8Array
    ) -> None:
        self._correction = correction
        self._values = values
        self._cells = cells
        self.luck = np.zeros(len(cells))
        """float64[B]"""

    def add(
        self, player: int, rows: Int64Array, before: Boards, mover: Int8Array, outcome: Int8Array
    ) -> None:
        """Add the luck of one move in some games, after it was made.

        Args:
            player: the player that moved, 0 or 1: index of ``values``.
            rows: int64[R]: the games.
            before: their positions before the moves.
            mover, outcome: int8[B], of all games, after the moves.
        """
        expected = self._values[player]
        correction = self._correction
        skip = self._correction.game.skip_chance
        if expected is None and skip == 0:
            return
        means = np.zeros(0) if expected is None else expected.values(before)
        table = correction.table
        if len(table):
            games = (self._cells, mover, outcome, self.luck)
            luck = np.empty(len(rows))
            if _add_luck(rows, before.mover, games, (means, table), skip, luck):
                return
        ends = outcome[rows]
        value = np.where(ends == DRAW, 0.0, 1.0 - 2.0 * ends)
        mean = value.copy()
        running = np.flatnonzero(ends == NOT_OVER)
        running_rows = rows[running]
        value[running], mean[running] = correction.values_after(
            self._cells[running_rows], before.mover[running], mover[running_rows]
        )
        self.luck[rows] += value - (mean if expected is None else means)


@kernel
def _add_luck(
    rows: Int64Array,
    movers: Int8Array,
    games: tuple[Int8Array, Int8Array, Int8Array, Float64Array],
    tables: tuple[Float64Array, Float64Array],
    skip: float,
    luck: Float64Array,
) -> bool:
    """Add the luck of moves, if all values are in the table; see :meth:`LuckTracker.add`.

    Args:
        rows: int64[R]: the games.
        movers: int8[R]: who moved.
        games: cells, mover and outcome of all games, after the moves; and their luck, which is
            written.
        tables: expected values before draws, float64[R] or empty if they are not known; and the
            values of positions by their keys, NaN where missing.
        skip: the skip chance.
        luck: float64[R], written.

    Returns:
        False if a value is missing, and then no luck has changed.
    """
    cells, next_mover, outcome, total = games
    means, values = tables
    for i in range(len(rows)):
        b = rows[i]
        player = int64(movers[i])
        value = mean = 0.0 if outcome[b] == DRAW else 1.0 - 2.0 * outcome[b]
        if outcome[b] == NOT_OVER:
            key = 2 * int64(base_3(cells[b]))
            own = values[key + player]
            other = values[key + 1 - player]
            value = own if next_mover[b] == player else other
            mean = value_over_skip(own, other, skip)
        luck[i] = value - (means[i] if len(means) else mean)
        if luck[i] != luck[i]:
            return False
    for i in range(len(rows)):
        total[rows[i]] += luck[i]
    return True
