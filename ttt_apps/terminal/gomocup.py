"""``play.py --gomocup``: a policy as an engine of the Gomocup protocol, on standard input and
output.

The protocol is that of :mod:`baselines.gomocup`, from the engine's side. Where it leaves a choice,
the engine follows piskvork's skeleton, source/skelet_CPP/pisqpipe.cpp. Additional rules:

- Command names are case-insensitive. The reply to an unknown command is ``UNKNOWN message``, to a
  known command that fails ``ERROR message``, and the engine continues.
- ``INFO`` has no reply, and unknown keys are ignored; values that cannot be obeyed are reported at
  the next command that requests a move. ``timeout_turn`` 0 is as fast as possible. ``rule`` is a
  sum of 1 exactly five, 2 continuous, 4 renju, 8 caro; none of these is supported.
- ``TAKEBACK X,Y`` removes a stone and ``PLAY X,Y`` puts an own one; the replies are ``OK`` and
  ``X,Y``. The reply to ``ABOUT`` is ``key="value", ...``. There is no output after ``END``.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import IO

import numpy as np

from baselines.expectiminimax import Expectiminimax
from baselines.gomocup.engine import (
    MAX_EDGE,
    MIN_EDGE,
    NO_LIMIT,
    WIN_LENGTH,
    cell_from_text,
    cell_to_text,
    parse_cell,
)
from baselines.gomocup.program import read_lines
from baselines.mcts import MCTS
from baselines.timed import Timed
from ttt_apps.cli.board import ONLY, LiveGame
from ttt_envs.agents.policy import Player, Policy
from ttt_envs.agents.specs import POLICIES, make_policy, parse_spec
from ttt_envs.core.jit import Int8Array
from ttt_envs.core.random import draw_key
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import winner
from ttt_envs.version import __version__
from ttt_eval.matches.match import compile_move, make_player

SUPPORTED_KEYS = ("timeout_turn", "time_left", "rule")
"""Supported keys of INFO; ``time_left`` replaces ``timeout_match``, as the protocol says."""
MIN_MOVE_S = 0.001
"""Minimum seconds per move, if the manager requests a move as fast as possible."""


class CommandRefusedError(Exception):  # it is a reply
    """A command cannot be carried out; the message is the reason."""


class Brain:
    """The engine's side of the protocol: replies to lines.

    Args:
        spec: spec string of the policy; a search obeys the manager's times, by
            :class:`baselines.timed.Timed`.
        seed: seed of all random numbers: the games of a process are those of ``play.py`` with this
            seed.
        reply: receives a line of the reply.
        log: receives diagnostics that a manager does not need.
    """

    def __init__(
        self,
        spec: str,
        seed: int,
        reply: Callable[[str], object],
        log: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.spec = spec
        self._reply = reply
        self._log = log
        self._key = draw_key(np.random.default_rng(seed))
        self.game: Game | None = None
        self.cells = np.zeros(0, np.int8)
        """int8[rows * columns]: 0 empty, 1 an own stone, 2 the opponent's"""
        self._games = 0
        """number of games begun before this one"""
        self._info: dict[str, int] = {}
        self._player: Player | None = None
        self._times: tuple[float | None, bool] = None, False
        """time limits with which the player was made"""
        self._board: list[str] | None = None
        """the lines since BOARD"""

    def handle_line(self, line: str) -> bool:
        """Reply to a line of the manager by the method ``on_`` of its command; return False for
        ``END``.

        It raises nothing but an interrupt: errors are replies, too.
        """
        word, _, text = line.strip().partition(" ")
        name = word.upper()
        command = getattr(self, f"on_{word.lower()}", None) if word.isascii() else None
        try:
            if self._board is not None and name not in ("DONE", "END", "INFO", ""):
                if command is None:
                    if len(self._board) <= MAX_EDGE * MAX_EDGE:  # more stones are invalid anyhow
                        self._board.append(line.strip())
                    return True
                self._board = None
                self._reply("ERROR BOARD has no DONE")
            if command is not None:
                reply = command(text.strip())
                if reply is not None:
                    self._reply(reply)
            elif name not in ("", "END"):
                self._reply(f"UNKNOWN command {_to_ascii_line(name)}")
        except CommandRefusedError as problem:
            self._reply(f"ERROR {_to_ascii_line(str(problem))}")
        except Exception as problem:
            # any policy may raise anything: the manager may try another position
            self._log(traceback.format_exc())
            self._reply(f"ERROR {_to_ascii_line(f'{type(problem).__name__}: {problem}')}")
        return name != "END"

    # ----------------------------------------------------------------------------------------------
    # Games

    def on_start(self, text: str) -> str:
        """Open a square board: ``START 15``."""
        return self.on_rectstart(f"{text},{text}")

    def on_rectstart(self, text: str) -> str:
        """Open a board: ``RECTSTART width,height``."""
        size = parse_cell(text)
        if size is None:
            raise CommandRefusedError(
                "START is followed by the size of the board, RECTSTART by width,height"
            )
        self.game = self._player = None
        if not MIN_EDGE <= min(size) <= max(size) <= MAX_EDGE:
            raise CommandRefusedError(f"boards have edges of {MIN_EDGE} to {MAX_EDGE} here")
        columns, rows = size
        self.game = Game(rows, columns, WIN_LENGTH)
        try:
            reply = self.on_restart()
            if parse_spec(self.spec).name in POLICIES:  # a caller's has nothing to compile
                policy = make_timed_policy(self.spec, self.game, MIN_MOVE_S, has_clock=True)
                compile_move(policy, self.game)  # before OK, after which times count
        except BaseException:
            self.game = None
            raise
        return reply

    def on_restart(self, _: str = "") -> str:
        """Begin another game on the same board."""
        self.cells = np.zeros(self._current.cells, np.int8)
        self._live = LiveGame(self._current, self._key, self._games)
        self._player = None
        self._get_player()  # time-consuming work is done before OK
        self._games += 1
        return "OK"

    @property
    def _current(self) -> Game:
        if self.game is None:
            raise CommandRefusedError("there is no board: send START first")
        return self.game

    # ----------------------------------------------------------------------------------------------
    # Moves

    def on_begin(self, _: str) -> str:
        """Make the first move."""
        return self._make_move(self.cells)

    def on_turn(self, text: str) -> str:
        """Take the opponent's move, and reply with one."""
        cells = self.cells.copy()
        cells[self._cell(text, cells)] = 2
        return self._make_move(cells)

    def on_board(self, _: str) -> None:
        """Begin to receive stones, each a line ``X,Y,1`` (own) or ``X,Y,2``."""
        self._board = []

    def on_done(self, _: str) -> str:
        """Set the received stones, and reply with a move."""
        if self._board is None:
            raise CommandRefusedError("DONE ends a BOARD: send BOARD first")
        lines = self._board
        self._board = None
        cells = np.zeros(self._current.cells, np.int8)
        for line in lines:
            stone = re.fullmatch(r"(.*),\s*([12])\s*", line)
            if stone is None:
                raise CommandRefusedError(f"{line[:40]} is no X,Y,1 and no X,Y,2")
            cells[self._cell(stone[1], cells)] = int(stone[2])
        if self._player is not None:
            self._player.begin(ONLY)  # its state is of another game
        return self._make_move(cells)

    def on_play(self, text: str) -> str:
        """Put an own stone."""
        cell = self._cell(text, self.cells)
        self.cells[cell] = 1
        return cell_to_text(self._current, cell)

    def on_takeback(self, text: str) -> str:
        """Remove a stone."""
        self.cells[self._cell(text, self.cells, is_empty=False)] = 0
        if self._player is not None:
            self._player.begin(ONLY)
        return "OK"

    def _make_move(self, cells: Int8Array) -> str:
        """Move on a board of own stones, 1, and the opponent's, 2, which becomes the current board;
        return the reply.
        """
        game = self._current
        rule = self._info.get("rule", 0)
        if rule:
            raise CommandRefusedError(
                f"rule {rule} is not played here: send INFO rule 0, five or more in a row"
            )
        if winner(game, cells) is not None:
            raise CommandRefusedError("the game is over: send RESTART")
        own_count = int(np.count_nonzero(cells == 1))
        opponent_count = int(np.count_nonzero(cells == 2))
        mover = int(opponent_count > own_count)
        stones = (3 - cells) % 3 if mover else cells
        boards = Boards.from_positions([Position(stones, mover)])
        player = self._get_player()
        left_s = self._limit_s("time_left")
        time_left = None if left_s is None else np.array([left_s])
        rng = self._live.generator(own_count + opponent_count)
        [cell] = player.act(boards, ONLY, rng, time_left).tolist()
        if cells[cell]:
            raise CommandRefusedError(
                f"{self.spec} moved to a cell that is not empty: choose another policy"
            )
        self.cells = cells.copy()
        self.cells[cell] = 1
        return cell_to_text(game, cell)

    def _cell(self, text: str, cells: Int8Array, *, is_empty: bool = True) -> int:
        """Return the cell that ``X,Y`` names, empty or with a stone on these cells."""
        cell = cell_from_text(self._current, text)
        if cell is None:
            raise CommandRefusedError(f"{text[:40]} is no cell of the board")
        if (cells[cell] == 0) != is_empty:
            raise CommandRefusedError(f"{text} has {'a stone already' if is_empty else 'no stone'}")
        return cell

    # ----------------------------------------------------------------------------------------------
    # Time limits, and the player

    def on_info(self, text: str) -> None:
        """Store a time limit or a rule."""
        key, _, value = text.lower().partition(" ")
        if key in SUPPORTED_KEYS and re.fullmatch(r"-?\d{1,18}", value.strip(), re.ASCII):
            self._info[key] = int(value)

    def _limit_s(self, key: str, low: float = 0.0) -> float | None:
        """Return a time limit of INFO in seconds, ``low`` or more; None if there is none."""
        limit_ms = self._info.get(key, NO_LIMIT)
        return None if limit_ms >= NO_LIMIT else max(low, limit_ms / 1000)

    def _get_player(self) -> Player:
        """Return the player, a new one if the time limits have changed."""
        move_s = self._limit_s("timeout_turn", MIN_MOVE_S)
        has_clock = self._limit_s("time_left") is not None
        if self._player is None or (move_s, has_clock) != self._times:
            policy = make_timed_policy(self.spec, self._current, move_s, has_clock)
            self._player = make_player(policy, self._current, self._live.episode_key)
            self._player.begin(ONLY)
            self._times = (move_s, has_clock)
        return self._player

    def on_about(self, _: str) -> str:
        """Describe the engine."""
        policy = _to_ascii_line(self.spec).replace('"', "'")
        return f'name="ttt_envs", version="{__version__}", policy="{policy}"'


def make_timed_policy(spec: str, game: Game, turn_s: float | None, has_clock: bool) -> Policy:
    """Return the policy of a spec string; a search obeys the times, and never exceeds the depth of
    its spec.

    Args:
        spec: the spec string.
        game: the game.
        turn_s: seconds for each move, None for no limit.
        has_clock: whether there is a clock for the whole game.

    Raises:
        TypeError, ValueError: no such policy.
    """
    policy = make_policy(spec, game)
    if isinstance(policy, Timed):
        times = [seconds for seconds in (policy.move, turn_s) if seconds is not None]
        return dataclasses.replace(policy, move=min(times, default=None))
    if (turn_s is None and not has_clock) or not isinstance(policy, Expectiminimax | MCTS):
        return policy
    max_depth = policy.depth if isinstance(policy, Expectiminimax) else policy.simulations
    return Timed(game, policy, move=turn_s, max_depth=max_depth)


def _to_ascii_line(text: str) -> str:
    """Convert text to one line of ASCII of limited length."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text[:300])


# --------------------------------------------------------------------------------------------------
# Standard input and output


def serve(spec: str, seed: int, lines: IO[bytes]) -> None:
    """Run the engine until ``END`` or the end of ``lines``; only replies are written to standard
    output.
    """
    sys.stdout.flush()
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # all other output goes to standard error

        def reply(line: str) -> None:
            out.write(f"{line}\n".encode("ascii", "replace"))
            out.flush()

        brain = Brain(spec, seed, reply, lambda text: print(text, file=sys.stderr))
        for line in read_lines(lines):
            if not brain.handle_line(line):
                break
