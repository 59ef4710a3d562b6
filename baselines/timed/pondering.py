"""Pondering: searching on the opponent's time, in a second thread.

The thread makes progress while the compiled kernels of ``expectiminimax`` and ``mcts`` release the GIL, so two searches
in one process run on two cores. During other kernels, and between its own, the thread waits; it costs the other side a
few microseconds for each check of the clock. On a single core, pondering takes its time from the opponent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np

from baselines.timed.search import STOP_CHECK_S, TimedSearch
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import NOT_OVER, place

MAX_PONDER_S = 600.0
"""Maximum duration of pondering in seconds."""


class Pondering:
    """A thread that searches the position after a move and its likeliest reply.

    Args:
        game: the game.
        position: the position before the move; its mover ponders.
        search: the search of that position; it must not be used elsewhere until :meth:`stop`.
        cell: the move.
        begin: starts the search of the predicted position.

    Attributes:
        expected: the predicted position and its search; None while there is none.
    """

    def __init__(
        self, game: Game, position: Position, search: TimedSearch, cell: int, begin: Callable[[Position], TimedSearch]
    ) -> None:
        self.expected: tuple[Position, TimedSearch] | None = None
        self._problem: BaseException | None = None
        self._stopped = threading.Event()
        task = game, position, search, cell, begin
        self.thread = threading.Thread(target=self._run, args=task, name="pondering", daemon=True)
        self.thread.start()

    def stop(self) -> tuple[Position, TimedSearch] | None:
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
        self, game: Game, position: Position, search: TimedSearch, cell: int, begin: Callable[[Position], TimedSearch]
    ) -> None:
        try:
            cells, mover, end = position.cells.copy(), position.mover, time.monotonic() + MAX_PONDER_S
            stones = int(np.count_nonzero(cells))
            if place(cells, mover, cell, stones, game.parameters) != NOT_OVER:
                return
            reply = search.reply(cell, lambda: not self._stopped.is_set())
            if reply is None or place(cells, 1 - mover, reply, stones + 1, game.parameters) != NOT_OVER:
                return
            search = begin(Position(cells, mover))
            self.expected = Position(cells, mover), search
            while not self._stopped.is_set() and search.can_change(float("inf")) and time.monotonic() < end:
                search.search_until(search.now() + STOP_CHECK_S)
        except BaseException as problem:  # re-raised by `stop`
            self._problem = problem
