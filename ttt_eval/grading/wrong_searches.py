"""Searches of 3 x 3 with an error: their exact values name the error of a submission."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ttt_envs.core.checks import DATA_PROBLEMS
from ttt_envs.core.files import read_table
from ttt_envs.game.game import Game

Board = Sequence[int]
"""Stones by cell: 1 of the player who is asked, -1 of the other player, 0 empty."""
MAX_ERROR = 0.02
"""Values within this distance are equal: a search may count its root as one of 200 simulations."""


class WrongSearch(NamedTuple):
    """A search with an error."""

    name: str
    """of the error"""
    unseen: Sequence[Sequence[int]]
    """cells of lines that do not win"""
    aims: Sequence[int]
    """by stone, 1 for a player who chooses the largest value, -1 for the smallest"""
    results: Sequence[float]
    """values of games that are won, by the winner's stone"""
    draws: Sequence[float]
    """values of draws, by the stone of the player to move"""
    turns: Sequence[int]
    """what makes the next stone of the mover's, after later moves and after the first"""

    def solve(self, aims: Sequence[int]) -> Callable[[Board], float]:
        """Return a function of boards, which returns the value of the player to move, with other
        aims.
        """
        lines = [line.cells for line in Game().lines if [*line.cells] not in self.unseen]

        @cache
        def search(board: Board, mover: int = 1, is_first: bool = True) -> float:
            for total in np.array(board)[lines].sum(axis=1):
                if abs(total) == 3:
                    return self.results[int(total) // 3]
            next_mover = mover * self.turns[is_first]
            values = [
                search((*board[:cell], mover, *board[cell + 1 :]), next_mover, False)
                for cell, stone in enumerate(board)
                if stone == 0
            ]
            choose: Any = max if aims[mover] > 0 else min
            value: float = choose(values, default=self.draws[mover])
            return value

        return search

    def explains(self, values: Mapping[Board, Any], any_play: bool) -> bool:
        """Return whether all values are those of the search, or between those of any play."""
        smallest = self.solve((0, -1, -1) if any_play else self.aims)
        largest = self.solve((0, 1, 1) if any_play else self.aims)
        return all(
            smallest(board) - MAX_ERROR < values[board] < largest(board) + MAX_ERROR
            for board in sorted(values, key=lambda board: board.count(0))  # the cheapest first
        )


TABLES = read_table(__file__)
SEARCHES = [WrongSearch(**TABLES["right"] | row) for row in TABLES["wrong"]]


def name_errors(values: Mapping[Board, Any], any_play: bool = False) -> list[str]:
    """Return the errors that explain all values of a submission; none of broken ones.

    Args:
        values: for the player to move, by board.
        any_play: whether they are means of simulations.
    """
    try:
        return [search.name for search in SEARCHES if search.explains(values, any_play)]
    except DATA_PROBLEMS:
        return []
