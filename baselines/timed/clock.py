"""Clocks of games, and estimates of a player's number of moves left."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ttt_envs.agents.policy import Player
from ttt_envs.core.files import read_json, write_json
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.game import Game

MAX_SECONDS = 1e6
"""Maximum time on a clock in seconds."""
MIN_POSITIONS = 10
"""Minimum number of positions with the same number of stones for an estimate."""


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
            raise ValueError(
                f"{text[:40]!r} is no clock: write seconds, or seconds+seconds a move, such as 10+0.1, up to "
                f"{MAX_SECONDS:,.0f} seconds"
            )
        return clock

    def __str__(self) -> str:
        return f"{self.seconds:g}+{self.increment:g}"


# ---------------------------------------------------------------------------------------------------------------------
# Moves left


def default_moves_left(game: Game) -> Float64Array:
    """Return float64[cells + 1], by stones on the board: the default estimate of own moves left, including the next.

    It is half of the empty cells, and at most ``max(e, 2 e - stones / 3)``, e the root of the number of cells. This is
    on the high side of the moves that searches played on 3 x 3 to 15 x 15, see docs/baselines/timed.md. Underestimating
    loses games on time, overestimating only wastes some time.
    """
    stones = np.arange(game.cells + 1)
    edge = math.sqrt(game.cells)
    most = np.maximum(edge, 2 * edge - stones / 3)
    return np.asarray(np.maximum(1.0, np.minimum(np.ceil((game.cells - stones) / 2), most)))


def estimate_moves_left(game: Game, games: Iterable[tuple[int, Sequence[int]]]) -> Float64Array:
    """Return an estimate from played games: the mean number of moves that the mover still made, float64[cells + 1].

    Args:
        game: the game that was played.
        games: for each the number of stones on its first board, and the movers after that, 0 or 1.

    Returns:
        float64[cells + 1]; where fewer than :data:`MIN_POSITIONS` positions have a number of stones,
        :func:`default_moves_left`.
    """
    sums, counts = np.zeros(game.cells + 1), np.zeros(game.cells + 1, np.int64)
    for stones, movers in games:
        to_come = [0, 0]
        for index in reversed(range(len(movers))):
            to_come[movers[index]] += 1
            sums[stones + index] += to_come[movers[index]]
            counts[stones + index] += 1
    is_enough = counts >= MIN_POSITIONS
    return np.where(is_enough, sums / np.maximum(counts, 1), default_moves_left(game))


def write_moves_left(path: str | Path, game: Game, moves: Float64Array) -> None:
    """Write an estimate to a file, which ``timed:moves-left=FILE`` reads."""
    write_json(Path(path), {"format": 1, "content": "moves left", "game": game.to_dict(), "moves": moves.tolist()})


def read_moves_left(path: str | Path, game: Game) -> Float64Array:
    """Return float64[cells + 1], from a file of :func:`write_moves_left`.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file holds something else, or is of another board.
    """
    data: Any = read_json(Path(path))
    try:
        board, moves = Game.from_dict(data["game"]), np.array(data["moves"], np.float64)
    except (ValueError, TypeError, KeyError):
        raise ValueError(f"moves-left={path} is no estimate of moves: write one with write_moves_left") from None
    if (board.rows, board.columns) != (game.rows, game.columns) or moves.shape != (game.cells + 1,):
        raise ValueError(f"moves-left={path} is of {board}, and {game} is played: choose an estimate of the same board")
    if not ((moves >= 1) & (moves <= game.cells)).all():
        raise ValueError(f"moves-left={path} has numbers of moves below 1 or above {game.cells}: estimate them again")
    return moves


# ---------------------------------------------------------------------------------------------------------------------
# Players with clocks


class ClockedPlayer(Player):
    """Base of players that have a clock for each game, unless a match keeps the clocks.

    Args:
        clock: the clock; None without one.

    Attributes:
        left: slot -> seconds on its own clock; empty without a clock. Never below 0.
    """

    def __init__(self, clock: Clock | None) -> None:
        self.clock = clock
        self.left: dict[int, float] = {}

    def use_clock(self, seconds: float, increment: float) -> None:
        """Set the clock of a match: see :class:`ttt_envs.agents.policy.Player`."""
        self.clock = Clock(seconds, increment)

    def fill_clocks(self, slots: Int64Array) -> None:
        """Give all seconds to new games in ``slots`` int64[B]."""
        if self.clock is not None:
            self.left.update(dict.fromkeys(slots.tolist(), self.clock.seconds))

    def time_left(self, slot: int, row: int, of_match: Float64Array | None) -> float | None:
        """Return the seconds left, by the match's clocks or else by its own; None without a clock."""
        return self.left.get(slot) if of_match is None else float(of_match[row])

    def spend(self, slot: int, seconds: float, of_match: Float64Array | None) -> None:
        """Subtract the seconds of a move from its own clock, and add the increment."""
        if of_match is None and self.clock is not None and slot in self.left:
            self.left[slot] = max(0.0, self.left[slot] - seconds) + self.clock.increment
