"""The policy that searches by the clock, and its player."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from baselines.expectiminimax import Expectiminimax
from baselines.mcts import MCTS
from baselines.timed.clock import (
    MAX_SECONDS,
    ClockedPlayer,
    ClockedPolicy,
    Now,
    expected_moves_left,
)
from baselines.timed.search import IterativeDeepening, MCTSTimedSearch, Pondering, TimedSearch
from ttt_envs.agents.policy import ALL_VARIANTS, Policy, sample
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import Refusal, check_properties, check_range
from ttt_envs.core.jit import Int64Array, compile_at_once
from ttt_envs.core.random import draw_keys, splitmix64
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import legal

DEFAULT_MOVE_S = 0.1
"""Default time for a move in seconds."""
MAX_CLOCK_SHARE = 0.5
"""Maximum share of the time on the clock that is planned for one move."""
MAX_CLOCK_SHARE_EXTENDED = 0.6
"""Maximum share of the time on the clock after which the search of a move is interrupted."""
EXTENSION = 2.0
"""Factor on the planned time after which a search is interrupted."""
SHARE_OF_INCREMENT = 0.8
"""Share of the increment that is planned for a move."""
MAX_MARGIN_SHARE = 0.1
"""Maximum share of a fixed time per move that the margin may take."""
WARM_DEPTH = 3
WARM_SIMULATIONS = 100
UNBOUNDED_DEPTH = 1 << 62
MIN_PONDER_S = 0.05
"""Minimum time for a move, in seconds, for pondering with a game clock: stopping the thread may
take as much time.
"""
LAG_DECAY = 0.9
"""Decay of the measured lag per move."""


@dataclass(frozen=True)
class Timed(ClockedPolicy):
    """A search by the clock: it deepens as long as a game clock, or a time per move, allows.

    Raises:
        ValueError: a setting is out of range, or ``search`` cannot be interrupted.
    """

    name: ClassVar[str] = "timed"
    variants = ALL_VARIANTS
    test_specs = ("timed:move=60,max-depth=2", "timed:move=0.001", "timed:mcts,move=0.001")
    refusals: ClassVar = {"hidden": "it reads the whole board, to search the moves of both players"}
    is_warm: ClassVar[bool] = False
    """Whether :meth:`warm_up` has been called."""

    game: Game
    search: str | Policy = "expectiminimax"
    """the search: expectiminimax, deepened by plies, or mcts, extended by simulations"""
    move: float | None = None
    """maximum seconds per move; none: 0.1 if there is no game clock"""
    clock: str | None = None
    """seconds for a game, as in 10, or with an increment per move, as in 10+0.1; a match's clocks
    take precedence
    """
    max_depth: int | None = None
    """maximum number of plies (of mcts simulations)"""
    margin: float = 0.05
    """seconds on the clock held in reserve"""
    ponder: bool = False
    """search on the opponent's time, in a second thread"""

    def __post_init__(self) -> None:
        check_range(
            "move",
            self.move,
            0,
            problem="is no time for a move",
            hint=" seconds, such as 0.1",
            above=True,
        )
        check_range("max-depth", self.max_depth, 1, problem="leaves no depth")
        check_range("margin", self.margin, 0)
        super().__post_init__()
        check_properties(self, "searcher")

    @property
    def uses_clock(self) -> bool:  # type: ignore[override]  # computed
        """Whether the clock decides, without a maximum depth."""
        return self.max_depth is None

    @cached_property
    def searcher(self) -> Expectiminimax | MCTS:
        """The policy whose search is timed."""
        policy = make_policy(self.search, self.game)
        if isinstance(policy, Expectiminimax | MCTS):
            return policy
        raise Refusal(
            f"search={self.search} has no search that could be stopped: choose expectiminimax or "
            "mcts"
        )

    def plan(
        self, stones: int, left_s: float, increment: float = 0.0, lag_s: float = 0.0
    ) -> tuple[float, float]:
        """Return the seconds planned for a move, and those after which its search is interrupted.

        Args:
            stones: number of stones on the board.
            left_s: seconds on the clock; infinity without a game clock.
            increment: seconds added to the clock after the move.
            lag_s: measured overrun of earlier moves in seconds; added to the margin.
        """
        move_s = math.inf
        if self.move:
            move_s = self.move
        elif math.isinf(left_s):
            move_s = DEFAULT_MOVE_S
        by_move = move_s - min(self.margin, MAX_MARGIN_SHARE * move_s)
        usable = max(0.0, left_s - self.margin - lag_s)
        share = usable / expected_moves_left(self.game, stones) + SHARE_OF_INCREMENT * increment
        planned = min(share, MAX_CLOCK_SHARE * usable, by_move)
        return planned, min(EXTENSION * planned, MAX_CLOCK_SHARE_EXTENDED * usable, by_move)

    def begin(
        self, position: Position, key: np.uint64, now: Now, before: TimedSearch | None = None
    ) -> TimedSearch:
        """Start a search of a position that is not over.

        Args:
            position: the position.
            key: for random numbers.
            now: the clock.
            before: the search of the same player's previous position in this game; None if there is
                none.
        """
        policy = self.searcher
        depth = self.max_depth or UNBOUNDED_DEPTH
        if isinstance(policy, Expectiminimax):
            return IterativeDeepening(policy, position, key, now, depth)
        return MCTSTimedSearch(policy, position, key, now, depth, before)

    def warm_up(self) -> None:
        """Compile everything needed for a move, outside any clock, in the first call."""
        if self.is_warm:
            return
        depth = WARM_SIMULATIONS
        if isinstance(self.searcher, Expectiminimax):
            depth = WARM_DEPTH if self.searcher.leaf is None else 1
        warm = replace(self, search=self.searcher, move=MAX_SECONDS, max_depth=depth, ponder=True)
        with compile_at_once(), closing(TimedPlayer(warm)) as player:
            player.act(Boards.start(self.game), np.zeros(1, np.int64), np.random.default_rng(0))
            if player.pondering is not None:
                player.pondering.thread.join()
        object.__setattr__(self, "is_warm", True)

    def player(self, now: Now = time.perf_counter) -> TimedPlayer:
        """Return a player with its own clocks, one per game, if ``clock`` is set; compiles before
        it returns.

        Args:
            now: wall clock in seconds, from any starting point.
        """
        self.warm_up()
        return TimedPlayer(self, now)


class TimedPlayer(ClockedPlayer):
    """Plays games with ``timed``, each with its own clock.

    If a match keeps the clocks, its ``time_left`` is used. Simultaneous games are searched one
    after another, each timed by itself; only a player of one game at a time ponders.

    ``rng`` gives a 64-bit key for each new game, and a uniform number for each move. At a fixed
    depth, a move depends on nothing else, with or without pondering.

    Attributes:
        guesses, hits: number of times that it pondered until its next turn, and that it predicted
            the reply. A turn that comes at once, because the opponent's is skipped, is a miss.
        depths: depth of the search for each of its moves; 0 for single legal moves.
    """

    def __init__(self, policy: Timed, now: Now = time.perf_counter) -> None:
        super().__init__(policy.game, policy.clock, now)
        self.policy = policy
        self.guesses = self.hits = 0
        self.depths: list[int] = []
        self._keys: dict[int, np.uint64] = {}
        self.searches: dict[int, TimedSearch] = {}
        self._u: dict[int, float] = {}
        self.lag_s = 0.0
        self.pondering: Pondering | None = None
        self._stop_pondering: Callable[[], TimedSearch | None] = lambda: None
        """stops the thread of :attr:`pondering`; called at the latest when the player is no longer
        referenced
        """

    def begin(self, slots: Int64Array) -> None:
        """Start new games in ``slots`` int64[B]: clocks are reset and searches discarded."""
        self.close()
        super().begin(slots)
        for slot in slots.tolist():
            self._keys.pop(slot, None)
            self.searches.pop(slot, None)

    def close(self) -> None:
        """Stop pondering; no thread is left running."""
        self._stop_pondering()

    def prepare(self, slots: Int64Array, rng: np.random.Generator) -> None:
        """Draw what the moves need."""
        new_slots = [slot for slot in slots.tolist() if slot not in self._keys]
        self._keys.update(zip(new_slots, draw_keys(rng, len(new_slots)), strict=True))
        self._u = dict(zip(slots.tolist(), rng.random(len(slots)).tolist(), strict=True))

    def move(self, position: Position, slot: int, left_s: float, start: float) -> int:
        """Search, and ponder if this is the only game: see :class:`ClockedPlayer`."""
        policy = self.policy
        stones = int(np.count_nonzero(position.cells))
        search = self._stop_pondering()
        key = splitmix64(self._keys[slot], stones)
        if search is not None:
            self.guesses += 1
            cells, mover = search.position
            if search.key != key or mover != position.mover or (cells != position.cells).any():
                search = None
            self.hits += search is not None
        choices = np.flatnonzero(legal(self.game, position.cells))
        if len(choices) == 1:
            self.depths.append(0)
            return int(choices[0])
        search = search or policy.begin(position, key, self.now, self.searches.get(slot))
        soft_s, hard_s = policy.plan(stones, left_s, self.clock.increment, self.lag_s)
        search.run(start, soft_s, hard_s)
        # on a busy machine, overruns are likely to recur
        self.lag_s = max(LAG_DECAY * self.lag_s, self.now() - start - hard_s)
        self.depths.append(search.depth)
        self.searches[slot] = search
        cell = int(sample(search.best()[None], np.array([self._u[slot]]))[0])
        if policy.ponder and len(self._u) == 1 and (math.isinf(left_s) or hard_s >= MIN_PONDER_S):
            begin = partial(
                policy.begin,
                key=splitmix64(self._keys[slot], stones + 2),
                now=self.now,
                before=search,
            )
            self.pondering = Pondering(self.game, search, cell, begin)
            self._stop_pondering = weakref.finalize(self, self.pondering.stop)
        return cell
