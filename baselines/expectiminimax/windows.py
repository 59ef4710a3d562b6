"""Windows, the places of lines: which stones stand in them, and how many of a kind are open to whom.

A window with stones of one player only is open to that player, and a full one is a line. What a stone does to the
windows through its cell is counted as it is put down (:func:`put`), so that nothing reads the board again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttt_envs.compiling import Cells, Integers, inlined, wide
from ttt_envs.rules import Game, windows

Heuristic = Literal["count", "consecutive", "all-diagonals"]
"""what is compared at the horizon, in windows that are still open to a player: ``"count"`` the most stones in one, in a
row, column or main diagonal; ``"consecutive"`` the longest run of stones in one of the same; ``"all-diagonals"`` the
most stones, the short diagonals included. The main diagonals are those that begin in a corner of the board"""

Masks = NDArray[np.uint32]
Octets = NDArray[np.uint8]

THE_SCORED, ALL_OF_THEM = range(2)
"""where `Windows.through` says how many windows there are"""
COUNTED, SCORED = range(2)
"""kinds of windows: those of which the stones are counted, and those that the heuristic looks at; where the heuristic
counts stones itself no window need be both"""


class Windows(NamedTuple):
    """The windows of a game, the same for all positions."""

    lines: Integers
    """int64[W, win_length]: the cells of the windows"""
    through: Masks
    """uint32[cells, 1 + T, 2]: from 1 on, of the windows through a cell the number, and the cell's bit in it; before
    them where the scored ones end, and where all end (``THE_SCORED``, ``ALL_OF_THEM``)"""
    worth: Octets
    """uint8[2, 2**win_length]: by the bits of a player's stones in a window, how many (``COUNTED``), and what the
    heuristic makes of them (``SCORED``)"""
    scored: int
    """the windows that the heuristic looks at are those with smaller numbers"""
    counted: int
    """the others have their stones counted: windows from this number on, all of them where the heuristic does not"""


class Board(NamedTuple):
    """The position being looked at, and what stands in its windows there and on the path to it."""

    cells: Cells
    """int8[cells]"""
    masks: Masks
    """uint32[2, W]: each player's stones in each window, as bits"""
    tally: Integers
    """int64[D, 2, 2, win_length + 2]: how many windows of a kind are open to a player with so much in them; and at the
    end the largest of which there is one, -1 where no window is open. Of the nodes of the path, by plies left: D is the
    depth + 1"""


@lru_cache(maxsize=16)
def windows_of(game: Game, heuristic: Heuristic) -> Windows:
    """The windows of a game, as a heuristic looks at them."""
    lines = windows(game)
    length, size = game.win_length, game.cells
    scored = np.full(len(lines), True) if heuristic == "all-diagonals" else _straight_or_main(game, lines)
    lines = np.concatenate([lines[scored], lines[~scored]])
    through = np.zeros((size, 1 + int(np.bincount(lines.ravel()).max()), 2), np.uint32)
    for cell in range(size):
        numbers, places = np.nonzero(lines == cell)
        through[cell, 0] = 1 + (numbers < scored.sum()).sum(), 1 + len(numbers)
        through[cell, 1 : 1 + len(numbers)] = np.stack([numbers, 1 << places], axis=1)
    masks = np.arange(1 << length)
    worth = np.zeros((2, 1 << length), np.uint8)
    runs = masks
    for cell in range(length):
        worth[COUNTED] += (masks >> cell & 1).astype(np.uint8)
        worth[SCORED] += runs != 0  # the longest run
        runs = runs & runs >> 1  # every run less by one
    if heuristic != "consecutive":
        worth[SCORED] = worth[COUNTED]
    many = int(scored.sum())
    return Windows(lines, through, worth, many, 0 if heuristic == "consecutive" else many)


def _straight_or_main(game: Game, lines: Integers) -> NDArray[np.bool_]:
    """bool[W]: the windows in a row, in a column, or in a diagonal that begins in a corner."""
    row, column = np.divmod(lines[:, [0, -1]].T, game.columns)  # of the first cell, the upper one, and of the last
    straight = (row[0] == row[1]) | (column[0] == column[1])
    falling = (column[1] > column[0]) & np.isin(row[0] - column[0], (0, game.rows - game.columns))
    rising = (column[1] < column[0]) & np.isin(row[0] + column[0], (game.columns - 1, game.rows - 1))
    main: NDArray[np.bool_] = straight | falling | rising
    return main


# ---------------------------------------------------------------------------------------------------------------------
# Stones


@inlined
def put(cell: int, mover: int, before: int, after: int, windows: Windows, board: Board) -> bool:
    """Put a stone on an empty cell, and count it; returns whether a line is full.

    ``tally[after]`` becomes ``tally[before]`` with the stone. To take it back :func:`take` is enough.
    """
    _, through, worth, scored, counted = windows
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
    for i in range(1, wide(through[cell, 0, ALL_OF_THEM])):
        window, bit = through[cell, i, 0], through[cell, i, 1]
        mine, theirs = masks[mover, window], masks[other, window]
        masks[mover, window] = mine | bit
        if theirs == 0:
            if window < scored:
                value = wide(worth[SCORED, mine | bit])
                tally[after, SCORED, mover, worth[SCORED, mine]] -= 1
                tally[after, SCORED, mover, value] += 1
                top = max(top, value)
            if window >= counted:
                value = wide(worth[COUNTED, mine | bit])
                tally[after, COUNTED, mover, value - 1] -= 1
                tally[after, COUNTED, mover, value] += 1
                most = max(most, value)
        if mine == 0:
            if window < scored:
                tally[after, SCORED, other, worth[SCORED, theirs]] -= 1
            if window >= counted:
                tally[after, COUNTED, other, worth[COUNTED, theirs]] -= 1
    tally[after, COUNTED, mover, last], tally[after, SCORED, mover, last] = most, top
    _settle(other, after, tally)
    return bool(max(most, top) == last - 1)


@inlined
def take(cell: int, mover: int, windows: Windows, board: Board) -> None:
    """Undo :func:`put`."""
    _, through, _, _, _ = windows
    cells, masks, _ = board
    cells[cell] = 0
    for i in range(1, wide(through[cell, 0, ALL_OF_THEM])):
        masks[mover, through[cell, i, 0]] ^= through[cell, i, 1]


@inlined
def _settle(player: int, depth: int, tally: Integers) -> None:
    """Lower the largest values of a player to where there is a window."""
    last = tally.shape[3] - 1
    for kind in range(2):
        value = tally[depth, kind, player, last]
        while value >= 0 and tally[depth, kind, player, value] == 0:
            value -= 1
        tally[depth, kind, player, last] = value


@inlined
def most_stones(player: int, depth: int, board: Board) -> int:
    """The most stones of a player in an open window, -1 where none is open; a run is never more than the count."""
    _, _, tally = board
    last = tally.shape[3] - 1
    return wide(max(tally[depth, COUNTED, player, last], tally[depth, SCORED, player, last]))


@inlined
def clear(depth: int, windows: Windows, board: Board) -> None:
    """The empty board, at ``tally[depth]``."""
    _, _, _, scored, counted = windows
    cells, masks, tally = board
    cells[:] = 0
    masks[:] = 0
    tally[depth, :, :, :] = 0
    for player in range(2):
        tally[depth, COUNTED, player, 0] = masks.shape[1] - counted
        tally[depth, SCORED, player, 0] = scored
        _settle(player, depth, tally)
