"""Pondering: searching on the opponent's time, in a second thread.

The thread makes progress while the compiled kernels of ``expectiminimax`` and ``mcts`` release the GIL, so two searches
in one process run on two cores. During other kernels, and between its own, the thread waits; it costs the other side a
few microseconds for each check of the clock. On a single core, pondering takes its time from the opponent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from baselines.timed.search import Now, TimedSearch
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import NOT_OVER, place

MAX_PONDER_S = 600.0
"""Maximum duration of pondering in seconds."""
STOP_CHECK_S = 0.001
"""Maximum delay in seconds until a thread stops."""


@dataclass(eq=False)
class Pondering:
    """A thread that searches the position after a move and its likeliest reply."""

    game: Game
    position: Position
    """the position before the move; its mover ponders"""
    search: TimedSearch
    """the search of that position; it must not be used elsewhere until :meth:`stop`"""
    cell: int
    """the move"""
    max_depth: int
    """maximum depth of the search"""
    begin: Callable[[Position], TimedSearch]
    """starts the search of the predicted position"""
    now: Now
    """the clock"""

    def __post_init__(self) -> None:
        self.expected: tuple[Position, TimedSearch] | None = None
        self._problem: BaseException | None = None
        self._stopped = threading.Event()
        self.thread = threading.Thread(target=self._run, name="pondering", daemon=True)
        self.thread.start()

    def stop(self) -> tuple[Position, TimedSearch] | None:
        """Stop the thread, and return the predicted position and its search, None if there is none.

        Raises:
            Exception: the exception raised in the thread.
        """
        self._stopped.set()
        self.thread.join()
        if self._problem is not None:
            raise self._problem
        return self.expected

    def _run(self) -> None:
        try:
            self._ponder()
        except BaseException as problem:  # re-raised by `stop`
            self._problem = problem

    def _ponder(self) -> None:
        cells, me, start = self.position.cells.copy(), self.position.mover, self.now()
        stones = int(np.count_nonzero(cells))
        if place(cells, me, self.cell, stones, self.game.parameters) != NOT_OVER:
            return
        reply = self.search.reply(self.cell, lambda: not self._stopped.is_set())
        if reply is None or place(cells, 1 - me, reply, stones + 1, self.game.parameters) != NOT_OVER:
            return
        position = Position(cells, me)
        search = self.begin(position)
        self.expected = position, search
        while not self._stopped.is_set() and search.depth < self.max_depth and search.can_change(float("inf")):
            if self.now() - start > MAX_PONDER_S:
                return
            search.search_until(self.now() + STOP_CHECK_S, self.max_depth)
