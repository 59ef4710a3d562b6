"""A board in the terminal, and a game with undo."""

from __future__ import annotations

from collections.abc import Collection, Container
from itertools import takewhile
from typing import Literal

import numpy as np
from rich.style import Style
from rich.text import Text

from ttt_envs.agents.policy import best_moves
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Float64Array, Int8Array
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game.boards import STONES, Boards, board_lines, coordinate, from_text, play_moves
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import (
    ILLEGAL,
    NOT_OVER,
    STREAM_OPPONENT,
    STREAM_SEAT,
    Outcome,
    mover_after,
    winner,
)
from ttt_eval.matches.games import Ply
from ttt_eval.reports.plots import SERIES
from ttt_eval.store.result_store import json_numbers

ONLY = np.zeros(1, np.int64)
"""Row index of a batch of one."""

_STYLES = (Style(dim=True), Style(color=SERIES[0], bold=True), Style(color=SERIES[1], bold=True))
"""Styles of empty cells, o and x: colours with good contrast on light and dark backgrounds, for any
colour vision.
"""
_MARKED = Style(reverse=True)


class LiveGame:
    """A game in progress; its chance events are those of an episode of a key, so that moves can be
    undone.

    Attributes:
        plies: the moves so far.
        position: the position after them; when the game is over, its mover is the last one.
        episode_key: uint64[1], key of the episode, as in environments.
        outcome: None while the game goes on.
    """

    def __init__(self, game: Game, key: np.uint64, episode: int) -> None:
        self.game = game
        self.episode = episode
        self.episode_key = np.array([splitmix64(key, episode)], np.uint64)
        self.plies: list[Ply] = []
        self.position = Boards.start(game).position(0)
        self.outcome: Outcome | None = None

    @property
    def boards(self) -> Boards:
        """The position as a batch of one."""
        return Boards.from_positions([self.position])

    @property
    def random_seat(self) -> int:
        """Seat drawn from the episode's key for a player who does not choose one."""
        return int(uniform(self.episode_key[0], STREAM_SEAT, 0) * 2)

    def generator(self, ply: int) -> np.random.Generator:
        """Return an opponent's generator at a ply: the same after an undo."""
        return np.random.default_rng([int(self.episode_key[0]), STREAM_OPPONENT, ply])

    def move(self, action: int) -> Ply:
        """Put the mover's stone on a cell, and draw whether the next turn is skipped.

        Raises:
            ValueError: no stone may go there.
        """
        cells, mover = self.position
        [next_boards], [outcome] = play_moves(self.game, self.boards, ONLY, np.array([action]))
        if outcome == ILLEGAL:
            reason = "holds a stone" if cells[action] else "is above an empty cell"
            raise Refusal(f"{coordinate(action, self.game)} {reason}: choose another cell")
        next_mover = mover_after(mover, self.episode_key[0], len(self.plies), self.game.skip_chance)
        if outcome != NOT_OVER:
            self.outcome = Outcome(outcome)
        is_skipped = bool(outcome == NOT_OVER and next_mover == mover)
        self.plies.append(Ply(self.position, action, is_skipped))
        self.position = Position(next_boards, int(next_mover) if outcome == NOT_OVER else mover)
        return self.plies[-1]

    def take_back(self, seat: int) -> list[Ply]:
        """Undo to before the last move of ``seat``; return the undone plies, empty if it has not
        moved yet.
        """
        moves = [number for number, ply in enumerate(self.plies) if ply.position.mover == seat]
        if not moves:
            return []
        undone = self.plies[moves[-1] :]
        del self.plies[moves[-1] :]
        self.position = undone[0].position
        self.outcome = None
        return undone

    def last_cells(self) -> list[int]:
        """Return the stones that the last mover placed since the other player's last move."""
        mover = self.plies[-1].position.mover if self.plies else None
        plies = takewhile(lambda ply: ply.position.mover == mover, reversed(self.plies))
        return [ply.action for ply in plies]


def board_text(
    game: Game, cells: Int8Array, last: Collection[int] = (), line: Collection[int] = ()
) -> Text:
    """Format the board with its coordinates, at most 60 characters wide.

    Args:
        game: the game.
        cells: int8[rows * columns].
        last: cells to mark as ``[x]``.
        line: cells of a line that has won, marked as ``*x*``.
    """
    head, *rows = board_lines(game, cells, last, line, " ")
    text = Text("\n".join(["", *rows]))
    for stone, style in zip(STONES, _STYLES, strict=True):
        text.highlight_words([stone], style)
    text.highlight_regex(rf"(?<=[\[*])[{STONES}]", _MARKED)
    return Text(head) + text


def values_text(
    game: Game,
    position: Position,
    values: Float64Array,
    digits: int = 6,
    best: Container[int] | None = None,
    sign: Literal["+", " "] = "+",
) -> str:
    """Format numbers as a board, with its stones and dots for NaN, where no stone may go.

    The ``best`` cells, or those of the highest value, have a star, and positive numbers a sign.
    """
    best = best_moves(values).tolist() if best is None else best

    def word(cell: int) -> str:
        if position.cells[cell] or np.isnan(values[cell]):
            return STONES[position.cells[cell]]
        return f"{values[cell]:{sign}.{digits}f}" + ("*" if cell in best else " ")

    words = list(map(word, range(game.cells)))
    width = max(map(len, words))
    rows = (words[start : start + game.columns] for start in range(0, game.cells, game.columns))
    return "\n".join("  ".join(f"{word:>{width}}" for word in row).rstrip() for row in rows)


def values_json(game: Game, values: Float64Array) -> list[list[float | None]]:
    """Return numbers by rows of the board, None for NaN."""
    return json_numbers(values.reshape(game.rows, -1))


def parse_position(text: str | None, game: Game) -> Position:
    """Parse a position that is not over; None is the empty board.

    Raises:
        ValueError: no position of the game, or one that is over.
    """
    position = Boards.start(game).position(0) if text is None else from_text(text, game)
    if winner(game, position.cells) is not None:
        raise Refusal(f"the game is over in {text!r}: give a position of an unfinished game")
    return position
