"""The policy that searches by the clock, and its player."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Literal, get_args

import numpy as np

from baselines.timed.clock import Clock, ClockedPlayer, default_moves_left, read_moves_left
from baselines.timed.pondering import Pondering
from baselines.timed.search import UNBOUNDED_DEPTH, Now, TimedSearch, begin_timed, check_interruptible
from baselines.timed.time_management import TimePlan, run_until
from ttt_envs.agents.policy import ALL_VARIANTS, Policy, sample
from ttt_envs.agents.specs import Named, make_policy
from ttt_envs.core.checks import check_choice
from ttt_envs.core.jit import Float64Array, Int64Array, compile_at_once
from ttt_envs.core.random import splitmix64
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import legal, place

DEFAULT_MOVE_S = 0.1
"""Default time for a move in seconds."""
MAX_CLOCK_SHARE, MAX_CLOCK_SHARE_EXTENDED = 0.5, 0.6
"""Maximum shares of the time on the clock for one move, and for one with extra time."""
SHARE_OF_INCREMENT = 0.8
"""Share of the increment that is planned for a move."""
MAX_MARGIN_SHARE = 0.1
"""Maximum share of a fixed time per move that the margin may take."""
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
    variants = ALL_VARIANTS
    refusals: ClassVar = {"hidden": "it reads the whole board, to search the moves of both players"}

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
        if not 1 <= self.min_depth <= self._max_depth:
            depths = f"min-depth={self.min_depth} and max-depth={self.max_depth}"
            raise ValueError(f"{depths} leave no depth: choose 1 or more, and the smaller one first")
        if self.steady is not None and self.steady < 2:
            raise ValueError(f"steady={self.steady} depths always agree: choose 2 or more, or none")
        for name, least in (("extra", 1), ("margin", 0)):
            if not least <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name):g} is out of range: choose {least} or more")
        check_choice("allocation", self.allocation, get_args(Allocation))
        self.own_clock  # noqa: B018  # raises errors in the clock early
        self.searcher  # noqa: B018
        self._moves  # noqa: B018  # raises errors in the file early

    @property
    def _max_depth(self) -> int:
        return UNBOUNDED_DEPTH if self.max_depth is None else self.max_depth

    @cached_property
    def searcher(self) -> Policy:
        """The policy whose search is timed."""
        policy = make_policy(self.search, self.game)
        check_interruptible(policy, str(self.search))
        return policy

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
        move_s = DEFAULT_MOVE_S if self.move is None and left_s is None else self.move
        by_move = math.inf if move_s is None else move_s - min(self.margin, MAX_MARGIN_SHARE * move_s)
        if left_s is None:
            return TimePlan(by_move, by_move, self.min_depth, self._max_depth)
        usable = max(0.0, left_s - self.margin - lag_s)
        share, increment = float(usable / self._moves[stones]), 0.0 if clock is None else clock.increment
        if self.allocation == "fixed" and clock is not None:
            share = float(clock.seconds / self._moves[0])
        planned = min(share + SHARE_OF_INCREMENT * increment, MAX_CLOCK_SHARE * usable)
        hard = min(self.extra * planned, MAX_CLOCK_SHARE_EXTENDED * usable)
        return TimePlan(
            min(planned, by_move), min(hard, by_move), self.min_depth, self._max_depth, self.extra, self.steady
        )

    @cached_property
    def _is_warm(self) -> bool:
        """True, after everything needed for a move has been compiled, outside any clock."""
        position, key, before = Boards.start(self.game).position(0), np.uint64(0), None
        by_leaves = getattr(self.searcher, "leaf", None) is not None
        with compile_at_once():
            for _ in range(2):  # the second continues the first
                search = begin_timed(self.searcher, position, key, before, time.perf_counter)
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
        self._is_warm  # noqa: B018
        out, now = np.empty(boards.cells.shape), time.perf_counter
        left_s = None if self.own_clock is None else self.own_clock.seconds
        for row, key in enumerate(rng.integers(0, 1 << 64, len(boards.mover), np.uint64)):
            position, start = boards.position(row), now()
            search = begin_timed(self.searcher, position, key, None, now)
            run_until(search, self.plan(int(np.count_nonzero(position.cells)), left_s, self.own_clock), start, now)
            out[row] = search.best()
        return out

    def player(self, now: Now = time.perf_counter) -> TimedPlayer:
        """Return a player with its own clocks, one per game, if ``clock`` is set; compiles before it returns.

        Args:
            now: wall clock in seconds, from any starting point.
        """
        self._is_warm  # noqa: B018
        return TimedPlayer(self, now)


class TimedPlayer(ClockedPlayer):
    """Plays games with ``timed``, each with its own clock.

    If a match keeps the clocks, its ``time_left`` is used. Simultaneous games are searched one after another, each
    timed by itself; only a player of one game at a time ponders.

    Attributes:
        guesses, hits: number of times that it pondered until its next turn, and that it predicted the reply. A turn
            that comes at once, because the opponent's is skipped, is a miss.
        depths: depth of the search for each of its moves; 0 for single legal moves.
    """

    def __init__(self, policy: Timed, now: Now = time.perf_counter) -> None:
        super().__init__(policy.own_clock)
        self.policy, self._now = policy, now
        self._keys: dict[int, np.uint64] = {}
        self._before: dict[int, tuple[TimedSearch, int]] = {}
        self.guesses = self.hits = 0
        self.depths: list[int] = []
        self._lag_s = 0.0
        self._pondering: Pondering | None = None
        self._stop_pondering: Callable[[], tuple[Position, TimedSearch] | None] = lambda: None
        """stops the thread of :attr:`_pondering`; called at the latest when the player is no longer referenced"""
        self._pondering_slot = -1

    def begin(self, slots: Int64Array) -> None:
        """Start new games in ``slots`` int64[B]: clocks are reset and searches discarded."""
        self.close()
        self.fill_clocks(slots)
        for slot in slots.tolist():
            self._keys.pop(slot, None)
            self._before.pop(slot, None)

    def close(self) -> None:
        """Stop pondering; no thread is left running."""
        self._stop_pondering()

    def act(
        self, boards: Boards, slots: Int64Array, rng: np.random.Generator, time_left: Float64Array | None = None
    ) -> Int64Array:
        """Return int64[B], a move in each of the games ``slots``, one after another.

        ``rng`` gives a 64-bit key for each new game, and a uniform number for each move. At a fixed depth, a move
        depends on nothing else, with or without pondering.
        """
        start, games = self._now(), slots.tolist()
        new = [slot for slot in games if slot not in self._keys]
        self._keys.update(zip(new, rng.integers(0, 1 << 64, len(new), np.uint64), strict=True))
        u = rng.random(len(games))
        expected = self._stop_pondering()
        out = np.empty(len(games), np.int64)
        for row, slot in enumerate(games):
            left_s, position = self.time_left(slot, row, time_left), boards.position(row)
            search = self._expected_search(position, expected if slot == self._pondering_slot else None)
            out[row] = self._move(position, slot, left_s, search, float(u[row]), start, len(games) == 1)
            end = self._now()
            self.spend(slot, end - start, time_left)
            start = end
        return out

    def _move(
        self,
        position: Position,
        slot: int,
        left_s: float | None,
        search: TimedSearch | None,
        u: float,
        start: float,
        is_alone: bool,
    ) -> int:
        policy, stones = self.policy, int(np.count_nonzero(position.cells))
        choices = np.flatnonzero(legal(policy.game, position.cells))
        if len(choices) == 1:
            self.depths.append(0)
            return int(choices[0])
        if search is None:
            search = begin_timed(policy.searcher, position, self._key(slot, stones), self._before.get(slot), self._now)
        plan = policy.plan(stones, left_s, self.clock, self._lag_s)
        run_until(search, plan, start, self._now)
        # on a busy machine, overruns are likely to recur
        self._lag_s = max(LAG_DECAY * self._lag_s, self._now() - start - plan.hard_s)
        self.depths.append(search.depth)
        cell = int(sample(search.best()[None], np.array([u]))[0])
        self._before[slot] = search, cell
        if policy.ponder and is_alone and (left_s is None or plan.hard_s >= MIN_PONDER_S):
            key, before = self._key(slot, stones + 2), (search, cell)
            begin = partial(begin_timed, policy.searcher, key=key, before=before, now=self._now)
            self._pondering_slot = slot
            self._pondering = Pondering(policy.game, position, search, cell, plan.max_depth, begin, self._now)
            self._stop_pondering = weakref.finalize(self, self._pondering.stop)
        return cell

    def _expected_search(self, position: Position, expected: tuple[Position, TimedSearch] | None) -> TimedSearch | None:
        """Return the search of a position that was predicted."""
        if expected is None:
            return None
        self.guesses += 1
        is_hit = expected[0].mover == position.mover and np.array_equal(expected[0].cells, position.cells)
        self.hits += is_hit
        return expected[1] if is_hit else None

    def _key(self, slot: int, stones: int) -> np.uint64:
        """Return the key for the search of a position, which depends only on the game and the number of stones."""
        return np.uint64(splitmix64(self._keys[slot], stones))
