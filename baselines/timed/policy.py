"""The policy that searches by the clock, and its player."""

from __future__ import annotations

import math
import time
import weakref
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Literal, get_args

import numpy as np

from baselines.timed.clock import Clock, default_moves_left, read_moves_left
from baselines.timed.interruptible import UNBOUNDED_DEPTH, Now, TimedSearch, begin_timed, check_interruptible
from baselines.timed.pondering import Pondering
from baselines.timed.time_management import TimePlan, plan_by_clock, plan_by_move, run_until
from ttt_envs.agents.policy import Policy, sample
from ttt_envs.agents.specs import Named, make_policy
from ttt_envs.core.checks import check_choice
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.core.jit_settings import compile_at_once
from ttt_envs.core.random import splitmix64
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import legal, place

DEFAULT_MOVE_S = 0.1
"""Default time for a move in seconds."""
WARM_DEPTH = 3
MIN_PONDER_S = 0.05
"""Minimum time for a move, in seconds, for pondering with a game clock: stopping the thread may take as much time."""
LAG_DECAY = 0.9
"""Decay of the measured lag per move."""

Allocation = Literal["dynamic", "fixed"]


@dataclass(frozen=True)
class Timed(Named):
    """A search by the clock: it deepens as long as a game clock, or a time per move, allows.

    Raises:
        ValueError: a setting is out of range, ``search`` cannot be interrupted, or ``moves_left`` is not an estimate.
        OSError: ``moves_left`` cannot be read.
    """

    name: ClassVar[str] = "timed"
    pure: ClassVar[bool] = False

    game: Game
    search: str | Policy = "expectiminimax"
    """the search: expectiminimax, deepened by plies, or mcts, extended by simulations"""
    move: float | None = None
    """maximum seconds per move; none: 0.1 if there is no game clock"""
    clock: str | None = None
    """seconds for a game, as in 10, or with an increment per move, as in 10+0.1; a match's clocks take precedence"""
    allocation: Allocation = "dynamic"
    """share of the clock's time: dynamic, equal for all moves left; or fixed, as computed on the first board"""
    min_depth: int = 1
    """minimum number of plies (of mcts simulations), unless the clock runs out"""
    max_depth: int | None = None
    """maximum number of plies (of mcts simulations)"""
    steady: int | None = 3
    """with a game clock: number of depths that must agree on move and score to stop early; none: never"""
    extra: float = 2.0
    """with a game clock: factor on a move's share of time if the last two depths disagree"""
    margin: float = 0.05
    """seconds on the clock held in reserve"""
    moves_left: str | None = None
    """a file with an estimate of the moves left; none: the default for the board"""
    ponder: bool = False
    """search on the opponent's time, in a second thread"""

    def __post_init__(self) -> None:
        if self.move is not None and not 0 < self.move < math.inf:
            raise ValueError(f"move={self.move:g} is no time for a move: choose seconds above 0, such as 0.1")
        if not 1 <= self.min_depth <= (self.max_depth or UNBOUNDED_DEPTH):
            raise ValueError(
                f"min-depth={self.min_depth} and max-depth={self.max_depth} leave no depth: choose 1 or more, and the "
                f"smaller one first"
            )
        if self.max_depth is not None and self.max_depth < 1:
            raise ValueError(f"max-depth={self.max_depth} looks at nothing: choose 1 or more")
        if self.steady is not None and self.steady < 2:
            raise ValueError(f"steady={self.steady} depths always agree: choose 2 or more, or none")
        if not 1 <= self.extra < math.inf:
            raise ValueError(f"extra={self.extra:g} takes time away: choose 1 (none) or more")
        if not 0 <= self.margin < math.inf:
            raise ValueError(f"margin={self.margin:g} is no time: choose 0 seconds or more")
        check_choice("allocation", self.allocation, get_args(Allocation))
        self.own_clock  # noqa: B018  # raises errors in the clock early
        check_interruptible(self._searcher, str(self.search))
        self._moves  # noqa: B018  # raises errors in the file early

    @cached_property
    def _searcher(self) -> Policy:
        return make_policy(self.search, self.game)

    @cached_property
    def _moves(self) -> Float64Array:
        """float64[cells + 1], by stones on the board: own moves left."""
        return default_moves_left(self.game) if self.moves_left is None else read_moves_left(self.moves_left, self.game)

    @cached_property
    def own_clock(self) -> Clock | None:
        """The clock named by ``clock``."""
        return None if self.clock is None else Clock.from_text(self.clock)

    def plan(
        self, stones: int, left_s: float | None = None, clock: Clock | None = None, lag_s: float = 0.0
    ) -> TimePlan:
        """Return the time plan for a move.

        Args:
            stones: number of stones on the board.
            left_s: seconds on the clock; None without a game clock.
            clock: the clock at the start; None if only ``left_s`` is known.
            lag_s: measured overrun of earlier moves in seconds; added to the margin.
        """
        max_depth = self.max_depth or UNBOUNDED_DEPTH
        if left_s is None:
            only = plan_by_move(self.move or DEFAULT_MOVE_S, self.margin)
            return TimePlan(only, only, self.min_depth, max_depth)
        soft, hard = plan_by_clock(
            left_s,
            clock or Clock(left_s),
            float(self._moves[stones]),
            float(self._moves[0]),
            margin_s=self.margin + lag_s,
            extra=self.extra,
            dynamic=self.allocation == "dynamic" or clock is None,
        )
        if self.move is not None:
            most = plan_by_move(self.move, self.margin)
            soft, hard = min(soft, most), min(hard, most)
        return TimePlan(soft, hard, self.min_depth, max_depth, self.extra, self.steady)

    def begin(
        self, position: Position, key: np.uint64, before: tuple[TimedSearch, int] | None, now: Now
    ) -> TimedSearch:
        """Start the search of a position; see :class:`~baselines.timed.interruptible.Interruptible`."""
        return begin_timed(self._searcher, position, key, before, now)

    def warm(self) -> None:
        """Compile everything needed for a move, outside any clock."""
        with compile_at_once():
            self._is_warm  # noqa: B018

    @cached_property
    def _is_warm(self) -> bool:
        position, key, before = Boards.start(self.game).position(0), np.uint64(0), None
        by_leaves = getattr(self._searcher, "leaf", None) is not None
        for _ in range(2):  # the second continues the first
            search = self.begin(position, key, before, time.perf_counter)
            for depth in range(1, 2 if by_leaves else min(WARM_DEPTH, self.game.cells) + 1):
                search.search_until(math.inf, depth)
            search.can_change(1.0)
            cell = int(sample(search.best()[None], np.zeros(1))[0])
            search.reply(cell, lambda: True)
            splitmix64(key, 0)
            place(position.cells.copy(), 0, cell, 0, self.game.parameters)
            before = search, cell
        return True

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, rows * columns], searched one by one; each position draws a 64-bit key from ``rng``.

        Each position gets the time for a move; with ``clock``, as the first move of a game.

        Raises:
            ValueError: without ``rng``.
        """
        if rng is None:
            raise ValueError(f"{self} looks at a clock and draws: give it rng=np.random.default_rng(seed)")
        self.warm()
        keys = rng.integers(0, 1 << 64, len(boards.mover), np.uint64)
        out = np.empty(boards.cells.shape)
        clock, now = self.own_clock, time.perf_counter
        for row, key in enumerate(keys):
            position = boards.position(row)
            stones = int(np.count_nonzero(position.cells))
            start = now()
            search = self.begin(position, key, None, now)
            run_until(search, self.plan(stones, clock and clock.seconds, clock), start, now)
            out[row] = search.best()
        return out

    def player(self, now: Now = time.perf_counter) -> TimedPlayer:
        """Return a player with its own clocks, one per game, if ``clock`` is set; compiles before it returns.

        Args:
            now: wall clock in seconds, from any starting point.
        """
        self.warm()
        return TimedPlayer(self, now)


class _Threads:
    """A player's running thread, in a separate object so that a finalizer can stop it without the player."""

    def __init__(self) -> None:
        self.going: tuple[int, Pondering] | None = None

    def stop(self) -> tuple[int, tuple[Position, TimedSearch] | None] | None:
        """Stop the thread, if any; return its game and its result."""
        if self.going is None:
            return None
        (slot, pondering), self.going = self.going, None
        return slot, pondering.stop()


class TimedPlayer:
    """Plays games with ``timed``, each with its own clock.

    If a match keeps the clocks, its ``time_left`` is used. Simultaneous games are searched one after another, each
    timed by itself; only a player of one game at a time ponders.

    Attributes:
        left: slot -> seconds on its own clock; empty without ``clock``. Never below 0.
        guesses, hits: number of times that it pondered until its next turn, and that it predicted the reply. A turn
            that comes at once, because the opponent's is skipped, is a miss.
        depths: depth of the search for each of its moves; 0 for single legal moves.
    """

    def __init__(self, policy: Timed, now: Now = time.perf_counter) -> None:
        self.policy, self._now = policy, now
        self._clock = policy.own_clock
        self._keys: dict[int, np.uint64] = {}
        self._before: dict[int, tuple[TimedSearch, int]] = {}
        self.left: dict[int, float] = {}
        self.guesses = self.hits = 0
        self.depths: list[int] = []
        self._lag_s = 0.0
        self._threads = _Threads()
        self._finalizer = weakref.finalize(self, self._threads.stop)

    def use_clock(self, seconds: float, increment: float) -> None:
        """Set the clock of a match: see :class:`ttt_envs.agents.policy.ReadsClocks`."""
        self._clock = Clock(seconds, increment)

    def begin(self, slots: Int64Array) -> None:
        """Start new games in ``slots`` int64[B]: clocks are reset and searches discarded."""
        self._threads.stop()
        for slot in slots.tolist():
            self._keys.pop(slot, None)
            self._before.pop(slot, None)
            if self._clock is not None:
                self.left[slot] = self._clock.seconds

    def close(self) -> None:
        """Stop pondering; no thread is left running."""
        self._threads.stop()

    def act(
        self, boards: Boards, slots: Int64Array, rng: np.random.Generator, time_left: Float64Array | None = None
    ) -> Int64Array:
        """Return int64[B], a move in each of the games ``slots``, one after another.

        ``rng`` gives a 64-bit key for each new game, and a uniform number for each move. At a fixed depth, a move
        depends on nothing else, with or without pondering.
        """
        called = self._now()
        games = slots.tolist()
        new = [slot for slot in games if slot not in self._keys]
        self._keys.update(zip(new, rng.integers(0, 1 << 64, len(new), np.uint64), strict=True))
        u = rng.random(len(games))
        pondered = self._threads.stop()
        out = np.empty(len(games), np.int64)
        for row, slot in enumerate(games):
            start = self._now() if row else called
            left = self.left.get(slot) if time_left is None else float(time_left[row])
            ahead = pondered[1] if pondered is not None and pondered[0] == slot else None
            out[row] = self._move(boards.position(row), slot, left, ahead, float(u[row]), start, len(games) == 1)
            if time_left is None and self._clock is not None and left is not None:
                self.left[slot] = max(0.0, left - (self._now() - start)) + self._clock.increment
        return out

    def _move(
        self,
        position: Position,
        slot: int,
        left_s: float | None,
        ahead: tuple[Position, TimedSearch] | None,
        u: float,
        start: float,
        alone: bool,
    ) -> int:
        policy = self.policy
        choices = np.flatnonzero(legal(policy.game, position.cells))
        stones = int(np.count_nonzero(position.cells))
        search = self._expected_search(position, ahead)
        if len(choices) == 1:
            self.depths.append(0)
            return int(choices[0])
        if search is None:
            search = self._begin(slot, position)
        plan = policy.plan(stones, left_s, self._clock, self._lag_s)
        run_until(search, plan, start, self._now)
        # on a busy machine, overruns are likely to recur
        self._lag_s = max(LAG_DECAY * self._lag_s, self._now() - start - plan.hard_s)
        self.depths.append(search.depth)
        cell = int(sample(search.best()[None], np.array([u]))[0])
        self._before[slot] = search, cell
        if policy.ponder and alone and (left_s is None or plan.hard_s >= MIN_PONDER_S):
            begin = partial(policy.begin, key=self._key(slot, stones + 2), before=(search, cell), now=self._now)
            most = policy.max_depth or UNBOUNDED_DEPTH
            going = Pondering(policy.game, position, search, cell, most, begin, self._now)
            self._threads.going = slot, going
        return cell

    def _expected_search(self, position: Position, ahead: tuple[Position, TimedSearch] | None) -> TimedSearch | None:
        """Return the search of a position that was predicted."""
        if ahead is None:
            return None
        expected, search = ahead
        self.guesses += 1
        if expected.mover != position.mover or not np.array_equal(expected.cells, position.cells):
            return None
        self.hits += 1
        return search

    def _begin(self, slot: int, position: Position) -> TimedSearch:
        key = self._key(slot, int(np.count_nonzero(position.cells)))
        return self.policy.begin(position, key, self._before.get(slot), self._now)

    def _key(self, slot: int, stones: int) -> np.uint64:
        """Return the key for the search of a position, which depends only on the game and the number of stones."""
        return np.uint64(splitmix64(self._keys[slot], stones))
