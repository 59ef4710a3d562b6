"""Clocks of games, the number of moves left, and players that have a clock."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

import numpy as np

from ttt_envs.agents.policy import Forfeit, Player, need_rng
from ttt_envs.agents.specs import Named
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import legal

Now = Callable[[], float]
"""a clock: seconds from any starting point"""
MAX_SECONDS = 1e6
"""Maximum time on a clock in seconds."""


class Clock(NamedTuple):
    """Seconds for a whole game, and an increment in seconds after every move."""

    seconds: float
    increment: float = 0.0

    @classmethod
    def from_text(cls, text: str) -> Clock:
        """Parse a clock such as ``"10+0.1"`` or ``"10"``.

        Raises:
            ValueError: the text is not a clock, or has no time.
        """
        number = r"(\d+(?:\.\d*)?|\.\d+)"
        match = re.fullmatch(rf"{number}(?:\+{number})?", text.strip())
        clock = cls(0) if match is None else cls(float(match[1]), float(match[2] or 0))
        if not 0 < clock.seconds <= MAX_SECONDS or clock.increment > MAX_SECONDS:
            raise Refusal(
                f"{text[:40]!r} is no clock: write seconds, or seconds+seconds a move, such as "
                "10+0.1, up to "
                f"{MAX_SECONDS:,.0f} seconds"
            )
        return clock

    def __str__(self) -> str:
        return f"{self.seconds:g}+{self.increment:g}"


def expected_moves_left(game: Game, stones: int) -> float:
    """Return the expected number of own moves left, including the next, with ``stones`` on the
    board.

    It is half of the empty cells, and at most ``max(e, 2 e - stones / 3)``, e the root of the
    number of cells. This is on the high side of the moves that searches played on 3 x 3 to 15 x 15,
    see docs/gomocup.md. Underestimating loses games on time, overestimating only wastes some time.
    """
    edge = math.sqrt(game.cells)
    return max(1.0, min(math.ceil((game.cells - stones) / 2), max(edge, 2 * edge - stones / 3)))


class ClockedPolicy(Named):
    """Base of policies that play by their :class:`ClockedPlayer`: dataclasses of (game, ..., clock,
    ...).

    Raises:
        ValueError: ``clock`` is no clock.
    """

    pure = False

    game: Game
    clock: str | None
    player: Callable[[], Player]

    def __post_init__(self) -> None:
        if self.clock is not None:
            Clock.from_text(self.clock)

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells], one-hot for the moves of a new player, one position after
        another.

        Each position gets the time for a move; with ``clock``, as the first move of a game.

        Raises:
            Forfeit: a position is forfeited.
            ValueError: without ``rng``.
        """
        rng = need_rng(self, rng)
        with closing(self.player()) as player:
            return np.eye(self.game.cells)[player.act(boards, np.arange(len(boards.mover)), rng)]


class ClockedPlayer(Player):
    """Base of players that move in one game after another, by the clocks of a match or else by
    their own.

    Args:
        game: the game.
        clock: the own clock of each game, such as ``"10+0.1"``; None without one.
        now: wall clock in seconds.

    Attributes:
        clock: that of each game, of infinitely many seconds if there is none.
        remaining_s: slot -> seconds on its own clock. Never below 0.

    Raises:
        ValueError: the text is no clock.
    """

    def __init__(self, game: Game, clock: str | None, now: Now = time.perf_counter) -> None:
        self.game = game
        self.now = now
        self.clock = Clock(math.inf) if clock is None else Clock.from_text(clock)
        self.remaining_s: dict[int, float] = {}

    def use_clock(self, seconds: float, increment: float) -> None:
        """Set the clock of a match: see :class:`ttt_envs.agents.policy.Player`."""
        self.clock = Clock(seconds, increment)

    def begin(self, slots: Int64Array) -> None:
        """Start new games in ``slots`` int64[B]: each has all the time of its clock."""
        self.remaining_s.update(dict.fromkeys(slots.tolist(), self.clock.seconds))

    def prepare(self, slots: Int64Array, rng: np.random.Generator) -> None:
        """Prepare for moves in the games ``slots`` int64[B], on no clock."""

    def move(self, position: Position, slot: int, left_s: float, start: float) -> int:
        """Return a move in the game ``slot``.

        Args:
            position: not over.
            slot: the game.
            left_s: seconds on the clock at ``start``; infinity without a clock.
            start: when the turn began, by the player's wall clock.

        Raises:
            Forfeit: the game is forfeited.
        """
        raise NotImplementedError

    def act(
        self,
        boards: Boards,
        slots: Int64Array,
        rng: np.random.Generator,
        time_left: Float64Array | None = None,
    ) -> Int64Array:
        """Return int64[B], a move in each of the games ``slots``, one after another.

        Raises:
            Forfeit: one of the games is forfeited. If the time on a match's clock has run out, any
                legal move is returned late instead, and the match counts the game as lost on time.
        """
        self.prepare(slots, rng)
        start = self.now()
        out = np.empty(len(slots), np.int64)
        for row, slot in enumerate(slots.tolist()):
            if time_left is None:
                left_s = self.remaining_s.get(slot, self.clock.seconds)
            else:
                left_s = float(time_left[row])
            try:
                out[row] = self.move(boards.position(row), slot, left_s, start)
            except Forfeit as problem:
                if time_left is None or self.now() - start < time_left[row]:
                    raise Forfeit(str(problem), out[:row]) from None
                out[row] = np.flatnonzero(legal(self.game, boards.cells[row]))[0]
            end = self.now()
            if time_left is None:
                self.remaining_s[slot] = max(0.0, left_s - (end - start)) + self.clock.increment
            start = end
        return out
