"""The lines of the board: their stones, and the tallies of open ones for each player.

A line with stones of one player only is open to that player. The lines through a cell are updated incrementally with
each stone (:func:`put`), so that the board is never rescanned.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.jit import Int8Array, Int64Array, UInt8Array, UInt32Array, inlined, int64
from ttt_envs.game.game import Game
from ttt_envs.game.lines import makes_line
from ttt_envs.game.parameters import Parameters

Heuristic = Literal["count", "consecutive", "all-diagonals"]
"""quantity compared at the horizon, over lines still open to a player: ``"count"`` the maximum number of stones, in a
row, column or main diagonal; ``"consecutive"`` the longest run of stones in one of these; ``"all-diagonals"`` the
maximum number of stones, including short diagonals. The main diagonals begin in a corner of the board. Where lines wrap
there are no corners and no ends, and all three are ``"all-diagonals"``"""

SCORED_END, ALL_END = range(2)
"""indices of the numbers of lines in `LineArrays.through`"""
COUNTED, SCORED = range(2)
"""kinds of lines: those with counted stones, and those that the heuristic scores; if the heuristic counts stones
itself, no line is both"""


class LineArrays(NamedTuple):
    """The lines of a game, constant for all positions."""

    lines: Int64Array
    """int64[L, win_length]: the cells of the lines"""
    through: UInt32Array
    """uint32[cells, 1 + T, 2]: from row 1 on, for each line through a cell its number, and the cell's bit in it; in
    row 0 the ends of the scored lines and of all (``SCORED_END``, ``ALL_END``)"""
    scores: UInt8Array
    """uint8[2, 2**win_length]: by the bits of a player's stones in a line, their number (``COUNTED``), and their
    score by the heuristic (``SCORED``)"""
    scored: int
    """number of lines that the heuristic scores, which come first"""
    counted: int
    """first line with counted stones; 0, all lines, if the heuristic does not count stones"""


class Board(NamedTuple):
    """The current position, and the stones in its lines there and along the path."""

    cells: Int8Array
    """int8[cells]"""
    masks: UInt32Array
    """uint32[2, L]: each player's stones in each line, as bits"""
    tally: Int64Array
    """int64[D, 2, 2, win_length + 2]: number of lines of a kind open to a player, by count or score; the last entry
    is the largest of these with a line, -1 if no line is open. Indexed by plies left along the path: D is the
    depth + 1"""


@lru_cache(maxsize=16)
def line_arrays(game: Game, heuristic: Heuristic) -> LineArrays:
    """Return the lines of a game for a heuristic."""
    if game.torus:
        heuristic = "all-diagonals"
    lines = game.line_cells
    length, size = game.win_length, game.cells
    scored = np.full(len(lines), True) if heuristic == "all-diagonals" else _straight_or_main(game, lines)
    lines = np.concatenate([lines[scored], lines[~scored]])
    through = np.zeros((size, 1 + int(np.bincount(lines.ravel()).max()), 2), np.uint32)
    for cell in range(size):
        numbers, places = np.nonzero(lines == cell)
        through[cell, 0] = 1 + (numbers < scored.sum()).sum(), 1 + len(numbers)
        through[cell, 1 : 1 + len(numbers)] = np.stack([numbers, 1 << places], axis=1)
    masks = np.arange(1 << length)
    scores = np.zeros((2, 1 << length), np.uint8)
    runs = masks
    for cell in range(length):
        scores[COUNTED] += (masks >> cell & 1).astype(np.uint8)
        scores[SCORED] += runs != 0  # the longest run
        runs = runs & runs >> 1  # shortens every run by one
    if heuristic != "consecutive":
        scores[SCORED] = scores[COUNTED]
    many = int(scored.sum())
    return LineArrays(lines, through, scores, many, 0 if heuristic == "consecutive" else many)


def _straight_or_main(game: Game, lines: Int64Array) -> NDArray[np.bool_]:
    """Return bool[L]: the lines in a row, in a column, or in a diagonal that begins in a corner."""
    row, column = np.divmod(lines[:, [0, -1]].T, game.columns)  # of the first, upper cell and of the last one
    straight = (row[0] == row[1]) | (column[0] == column[1])
    falling = (column[1] > column[0]) & np.isin(row[0] - column[0], (0, game.rows - game.columns))
    rising = (column[1] < column[0]) & np.isin(row[0] + column[0], (game.columns - 1, game.rows - 1))
    main: NDArray[np.bool_] = straight | falling | rising
    return main


# ---------------------------------------------------------------------------------------------------------------------
# Stones


@inlined
def put(
    cell: int, mover: int, before: int, after: int, winning_lines: LineArrays, board: Board, parameters: Parameters
) -> bool:
    """Put a stone on an empty cell and update the tallies; return whether it completes a line.

    ``tally[after]`` becomes ``tally[before]`` plus the stone. :func:`take` undoes it.
    """
    _, through, scores, scored, counted = winning_lines
    cells, masks, tally = board
    cells[cell] = mover + 1
    last = tally.shape[3] - 1
    other = 1 - mover
    if before != after:
        for kind in range(2):
            for player in range(2):
                for value in range(last + 1):
                    tally[after, kind, player, value] = tally[before, kind, player, value]
    most, top = tally[after, COUNTED, mover, last], tally[after, SCORED, mover, last]
    for i in range(1, int64(through[cell, 0, ALL_END])):
        line, bit = through[cell, i, 0], through[cell, i, 1]
        mine, theirs = masks[mover, line], masks[other, line]
        masks[mover, line] = mine | bit
        if theirs == 0:
            if line < scored:
                value = int64(scores[SCORED, mine | bit])
                tally[after, SCORED, mover, scores[SCORED, mine]] -= 1
                tally[after, SCORED, mover, value] += 1
                top = max(top, value)
            if line >= counted:
                value = int64(scores[COUNTED, mine | bit])
                tally[after, COUNTED, mover, value - 1] -= 1
                tally[after, COUNTED, mover, value] += 1
                most = max(most, value)
        if mine == 0:
            if line < scored:
                tally[after, SCORED, other, scores[SCORED, theirs]] -= 1
            if line >= counted:
                tally[after, COUNTED, other, scores[COUNTED, theirs]] -= 1
    tally[after, COUNTED, mover, last], tally[after, SCORED, mover, last] = most, top
    _lower_maxima(other, after, tally)
    if parameters.variants != 0:  # a line may be too long
        return makes_line(cells, cell, parameters)
    return bool(max(most, top) == last - 1)


@inlined
def take(cell: int, mover: int, winning_lines: LineArrays, board: Board) -> None:
    """Undo :func:`put`."""
    _, through, _, _, _ = winning_lines
    cells, masks, _ = board
    cells[cell] = 0
    for i in range(1, int64(through[cell, 0, ALL_END])):
        masks[mover, through[cell, i, 0]] ^= through[cell, i, 1]


@inlined
def _lower_maxima(player: int, depth: int, tally: Int64Array) -> None:
    """Lower the maxima of a player to the largest value that some line has."""
    last = tally.shape[3] - 1
    for kind in range(2):
        value = tally[depth, kind, player, last]
        while value >= 0 and tally[depth, kind, player, value] == 0:
            value -= 1
        tally[depth, kind, player, last] = value


@inlined
def most_stones(player: int, depth: int, board: Board) -> int:
    """Return a player's maximum number of stones in an open line, -1 if none is open; runs never exceed the count."""
    _, _, tally = board
    last = tally.shape[3] - 1
    return int64(max(tally[depth, COUNTED, player, last], tally[depth, SCORED, player, last]))


@inlined
def clear(depth: int, winning_lines: LineArrays, board: Board) -> None:
    """Set the empty board, at ``tally[depth]``."""
    _, _, _, scored, counted = winning_lines
    cells, masks, tally = board
    cells[:] = 0
    masks[:] = 0
    tally[depth, :, :, :] = 0
    for player in range(2):
        tally[depth, COUNTED, player, 0] = masks.shape[1] - counted
        tally[depth, SCORED, player, 0] = scored
        _lower_maxima(player, depth, tally)
