"""The solution of a game, cached; and perfect play."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from baselines.connect_four import is_solvable
from baselines.exact.folder import FORMAT, is_finished
from baselines.exact.layers import (
    MAX_SOLVER_CELLS,
    Plan,
    check_size,
    open_layers,
)
from baselines.exact.solution import LayeredSolution, SearchedSolution, Solution, shared_solution
from ttt_envs.agents.policy import ALL_VARIANTS
from ttt_envs.agents.specs import Named
from ttt_envs.core.array_cache import cache_path, make_room, max_cache_bytes
from ttt_envs.core.checks import Refusal, check_properties, check_range
from ttt_envs.core.files import FolderLockedError
from ttt_envs.core.jit import Float64Array, kernel
from ttt_envs.core.lru_cache import LRUCache
from ttt_envs.core.work import DEFAULT_WORK, Work
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game

MAX_SOLUTIONS = 8
"""Maximum number of solutions that are kept for the next call, those used last."""
_solutions: LRUCache[Solution] = LRUCache(MAX_SOLUTIONS)


def is_searched(game: Game) -> bool:
    """Return whether positions are solved by a search for each, as Connect Four on boards of more
    than 16 cells.
    """
    return game.cells > MAX_SOLVER_CELLS and is_solvable(game)


def solve(game: Game, *, cache: bool = True, work: Work = DEFAULT_WORK) -> Solution:
    """Return the exact values of all positions of a game.

    Up to 16 cells they are computed in memory. Connect Four without skips on more cells has none:
    each position is searched. Other games of 17 cells or more have a folder of layers in the user's
    cache directory, or in the folder ``TTT_ENVS_CACHE``, checked by hashes and memory-mapped: 2.4
    GB for 4 x 5 with skips. The cache takes at most ``TTT_ENVS_CACHE_BYTES`` (4 GiB); 0 disables
    it. An interrupted build is resumed by the next process. Without the cache, the layers are kept
    in memory.

    Args:
        game: up to 21 cells, with any skip chance; with gravity up to 6 x 5 or 5 x 6; or Connect
            Four.
        cache: whether to keep the solution (of searched games, the table) for the next call, and to
            read and store layers on disk.
        work: threads, memory, progress.

    Raises:
        MemoryError: memory is too small.
        OSError: the disk is full; no finished layer is lost.
        ValueError: the board is larger, or the number of threads is invalid.
    """
    if is_searched(game):
        return shared_solution(game) if cache else SearchedSolution(game)
    if not cache:
        return Plan(game).build(None, work)
    return _solutions.get(game, lambda: _build_cached(Plan(game), work))


def is_stored(game: Game) -> bool:
    """Return whether the layers of a game of 17 cells or more are in the disk cache, where
    :func:`solve` reads them.
    """
    return is_finished(game, cache_path(*_cache_entry(game)))


def _cache_entry(game: Game) -> tuple[str, dict[str, object]]:
    return f"layers-{game.slug}", {"format": FORMAT, "game": game.to_dict()}


def _build_cached(plan: Plan, work: Work) -> LayeredSolution:
    """Return the layers of a game, of 17 cells or more in a cache folder if the limit allows it,
    else in memory.
    """
    if plan.game.cells <= MAX_SOLVER_CELLS:
        return plan.build(None, work)
    folder = cache_path(*_cache_entry(plan.game))
    size = 0
    if not is_finished(plan.game, folder):  # check before evicting others
        size = plan.estimate.disk
        plan.check_memory(work.memory, folder=size <= max_cache_bytes())
    is_cached = make_room(folder, size)
    while True:
        try:
            return plan.build(folder if is_cached else None, work)
        except FolderLockedError:  # another process is building; its layers will be read
            time.sleep(1.0)


@dataclass(frozen=True)
class Optimal(Named):
    """Perfect play, including skips: equal shares for all optimal moves; with probability epsilon
    any legal move.

    Connect Four without skips on more than 16 cells has no table: each position is searched, which
    takes seconds to minutes for the first moves of 6 x 7. ``book:path=FILE,then=optimal`` takes
    these from a file.

    Raises:
        ValueError: epsilon is outside 0 to 1, the game is too large to solve, or the database does
            not solve it.
    """

    name: ClassVar[str] = "optimal"
    symmetric = colour_blind = True
    variants = ALL_VARIANTS
    max_cells = MAX_SOLVER_CELLS
    refusals: ClassVar = {"hidden": "it reads the whole board, to look up its exact value"}

    game: Game
    epsilon: float = 0.0
    """probability of a random move, 0 to 1; controls the playing strength"""
    database: str | None = None
    """a folder built by evaluate.py database build for the whole game, used instead of solving"""

    def __post_init__(self) -> None:
        if self.database is not None:
            check_properties(self, "solution")
        elif not is_searched(self.game):
            check_size(self.game)
        check_range("epsilon", self.epsilon, 0, 1, "is no probability of a random move")

    @cached_property
    def solution(self) -> Solution:
        """The solution, computed on first access.

        Raises:
            ValueError: the database does not begin at the empty board.
        """
        if self.database is None:
            return solve(self.game)
        solution = open_layers(self.game, Path(self.database))
        if solution.stones > 0:
            raise Refusal(
                f"database={self.database} begins at {solution.stones} stones: build it from 0, or "
                "search with endgame="
            )
        return solution

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, rows * columns]."""
        values = self.solution.action_values(boards)
        out = np.empty(values.shape)
        _write_shares(values, self.solution.tie, self.epsilon, out)
        return out

    def values(self, boards: Boards) -> Float64Array:
        """Return the values under perfect play, float64[B], for the mover."""
        return self.solution.values(boards)

    def action_values(self, boards: Boards) -> Float64Array:
        """Return action values under perfect play, float64[B, rows * columns], for the mover, NaN
        where illegal.
        """
        return self.solution.action_values(boards)

    def __reduce__(self) -> tuple[type[Optimal], tuple[Game, float, str | None]]:
        """Return the settings, without the table: each process loads it itself."""
        return Optimal, (self.game, self.epsilon, self.database)


@kernel
def _write_shares(values: Float64Array, tie: float, epsilon: float, out: Float64Array) -> None:
    """Write :meth:`Optimal.probabilities`, given the action values float64[B, cells], into
    ``out``.
    """
    for b in range(len(values)):
        best = -np.inf
        num_legal = 0
        for value in values[b]:
            if value == value:  # no NaN
                best = max(best, value)
                num_legal += 1
        num_best = 0
        for value in values[b]:
            num_best += value >= best - tie
        for cell in range(values.shape[1]):
            value = values[b, cell]
            best_share = (value >= best - tie) / num_best
            legal_share = (value == value) / num_legal
            out[b, cell] = (1 - epsilon) * best_share + epsilon * legal_share
