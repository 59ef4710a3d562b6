"""Static evaluation: bounds, the score at the horizon, and the last ply.

A win at ply k scores depth - k + 1, where moves at the root have ply 1; a loss scores the negative, a full board 0. At
the horizon +1/2, 0 or -1/2 compares the players' best open lines. In misère both signs change: a line loses.
"""

from __future__ import annotations

from baselines.expectiminimax.lines import (
    ALL_END,
    COUNTED,
    SCORED,
    SCORED_END,
    Board,
    LineArrays,
    most_stones,
)
from ttt_envs.core.jit import Int8Array, inlined, int64
from ttt_envs.game.parameters import Parameters, line_sign
from ttt_envs.game.rules import DRAW, is_legal, outcome_of_move

LAST_PLY = 1
"""Row of tallies with one ply left."""


@inlined
def horizon(mine: int, theirs: int) -> float:
    """Return the horizon score for the player whose best line has ``mine``; -1, no line, counts as 0."""
    return 0.5 * (int64(mine > max(theirs, 0)) - int64(theirs > max(mine, 0)))


@inlined
def board_horizon(mover: int, board: Board, parameters: Parameters) -> float:
    """Return the horizon score for the player who has just moved."""
    _, _, tally = board
    return horizon(tally[0, SCORED, mover, -1], tally[0, SCORED, 1 - mover, -1]) * line_sign(parameters)


@inlined
def limits(
    mine: int,
    theirs: int,
    depth: int,
    empty: int,
    width: int,
    by_result: bool,
    beyond: bool,
    parameters: Parameters,
) -> tuple[float, float]:
    """Return bounds on the value for a mover with ``depth`` plies left: a win needs the missing stones first.

    ``mine`` and ``theirs`` are the players' maximum stones in an open line, -1 if none is open. With ``by_result`` a
    win counts 1. ``beyond``: a database may contain wins beyond the horizon.
    """
    low, high = _limits_if_lines_win(mine, theirs, depth, empty, width, by_result, beyond, parameters)
    if line_sign(parameters) < 0:
        return -high, -low
    return low, high


@inlined
def _limits_if_lines_win(
    mine: int,
    theirs: int,
    depth: int,
    empty: int,
    width: int,
    by_result: bool,
    beyond: bool,
    parameters: Parameters,
) -> tuple[float, float]:
    """Do :func:`limits`, as if lines were not lost in misère."""
    win_length, skip = parameters.win_length, parameters.skip_chance
    high = 0.5 if empty > depth else 0.0
    low = -high
    if beyond:
        high = 1.0 if mine >= 0 else high
        low = -1.0 if theirs >= 0 else low
    plies = min(depth, empty)
    if mine >= 0:
        missing = win_length - mine
        ply = missing if skip > 0 else 2 * missing - 1
        if ply <= plies:
            high = 1.0 if by_result else depth - ply + 1.0
        # win now: no score is higher. Of variants, the cell may be out of reach, or the line too long
        if parameters.variants == 0 and missing == 1 and width == 0:
            return high, high
    if theirs >= 0:
        missing = win_length - theirs
        ply = missing + 1 if skip > 0 else 2 * missing
        if ply <= plies:
            low = -1.0 if by_result else -(depth - ply + 1.0)
    return low, high


@inlined
def last_ply(
    mover: int, empty: int, winning_lines: LineArrays, board: Board, parameters: Parameters
) -> tuple[float, int]:
    """Return the value for a mover with one ply left, from the tallies.

    A stone never worsens the mover's best line nor improves the other player's. And while a line is open and not
    full, some stone improves it, in number and in run length.

    Returns:
        (value, number of positions visited).
    """
    lines, through, scores, scored, counted = winning_lines
    cells, masks, tally = board
    last = tally.shape[3] - 1
    mine, theirs = tally[LAST_PLY, SCORED, mover, last], tally[LAST_PLY, SCORED, 1 - mover, last]
    if most_stones(mover, LAST_PLY, board) == last - 2:  # one stone is missing
        return 1.0, 1
    if _draws(empty, cells, mover, parameters) or (mine < 0 and theirs <= 0):
        return 0.0, 1
    if mine >= theirs and mine >= 0:
        return 0.5, 1
    value = -0.5
    line = 0
    joins = counted < scored  # with runs: a stone may join two
    if joins:
        choices = len(cells)
    else:
        # A stone adds at most one, and weakens the other player's best lines only in a cell common to all of them
        if mine == theirs - 1 and mine >= 0:
            value = 0.0
        choices = 0
        if tally[LAST_PLY, SCORED, 1 - mover, theirs] < through.shape[1]:
            choices = lines.shape[1]
            while masks[mover, line] != 0 or scores[SCORED, masks[1 - mover, line]] != theirs:
                line += 1
    i = 0
    nodes = 1
    while i < choices and value < 0.5:
        cell = i if joins else lines[line, i]
        if is_legal(cells, cell, parameters):
            nodes += 1
            value = max(value, horizon_with(cell, mover, winning_lines, board))
        i += 1
    return value, nodes


@inlined
def horizon_with(cell: int, mover: int, winning_lines: LineArrays, board: Board) -> float:
    """Return the horizon score for the mover after a stone of the mover on ``cell`` at the last ply."""
    _, through, scores, _, _ = winning_lines
    _, masks, tally = board
    last = tally.shape[3] - 1
    other = 1 - mover
    mine, theirs = tally[LAST_PLY, SCORED, mover, last], tally[LAST_PLY, SCORED, other, last]
    still_open = tally[LAST_PLY, SCORED, other, theirs] if theirs > 0 else 1
    for i in range(1, int64(through[cell, 0, SCORED_END])):
        line = through[cell, i, 0]
        own, against = masks[mover, line], masks[other, line]
        if against == 0:
            mine = max(mine, int64(scores[SCORED, own | through[cell, i, 1]]))
        elif own == 0:
            still_open -= int64(scores[SCORED, against] == theirs)
    while still_open == 0:  # the stone closes all best lines of the other player
        theirs -= 1
        still_open = tally[LAST_PLY, SCORED, other, theirs] if theirs > 0 else 1
        for i in range(1, int64(through[cell, 0, SCORED_END])):
            line = through[cell, i, 0]
            if masks[mover, line] == 0 and theirs > 0:
                still_open -= int64(scores[SCORED, masks[other, line]] == theirs)
    return horizon(mine, theirs)


@inlined
def last_stone(
    cell: int, mover: int, empty: int, winning_lines: LineArrays, board: Board, parameters: Parameters
) -> float:
    """Return the score for the mover of a stone on ``cell`` at the last ply."""
    _, through, scores, _, _ = winning_lines
    cells, masks, tally = board
    last = tally.shape[3] - 1
    if most_stones(mover, LAST_PLY, board) == last - 2:  # some line lacks one stone
        for i in range(1, int64(through[cell, 0, ALL_END])):
            line = through[cell, i, 0]
            if masks[1 - mover, line] == 0 and scores[COUNTED, masks[mover, line]] == last - 2:
                return 1.0
    if _draws(empty, cells, mover, parameters):
        return 0.0
    return horizon_with(cell, mover, winning_lines, board)


@inlined
def _draws(empty: int, cells: Int8Array, mover: int, parameters: Parameters) -> bool:
    """Return whether a stone that completes no line ends the game."""
    return outcome_of_move(False, mover, len(cells) - empty + 1, parameters) == DRAW
