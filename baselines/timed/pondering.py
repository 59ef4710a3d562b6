"""Thinking on the opponent's time, in a second thread.

The thread works while compiled code does, wherever that lets go of Python's lock: the kernels of ``expectiminimax``
(``go_on``) and of ``mcts`` (``simulate``) do, so that two searches in one process run on two cores. Beside other
kernels, and between its own, it has to wait: what it costs the other side is a few microseconds for each look at the
clock. On one core it takes from the opponent what it gets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from baselines.timed.searches import Now, TimedSearch
from ttt_envs.rules import NOT_OVER, Game, Position, place

PATIENCE_S = 600.0
"""seconds that an opponent is thought along with"""
BETWEEN_LOOKS_S = 0.001
"""seconds within which a thread stops"""

Begin = Callable[[Position], TimedSearch]


class Pondering:
    """A thread that thinks about the position after a move and its likeliest answer.

    Args:
        game: what is played.
        position: where the move is made; its mover is who ponders.
        search: of that position; nobody else may use it until :meth:`stop`.
        cell: the move.
        max_depth: how deep to search.
        begin: makes the search of the position that is expected.
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
        """End the thread, and return the position that was expected and its search, None where there is none.

        Raises:
            Exception: what was raised there.
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
            self._think(*self._work)
        except BaseException as problem:  # told where the player is asked next
            self._problem = problem

    def _think(
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
        begun = now()
        reply = search.reply(cell, self._going)
        if reply is None or place(cells, 1 - me, reply, stones + 1, game.parameters) != NOT_OVER:
            return
        expected = Position(cells, me)
        ahead = begin(expected)
        self._expected = expected, ahead
        while self._going() and ahead.depth < max_depth and ahead.can_change(float("inf")):
            if now() - begun > PATIENCE_S:
                return
            ahead.go_on(now() + BETWEEN_LOOKS_S, max_depth)
