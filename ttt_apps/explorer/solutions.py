"""Exact values for the explorer: boards that are solved in a moment, stored tables, and tables that a user asks for.

Up to 12 cells a game is solved while a move is drawn, up to 16 in less than a second. A table of 17 to 21 cells takes
seconds to minutes and up to gigabytes, so it is read where it is stored, and computed only on request, in another
process. With gravity the bound is on the number of positions, so that 5 x 5 has tables. Connect Four without skips
needs none: a search solves its positions.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from baselines.connect_four import is_solvable
from baselines.exact import MAX_SOLVER_CELLS, SearchedSolution, Solution, estimate, open_layers, solve
from baselines.exact.layers import (
    MAX_CELLS_LAST_LAYERS,
    MAX_LAYERED_CELLS,
    Estimate,
    bound_colourings,
    check_memory,
    is_finished,
)
from baselines.exact.solve import is_stored
from ttt_apps.explorer.caches import LRUCache
from ttt_apps.explorer.schemas import MAX_TABLE_CELLS
from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.array_cache import CACHE_BYTES_VARIABLE, max_cache_bytes
from ttt_envs.core.subprocesses import subprocess_environment
from ttt_envs.game.game import Game

MAX_SOLUTIONS, MAX_MEDIUM, MAX_STORED = 24, 4, 2
"""Maximum numbers of cached solutions: up to 12 cells, in memory (up to 42 MB each), and mapped from the disk."""
MAX_COLOURINGS = 1 << 29
"""Maximum number of colourings of the columns of a table with gravity, which has fewer positions: 5 x 5 has as many."""
MAX_CELLS_SEARCHED = 20
"""Maximum number of cells of Connect Four at which a search solves every position in a moment."""
SEARCH_BYTES = 1 << 24
"""Size of the search's table."""
MAX_FAILURE = 300
"""Maximum length of a message of a failed computation."""

Availability = Literal["now", "soon", "ask", "building", "part", "none"]
"""Exact values at once; in a moment; if a table is asked for; while one is computed; of the last moves; or not."""


class Exact(NamedTuple):
    """The exact values of a game."""

    solution: Solution
    tolerance: float
    """maximum difference between two values that count as equal"""
    stones: int = 0
    """minimum number of stones of a position with a value"""


class Solutions:
    """Exact values of games, with bounded caches.

    Args:
        databases: folder of endgame databases, named as ``evaluate.py database build`` names them; None for none.
    """

    def __init__(self, databases: Path | None = None) -> None:
        self._databases = databases
        self._small, self._medium, self._stored = LRUCache(MAX_SOLUTIONS), LRUCache(MAX_MEDIUM), LRUCache(MAX_STORED)
        self._build: Build | None = None
        self._lock = threading.Lock()

    def availability(self, game: Game) -> Availability:
        """Return whether :meth:`get` has exact values of a whole game, and how soon."""
        if game.cells <= MAX_TABLE_CELLS or game in self._medium:
            return "now"
        if game.cells <= _max_cells_in_memory(game):
            return "soon"
        if not _may_have_table(game):
            return "none" if self._database(game) is None else "part"
        if game in self._stored:
            return "now"
        if self._is_building(game):
            return "building"
        return "soon" if is_stored(game) or self._covers(game) else "ask"

    def get(self, game: Game) -> Exact | None:
        """Return the exact values of a game; None if there is neither a table nor a database of it."""
        if game.cells <= MAX_TABLE_CELLS:
            return Exact(self.solve_small(game), VALUE_TOLERANCE)
        if game.cells <= _max_cells_in_memory(game):
            return Exact(self._medium.get(game, lambda: _solve_in_memory(game)), VALUE_TOLERANCE)
        folder = self._database(game)
        stored = _may_have_table(game) and not self._is_building(game) and is_stored(game)
        if not stored and folder is None:
            return None

        def make() -> Exact:
            if stored:
                solution = solve(game)
                return Exact(solution, solution.tie)
            assert folder is not None
            table = open_layers(game, folder)
            return Exact(table, table.tie, table.stones)

        found: Exact = self._stored.get(game, make)
        return found

    def solve_small(self, game: Game) -> Solution:
        """Return the solution of a game of at most 12 cells."""
        found: Solution = self._small.get(game, lambda: solve(game, cache=False))
        return found

    def build(self, game: Game) -> dict[str, Any]:
        """Start to compute a table in another process, unless one is being computed; and return :meth:`status`.

        Raises:
            MemoryError: memory is too small.
            ValueError: another game is being computed, or there is too little room for stored tables.
        """
        if self.availability(game) == "ask":
            with self._lock:
                if self._build is not None and self._build.is_running:
                    raise ValueError(f"{self._build.game} is being solved: wait until it is done")
                check_memory(_estimate(game), game)
                size = _estimate(game).disk
                if size > max_cache_bytes():
                    raise ValueError(
                        f"the table of {game} takes {size:,} bytes, and stored tables may take {max_cache_bytes():,}: "
                        f"start the explorer with {CACHE_BYTES_VARIABLE}={size + (1 << 20)}"
                    )
                self._build = Build(game)
        return self.status(game)

    def status(self, game: Game) -> dict[str, Any]:
        """Return the availability of exact values, with the cost of a table, the progress or the failure of one."""
        state = self.availability(game)
        found: dict[str, Any] = {"state": state}
        if state in ("ask", "building"):
            needed = _estimate(game)
            found |= {"seconds": needed.seconds, "disk": needed.disk, "memory": needed.memory}
        build = self._build
        if build is not None and build.game == game:
            found |= {"done": build.done, "failure": build.failure}
        return found

    def close(self) -> None:
        """End a running computation; its finished layers are reused by the next."""
        with self._lock:
            if self._build is not None:
                self._build.stop()

    def _is_building(self, game: Game) -> bool:
        return self._build is not None and self._build.game == game and self._build.is_running

    def _database(self, game: Game) -> Path | None:
        if self._databases is None or game.cells > MAX_CELLS_LAST_LAYERS:
            return None
        folder = self._databases / game.slug
        return folder if folder.is_dir() and not folder.is_symlink() else None

    def _covers(self, game: Game) -> bool:
        """Return whether there is a database of the whole game."""
        folder = self._database(game)
        return folder is not None and is_finished(game, folder)


def why_no_values(game: Game) -> str:
    """Return the condition that a game without exact values does not meet."""
    if game.variants == {"gravity": True} and game.skip_chance == 0:
        return f"up to {MAX_CELLS_SEARCHED} cells"
    return "up to 5 x 5" if game.gravity else f"up to {MAX_LAYERED_CELLS} cells"


def _max_cells_in_memory(game: Game) -> int:
    """Return the maximum number of cells of a solution that is computed without being asked for."""
    return MAX_CELLS_SEARCHED if is_solvable(game) else MAX_SOLVER_CELLS


def _may_have_table(game: Game) -> bool:
    """Return whether a table of a game above :func:`_max_cells_in_memory` is computed on request."""
    if game.gravity:
        return not is_solvable(game) and bound_colourings(game) <= MAX_COLOURINGS
    return game.cells <= MAX_LAYERED_CELLS


def _solve_in_memory(game: Game) -> Solution:
    """Return the solution of a game of up to :func:`_max_cells_in_memory`."""
    if is_solvable(game):
        return SearchedSolution(game, memory=SEARCH_BYTES)
    return solve(game, cache=False)


@lru_cache(maxsize=8)
def _estimate(game: Game) -> Estimate:
    """Return the cost of a table, for which positions with gravity are counted: 3 seconds for 5 x 5."""
    return estimate(game)


class Build:
    """A process that computes the table of a game into the disk cache.

    Args:
        game: of 17 cells or more.
    """

    def __init__(self, game: Game) -> None:
        self.game = game
        self.done = 0.0
        """fraction of the work done"""
        self.failure: str | None = None
        """why there is no table"""
        self.is_running = True
        command = [sys.executable, "-m", "ttt_apps.explorer.build_table", json.dumps(game.to_dict())]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=subprocess_environment(),
        )
        threading.Thread(target=self._follow, name="build", daemon=True).start()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        last = ""
        for line in self._process.stdout:
            try:
                self.done = float(line)
            except ValueError:
                last = line.strip()
        if self._process.wait() != 0:
            self.failure = last[:MAX_FAILURE] or "the computation ended early: ask again, and it resumes"
        self.is_running = False

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
