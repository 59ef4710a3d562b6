"""The manager's side of the Gomocup protocol: games, moves and times.

It relies on these rules of the protocol (see :mod:`baselines.gomocup`):

- X is the column and Y the row, from 0. ``START size`` for square boards, ``RECTSTART width,height`` for others,
  answered by ``OK`` or ``ERROR message``; piskvork's skeleton of an engine refuses edges below 5.
- ``INFO key value`` is not answered; ``timeout_turn``, ``timeout_match`` and ``time_left`` are milliseconds;
  ``timeout_match`` 0 and ``time_left`` 2147483647 mean no limit; ``game_type`` 1 means an engine as opponent; ``rule``
  0 means five or more in a row, 1 exactly five. ``time_left`` is sent before every move.
- ``BEGIN`` requests the first move, ``TURN X,Y`` sends a move and requests the next. ``BOARD`` with lines ``X,Y,1`` for
  own stones and ``X,Y,2`` for the opponent's, up to ``DONE``, sets up a position and requests a move. The answer is
  ``X,Y``, or ``SUGGEST X,Y``, which is answered by ``PLAY X,Y``.
- ``RESTART`` empties the board; an engine that does not answer ``OK`` is ended and restarted. ``END`` ends it.
- ``MESSAGE`` and ``DEBUG`` lines may precede any answer, ``UNKNOWN`` and ``ERROR`` may replace it.

One rule has another source: an engine may not listen for a moment after its answer. Rapfi,
https://github.com/dhbloo/rapfi, command/gomocup.cpp, discards input until it has recorded the end of its search.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence

import numpy as np

from baselines.gomocup.program import EngineExitedError, EngineTimeoutError, Program
from ttt_envs.agents.specs import REFUSAL_REASONS, SUPPORTED_VARIANTS
from ttt_envs.core.checks import truncate
from ttt_envs.core.jit import Int8Array
from ttt_envs.game.game import Game, Position
from ttt_envs.game.phantom import check_variants
from ttt_envs.game.rules import legal

MIN_EDGE, MAX_EDGE = 5, 19
"""Minimum edge of boards for engines, and maximum edge here."""
WIN_LENGTH = 5
NO_LIMIT = 2**31 - 1
"""``time_left`` of a game without a clock; also the maximum of a number in the protocol"""
_CHATTER = ("MESSAGE", "DEBUG")


class EngineError(ValueError):  # the engine's, not ours
    """An engine violated the protocol, or answered too late."""


class EngineTimeLossError(EngineError):
    """An engine did not answer in time."""


def check_game(game: Game) -> None:
    """Raise ValueError for a game that engines cannot play."""
    check_variants(
        "an engine of the Gomocup protocol", game, SUPPORTED_VARIANTS["gomocup"], reasons=REFUSAL_REASONS["gomocup"]
    )
    wrong = None
    if game.win_length != WIN_LENGTH:
        wrong = f"{game.win_length} in a row"
    elif game.skip_chance:
        wrong = f"skip_chance={game.skip_chance:g}"
    elif min(game.rows, game.columns) < MIN_EDGE:
        wrong = f"a board of {game.rows} x {game.columns}"
    if wrong is not None:
        raise ValueError(
            f"engines of the Gomocup protocol do not play {wrong}: choose {WIN_LENGTH} in a row without skips on "
            f"a board with edges of {MIN_EDGE} to {MAX_EDGE}"
        )


def parse_cell(text: str) -> tuple[int, int] | None:
    """Return the numbers of ``"X,Y"``, None for any other text."""
    match = re.fullmatch(r"\s*(\d{1,4})\s*,\s*(\d{1,4})\s*", text, re.ASCII)
    return None if match is None else (int(match[1]), int(match[2]))


def quote_line(text: str) -> str:
    """Return a program's output on one line, shortened."""
    return ascii(truncate(text))


class Engine:
    """One process of an engine, with one game at a time; started on demand, and restarted after a fault.

    Args:
        name: its name in messages.
        command: the program and its arguments.
        game: the game, see :func:`check_game`.
        memory: memory limit sent to the engine in MiB, 0 for no limit.
        start_s: maximum start-up time in seconds.
        tolerance_s: maximum seconds that a move may exceed the time sent to the engine.
        pause_s: minimum seconds between an answer and the next command; they do not count as the engine's time.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        game: Game,
        *,
        memory: int = 0,
        start_s: float = 30.0,
        tolerance_s: float = 1.0,
        pause_s: float = 0.0,
    ) -> None:
        self.name, self.command, self.game = name, tuple(command), game
        self._memory, self._start_s, self._tolerance_s = memory, start_s, tolerance_s
        self._pause_s, self._answered = pause_s, -math.inf
        self._program: Program | None = None
        self._untouched = False
        """whether the engine has an empty board and no game yet"""
        self._cells: Int8Array | None = None
        """int8[rows * columns], the board after the engine's last move; None before the first, or after the game"""
        self._mover = 0

    def start(self) -> None:
        """Start the engine if it is not running, with an empty board.

        Raises:
            EngineError: its answer is not OK, or comes too late.
            ValueError: there is no such program.
        """
        if self._program is not None:
            return
        rows, columns = self.game.rows, self.game.columns
        self._program = Program(self.command, "END")
        start = f"START {rows}" if rows == columns else f"RECTSTART {columns},{rows}"
        answer = self._ask([start], self._start_s, "start=")
        if not _is_ok(answer):
            raise self._fault(
                f"answered {quote_line(answer)} to {start}: choose a board that it plays, or another engine"
            )
        self._untouched, self._cells = True, None

    def close(self) -> None:
        """End the engine."""
        if self._program is not None:
            self._program.close()
        self._program = None

    def game_over(self) -> None:
        """Mark the game as over: the next position starts a new game, even if it looks like the same one."""
        self._cells = None

    def move(self, position: Position, turn_s: float | None, left_s: float | None, match_s: float | None) -> int:
        """Return the cell of the engine's move.

        A position one opponent's move after the engine's last one is sent as that move, any other as a board.

        Args:
            position: not over.
            turn_s: seconds for this move, None for all that are left.
            left_s: seconds on its clock, None without one; above 0 with ``turn_s`` None.
            match_s: initial seconds on the clock for the game, None without one.

        Raises:
            EngineTimeLossError: the move takes too long.
            EngineError: the engine exits, or its answer is not a legal move.
            ValueError: there is no such program.
        """
        last_move = self._last_move(position)
        if last_move is None:
            self._begin_game()
        assert self._program is not None
        lines = []
        if last_move is None:
            lines = [
                f"INFO timeout_turn {_ms(turn_s if turn_s is not None else left_s)}",
                f"INFO timeout_match {_ms(match_s) if match_s is not None else 0}",
                f"INFO max_memory {min(self._memory << 20, NO_LIMIT)}",
                "INFO game_type 1",
                f"INFO rule {int(not self.game.overlines)}",
            ]
        lines.append(f"INFO time_left {NO_LIMIT if left_s is None else _ms(left_s)}")
        request = self._position_lines(position) if last_move is None else [f"TURN {self._coordinate(last_move)}"]
        limit_s = min(seconds for seconds in (turn_s, left_s) if seconds is not None) + self._tolerance_s
        self._untouched = False
        answer = self._ask([*lines, *request], limit_s, "move= or tolerance=", request[0])
        if answer[:8].upper() == "SUGGEST " and parse_cell(answer[8:]) is not None:
            answer = self._ask([f"PLAY {answer[8:].strip()}"], limit_s, "move= or tolerance=")
        cell = self._cell(answer, request[0], position)
        self._cells, self._mover = position.cells.copy(), position.mover
        self._cells[cell] = position.mover + 1
        return cell

    def _begin_game(self) -> None:
        """Get an empty board, by a restart if needed."""
        if self._program is not None and not self._untouched:
            answer = self._ask(["RESTART"], self._start_s, "start=")
            if _is_ok(answer):
                self._untouched, self._cells = True, None
            else:  # "the manager sends END and executes the brain again"
                self.close()
        self.start()

    def _last_move(self, position: Position) -> int | None:
        """Return the opponent's move after the engine's last one that leads here; None if there is no such move."""
        if self._program is None or self._cells is None or self._mover != position.mover:
            return None
        changed = np.flatnonzero(self._cells != position.cells)
        if len(changed) != 1 or self._cells[changed[0]] or position.cells[changed[0]] != 2 - position.mover:
            return None
        return int(changed[0])

    def _position_lines(self, position: Position) -> list[str]:
        """Return the lines that set up a position and request a move, in alternating order, which some engines use."""
        by_player = [np.flatnonzero(position.cells == player + 1).tolist() for player in (0, 1)]
        own, others = by_player[position.mover], by_player[1 - position.mover]
        if not own and len(others) <= 1:
            return [f"TURN {self._coordinate(others[0])}"] if others else ["BEGIN"]
        lines = []
        for number in range(max(map(len, by_player))):
            for player, cells in enumerate(by_player):
                if number < len(cells):
                    lines.append(f"{self._coordinate(cells[number])},{1 if player == position.mover else 2}")
        return ["BOARD", *lines, "DONE"]

    def _coordinate(self, cell: int) -> str:
        row, column = divmod(cell, self.game.columns)
        return f"{column},{row}"

    def _cell(self, answer: str, request: str, position: Position) -> int:
        found = parse_cell(answer)
        if found is None:
            raise self._fault(f"answered {quote_line(answer)} to {request}, which is no move: choose another engine")
        column, row = found
        if row >= self.game.rows or column >= self.game.columns:
            raise self._fault(f"moved to {quote_line(answer)}, which is not on the board: choose another engine")
        cell = row * self.game.columns + column
        if not legal(self.game, position.cells)[cell]:
            raise self._fault(
                f"moved to {quote_line(answer)}, which is a cell that is not empty: choose another engine"
            )
        return cell

    def _ask(self, lines: Sequence[str], limit_s: float, more: str, request: str | None = None) -> str:
        """Send lines and return the answer, skipping messages."""
        program, request = self._program, request or lines[0]
        assert program is not None
        last = ""
        time.sleep(max(0.0, self._answered + self._pause_s - time.monotonic()))
        until = time.monotonic() + limit_s
        try:
            program.discard_unread()
            program.send(lines)
            while (answer := program.line(until)).partition(" ")[0].upper() in _CHATTER:
                last = f", and wrote {quote_line(answer)}"
        except EngineTimeoutError:
            problem = f"did not answer {request} within {limit_s:g} s{last}: choose another engine, or more of {more}"
            raise self._fault(problem, EngineTimeLossError) from None
        except EngineExitedError as end:
            last = f", and wrote {quote_line(str(end))}" if str(end) else last
            raise self._fault(f"ended before it answered {request}{last}: choose another engine") from None
        except BaseException:  # such as an interrupt: the state of the engine is unknown
            self._kill()
            raise
        self._answered = time.monotonic()
        return answer

    def _fault(self, problem: str, kind: type[EngineError] = EngineError) -> EngineError:
        self._kill()
        return kind(f"{self.name} {problem}")

    def _kill(self) -> None:
        program, self._program = self._program, None
        if program is not None:
            program.kill()


def _is_ok(answer: str) -> bool:
    """Return whether an answer is ``OK``, which a comment may follow, as in the protocol's example."""
    return re.match(r"OK\b", answer, re.IGNORECASE) is not None


def _ms(seconds: float | None) -> int:
    """Return milliseconds in the protocol's range."""
    return NO_LIMIT if seconds is None else max(0, min(round(seconds * 1000), NO_LIMIT))
