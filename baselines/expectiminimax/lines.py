"""The lines of the board: their stones, the tallies of open ones for each player, and the moves
that they suggest.

A line with stones of one player only is open to that player. The lines through a cell are updated
incrementally with each stone (:func:`put`), so that the board is never rescanned.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.jit import Int8Array, Int64Array, UInt8Array, inlined, int64
from ttt_envs.core.records import record
from ttt_envs.game.bits import count_bits
from ttt_envs.game.game import MAX_EDGE, Game
from ttt_envs.game.parameters import Parameters, line_sign

UInt32Array = NDArray[np.uint32]
Heuristic = Literal["count", "consecutive", "all-diagonals"]
"""quantity compared at the horizon, over lines still open to a player: ``"count"`` the maximum
number of stones, in a row, column or main diagonal; ``"consecutive"`` the longest run of stones in
one of these; ``"all-diagonals"`` the maximum number of stones, including short diagonals. The main
diagonals begin in a corner of the board. Where lines wrap there are no corners and no ends, and all
three are ``"all-diagonals"``"""

MAX_CELLS = MAX_EDGE * MAX_EDGE
MAX_LINES = 8 * MAX_CELLS
"""Maximum number of lines, of two kinds in four directions."""
MAX_THROUGH = 1 + 8 * MAX_EDGE
"""Maximum number of lines through a cell, plus 1."""
NUM_SORTED_MOVES = 8
"""Number of moves that are sorted; the rest stays in order of cells."""
SCORED, COUNTED = range(2)
"""kinds of lines: those that the heuristic scores, and the others, whose stones are counted; if the
heuristic does not count stones, the latter are all lines"""


class Lines:
    """The lines and rules of a game as a record: it is one argument of a recursion, which copies
    all of them.

    A line counts once for each kind that it has.
    """

    cells: Annotated[UInt32Array, np.uint32, (MAX_LINES, MAX_EDGE)]
    """the cells of the lines, those of ``SCORED`` lines first"""
    through: Annotated[UInt32Array, np.uint32, (MAX_CELLS, MAX_THROUGH, 2)]
    """from row 1 on, for each line through a cell its number, and the cell's bit in it, those of
    ``SCORED`` lines first; row 0 has the end of these rows and of all. Unsigned, because a signed
    index takes an instruction more: it may count from the end"""
    scores: Annotated[UInt8Array, np.uint8, (2, 1 << MAX_EDGE)]
    """by kind and the bits of a player's stones in a line, their number or score"""
    rows: int
    columns: int
    win_length: int
    skip_chance: float
    variants: int
    num_lines: int
    num_scored: int
    """number of ``SCORED`` lines"""
    counts: int
    """whether the heuristic counts stones: then one stone adds at most one to a score"""
    num_through: int
    """maximum number of ``SCORED`` lines through a cell"""


class LineBoard:
    """The current position, as a record."""

    cells: Annotated[Int8Array, np.int8, (MAX_CELLS,)]
    masks: Annotated[UInt32Array, np.uint32, (2, MAX_LINES)]
    """each player's stones in each line, as bits"""


class Tally:
    """The lines that are open to each player, as a record: two kinds of two players."""

    counts: Annotated[Int64Array, np.int64, (2, 2, MAX_EDGE + 1)]
    """number of lines of a kind open to a player, by count or score"""
    best: Annotated[Int64Array, np.int64, (2, 2)]
    """the largest of these counts or scores that a line has, -1 if no line is open"""


@lru_cache(maxsize=16)
def lines_of(game: Game, heuristic: Heuristic) -> Lines:
    """Return the lines of a game for a heuristic."""
    lines = game.line_cells
    counts = heuristic != "consecutive" or game.torus
    is_scored = np.full(len(lines), True)
    if heuristic != "all-diagonals" and not game.torus:
        is_scored = _straight_or_main(game, lines)
    lines = np.concatenate([lines[is_scored], lines[~is_scored] if counts else lines])
    out = record(Lines)
    through = out.through
    for cell in range(game.cells):
        numbers, places = np.nonzero(lines == cell)
        through[cell, 0] = 1 + np.count_nonzero(numbers < is_scored.sum()), 1 + len(numbers)
        through[cell, 1 : 1 + len(numbers)] = np.stack([numbers, 1 << places], axis=1)
    runs = np.arange(1 << game.win_length)
    scores = out.scores[:, : len(runs)]
    scores[:] = count_bits(runs)
    for length in range(0 if counts else game.win_length):
        scores[SCORED] = np.where(runs != 0, length + 1, scores[SCORED])
        runs &= runs >> 1  # shortens every run by one
    out.cells[: len(lines), : game.win_length] = lines
    for name in ("rows", "columns", "win_length", "skip_chance", "variants"):
        setattr(out, name, getattr(game.parameters, name))
    out.num_lines = len(lines)
    out.num_scored = int(is_scored.sum())
    out.counts = counts
    out.num_through = int(through[:, 0, SCORED].max()) - 1
    return out


@inlined
def rules_of(lines: Lines) -> Parameters:
    """Return the rules without what finds lines in bits."""
    return Parameters(
        lines.rows,
        lines.columns,
        lines.win_length,
        lines.skip_chance,
        lines.variants,
        0,
        0,
        0,
        None,
    )


def _straight_or_main(game: Game, lines: Int64Array) -> NDArray[np.bool_]:
    """Return bool[L]: the lines in a row, in a column, or in a diagonal that begins in a corner."""
    # of the first, upper cell and of the last one
    row, column = np.divmod(lines[:, [0, -1]].T, game.columns)
    straight = (row[0] == row[1]) | (column[0] == column[1])
    falling = (column[1] > column[0]) & np.isin(row[0] - column[0], (0, game.rows - game.columns))
    rising = (column[1] < column[0]) & np.isin(
        row[0] + column[0], (game.columns - 1, game.rows - 1)
    )
    main: NDArray[np.bool_] = straight | falling | rising
    return main


@inlined
def put(
    cell: int,
    mover: int,
    is_last: bool,
    previous: Tally,
    tally: Tally,
    lines: Lines,
    board: LineBoard,
) -> None:
    """Put a stone on an empty cell; ``tally`` becomes ``previous`` plus the stone.

    If no stone comes next, ``is_last``, the masks of the board stay as they are, and the mover's
    counts are not set.
    """
    through = lines.through
    scores = lines.scores
    masks = board.masks
    board.cells[cell] = mover + 1
    start = int64(1)
    for kind in range(1 + int64(lines.num_lines > lines.num_scored)):
        own = tally.counts[kind, mover]
        other = tally.counts[kind, 1 - mover]
        for value in range(lines.win_length + 1):
            other[value] = previous.counts[kind, 1 - mover, value]
            if not is_last:
                own[value] = previous.counts[kind, mover, value]
        own_best = previous.best[kind, mover]
        other_best = previous.best[kind, 1 - mover]
        end = int64(through[cell, 0, kind])
        for i in range(start, end):
            line = through[cell, i, 0]
            bit = through[cell, i, 1]
            own_mask = masks[mover, line]
            other_mask = masks[1 - mover, line]
            if not is_last:
                masks[mover, line] = own_mask | bit
            if other_mask == 0:
                value = int64(scores[kind, own_mask | bit])
                if not is_last:
                    own[scores[kind, own_mask]] -= 1
                    own[value] += 1
                own_best = max(own_best, value)
            if own_mask == 0:
                other[scores[kind, other_mask]] -= 1
        while other_best >= 0 and other[other_best] == 0:
            other_best -= 1
        tally.best[kind, mover] = own_best
        tally.best[kind, 1 - mover] = other_best
        start = end


@inlined
def take(cell: int, mover: int, is_last: bool, lines: Lines, board: LineBoard) -> None:
    """Undo :func:`put`."""
    through = lines.through
    masks = board.masks
    board.cells[cell] = 0
    for i in range(1, 1 if is_last else int64(through[cell, 0, COUNTED])):
        masks[mover, through[cell, i, 0]] ^= through[cell, i, 1]


@inlined
def most_stones(player: int, tally: Tally) -> int:
    """Return a player's maximum number of stones in an open line, -1 if none is open; runs never
    exceed the count.
    """
    return int64(max(tally.best[SCORED, player], tally.best[COUNTED, player]))


@inlined
def horizon(own_best: int, other_best: int, parameters: Parameters) -> float:
    """Return the score at the horizon of the player whose best line has ``own_best``: -1, no line,
    counts as 0.
    """
    is_ahead = int64(own_best > max(other_best, 0))
    is_behind = int64(other_best > max(own_best, 0))
    return 0.5 * line_sign(parameters) * (is_ahead - is_behind)


# --------------------------------------------------------------------------------------------------
# Moves


@inlined
def sort_moves(
    hint: int, lines: Lines, board: LineBoard, moves: Int64Array, weight: Int64Array, count: int
) -> None:
    """Sort the first of ``count`` moves: those through heavy lines first, but ``hint`` before all,
    -1 for none.

    Every stone in a line quadruples its weight, as long as it is open to a player. ``weight``
    int64[cells] is scratch.
    """
    masks = board.masks
    weight[:] = 0
    for line in range(lines.num_lines):
        if masks[0, line] == 0 or masks[1, line] == 0:
            line_weight = 1 << 2 * int64(lines.scores[COUNTED, masks[0, line] | masks[1, line]])
            for i in range(lines.win_length):
                weight[lines.cells[line, i]] += line_weight
    if hint >= 0:
        weight[hint] = 1 << 60
    for i in range(min(NUM_SORTED_MOVES, count)):
        for j in range(i + 1, count):
            if weight[moves[j]] > weight[moves[i]]:
                moves[i], moves[j] = moves[j], moves[i]
