"""Searches of one position that a clock can stop and continue: expectiminimax in plies, MCTS in
simulations.

A thread that ponders makes progress while their compiled kernels release the GIL, so two searches
in one process run on two cores. During other kernels, and between its own, the thread waits; it
costs the other side a few microseconds for each check of the clock. On a single core, pondering
takes its time from the opponent.
"""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from baselines.expectiminimax import Expectiminimax
from baselines.mcts import MCTS, MCTSSearch, Tree
from baselines.timed.clock import Now
from ttt_envs.agents.policy import VALUE_TOLERANCE, best_shares
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import NOT_OVER, put_stone

STEP_S = 0.01
"""Interval in seconds between two checks of the clock."""
STOP_CHECK_S = 0.001
"""Maximum delay in seconds until a thread stops."""
MIN_NODES, MIN_SIMULATIONS = 256, 8
"""Minimum number of positions, or of simulations, between two checks of the clock."""
TABLE_MIB = 16
"""Maximum size of a search's table in MiB: growing a larger one takes longer than a player in time
trouble has.
"""
TREE_BYTES = 1 << 27
"""Size of a tree in bytes beyond which it does not grow, for the same reason."""
MAX_PONDER_S = 600.0
"""Maximum duration of pondering in seconds."""


class TimedSearch(ABC):
    """A search of one position that deepens as long as it is called, by steps of a ply or of some
    simulations.

    Its result depends on the position and the depth, and not on interruptions.

    Args:
        position, key: the position, and the key of its random numbers.
        now: the clock.
        min_work: minimum number of positions or simulations between two checks of the clock.
        max_depth: depth of a complete search.

    Attributes:
        depth: number of finished plies or simulations; 0 before the first.
        work: number of visited positions or simulations.
    """

    growth = 1.0
    """minimum ratio of the durations of a step and the one before"""

    def __init__(
        self, position: Position, key: np.uint64, now: Now, min_work: int, max_depth: int
    ) -> None:
        self.position = position
        self.key = key
        self.now = now
        self._min_work = min_work
        self.max_depth = max_depth
        self.depth = self.work = 0
        self._seconds = self._last_s = self._step_s = 0.0
        """seconds for all steps, for the last one, and for the unfinished one"""

    @abstractmethod
    def can_change(self, seconds: float) -> bool:
        """Return whether ``seconds`` more may still change the move."""

    @abstractmethod
    def best(self) -> Float64Array:
        """Return float64[rows * columns]: the shares of the moves to play; needs the first step."""

    @abstractmethod
    def reply(self, cell: int, next_position: Position, going: Callable[[], bool]) -> int | None:
        """Return the likeliest reply to a move to ``next_position``, or None; may search while
        ``going()``.
        """

    @abstractmethod
    def _run(self, work: int) -> bool:
        """Do some work; return whether the step is finished."""

    def search_until(self, end: float) -> bool:
        """Continue until one more step is finished or the clock shows ``end``; return whether it is
        finished.
        """
        now = self.now()
        is_finished = False
        while not is_finished and self.depth < self.max_depth:
            rate = self.work / self._seconds if self._seconds > 0 else 0.0
            work = int(rate * min(STEP_S, (end - now) / 2))
            is_finished = self._run(max(self._min_work, work))
            before = now
            now = self.now()
            self._seconds += now - before
            self._step_s += now - before
            if now >= end:
                break
        if is_finished:
            self._last_s = self._step_s
            self._step_s = 0.0
        return is_finished

    def run(self, start: float, soft_s: float, hard_s: float) -> None:
        """Deepen until the time since ``start`` is up or the move cannot change; the first step is
        always finished.

        A step takes at least as long as the one before, and is started if that fits into
        ``soft_s``; it is interrupted after ``hard_s``. More time never gives a shallower search.
        """
        if self.depth == 0:
            self.search_until(math.inf)
        while self.can_change(soft_s - (self.now() - start)):
            step_s = max(0.0, self.growth * self._last_s - self._step_s)
            if self.now() - start + step_s > soft_s:
                return
            if not self.search_until(start + hard_s):
                return


class IterativeDeepening(TimedSearch):
    """Iterative deepening of ``expectiminimax``: depths 1, 2, 3, ..., which share the transposition
    table.

    The moves of an unfinished depth count if the best move of the previous depth is among them:
    that move is searched first, so a better one is better at the new depth. If even the first is
    not finished, the previous depth decides.

    With a leaf policy, a depth cannot be interrupted.
    """

    def __init__(
        self, policy: Expectiminimax, position: Position, key: np.uint64, now: Now, max_depth: int
    ) -> None:
        empty = int(np.count_nonzero(position.cells == 0))
        super().__init__(position, key, now, MIN_NODES, min(max_depth, empty))
        self._policy = policy
        root = Boards.from_positions([position])
        keys = np.full(1, key, np.uint64)
        self.search = policy.search(root, keys, every_move=False, max_mib=TABLE_MIB)
        if policy.leaf is not None:
            self.growth = empty
        self._values = self._next_values = np.full(policy.game.cells, np.nan)

    # the calls of expectiminimax

    def _run(self, work: int) -> bool:
        is_finished = self.search.run(self.depth + 1, work)
        self.work = int(self.search.nodes[0])
        self._next_values = self.search.move_values[0].copy()
        if is_finished:
            self._values = self._next_values
            self.depth += 1
        return is_finished

    def can_change(self, seconds: float) -> bool:
        """Return whether the position is still undecided, for any amount of time.

        It is decided after a search to the end, by an immediate win and, without skips, by a forced
        win or loss, or if all moves but one lose.
        """
        if self.depth == 0:
            return True
        value = float(np.nanmax(self._values))
        if self.depth >= self.max_depth or value >= self.depth - VALUE_TOLERANCE:
            return False
        if self._policy.game.skip_chance > 0 or self._policy.leaf is not None:
            return True
        num_not_lost = int(np.sum(self._values > VALUE_TOLERANCE - 1))
        return abs(value) < 1 - VALUE_TOLERANCE and num_not_lost > 1

    def best(self) -> Float64Array:
        """Return the best moves of the last depth, or of an unfinished one, see the class."""
        values = self._values
        if np.isfinite(self._next_values[np.nanargmax(values)]):
            values = self._next_values
        return np.asarray(best_shares(values[None], self._policy.tie)[0])

    def reply(self, cell: int, next_position: Position, going: Callable[[], bool]) -> int | None:
        """Return the best reply, searched one ply less deeply."""
        search = IterativeDeepening(
            self._policy, next_position, self.key, self.now, max(1, self.depth - 1)
        )
        while going() and search.depth < search.max_depth:
            search.search_until(self.now() + STOP_CHECK_S)
        return int(np.nanargmax(search._values)) if search.depth == search.max_depth else None


class MCTSTimedSearch(TimedSearch):
    """``mcts`` in small steps, on a tree that continues the one of the previous move."""

    def __init__(
        self,
        policy: MCTS,
        position: Position,
        key: np.uint64,
        now: Now,
        max_depth: int,
        before: TimedSearch | None,
    ) -> None:
        self._policy = policy
        trees = [before.search.tree] if policy.reuse and isinstance(before, MCTSTimedSearch) else ()
        boards = Boards.from_positions([position])
        keys = np.array([key], np.uint64)
        self.search: MCTSSearch = policy.search(boards, keys, trees)
        tree = self.search.tree
        edge_bytes = Tree.num_bytes(1, tree.turns_per_move, tree.priors.shape[2])
        room = TREE_BYTES // edge_bytes - int(tree.counts[0])
        max_depth = min(max_depth, max(MIN_SIMULATIONS, room))
        super().__init__(position, key, now, MIN_SIMULATIONS, max_depth)

    # the calls of mcts

    def _run(self, work: int) -> bool:
        simulations = min(work, self.max_depth - self.depth)
        self.search.run(simulations)
        self.depth = self.work = self.depth + simulations
        return True

    def can_change(self, seconds: float) -> bool:
        """Return whether the most visited move can still be overtaken at this speed, and the
        position is unsolved.
        """
        if self.depth == 0 or self.depth >= self.max_depth:
            return self.depth == 0
        if self.search.root_solved[0]:
            return False
        if self._policy.temperature > 0 or not math.isfinite(seconds):
            return True
        second, first = np.sort([0, *self.search.visits[0]])[-2:]
        return bool((first - second) * self._seconds <= self.depth * max(0.0, seconds))

    def best(self) -> Float64Array:
        """Return the probabilities of the policy."""
        return np.asarray(self.search.probabilities(self._policy.temperature)[0])

    def reply(self, cell: int, next_position: Position, going: Callable[[], bool]) -> int | None:
        """Return the most visited move after the given one, if it is the opponent's."""
        variation = self.search.variation(0)
        if len(variation) < 2:
            return None
        (_, first_cell), (next_mover, next_cell) = variation[:2]
        if first_cell != cell or next_mover == self.position.mover:
            return None
        return next_cell


class Pondering:
    """A thread that searches the position after a move and its likeliest reply.

    Args:
        game: the game.
        search: the search of the position before the move, whose mover ponders; it must not be used
            elsewhere until :meth:`stop`.
        cell: the move.
        begin: starts the search of the predicted position.

    Attributes:
        expected: the search of the predicted position; None while there is none.
    """

    def __init__(
        self, game: Game, search: TimedSearch, cell: int, begin: Callable[[Position], TimedSearch]
    ) -> None:
        self.expected: TimedSearch | None = None
        self._problem: BaseException | None = None
        self._stopped = threading.Event()
        task = game, search, cell, begin
        self.thread = threading.Thread(target=self._run, args=task, name="pondering", daemon=True)
        self.thread.start()

    def stop(self) -> TimedSearch | None:
        """Stop the thread, and return :attr:`expected`.

        Raises:
            Exception: the exception raised in the thread.
        """
        self._stopped.set()
        self.thread.join()
        if self._problem is not None:
            raise self._problem
        return self.expected

    def _run(
        self, game: Game, search: TimedSearch, cell: int, begin: Callable[[Position], TimedSearch]
    ) -> None:
        try:
            cells = search.position.cells.copy()
            mover = search.position.mover
            end = time.monotonic() + MAX_PONDER_S
            if put_stone(game, cells, mover, cell) != NOT_OVER:
                return
            next_position = Position(cells.copy(), 1 - mover)
            reply = search.reply(cell, next_position, lambda: not self._stopped.is_set())
            if reply is None:
                return
            if put_stone(game, cells, 1 - mover, reply) != NOT_OVER:
                return
            self.expected = search = begin(Position(cells, mover))
            while (
                not self._stopped.is_set()
                and search.can_change(float("inf"))
                and time.monotonic() < end
            ):
                search.search_until(search.now() + STOP_CHECK_S)
        except BaseException as problem:  # re-raised by `stop`
            self._problem = problem
