"""Pondering: searching on the opponent's time, in a second thread.

The thread makes progress while compiled code releases the GIL: the kernels of ``expectiminimax`` (``run_search``) and
of ``mcts`` (``simulate``) do, so two searches in one process run on two cores. During other kernels, and between its
own, the thread waits; it costs the other side a few microseconds for each check of the clock. On a single core,
pondering takes its time from the opponent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from baselines.timed.interruptible import Now, TimedSearch
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import NOT_OVER, place

MAX_PONDER_S = 600.0
"""Maximum duration of pondering in seconds."""
STOP_CHECK_S = 0.001
"""Maximum delay in seconds until a thread stops."""

Begin = Callable[[Position], TimedSearch]


class Pondering:
    """A thread that searches the position after a move and its likeliest reply.

    Args:
        game: the game.
        position: the position before the move; its mover ponders.
        search: of that position; it must not be used elsewhere until :meth:`stop`.
        cell: the move.
        max_depth: maximum depth of the search.
        begin: starts the search of the predicted position.
        now: the clock.
    """

    def __init__(
        self,
        game: Game,
        position: Position,
        search: TimedSearch,
        cell: int,
        max_depth: int,
        begin: Begin,
        now: Now,
    ) -> None:
        self._work = game, position, search, cell, max_depth, begin, now
        self._stop = threading.Event()
        self._expected: tuple[Position, TimedSearch] | None = None
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="pondering", daemon=True)
        self._thread.start()

    def stop(self) -> tuple[Position, TimedSearch] | None:
        """Stop the thread, and return the predicted position and its search, None if there is none.

        Raises:
            Exception: the exception raised in the thread.
        """
        self._stop.set()
        self._thread.join()
        if self._problem is not None:
            raise self._problem
        return self._expected

    def _going(self) -> bool:
        return not self._stop.is_set()

    def _run(self) -> None:
        try:
            self._ponder(*self._work)
        except BaseException as problem:  # re-raised by `stop`
            self._problem = problem

    def _ponder(
        self,
        game: Game,
        position: Position,
        search: TimedSearch,
        cell: int,
        max_depth: int,
        begin: Begin,
        now: Now,
    ) -> None:
        cells, me = position.cells.copy(), position.mover
        stones = int(np.count_nonzero(cells))
        if place(cells, me, cell, stones, game.parameters) != NOT_OVER:
            return
        start = now()
        reply = search.reply(cell, self._going)
        if reply is None or place(cells, 1 - me, reply, stones + 1, game.parameters) != NOT_OVER:
            return
        expected = Position(cells, me)
        ahead = begin(expected)
        self._expected = expected, ahead
        while self._going() and ahead.depth < max_depth and ahead.can_change(float("inf")):
            if now() - start > MAX_PONDER_S:
                return
            ahead.search_until(now() + STOP_CHECK_S, max_depth)
