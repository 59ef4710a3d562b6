"""The manager's side of the Gomocup protocol: games, moves and times; and the policy that plays by
an engine.

It relies on these rules of the protocol (see :mod:`baselines.gomocup`):

- X is the column and Y the row, from 0. ``START size`` for square boards, ``RECTSTART
  width,height`` for others, answered by ``OK`` or ``ERROR message``; piskvork's skeleton of an
  engine refuses edges below 5.
- ``INFO key value`` is not answered; ``timeout_turn``, ``timeout_match`` and ``time_left`` are
  milliseconds; ``timeout_match`` 0 and ``time_left`` 2147483647 mean no limit; ``game_type`` 1
  means an engine as opponent; ``rule`` 0 means five or more in a row, 1 exactly five. ``time_left``
  is sent before every move.
- ``BEGIN`` requests the first move, ``TURN X,Y`` sends a move and requests the next. ``BOARD`` with
  lines ``X,Y,1`` for own stones and ``X,Y,2`` for the opponent's, up to ``DONE``, sets up a
  position and requests a move. The answer is ``X,Y``, or ``SUGGEST X,Y``, which is answered by
  ``PLAY X,Y``.
- ``RESTART`` empties the board; an engine that does not answer ``OK`` is ended and restarted.
  ``END`` ends it.
- ``MESSAGE`` and ``DEBUG`` lines may precede any answer, ``UNKNOWN`` and ``ERROR`` may replace it.

One rule has another source: an engine may not listen for a moment after its answer. Rapfi,
https://github.com/dhbloo/rapfi, command/gomocup.cpp, discards input until it has recorded the end
of its search.
"""

from __future__ import annotations

import itertools
import math
import re
import shlex
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from baselines.gomocup.program import Program
from baselines.timed.clock import ClockedPlayer, ClockedPolicy
from ttt_envs.agents.policy import Forfeit
from ttt_envs.core.checks import Refusal, check_properties, check_range, truncate
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import legal

MIN_EDGE, MAX_EDGE = 5, 19
"""Minimum edge of boards for engines, and maximum edge here."""
WIN_LENGTH = 5
DEFAULT_MOVE_S = 1.0
"""Default time for a move in seconds."""
MAX_MEMORY_MIB = 1 << 20
"""Maximum memory limit in MiB."""
NO_LIMIT = 2**31 - 1
"""``time_left`` of a game without a clock; also the maximum of a number in the protocol"""


def check_game(game: Game) -> None:
    """Raise ValueError for a game that engines cannot play."""
    if game.win_length != WIN_LENGTH or game.skip_chance or min(game.rows, game.columns) < MIN_EDGE:
        raise Refusal(
            f"engines of the Gomocup protocol do not play {game}: choose {WIN_LENGTH} in a row "
            "without skips on a "
            f"board with edges of {MIN_EDGE} to {MAX_EDGE}"
        )


def cell_to_text(game: Game, cell: int) -> str:
    """Return a cell as ``"X,Y"``, its column and its row."""
    row, column = divmod(cell, game.columns)
    return f"{column},{row}"


def parse_cell(text: str) -> tuple[int, int] | None:
    """Return the numbers of ``"X,Y"``, None for any other text."""
    match = re.fullmatch(r"\s*(\d{1,4})\s*,\s*(\d{1,4})\s*", text, re.ASCII)
    return None if match is None else (int(match[1]), int(match[2]))


def cell_from_text(game: Game, text: str) -> int | None:
    """Return the cell of ``"X,Y"``, None for any other text."""
    column, row = parse_cell(text) or (game.columns, 0)
    return row * game.columns + column if column < game.columns and row < game.rows else None


def _ms(seconds: float) -> int:
    """Return milliseconds in the protocol's range, whose maximum means no limit."""
    return round(max(0, min(seconds * 1000, NO_LIMIT)))


@dataclass(frozen=True)
class Gomocup(ClockedPolicy):
    """An engine with the Gomocup protocol: five or more in a row, or exactly five, without skips,
    on boards of 5 to 19.

    The program runs with all rights of the caller, in the caller's folder. An illegal, late or
    malformed move, or the exit of the engine, raises a :class:`ValueError` with a description; in a
    match, the game is lost.

    Raises:
        ValueError: engines cannot play the game, the program does not exist, or a setting is out of
            range.
    """

    name: ClassVar[str] = "gomocup"
    runs_program = uses_clock = True
    plays_skips = False
    variants = ("overlines",)
    refusals: ClassVar = {
        "gravity": "the Gomocup protocol lets an engine put a stone on any empty cell",
        "misere": "in the Gomocup protocol the player who completes a line wins",
        "torus": "the board of the Gomocup protocol has edges",
        "hidden": "it reads the whole board: the Gomocup protocol tells an engine every move",
    }

    game: Game
    path: str
    """the program, or its name if the shell finds it"""
    arguments: str = ""
    """its arguments, with quotes as in a shell"""
    move: float | None = None
    """seconds per move, 0 as fast as possible; none: 1 if there is no game clock"""
    clock: str | None = None
    """seconds for a game, as in 60, or with an increment per move, as in 60+1; a match's clocks
    take precedence
    """
    memory: int = 0
    """memory limit sent to the engine in MiB, 0 for no limit"""
    start: float = 30.0
    """maximum start-up time in seconds, which is on no clock"""
    tolerance: float = 1.0
    """maximum seconds that a move may exceed the time sent to the engine"""
    pause: float = 0.02
    """minimum seconds between its answer and the next command, because some engines do not listen
    at once
    """

    def __post_init__(self) -> None:
        check_game(self.game)
        for name in ("move", "start", "tolerance", "pause"):
            check_range(name, getattr(self, name), 0, problem="is no time", hint=" seconds")
        check_range(
            "memory", self.memory, 0, MAX_MEMORY_MIB, "is no amount of MiB", ", 0 for no limit"
        )
        super().__post_init__()
        check_properties(self, "command")

    @cached_property
    def command(self) -> list[str]:
        """The program and its arguments."""
        program = None if "\0" in self.path else shutil.which(self.path)
        if program is None:
            raise Refusal(
                f"there is no program {self.path}: give the path of an engine that may be run"
            )
        try:
            return [program, *shlex.split(self.arguments)]
        except ValueError as problem:
            raise Refusal(
                f"arguments={self.arguments} are none, {str(problem).lower()}: close its quotes"
            ) from None

    @cached_property
    def _player(self) -> GomocupPlayer:
        """The player of :meth:`probabilities`. It refers to a copy of this policy, with which its
        engine thus ends.
        """
        return replace(self).player()

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells], one-hot for the engine's moves, one position after another;
        ``rng`` is not used.

        Each position gets the time for a move; with ``clock``, as the first move of a game. The
        engine stays for later calls, because an opponent in an environment would otherwise start it
        for every move.

        Raises:
            Forfeit: a position is forfeited.
            ValueError: the engine cannot be started.
        """
        self._player.remaining_s.clear()
        slots = np.arange(len(boards.mover))
        rng = rng or np.random.default_rng()
        return np.eye(self.game.cells)[self._player.act(boards, slots, rng)]

    def __getstate__(self) -> dict[str, object]:
        """Return the settings: a copy starts an engine of its own."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def player(self) -> GomocupPlayer:
        """Return a player with its own process and clocks; the engine is started before this
        returns.
        """
        return GomocupPlayer(self)


class GomocupPlayer(ClockedPlayer):
    """Plays games with an engine, in one process: a single game is sent move by move, simultaneous
    games as boards.

    A fault of the engine forfeits the game in which it happens, and the engine is restarted for the
    next one; an engine that cannot be started raises another ValueError, because that would recur
    in every game.
    """

    def __init__(self, policy: Gomocup) -> None:
        super().__init__(policy.game, policy.clock, time.monotonic)
        self.policy = policy
        self._before: Position | None = None
        """the position after its last move, still with itself as mover; None before the first, or
        after the game
        """
        self._has_empty_board = False
        self._answered = -math.inf
        self._start()

    def begin(self, slots: Int64Array) -> None:
        """Start new games in ``slots`` int64[B]: the next position is a new game, even if it looks
        like the same.
        """
        self._before = None
        super().begin(slots)

    def close(self) -> None:
        """End the engine; the next move restarts it."""
        self._program.close()

    def prepare(self, slots: Int64Array, rng: np.random.Generator) -> None:
        """Start the engine again after a fault, or raise ValueError."""
        if not self._program.close.alive:
            self._start()

    def move(self, position: Position, slot: int, left_s: float, start: float) -> int:
        """Return the engine's move: see :class:`ClockedPlayer`.

        A position one opponent's move after the engine's last one is sent as that move, any other
        as a board.

        Raises:
            Forfeit: the move takes too long, the engine exits, or its answer is not a legal move.
        """
        policy = self.policy
        game = self.game
        if not self._program.close.alive:  # it was late in an earlier game of this batch
            self._start()
        if left_s <= 0:
            raise Forfeit(f"{policy} has no time left: give it more")
        turn_s = left_s
        if policy.move is not None:
            turn_s = policy.move
        elif math.isinf(left_s):
            turn_s = DEFAULT_MOVE_S
        limit_s = min(turn_s, left_s) + policy.tolerance
        info: list[str] = []
        request = self._turn_lines(position)
        if not request:
            if not self._has_empty_board and not self._has_ok(self._ask(["RESTART"], policy.start)):
                self.close()  # "the manager sends END and executes the brain again"
                self._start()
            request = self._board_lines(position)
            match_s = 0.0 if math.isinf(self.clock.seconds) else self.clock.seconds
            info = [
                f"INFO timeout_turn {_ms(turn_s)}",
                f"INFO timeout_match {_ms(match_s)}",
                f"INFO max_memory {min(policy.memory << 20, NO_LIMIT)}",
                "INFO game_type 1",
                f"INFO rule {int(not game.overlines)}",
            ]
        self._has_empty_board = False
        answer = self._ask([*info, f"INFO time_left {_ms(left_s)}", *request], limit_s, request[0])
        if answer[:8].upper() == "SUGGEST " and parse_cell(answer[8:]) is not None:
            answer = self._ask([f"PLAY {answer[8:].strip()}"], limit_s)
        cell = cell_from_text(game, answer)
        if cell is None or not legal(game, position.cells)[cell]:
            raise self._fault(
                f"answered {truncate(answer)!a} to {request[0]}, no legal move: choose another "
                "engine"
            )
        self._before = position._replace(cells=position.cells.copy())
        self._before.cells[cell] = position.mover + 1
        return cell

    def _start(self) -> None:
        """Start the engine, with an empty board; raise ValueError if that fails."""
        rows = self.game.rows
        columns = self.game.columns
        start = f"START {rows}" if rows == columns else f"RECTSTART {columns},{rows}"
        self._program = Program(self.policy.command, "END")
        try:
            answer = self._ask([start], self.policy.start)
            if not self._has_ok(answer):
                raise self._fault(
                    f"answered {truncate(answer)!a} to {start}: choose another board or engine"
                )
        except Forfeit as problem:
            raise Refusal(str(problem)) from None

    def _has_ok(self, answer: str) -> bool:
        """Return whether an answer is ``OK``, which a comment may follow: the board is empty."""
        self._has_empty_board = re.match(r"OK\b", answer, re.IGNORECASE) is not None
        return self._has_empty_board

    def _turn_lines(self, position: Position) -> list[str]:
        """Return the line for a position that the opponent's move leads to; none if no such move
        does.
        """
        before = self._before
        if self._has_empty_board or before is None or before.mover != position.mover:
            return []
        changes = np.flatnonzero(before.cells != position.cells).tolist()
        stones = [(int(before.cells[cell]), int(position.cells[cell])) for cell in changes]
        if stones != [(0, 2 - position.mover)]:
            return []
        return [f"TURN {cell_to_text(self.game, changes[0])}"]

    def _board_lines(self, position: Position) -> list[str]:
        """Return the lines that set up a position and request a move, in alternating order, which
        some engines use.
        """
        by_player = [np.flatnonzero(position.cells == player + 1).tolist() for player in (0, 1)]
        own = by_player[position.mover]
        other = by_player[1 - position.mover]
        if not own and len(other) <= 1:
            return [f"TURN {cell_to_text(self.game, other[0])}"] if other else ["BEGIN"]
        lines = ["BOARD"]
        for pair in itertools.zip_longest(*by_player):
            for cell in pair:
                if cell is not None:
                    lines.append(f"{cell_to_text(self.game, cell)},{1 if cell in own else 2}")
        return [*lines, "DONE"]

    def _ask(self, lines: Sequence[str], limit_s: float, request: str | None = None) -> str:
        """Send lines and return the answer, skipping messages."""
        message = ""
        if request is None:
            request = lines[0]
        time.sleep(max(0.0, self._answered + self.policy.pause - time.monotonic()))
        try:
            for answer in self._program.ask(lines, time.monotonic() + limit_s):
                if answer.partition(" ")[0].upper() not in ("MESSAGE", "DEBUG"):
                    self._answered = time.monotonic()
                    return answer
                message = answer
            problem = f"ended before it answered {request}"
            message = self._program.last_error() or message
        except TimeoutError:
            problem = f"did not answer {request} within {limit_s:g} s"
        except BaseException:  # such as an interrupt: the state of the engine is unknown
            self._program.kill()
            raise
        wrote = f", and wrote {truncate(message)!a}" if message else ""
        raise self._fault(f"{problem}{wrote}: choose another engine, or more time")

    def _fault(self, problem: str) -> Forfeit:
        """Kill the engine, and return the error to raise."""
        self._program.kill()
        return Forfeit(f"{self.policy} {problem}")
