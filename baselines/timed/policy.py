"""The policy that plays by the clock, and its player."""

from __future__ import annotations

import math
import time
import weakref
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Literal

import numpy as np

from baselines.timed.clock import Clock, read_moves_left, usual_moves_left
from baselines.timed.pondering import Pondering
from baselines.timed.searches import LARGEST, Now, TimedSearch, begin_timed, check_can_be_timed
from baselines.timed.thinking import Plan, plan_by_clock, plan_by_move, think
from ttt_envs.boards import Boards
from ttt_envs.compiling import Integers, Reals, compile_at_once
from ttt_envs.policy import Policy, sample
from ttt_envs.rules import Game, Position, legal, place, splitmix64
from ttt_envs.specs import Named, make_policy

USUAL_MOVE_S = 0.1
"""for a move, where nothing is said"""
WARM_DEPTH = 3
LEAST_TO_PONDER_S = 0.05
"""by the clock of a game: to stop a thread takes time of one's own, on a busy machine as much as this"""
LAG_KEPT = 0.9
"""of what a move took too long, at every move after it"""

Allocation = Literal["dynamic", "fixed"]


@dataclass(frozen=True)
class Timed(Named):
    """A search by the clock: it goes deeper for as long as the clock of a game, or a time for each move, allows.

    Raises:
        ValueError: a setting out of range, a ``search`` that cannot be stopped, no estimate in ``moves_left``.
        OSError: ``moves_left`` that cannot be read.
    """

    name: ClassVar[str] = "timed"
    pure: ClassVar[bool] = False

    game: Game
    search: str | Policy = "expectiminimax"
    """who thinks: expectiminimax, whose depth is the clock's, or mcts, whose simulations are"""
    move: float | None = None
    """seconds for each move, at most; none: 0.1 where there is no other clock"""
    clock: str | None = None
    """seconds for a game, as in 10, or with seconds a move added, as in 10+0.1; a match's own clocks take its place"""
    allocation: Allocation = "dynamic"
    """of the clock's time an equal share for all moves to come; or fixed, what that was on the first board"""
    min_depth: int = 1
    """plies (of mcts simulations) that are searched wherever the clock does not run out"""
    max_depth: int | None = None
    """plies (of mcts simulations) at most"""
    steady: int | None = 3
    """by the clock of a game: so many depths that agree on move and score end the search early; none: they do not"""
    extra: float = 2.0
    """by the clock of a game: how many times its share a move may take where the last two depths disagree"""
    margin: float = 0.05
    """seconds on the clock that are never planned for"""
    moves_left: str | None = None
    """a file with an estimate of the moves to come; none: the usual one of the board"""
    ponder: bool = False
    """think on the opponent's time, in a second thread"""

    def __post_init__(self) -> None:
        if self.move is not None and not 0 < self.move < math.inf:
            raise ValueError(f"move={self.move:g} is no time for a move: choose seconds above 0, such as 0.1")
        if not 1 <= self.min_depth <= (self.max_depth or LARGEST):
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
        if self.allocation not in ("dynamic", "fixed"):
            raise ValueError(f"allocation={self.allocation!r} is not known: choose dynamic or fixed")
        if self.clock is not None:
            Clock.of(self.clock)
        check_can_be_timed(self._searcher, str(self.search))
        self._moves  # noqa: B018  # a wrong file is told now

    @cached_property
    def _searcher(self) -> Policy:
        return make_policy(self.search, self.game)

    @cached_property
    def _moves(self) -> Reals:
        """float64[cells + 1], by stones on the board: own moves to come."""
        return usual_moves_left(self.game) if self.moves_left is None else read_moves_left(self.moves_left, self.game)

    @cached_property
    def own_clock(self) -> Clock | None:
        """The clock of ``clock``."""
        return None if self.clock is None else Clock.of(self.clock)

    def plan(self, stones: int, left_s: float | None = None, clock: Clock | None = None, lag_s: float = 0.0) -> Plan:
        """What may be spent on a move.

        Args:
            stones: on the board.
            left_s: seconds on the clock; None where a game has none.
            clock: what it had in the beginning; None where only ``left_s`` is known.
            lag_s: how much longer than they should have taken moves have taken here; it adds to the margin.
        """
        max_depth = self.max_depth or LARGEST
        if left_s is None:
            only = plan_by_move(self.move or USUAL_MOVE_S, self.margin)
            return Plan(only, only, self.min_depth, max_depth)
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
        return Plan(soft, hard, self.min_depth, max_depth, self.extra, self.steady)

    def begin(
        self, position: Position, key: np.uint64, before: tuple[TimedSearch, int] | None, now: Now
    ) -> TimedSearch:
        """The search of a position; see :class:`CanBeTimed`."""
        return begin_timed(self._searcher, position, key, before, now)

    def warm(self) -> None:
        """Have everything compiled that a move needs, on nobody's clock."""
        with compile_at_once():
            self._warmed  # noqa: B018

    @cached_property
    def _warmed(self) -> bool:
        position, key, before = Boards.start(self.game).position(0), np.uint64(0), None
        by_leaves = getattr(self._searcher, "leaf", None) is not None
        for _ in range(2):  # the second goes on from the first
            search = self.begin(position, key, before, time.perf_counter)
            for depth in range(1, 2 if by_leaves else min(WARM_DEPTH, self.game.cells) + 1):
                search.go_on(math.inf, depth)
            search.can_change(1.0)
            cell = int(sample(search.best()[None], np.zeros(1))[0])
            search.reply(cell, lambda: True)
            splitmix64(key, 0)
            place(position.cells.copy(), 0, cell, 0, self.game.parameters)
            before = search, cell
        return True

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B, rows * columns], one position after another; a key of 64 bits each from ``rng``.

        Each has the time for a move; with ``clock`` it has that of a game that begins with it.

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
            begun = now()
            search = self.begin(position, key, None, now)
            think(search, self.plan(stones, clock and clock.seconds, clock), begun, now)
            out[row] = search.best()
        return out

    def player(self, now: Now = time.perf_counter) -> TimedPlayer:
        """The same with clocks of its own, one for each game, where ``clock`` is set; compiled before it returns.

        Args:
            now: seconds from some moment on: the time that passes, whoever works.
        """
        self.warm()
        return TimedPlayer(self, now)


class _Threads:
    """What a player has going: apart from it, so that it can be stopped when nobody holds the player any more."""

    def __init__(self) -> None:
        self.going: tuple[int, Pondering] | None = None

    def stop(self) -> tuple[int, tuple[Position, TimedSearch] | None] | None:
        """End the thread, if there is one; returns its game and what it has found."""
        if self.going is None:
            return None
        (slot, pondering), self.going = self.going, None
        return slot, pondering.stop()


class TimedPlayer:
    """Plays games with ``timed``, each with a clock of its own.

    Where a match keeps the clocks, its ``time_left`` is what counts. Games played side by side have one thinker: of
    several moves at once each is timed by itself, and only a player of one game at a time ponders.

    Attributes:
        left: by slot, the seconds on its own clock; empty without ``clock``. They never go below 0.
        guesses, hits: how often it pondered until its next turn, and how often the answer was the one it thought of.
            A turn that comes at once because the opponent's is skipped is a miss.
        depths: of its moves, the depth to which each was searched; 0 where there was nothing to choose.
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
        """A match is played by this clock: see :class:`ttt_envs.policy.ReadsClocks`."""
        self._clock = Clock(seconds, increment)

    def begin(self, slots: Integers) -> None:
        """New games begin in ``slots`` int64[B]: their clocks are full, and nothing is remembered."""
        self._threads.stop()
        for slot in slots.tolist():
            self._keys.pop(slot, None)
            self._before.pop(slot, None)
            if self._clock is not None:
                self.left[slot] = self._clock.seconds

    def close(self) -> None:
        """Stop pondering; nothing is left running."""
        self._threads.stop()

    def act(
        self, boards: Boards, slots: Integers, rng: np.random.Generator, time_left: Reals | None = None
    ) -> Integers:
        """int64[B], a move in each of the games ``slots``, one after another.

        ``rng`` gives a key of 64 bits for each game that is new, and a uniform number for each move: that is all a
        move depends on where the depth is fixed, whether the player ponders or not.
        """
        called = self._now()
        games = slots.tolist()
        new = [slot for slot in games if slot not in self._keys]
        self._keys.update(zip(new, rng.integers(0, 1 << 64, len(new), np.uint64), strict=True))
        u = rng.random(len(games))
        pondered = self._threads.stop()
        out = np.empty(len(games), np.int64)
        for row, slot in enumerate(games):
            begun = self._now() if row else called
            left = self.left.get(slot) if time_left is None else float(time_left[row])
            ahead = pondered[1] if pondered is not None and pondered[0] == slot else None
            out[row] = self._move(boards.position(row), slot, left, ahead, float(u[row]), begun, len(games) == 1)
            if time_left is None and self._clock is not None and left is not None:
                self.left[slot] = max(0.0, left - (self._now() - begun)) + self._clock.increment
        return out

    def _move(
        self,
        position: Position,
        slot: int,
        left_s: float | None,
        ahead: tuple[Position, TimedSearch] | None,
        u: float,
        begun: float,
        alone: bool,
    ) -> int:
        policy = self.policy
        choices = np.flatnonzero(legal(policy.game, position.cells))
        stones = int(np.count_nonzero(position.cells))
        search = self._taken_over(position, ahead)
        if len(choices) == 1:
            self.depths.append(0)
            return int(choices[0])
        if search is None:
            search = self._begin(slot, position)
        plan = policy.plan(stones, left_s, self._clock, self._lag_s)
        think(search, plan, begun, self._now)
        # on a machine that does other things as well, what has happened will happen again
        self._lag_s = max(LAG_KEPT * self._lag_s, self._now() - begun - plan.hard_s)
        self.depths.append(search.depth)
        cell = int(sample(search.best()[None], np.array([u]))[0])
        self._before[slot] = search, cell
        if policy.ponder and alone and (left_s is None or plan.hard_s >= LEAST_TO_PONDER_S):
            begin = partial(policy.begin, key=self._key(slot, stones + 2), before=(search, cell), now=self._now)
            most = policy.max_depth or LARGEST
            going = Pondering(policy.game, position, search, cell, most, begin, self._now)
            self._threads.going = slot, going
        return cell

    def _taken_over(self, position: Position, ahead: tuple[Position, TimedSearch] | None) -> TimedSearch | None:
        """The search of a position that was expected."""
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
        """For the search of a position of a game: its own, whenever the search begins."""
        return np.uint64(splitmix64(self._keys[slot], stones))
