"""Searches of 3 x 3 with an error: their exact values name the error of a submission."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations, islice
from math import nan
from operator import itemgetter
from statistics import fmean
from typing import Any, NamedTuple

from ttt_envs.core.checks import DATA_PROBLEMS
from ttt_envs.core.files import read_table

Board = Sequence[int]
"""Stones by cell: 1 of the player who is asked, -1 of the other player, 0 empty."""
MAX_ERROR = 0.02
"""Values within this distance are equal: a search may count its root as one of 200 simulations."""


class WrongSearch(NamedTuple):
    """A search with an error."""

    lines: Sequence[Sequence[int]]
    """cells that win"""
    unseen: Sequence[Sequence[int]]
    """lines that it does not see"""
    ends: Sequence[int]
    """sums of stones in a line that end a game"""
    depth: int
    """number of moves after which games count as draws"""
    aims: Sequence[int]
    """by role (see :meth:`solve`), 1 if the largest value is chosen, -1 for the smallest, 0 for
    their mean, 2 for that of the first free cell, 3 for that of the last one"""
    results: Sequence[float]
    """values of games that are won, by the winner's stone"""
    draws: Sequence[float]
    """values of draws, by the stone of the player to move"""
    turns: Sequence[int]
    """what makes the next stone of the mover's, after later moves and after the first; with 0 it is
    that of the player to move"""

    starts: Sequence[Sequence[float]]
    """by role (see :meth:`solve`), numbers with which the largest or smallest value begins"""
    kept: Sequence[int]
    """roles whose tried moves are not taken back"""
    least_free: int
    """number of free cells below which lines are not seen"""
    limit: float
    """of alpha-beta in the order of cells, whose bounds are handed on as they are, without an
    exchange: minus the first lower bound, and the upper bound; 0 without alpha-beta"""
    is_whole: int
    """1 if all first moves have the first bounds, else 0"""

    def solve(self, aims: Sequence[int]) -> Callable[[Board], tuple[float, Board]]:
        """Return a function of boards, which returns the value of the player to move, NaN if it has
        ended, and the board with the moves that were not taken back.

        Args:
            aims: by role: 0 for the first move, later the mover's stone.
        """
        lines = [itemgetter(*cells) for cells in self.lines if cells not in self.unseen]

        @cache
        def search(
            board: Board, mover: int = 1, ply: int = 0, low: float = -self.limit
        ) -> tuple[float, Board]:
            for total in (sum(line(board)) for line in lines):
                if total in self.ends and board.count(0) >= self.least_free:
                    return self.results[total // 3] if ply else nan, board
            if ply == self.depth or 0 not in board:
                return self.draws[mover], board
            role = mover if ply else 0
            choose: Any = (fmean, max, itemgetter(0), itemgetter(-1), min)[aims[role]]
            values = [*self.starts[role]]
            if self.limit:
                values.append(mover * low)
            for cell in range(len(board)):
                if self.limit and ply >= self.is_whole:
                    low = mover * choose(values)
                if board[cell] == 0 and not low >= self.limit > 0:
                    value, board = search(
                        (*board[:cell], mover, *board[cell + 1 :]),
                        mover * self.turns[ply == 0] or 1,
                        ply + 1,
                        low,
                    )
                    values.append(value)
                    if role not in self.kept:
                        board = (*board[:cell], 0, *board[cell + 1 :])
            return choose(values), board

        return search

    def explains(self, values: Mapping[Board, Any], any_play: bool) -> bool:
        """Return whether all values are those of the search, or between those of any play; where
        the search takes the game for finished any may be.
        """
        aims = [(-1, -1, -1), (1, 1, 1)] if any_play else [self.aims]
        bounds = [*map(self.solve, aims)]
        return not any(
            values[board] <= bounds[0](board)[0] - MAX_ERROR
            or values[board] >= bounds[-1](board)[0] + MAX_ERROR
            for board in sorted(values, key=lambda board: board.count(0))  # the cheapest first
        )


TABLES = read_table(__file__)
LINES = TABLES["right"]["lines"]
TABLES["minimax"] |= {
    f"games that go on are taken for finished: the cells {cells} count as a line, "
    f"in place of {line}": [{"lines": [cells, *LINES], "unseen": [line]}]
    for line in LINES
    for cells in map(list, combinations(range(9), 3))
    if cells not in LINES
}


def solve_boards(boards: Sequence[Board], case: Mapping[str, Any]) -> list[float]:
    """Return values of a search that differs from a right one as a case of the table says."""
    search = WrongSearch(**TABLES["right"] | case)
    solve = search.solve(search.aims)
    return [solve(board)[0] for board in boards]


def name_errors(values: Mapping[Board, Any], any_play: bool = False) -> list[str]:
    """Return the error that explains all values of a submission, or two that do, as one text; none
    of broken ones, and if more than two explain them.

    Args:
        values: for the player to move, by board.
        any_play: whether they are means of simulations.
    """
    errors = TABLES["wrong"] | TABLES["rollouts" if any_play else "minimax"]
    try:
        error_names = (
            name
            for name, cases in errors.items()
            if any(
                WrongSearch(**TABLES["right"] | case).explains(values, any_play) for case in cases
            )
        )
        names = [*islice(error_names, 3)]
    except DATA_PROBLEMS:
        return []
    return ["; or ".join(names)] if 0 < len(names) < 3 else []
