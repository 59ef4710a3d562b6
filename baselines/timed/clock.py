"""Clocks of games, and estimates of a player's number of moves left."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ttt_envs.core.files import read_json, write_json
from ttt_envs.core.jit import Float64Array
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
        if match is None or len(text) > 40:
            raise ValueError(f"{text[:40]!r} is no clock: write seconds, or seconds+seconds a move, such as 10+0.1")
        clock = cls(float(match[1]), float(match[2] or 0))
        if not 0 < clock.seconds <= MAX_SECONDS or clock.increment > MAX_SECONDS:
            raise ValueError(
                f"{text!r} leaves no time, or too much: choose more than 0 seconds, up to {MAX_SECONDS:,.0f}"
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
    enough = counts >= MIN_POSITIONS
    found = default_moves_left(game)
    found[enough] = sums[enough] / counts[enough]
    return found


_CONTENT = "moves left"


def write_moves_left(path: str | Path, game: Game, moves: Float64Array) -> None:
    """Write an estimate to a file, which ``timed:moves-left=FILE`` reads."""
    write_json(
        Path(path), {"format": 1, "content": _CONTENT, "game": game.to_dict(), "moves": [float(one) for one in moves]}
    )


def read_moves_left(path: str | Path, game: Game) -> Float64Array:
    """Return float64[cells + 1], from a file of :func:`write_moves_left`.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file holds something else, or is of another board.
    """
    data: Any = read_json(Path(path))
    try:
        if data["format"] != 1 or data["content"] != _CONTENT:
            raise ValueError
        of, moves = Game.from_dict(data["game"]), np.array(data["moves"], np.float64)
    except (ValueError, TypeError, KeyError):
        raise ValueError(f"moves-left={path} is no estimate of moves: write one with write_moves_left") from None
    if (of.rows, of.columns) != (game.rows, game.columns) or moves.shape != (game.cells + 1,):
        raise ValueError(f"moves-left={path} is of {of}, and {game} is played: choose an estimate of the same board")
    if not ((moves >= 1) & (moves <= game.cells)).all():
        raise ValueError(f"moves-left={path} has numbers of moves below 1 or above {game.cells}: estimate them again")
    return moves
