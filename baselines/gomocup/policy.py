"""The policy that plays by an engine, and its player."""

from __future__ import annotations

import dataclasses
import math
import shlex
import shutil
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from baselines.gomocup.engine import Engine, EngineError, EngineTimeLossError, check_game
from baselines.timed.clock import Clock
from ttt_envs.agents.policy import Forfeit
from ttt_envs.agents.specs import Named
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.rules import legal

DEFAULT_MOVE_S = 1.0
"""Default time for a move in seconds."""
MAX_MEMORY_MIB = 1 << 20
"""Maximum memory limit in MiB."""


@dataclass(frozen=True)
class Gomocup(Named):
    """An engine with the Gomocup protocol: five or more in a row, or exactly five, without skips, on boards of 5 to 19.

    The program runs with all rights of the caller, in the caller's folder. An illegal, late or malformed move, or the
    exit of the engine, raises a :class:`ValueError` with a description; in a match, the game is lost.

    Raises:
        ValueError: engines cannot play the game, the program does not exist, or a setting is out of range.
    """

    name: ClassVar[str] = "gomocup"
    pure: ClassVar[bool] = False

    game: Game
    path: str
    """the program, or its name if the shell finds it"""
    arguments: str = ""
    """its arguments, with quotes as in a shell"""
    move: float | None = None
    """seconds per move, 0 as fast as possible; none: 1 if there is no game clock"""
    clock: str | None = None
    """seconds for a game, as in 60, or with an increment per move, as in 60+1; a match's clocks take precedence"""
    memory: int = 0
    """memory limit sent to the engine in MiB, 0 for no limit"""
    start: float = 30.0
    """maximum start-up time in seconds, which is on no clock"""
    tolerance: float = 1.0
    """maximum seconds that a move may exceed the time sent to the engine"""
    pause: float = 0.02
    """minimum seconds between its answer and the next command, because some engines do not listen at once"""

    def __post_init__(self) -> None:
        check_game(self.game)
        if self.move is not None and not 0 <= self.move < math.inf:
            raise ValueError(f"move={self.move:g} is no time for a move: choose 0 seconds or more")
        if not 0 <= self.memory <= MAX_MEMORY_MIB:
            raise ValueError(f"memory={self.memory} is no amount of MiB: choose 0 (no limit) to {MAX_MEMORY_MIB:,}")
        for name in ("start", "tolerance", "pause"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name):g} is no time: choose 0 seconds or more")
        self.own_clock  # noqa: B018  # raises errors in the clock early
        self._command  # noqa: B018

    @cached_property
    def own_clock(self) -> Clock | None:
        """The clock named by ``clock``."""
        return None if self.clock is None else Clock.from_text(self.clock)

    @cached_property
    def _command(self) -> list[str]:
        program = None if "\0" in self.path else shutil.which(self.path)
        if program is None:
            raise ValueError(f"there is no program {self.path}: give the path of an engine that may be run")
        try:
            return [program, *shlex.split(self.arguments)]
        except ValueError as problem:
            raise ValueError(f"arguments={self.arguments} are none, {str(problem).lower()}: close its quotes") from None

    def engine(self) -> Engine:
        """Return a new process, not yet started."""
        return Engine(
            str(self),
            self._command,
            self.game,
            memory=self.memory,
            start_s=self.start,
            tolerance_s=self.tolerance,
            pause_s=self.pause,
        )

    def turn_s(self, left_s: float | None) -> float | None:
        """Return the seconds for a move: None for all that are left on the clock."""
        return DEFAULT_MOVE_S if self.move is None and left_s is None else self.move

    @cached_property
    def _engine(self) -> Engine:
        return self.engine()

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells], one-hot for the engine's move, one position after another; ``rng`` is not used.

        Each position gets the time for a move; with ``clock``, as the first move of a game.

        Raises:
            Forfeit: the engine is at fault.
            ValueError: the engine cannot be started.
        """
        out = np.zeros(boards.cells.shape)
        full_s = None if self.own_clock is None else self.own_clock.seconds
        for row in range(len(boards.mover)):
            self._engine.start()  # outside try: a failure to start would recur in every game
            try:
                out[row, self._engine.move(boards.position(row), self.turn_s(full_s), full_s, full_s)] = 1
            except EngineError as problem:
                raise Forfeit(str(problem)) from None
        return out

    def player(self) -> GomocupPlayer:
        """Return a player with its own process and clocks; the engine is started before this returns."""
        return GomocupPlayer(self)

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings: a copy starts its own process."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


class GomocupPlayer:
    """Plays games with an engine, in one process: a single game is sent move by move, simultaneous games as boards.

    A fault of the engine forfeits the game in which it happens, and the engine is restarted for the next one.

    Attributes:
        left: slot -> seconds on its own clock; empty without one. A match's clocks take precedence.
    """

    def __init__(self, policy: Gomocup) -> None:
        self.policy = policy
        self._clock = policy.own_clock
        self.left: dict[int, float] = {}
        self._engine = policy.engine()
        self._engine.start()

    def use_clock(self, seconds: float, increment: float) -> None:
        """Set the clock of a match: see :class:`ttt_envs.agents.policy.ReadsClocks`."""
        self._clock = Clock(seconds, increment)

    def begin(self, slots: Int64Array) -> None:
        """Start new games in ``slots`` int64[B], with full clocks."""
        self._engine.game_over()
        if self._clock is not None:
            self.left.update(dict.fromkeys(slots.tolist(), self._clock.seconds))

    def close(self) -> None:
        """End the engine; the next move restarts it."""
        self._engine.close()

    def act(
        self, boards: Boards, slots: Int64Array, rng: np.random.Generator, time_left: Float64Array | None = None
    ) -> Int64Array:
        """Return int64[B], a move in each of the games ``slots``, one after another; ``rng`` is not used.

        Raises:
            Forfeit: the engine is at fault. If only the time on a match's clock runs out, any legal move is returned
                late instead, and the match counts the game as lost on time.
            ValueError: the engine cannot be started.
        """
        out = np.empty(len(slots), np.int64)
        for row, slot in enumerate(slots.tolist()):
            left = self.left.get(slot) if time_left is None else float(time_left[row])
            self._engine.start()  # outside try: a failure to start would recur in every game
            start = time.monotonic()
            try:
                out[row] = self._move(boards, row, left, time_left is not None)
            except EngineError as problem:
                raise Forfeit(str(problem), out[:row]) from None
            if time_left is None and self._clock is not None and left is not None:
                self.left[slot] = left - (time.monotonic() - start) + self._clock.increment
        return out

    def _move(self, boards: Boards, row: int, left_s: float | None, of_match: bool) -> int:
        position = boards.position(row)
        turn_s = self.policy.turn_s(left_s)
        match_s = None if self._clock is None else self._clock.seconds
        start = time.monotonic()
        if not (of_match and left_s is not None and left_s <= 0):  # else the game is already lost
            try:
                return self._engine.move(position, turn_s, left_s, match_s)
            except EngineTimeLossError:
                if not of_match or left_s is None or time.monotonic() - start < left_s:
                    raise
        return int(np.flatnonzero(legal(self.policy.game, position.cells))[0])
