"""A board in the terminal, and a game that can go back."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from rich.style import Style
from rich.text import Text

from evaluation.drawing import SERIES
from evaluation.games import Move, PlayedGame
from ttt_envs.boards import COLUMNS, STONES, Boards, coordinate
from ttt_envs.compiling import Cells
from ttt_envs.rules import ILLEGAL, NOT_OVER, OPPONENT, SEAT, Game, Position, begin_rows, play_rows, uniform

ONLY = np.zeros(1, np.int64)
"""the one row of a batch of one"""

_STYLES = (Style(dim=True), Style(color=SERIES[0], bold=True), Style(color=SERIES[1], bold=True))
"""of empty cells, o and x: colours that everybody can tell apart, on light ground and on dark"""
_MARKED = Style(reverse=True)


class MadeMove(NamedTuple):
    """A move that was made."""

    position: Position
    """before it"""
    action: int
    skipped: bool
    """whether the other player's turn was skipped after it"""


class LiveGame:
    """A game that is being played; its chance is that of an episode of a key, so that it can go back.

    Attributes:
        plies: the moves so far.
        luck: uint64[1], of the episode, as environments have it.
        outcome: the winner, ``DRAW``, or None while the game goes on.
    """

    def __init__(self, game: Game, key: np.uint64, episode: int) -> None:
        self.game = game
        self.episode = episode
        self.plies: list[MadeMove] = []
        self.outcome: int | None = None
        self.luck = np.zeros(1, np.uint64)
        self._cells, self._mover = Boards.start(game)
        self._stones = np.zeros(1, np.int64)
        begin_rows(self._cells, self._mover, self._stones, self.luck, key, np.array([episode]))

    @property
    def boards(self) -> Boards:
        """The position as a batch of one."""
        return Boards(self._cells.copy(), self._mover.copy())

    @property
    def cells(self) -> Cells:
        """int8[rows * columns]."""
        cells: Cells = self._cells[0]
        return cells

    @property
    def mover(self) -> int:
        """Who is to move; where the game is over, who moved last."""
        return int(self._mover[0])

    @property
    def random_seat(self) -> int:
        """The seat that the episode's luck gives to whoever does not choose one."""
        return int(uniform(self.luck[0], SEAT, 0) * 2)

    def generator(self, ply: int) -> np.random.Generator:
        """What an opponent draws from at a ply: the same again after moves were taken back."""
        return np.random.default_rng([int(self.luck[0]), OPPONENT, ply])

    def move(self, action: int) -> MadeMove:
        """Put a stone of the mover on an empty cell, and let chance say who is next.

        Raises:
            ValueError: the cell holds a stone.
        """
        ply = MadeMove(self.boards.position(0), action, False)
        outcome = np.zeros(1, np.int8)
        actions = np.array([action])
        play_rows(self._cells, self._mover, self._stones, self.luck, ONLY, actions, self.game.parameters, outcome)
        if outcome[0] == ILLEGAL:
            raise ValueError(f"{coordinate(action, self.game)} holds a stone: choose an empty cell")
        if outcome[0] == NOT_OVER:
            ply = ply._replace(skipped=self.mover == ply.position.mover)
        else:
            self.outcome = int(outcome[0])
        self.plies.append(ply)
        return ply

    def take_back(self, seat: int) -> list[MadeMove]:
        """Go back to where ``seat`` made its last move; the plies taken back, none where it has not moved yet."""
        own = [number for number, ply in enumerate(self.plies) if ply.position.mover == seat]
        if not own:
            return []
        taken = self.plies[own[-1] :]
        del self.plies[own[-1] :]
        self._cells[0], self._mover[0] = taken[0].position
        self._stones[0] = len(self.plies)
        self.outcome = None
        return taken

    def last_cells(self) -> list[int]:
        """The stones of the player who moved last, since the other one moved."""
        cells: list[int] = []
        for ply in reversed(self.plies):
            if ply.position.mover != self.plies[-1].position.mover:
                break
            cells.append(ply.action)
        return cells

    def played(self, players: tuple[str, str], seed: int, settings: dict[str, int]) -> PlayedGame:
        """The game for a log."""
        moves = tuple(Move(ply.action, ply.skipped) for ply in self.plies)
        return PlayedGame(self.game, players, moves, self.outcome, seed=seed, episode=self.episode, settings=settings)


def board_text(game: Game, cells: Cells, width: int, last: Collection[int] = (), line: Collection[int] = ()) -> Text:
    """The board with its coordinates, as wide as there is room.

    Args:
        game: whose board.
        cells: int8[rows * columns].
        width: characters that fit in a line.
        last: cells to mark as ``[x]``; where there is no room for that, the stone is a capital.
        line: cells of a line that has won, marked as ``*x*``; likewise.
    """
    label = len(str(game.rows))
    room = 1
    if label + 2 * game.columns <= width:  # nothing stands behind the last
        room = 3 if label + 1 + 3 * game.columns <= width else 2
    text = Text(" " * (label + 1) + "".join(f"{column:^{room}}" for column in COLUMNS[: game.columns]).rstrip())
    for row, stones in enumerate(cells.reshape(game.rows, game.columns)):
        text.append(f"\n{row + 1:>{label}} ")
        for column, stone in enumerate(stones):
            cell = row * game.columns + column
            marked = cell in line or cell in last
            mark = "**" if cell in line else "[]" if cell in last else "  "
            word = STONES[stone] if room == 3 or not marked else STONES[stone].upper()
            style = _STYLES[stone] + _MARKED if marked else _STYLES[stone]
            text.append(mark[0] if room == 3 else "")
            text.append(word, style)
            text.append(mark[1] if room == 3 else " " * (room - 1))
        text.rstrip()
    return text
