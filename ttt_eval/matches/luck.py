"""Luck correction of match results: control variates from a value function.

The corrected result of a game is its result for player_0 minus its luck. The luck of a chance event is the value after
it minus the expected value before it, and so is that of a draw from a player's known move probabilities. Each of these
has mean 0 whatever came before. So the corrected result has the expected value of the result, for any value function
and any players; its variance is the smaller, the better the values are (Burch, Schmid, Moravčík, Morrill and Bowling,
AIVAT: a new variance reduction technique for agent evaluation in imperfect information games, AAAI 2018, section 4).
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Protocol, cast

import numpy as np

from baselines.exact import Optimal
from baselines.exact.layers import MAX_LAYERED_CELLS
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, int64, kernel
from ttt_envs.game.boards import MAX_CELLS_BASE_3, Boards, from_keys, keys
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


def value_function(spec: str | StateValues, game: Game) -> StateValues | None:
    """Return the value function of a spec: ``"exact"``, ``"off"`` (None) or a policy with values, such as ``run:PATH``.

    Raises:
        ValueError: an unknown policy, one of another game or without values, a board too large for exact values.
    """
    if not isinstance(spec, str):
        return spec
    if spec == OFF:
        return None
    if spec == EXACT:
        if game.cells > MAX_LAYERED_CELLS:
            raise ValueError(
                f"{game} has {game.cells} cells, and exact values are known up to {MAX_LAYERED_CELLS}: correct luck "
                f"with the values of a policy, such as run:PATH, or choose off"
            )
        return Optimal(game)
    policy = make_policy(spec, game)
    if policy.values is None:
        raise ValueError(
            f"{spec} has no values of positions to correct luck with: choose exact, a run with values such as one of "
            f"value-net or alpha-zero, or off"
        )
    return cast("StateValues", policy)


@lru_cache(maxsize=4)
def _cached_correction(spec: str, game: Game) -> LuckCorrection | None:
    values = value_function(spec, game)
    return None if values is None else LuckCorrection(game, values, spec)


def make_correction(spec: str | StateValues, game: Game) -> LuckCorrection | None:
    """Return the correction by a value function, see :func:`value_function`; those of a spec are kept."""
    if isinstance(spec, str):
        return _cached_correction(spec, game)
    return LuckCorrection(game, spec, str(spec))


class LuckCorrection:
    """Luck of chance events and of draws from known probabilities, by one value function.

    Args:
        game: the game.
        values: the value function; exact values also correct the draws of players with known probabilities.
        name: its spec string.
    """

    def __init__(self, game: Game, values: StateValues, name: str = "") -> None:
        self.game, self.name = game, name
        self._values = values
        self.exact = values if isinstance(values, Optimal) else None
        """the exact values of all moves, if the correction uses them"""

    def values(self, boards: Boards) -> Float64Array:
        """Return values for player_0, float64[B], of positions that are not over."""
        if self.exact is not None or self.game.cells >= MAX_CELLS_BASE_3:
            return np.asarray(self._values.values(boards), np.float64) * _signs(boards.mover)
        distinct, inverse = distinct_boards(boards)
        return (np.asarray(self._values.values(distinct), np.float64) * _signs(distinct.mover)).take(inverse)

    def skip_luck(self, after: Int8Array, mover: Int8Array, following: Int8Array) -> Float64Array:
        """Return the luck of the chance events after moves, for player_0: float64[B].

        Args:
            after: int8[B, cells]: boards after the moves, none of which ends the game.
            mover: int8[B]: who moved.
            following: int8[B]: who moves next.
        """
        if self.game.skip_chance == 0 or not len(mover):
            return np.zeros(len(mover))
        own, other = self.values(Boards(after, mover)), self.values(Boards(after, 1 - mover))
        return np.where(following == mover, own, other) - values_over_skip(own, other, self.game.skip_chance)

    def action_values(self, boards: Boards) -> Float64Array:
        """Return exact values of all moves for player_0, float64[B, cells], 0 where illegal."""
        assert self.exact is not None
        return np.nan_to_num(self.exact.action_values(boards)) * _signs(boards.mover)[:, None]

    @cached_property
    def table(self) -> Float64Array | None:
        """float64[2, 3**cells]: exact values for player_0 by mover and key; None where not exact, or too large."""
        if self.exact is None or self.game.cells > MAX_CELLS_BY_DEFAULT:
            return None
        size = 3**self.game.cells
        cells = from_keys(np.arange(size, dtype=np.uint64), self.game)
        return np.stack([self.values(Boards(cells, np.full(size, mover, np.int8))) for mover in (0, 1)])


def _signs(mover: Int8Array) -> Float64Array:
    """Return 1 for player_0 and -1 for player_1."""
    return 1 - 2 * mover.astype(np.float64)


class ExpectedValues:
    """Expected values of a player's positions before it draws its moves, from its known probabilities.

    Args:
        policy: the pure policy that it plays.
        correction: a correction with exact values.
    """

    def __init__(self, policy: Policy, correction: LuckCorrection) -> None:
        self._policy, self._correction = policy, correction
        size = 0 if correction.table is None else 3**correction.game.cells
        self.table = np.full((2, size), np.nan)
        """expected values for player_0 by mover and key; NaN where not computed yet"""

    def expected(self, boards: Boards) -> Float64Array:
        """Return expected values for player_0, float64[B]."""
        return np.asarray((self._policy.probabilities(boards) * self._correction.action_values(boards)).sum(axis=1))

    def fill(self, cells: Int8Array, mover: Int8Array, numbers: Int64Array) -> None:
        """Compute missing entries of the table.

        Args:
            cells, mover: int8[B, cells], int8[B]: positions.
            numbers: int64[B]: keys of their boards.
        """
        missing = np.flatnonzero(np.isnan(self.table[mover, numbers]))
        if not len(missing):
            return
        _, first = np.unique(2 * numbers[missing] + mover[missing], return_index=True)
        rows = missing[first]
        self.table[mover[rows], numbers[rows]] = self.expected(Boards(cells[rows], mover[rows]))


def make_expected_values(policy: Policy, correction: LuckCorrection) -> ExpectedValues | None:
    """Return the expected values of a policy if its probabilities are known: if it is pure and has no memory."""
    if correction.exact is None or not policy.pure or policy.player is not None:
        return None
    return ExpectedValues(policy, correction)


_NONE_KNOWN = np.zeros((2, 0))
_POWERS_OF_3 = 3 ** np.arange(MAX_CELLS_BY_DEFAULT)


class LuckTracker:
    """Luck of the games of a block, for player_0, while they are played.

    Args:
        correction: the correction.
        known: expected values of each player; None for a player whose probabilities are not known.
        cells: int8[B, cells]: the first boards; the array changes with the games.
    """

    def __init__(
        self, correction: LuckCorrection, known: tuple[ExpectedValues | None, ExpectedValues | None], cells: Int8Array
    ) -> None:
        self._correction, self._known, self._cells = correction, known, cells
        self.luck = np.zeros(len(cells))
        """float64[B]"""
        self._keys = keys(cells).astype(np.int64) if correction.table is not None else np.zeros(0, np.int64)

    def add(
        self, which: int, rows: Int64Array, before: Boards, actions: Int64Array, mover: Int8Array, outcome: Int8Array
    ) -> None:
        """Add the luck of one move in some games, after it was made.

        Args:
            which: the player that moved, 0 or 1: index of ``known``.
            rows: int64[R]: the games.
            before: their positions before the moves.
            actions: int64[R]: the moves.
            mover, outcome: int8[B], of all games, after the moves.
        """
        correction, known = self._correction, self._known[which]
        if correction.table is not None:
            if known is not None:
                known.fill(*before, self._keys[rows])
            move = (before.mover, actions, mover, outcome)
            tables = (correction.table, _NONE_KNOWN if known is None else known.table, _POWERS_OF_3)
            _add_luck(rows, move, tables, correction.game.skip_chance, self._keys, self.luck)
            return
        playing = outcome[rows] == NOT_OVER
        left = rows[playing]
        self.luck[left] += correction.skip_luck(self._cells[left], before.mover[playing], mover[left])
        if known is not None:
            drawn = np.take_along_axis(correction.action_values(before), actions[:, None], axis=1)[:, 0]
            self.luck[rows] += drawn - known.expected(before)


@kernel
def _add_luck(
    rows: Int64Array,
    move: tuple[Int8Array, Int64Array, Int8Array, Int8Array],
    tables: tuple[Float64Array, Float64Array, Int64Array],
    skip: float,
    numbers: Int64Array,
    luck: Float64Array,
) -> None:
    """Add the luck of a move and of the chance event after it, in the games ``rows``.

    Args:
        rows: int64[R].
        move: who moved int8[R], the cells int64[R], and of all games, after the moves, the mover and outcome int8[B].
        tables: of :class:`LuckCorrection`; of :class:`ExpectedValues`, with all that are needed, or float64[2, 0] if
            they are not known; and the powers of 3.
        skip: the skip chance.
        numbers: int64[B]: keys of the boards, which are updated.
        luck: float64[B].
    """
    mover, actions, following, outcome = move
    table, expected, powers = tables
    is_known = expected.shape[1] > 0
    for i in range(len(rows)):
        b, player = rows[i], int64(mover[i])
        before = numbers[b]
        after = before + (player + 1) * powers[actions[i]]
        numbers[b] = after
        if outcome[b] == NOT_OVER:
            value = table[int64(following[b]), after]
            mean = value_over_skip(table[player, after], table[1 - player, after], skip)
        else:
            value = 0.0 if outcome[b] == DRAW else 1.0 - 2.0 * outcome[b]
            mean = value
        if is_known:
            mean = expected[player, before]
        luck[b] += value - mean
