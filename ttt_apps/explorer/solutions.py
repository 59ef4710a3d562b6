"""Exact values for the explorer: boards that are solved in a moment, stored tables, and databases
of last layers.

Up to 16 cells a game is solved in less than a second. A table of 17 to 21 cells takes seconds to
minutes and up to gigabytes, so it is only read where ``evaluate.py solve`` has stored it. With
gravity the bound is on the number of positions, so that 5 x 5 has tables. Connect Four without
skips needs none: a search solves its positions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from baselines.connect_four import is_solvable
from baselines.exact import (
    MAX_SOLVER_CELLS,
    LayeredSolution,
    SearchedSolution,
    Solution,
    open_layers,
    solve,
)
from baselines.exact.folder import is_finished
from baselines.exact.layers import (
    MAX_CELLS_LAST_LAYERS,
    MAX_LAYERED_CELLS,
    bound_colourings,
)
from baselines.exact.optimal import is_stored
from ttt_apps.explorer.policies import MAX_TABLE_CELLS
from ttt_envs.core.checks import Refusal
from ttt_envs.core.lru_cache import LRUCache
from ttt_envs.game.game import Game
from ttt_eval.reports.formats import command, game_options

MAX_SOLUTIONS = 6
"""Maximum number of cached solutions, in memory (up to 42 MB each) or mapped from the disk."""
MAX_COLOURINGS = 1 << 29
"""Maximum number of colourings of the columns of a table with gravity, which has fewer positions: 5
x 5 has as many.
"""
MAX_CELLS_SEARCHED = 20
"""Maximum number of cells of Connect Four at which a search solves every position in a moment."""
SEARCH_BYTES = 1 << 24
"""Size of the search's table."""

Availability = Literal["now", "soon", "table", "part", "none"]
"""Exact values at once; in a moment; once a table is stored; of the last moves; or not."""
Source = Literal["search", "solver", "table", "none"]
"""What gives exact values: a search, a solver, both in a moment; a stored table; or neither."""


class Solutions:
    """Exact values of games, with bounded caches.

    Args:
        databases: folder of endgame databases, named as ``evaluate.py database build`` names them;
            None for none.
    """

    def __init__(self, databases: Path | None = None) -> None:
        self._databases = databases
        self._solutions: LRUCache[Solution] = LRUCache(MAX_SOLUTIONS)

    def availability(self, game: Game) -> Availability:
        """Return whether :meth:`get` has exact values of a whole game, and how soon.

        A game of any size is solved ``soon``: the first solution in a process may wait for its
        compilation.
        """
        source = _source(game)
        folder = self._database(game)
        if source == "none":
            return "none" if folder is None else "part"
        is_table_missing = source == "table" and not is_stored(game)
        if is_table_missing and (folder is None or not is_finished(game, folder)):
            return "table"
        return "now" if game in self._solutions else "soon"

    def get(self, game: Game) -> Solution:
        """Return the exact values of a game, or of its last positions: see :func:`first_stones`.

        Raises:
            ValueError: there is neither a table nor a database of it; the message says how to make
                one.
        """
        return self._solutions.get(game, lambda: self._make(game))

    def _make(self, game: Game) -> Solution:
        source = _source(game)
        if source == "search":
            return SearchedSolution(game, memory=SEARCH_BYTES)
        if source == "solver":
            return solve(game, cache=False)
        if source == "table" and is_stored(game):
            return solve(game)
        folder = self._database(game)
        if folder is not None:
            return open_layers(game, folder)
        if source == "table":
            advice = command("evaluate.py", "solve", *game_options(game))
            raise Refusal(
                f"no table of {game} is stored: run this once, which says what it takes: {advice}"
            )
        raise Refusal(
            f"exact values are not offered for {game}: choose a board of {why_no_values(game)}, or "
            "a search"
        )

    def _database(self, game: Game) -> Path | None:
        if self._databases is None or game.cells > MAX_CELLS_LAST_LAYERS:
            return None
        folder = self._databases / game.slug
        return folder if folder.is_dir() and not folder.is_symlink() else None


def first_stones(solution: Solution) -> int:
    """Return the minimum number of stones of a position with a value: 0 but for a database of last
    layers.
    """
    return solution.stones if isinstance(solution, LayeredSolution) else 0


def why_no_values(game: Game) -> str:
    """Return the condition that a game without exact values does not meet."""
    if game.variants == {"gravity": True} and game.skip_chance == 0:
        return f"up to {MAX_CELLS_SEARCHED} cells"
    return "up to 5 x 5" if game.gravity else f"up to {MAX_LAYERED_CELLS} cells"


def _source(game: Game) -> Source:
    """Return what gives exact values of a whole game, apart from databases."""
    is_searched = is_solvable(game)
    if game.cells <= (MAX_CELLS_SEARCHED if is_searched else MAX_SOLVER_CELLS):
        return "search" if is_searched and game.cells > MAX_TABLE_CELLS else "solver"
    if game.gravity:
        has_table = not is_searched and bound_colourings(game) <= MAX_COLOURINGS
    else:
        has_table = game.cells <= MAX_LAYERED_CELLS
    return "table" if has_table else "none"
