"""Luck correction of match results: control variates from a value function.

The corrected result of a game is its result for player_0 minus its luck. The luck of a chance event is the value after
it minus the expected value before it, and so is that of a draw from a player's known move probabilities. Each of these
has mean 0 whatever came before. So the corrected result has the expected value of the result, for any value function
and any players; its variance is the smaller, the better the values are (Burch, Schmid, Moravčík, Morrill and Bowling,
AIVAT: a new variance reduction technique for agent evaluation in imperfect information games, AAAI 2018, section 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Protocol, cast

import numpy as np

from baselines.exact import Optimal
from baselines.exact.layers import MAX_LAYERED_CELLS
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, int64, kernel
from ttt_envs.game.boards import MAX_CELLS_BASE_3, Boards, base_3, from_keys, keys
from ttt_envs.game.game import Game
from ttt_envs.game.rules import DRAW, NOT_OVER, value_over_skip, values_over_skip
from ttt_eval.matches.openings import distinct_boards

EXACT, OFF = "exact", "off"
"""Names of the two value functions that are no policy: exact values, and none."""
MAX_CELLS_BY_DEFAULT = 12
"""Maximum number of cells at which matches are corrected without being asked: a table of exact values takes
less than a second."""


class StateValues(Protocol):
    """The part of :class:`ttt_envs.agents.policy.Values` that a correction needs."""

    def values(self, boards: Boards) -> Float64Array:
        """Return float64[B], for the mover."""
        ...


def default_correction(game: Game) -> str:
    """Return the value function of matches of a game if none is chosen.

    It is ``"exact"`` for small boards with skips, else ``"off"``. Without skips only the players' draws are luck, and
    exact values may not fit weak players: the variance can increase.
    """
    return EXACT if game.cells <= MAX_CELLS_BY_DEFAULT and game.skip_chance > 0 else OFF


def make_correction(spec: str | StateValues, game: Game) -> LuckCorrection | None:
    """Return the correction by a value function: ``"exact"``, ``"off"`` (None) or a policy with values.

    Raises:
        ValueError: an unknown policy, one of another game or without values, a board too large for exact values.
    """
    return _cached_correction(spec, game) if isinstance(spec, str) else LuckCorrection(game, spec)


@lru_cache(maxsize=4)
def _cached_correction(spec: str, game: Game) -> LuckCorrection | None:
    if spec == OFF:
        return None
    if spec == EXACT:
        if game.cells > MAX_LAYERED_CELLS:
            raise ValueError(
                f"{game} has {game.cells} cells, and exact values are known up to {MAX_LAYERED_CELLS}: correct luck "
                f"with the values of a policy, such as run:PATH, or choose off"
            )
        return LuckCorrection(game, Optimal(game))
    policy = make_policy(spec, game)
    if policy.values is None:
        raise ValueError(
            f"{spec} has no values of positions to correct luck with: choose exact, a run with values such as one of "
            f"value-net or alpha-zero, or off"
        )
    return LuckCorrection(game, cast("StateValues", policy))


class LuckCorrection:
    """Luck of chance events and of draws from known probabilities, by one value function.

    Args:
        game: the game.
        values: the value function; exact values also correct the draws of players with known probabilities.
    """

    def __init__(self, game: Game, values: StateValues) -> None:
        self.game, self._values, self.exact = game, values, isinstance(values, Optimal)

    @cached_property
    def table(self) -> Float64Array | None:
        """float64[2 * 3**cells]: exact values for player_0 by mover and key; None where not exact, or too many."""
        if not self.exact or self.game.cells > MAX_CELLS_BY_DEFAULT:
            return None
        cells = from_keys(np.arange(3**self.game.cells, dtype=np.uint64), self.game)
        return np.concatenate([self.values(Boards(cells, np.full(len(cells), mover, np.int8))) for mover in (0, 1)])

    def values(self, boards: Boards) -> Float64Array:
        """Return values for player_0, float64[B], of positions that are not over."""
        if not len(boards.mover):
            return np.zeros(0)
        if self.exact or self.game.cells >= MAX_CELLS_BASE_3:
            return np.asarray(self._values.values(boards), np.float64) * (1.0 - 2.0 * boards.mover)
        distinct, inverse = distinct_boards(boards)
        return (np.asarray(self._values.values(distinct), np.float64) * (1.0 - 2.0 * distinct.mover)).take(inverse)

    def action_values(self, boards: Boards) -> Float64Array:
        """Return exact values of all moves for player_0, float64[B, cells], 0 where illegal."""
        assert isinstance(self._values, Optimal)
        return np.nan_to_num(self._values.action_values(boards)) * (1.0 - 2.0 * boards.mover[:, None])

    def values_after(
        self, cells: Int8Array, mover: Int8Array, following: Int8Array
    ) -> tuple[Float64Array, Float64Array]:
        """Return values for player_0 after chance events, and their expectations before these, float64[B] each.

        Args:
            cells: int8[B, cells]: boards after the moves, none of which ends the game.
            mover: int8[B]: who moved.
            following: int8[B]: who moves next.
        """
        other = self.values(Boards(cells, 1 - mover))
        # without skips, no player moves twice
        own = self.values(Boards(cells, mover)) if self.game.skip_chance > 0 else other
        return np.where(following == mover, own, other), values_over_skip(own, other, self.game.skip_chance)


class ExpectedValues:
    """Expected values of a player's positions before it draws its moves, from its known probabilities.

    Args:
        policy: the pure policy that it plays.
        correction: a correction with exact values.
    """

    def __init__(self, policy: Policy, correction: LuckCorrection) -> None:
        self._policy, self._correction = policy, correction
        size = 0 if correction.table is None else len(correction.table)
        self._table = np.full(size, np.nan)  # as the correction's table; NaN where not computed yet

    def expected(self, boards: Boards) -> Float64Array:
        """Return expected values for player_0, float64[B]."""
        if not self._table.size:
            return self._compute(boards)
        number = keys(boards.cells).view(np.int64) + boards.mover * np.int64(len(self._table) // 2)
        expected = self._table.take(number)
        missing = np.flatnonzero(np.isnan(expected))
        if len(missing):
            distinct, inverse = distinct_boards(boards.take(missing))
            expected[missing] = self._compute(distinct)[inverse]
            self._table[number[missing]] = expected[missing]
        return expected

    def _compute(self, boards: Boards) -> Float64Array:
        return np.asarray((self._policy.probabilities(boards) * self._correction.action_values(boards)).sum(axis=1))


def make_expected_values(policy: Policy, correction: LuckCorrection) -> ExpectedValues | None:
    """Return the expected values of a policy if its probabilities are known: if it is pure and has no memory."""
    if not correction.exact or not policy.pure or policy.player is not None:
        return None
    return ExpectedValues(policy, correction)


class LuckTracker:
    """Luck of the games of a block, for player_0, while they are played.

    Args:
        correction: the correction.
        known: expected values of each player; None for a player whose probabilities are not known.
        cells: int8[B, cells]: the first boards; the array changes with the games.
    """

    def __init__(self, correction: LuckCorrection, known: Sequence[ExpectedValues | None], cells: Int8Array) -> None:
        self._correction, self._known, self._cells = correction, known, cells
        self.luck = np.zeros(len(cells))
        """float64[B]"""

    def add(self, which: int, rows: Int64Array, before: Boards, mover: Int8Array, outcome: Int8Array) -> None:
        """Add the luck of one move in some games, after it was made.

        Args:
            which: the player that moved, 0 or 1: index of ``known``.
            rows: int64[R]: the games.
            before: their positions before the moves.
            mover, outcome: int8[B], of all games, after the moves.
        """
        known, correction, skip = self._known[which], self._correction, self._correction.game.skip_chance
        if known is None and skip == 0:
            return
        expected = np.zeros(0) if known is None else known.expected(before)
        if correction.table is not None:
            after = (self._cells, mover, outcome)
            _add_luck(rows, before.mover, after, correction.table, expected, skip, self.luck)
            return
        ends = outcome[rows]
        value = np.where(ends == DRAW, 0.0, 1.0 - 2.0 * ends)
        mean, running = value.copy(), np.flatnonzero(ends == NOT_OVER)
        games = rows[running]
        values = correction.values_after(self._cells[games], before.mover[running], mover[games])
        value[running], mean[running] = values
        self.luck[rows] += value - (mean if known is None else expected)


@kernel
def _add_luck(
    rows: Int64Array,
    moved: Int8Array,
    after: tuple[Int8Array, Int8Array, Int8Array],
    table: Float64Array,
    expected: Float64Array,
    skip: float,
    luck: Float64Array,
) -> None:
    """Add the luck of a move, and of the chance event after it, in the games ``rows``.

    Args:
        rows: int64[R].
        moved: int8[R]: who moved.
        after: of all games, after the moves: the boards int8[B, cells], the movers and outcomes int8[B].
        table: of :class:`LuckCorrection`.
        expected: float64[R]: expected values before the moves were drawn; empty if they are not known.
        skip: the skip chance.
        luck: float64[B].
    """
    cells, mover, outcome = after
    size = len(table) // 2
    for i in range(len(rows)):
        b, player = rows[i], int64(moved[i])
        value = 0.0 if outcome[b] == DRAW else 1.0 - 2.0 * outcome[b]
        mean = value
        if outcome[b] == NOT_OVER:
            number = int64(base_3(cells[b]))
            value = table[int64(mover[b]) * size + number]
            mean = value_over_skip(table[player * size + number], table[(1 - player) * size + number], skip)
        luck[b] += value - (expected[i] if len(expected) else mean)
