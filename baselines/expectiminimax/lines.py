"""The lines of the board: their stones, the tallies of open ones for each player, and the moves that they suggest.

A line with stones of one player only is open to that player. The lines through a cell are updated incrementally with
each stone (:func:`put`), so that the board is never rescanned.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.jit import Int8Array, Int64Array, UInt8Array, inlined, int64
from ttt_envs.game.game import Game
from ttt_envs.game.lines import makes_line
from ttt_envs.game.parameters import Parameters, line_sign

UInt32Array = NDArray[np.uint32]
Heuristic = Literal["count", "consecutive", "all-diagonals"]
"""quantity compared at the horizon, over lines still open to a player: ``"count"`` the maximum number of stones, in a
row, column or main diagonal; ``"consecutive"`` the longest run of stones in one of these; ``"all-diagonals"`` the
maximum number of stones, including short diagonals. The main diagonals begin in a corner of the board. Where lines wrap
there are no corners and no ends, and all three are ``"all-diagonals"``"""

NUM_SORTED_MOVES = 8
"""Number of moves that are sorted; the rest stays in order of cells."""
SCORED, COUNTED = range(2)
"""kinds of lines: those that the heuristic scores, and the others, whose stones are counted; if the heuristic does not
count stones, the latter are all lines"""


class LineArrays(NamedTuple):
    """The lines of a game, constant for all positions; M counts a line once for each kind that it has."""

    cells: Int64Array
    """int64[M, win_length]: the cells of the lines, those of ``SCORED`` lines first"""
    through: UInt32Array
    """uint32[cells, 1 + T, 2]: from row 1 on, for each line through a cell its number, and the cell's bit in it, those
    of ``SCORED`` lines first; row 0 has the end of these rows and of all. Unsigned, because a signed index takes an
    instruction more: it may count from the end"""
    scores: UInt8Array
    """uint8[2, 2**win_length]: by kind and the bits of a player's stones in a line, their number or score"""
    num_scored: int
    """number of ``SCORED`` lines"""
    counts: bool
    """whether the heuristic counts stones: then one stone adds at most one to a score"""


class Board(NamedTuple):
    """The current position, and the stones in its lines there and along the path: D is the depth + 1."""

    cells: Int8Array
    """int8[cells]"""
    masks: UInt32Array
    """uint32[2, M]: each player's stones in each line, as bits"""
    tally: Int64Array
    """int64[D, 2, 2, win_length + 1]: by plies left, number of lines of a kind open to a player, by count or score"""
    best: Int64Array
    """int64[D, 2, 2]: the largest of these counts or scores that a line has, -1 if no line is open"""


@lru_cache(maxsize=16)
def line_arrays(game: Game, heuristic: Heuristic) -> LineArrays:
    """Return the lines of a game for a heuristic."""
    lines, counts = game.line_cells, heuristic != "consecutive" or game.torus
    is_scored = np.full(len(lines), True)
    if heuristic != "all-diagonals" and not game.torus:
        is_scored = _straight_or_main(game, lines)
    lines = np.concatenate([lines[is_scored], lines[~is_scored] if counts else lines])
    through = np.zeros((game.cells, 1 + int(np.bincount(lines.ravel()).max()), 2), np.uint32)
    for cell in range(game.cells):
        numbers, places = np.nonzero(lines == cell)
        through[cell, 0] = 1 + np.count_nonzero(numbers < is_scored.sum()), 1 + len(numbers)
        through[cell, 1 : 1 + len(numbers)] = np.stack([numbers, 1 << places], axis=1)
    masks = np.arange(1 << game.win_length)
    scores = np.zeros((2, len(masks)), np.uint8)
    runs = masks
    for cell in range(game.win_length):
        scores[COUNTED] += (masks >> cell & 1).astype(np.uint8)
        scores[SCORED] += runs != 0  # the longest run
        runs = runs & runs >> 1  # shortens every run by one
    if counts:
        scores[SCORED] = scores[COUNTED]
    return LineArrays(lines, through, scores, int(is_scored.sum()), counts)


def _straight_or_main(game: Game, lines: Int64Array) -> NDArray[np.bool_]:
    """Return bool[L]: the lines in a row, in a column, or in a diagonal that begins in a corner."""
    row, column = np.divmod(lines[:, [0, -1]].T, game.columns)  # of the first, upper cell and of the last one
    straight = (row[0] == row[1]) | (column[0] == column[1])
    falling = (column[1] > column[0]) & np.isin(row[0] - column[0], (0, game.rows - game.columns))
    rising = (column[1] < column[0]) & np.isin(row[0] + column[0], (game.columns - 1, game.rows - 1))
    main: NDArray[np.bool_] = straight | falling | rising
    return main


@inlined
def put(cell: int, mover: int, source: int, target: int, lines: LineArrays, board: Board) -> None:
    """Put a stone on an empty cell; the tallies ``target`` become those of ``source`` plus the stone."""
    through, scores = lines.through, lines.scores
    cells, masks, tally, best = board
    cells[cell] = mover + 1
    start = int64(1)
    for kind in range(2):
        own, other = tally[target, kind, mover], tally[target, kind, 1 - mover]
        for value in range(len(own) if source != target else 0):
            own[value], other[value] = tally[source, kind, mover, value], tally[source, kind, 1 - mover, value]
        end = int64(through[cell, 0, kind])
        for i in range(start, end):
            line, bit = through[cell, i, 0], through[cell, i, 1]
            own_mask, other_mask = masks[mover, line], masks[1 - mover, line]
            masks[mover, line] = own_mask | bit
            if other_mask == 0:
                own[scores[kind, own_mask]] -= 1
                own[scores[kind, own_mask | bit]] += 1
            if own_mask == 0:
                other[scores[kind, other_mask]] -= 1
        best[target, kind, mover], best[target, kind, 1 - mover] = largest(own), largest(other)
        start = end


@inlined
def largest(tally: Int64Array) -> int:
    """Return the largest count or score that a line has, -1 if there is no line."""
    value = len(tally) - 1
    while value >= 0 and tally[value] == 0:
        value -= 1
    return value


@inlined
def take(cell: int, mover: int, lines: LineArrays, board: Board) -> None:
    """Undo :func:`put`."""
    through, masks = lines.through, board.masks
    board.cells[cell] = 0
    for i in range(1, int64(through[cell, 0, COUNTED])):
        masks[mover, through[cell, i, 0]] ^= through[cell, i, 1]


@inlined
def most_stones(player: int, depth: int, board: Board) -> int:
    """Return a player's maximum number of stones in an open line, -1 if none is open; runs never exceed the count."""
    return int64(max(board.best[depth, SCORED, player], board.best[depth, COUNTED, player]))


@inlined
def completes_line(cell: int, mover: int, depth: int, board: Board, parameters: Parameters) -> bool:
    """Return whether the stone that was just put on a cell is in a line."""
    if parameters.variants != 0:  # a line may be too long
        return makes_line(board.cells, cell, parameters)
    return most_stones(mover, depth, board) == parameters.win_length


@inlined
def horizon(own_best: int, other_best: int, parameters: Parameters) -> float:
    """Return the score at the horizon of the player whose best line has ``own_best``: -1, no line, counts as 0."""
    return 0.5 * line_sign(parameters) * (int64(own_best > max(other_best, 0)) - int64(other_best > max(own_best, 0)))


# ---------------------------------------------------------------------------------------------------------------------
# Moves


@inlined
def sort_moves(hint: int, lines: LineArrays, board: Board, moves: Int64Array, weight: Int64Array, count: int) -> None:
    """Sort the first of ``count`` moves: those through heavy lines first, but ``hint`` before all, -1 for none.

    Every stone in a line quadruples its weight, as long as it is open to a player. ``weight`` int64[cells] is scratch.
    """
    masks = board.masks
    weight[:] = 0
    for line in range(len(lines.cells)):
        if masks[0, line] == 0 or masks[1, line] == 0:
            line_weight = 1 << 2 * int64(lines.scores[COUNTED, masks[0, line] | masks[1, line]])
            for cell in lines.cells[line]:
                weight[cell] += line_weight
    if hint >= 0:
        weight[hint] = 1 << 60
    for i in range(min(NUM_SORTED_MOVES, count)):
        move, heaviest = moves[i], weight[moves[i]]
        for j in range(i + 1, count):
            if weight[moves[j]] > heaviest:
                moves[j], move, heaviest = move, moves[j], weight[moves[j]]
        moves[i] = move


@inlined
def write_blocks(player: int, lines: LineArrays, board: Board, moves: Int64Array) -> int:
    """Write the empty cells of one of a player's best lines before the last ply into ``moves``; return their number."""
    masks, best, line, count = board.masks, board.best[1, SCORED, player], 0, 0
    while masks[1 - player, line] != 0 or lines.scores[SCORED, masks[player, line]] != best:
        line += 1
    for cell in lines.cells[line]:
        if board.cells[cell] == 0:
            moves[count] = cell
            count += 1
    return count
