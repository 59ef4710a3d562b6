"""Lines: which there are, whether stones have one, and which cells complete one.

Up to ``MAX_CELLS_IN_BITS`` cells, lines are found in bits, for the whole board at once and without
data-dependent branches, so that loops over many games are vectorised. On larger boards they are
counted around one cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ttt_envs.core.jit import Int8Array, Int64Array, inlined, int64, pasted
from ttt_envs.game.bits import MAX_CELLS_IN_BITS, NOT_NEGATIVE, to_bits
from ttt_envs.game.parameters import NO_OVERLINES, TORUS, Parameters


class Line(NamedTuple):
    """One line of a board."""

    cells: tuple[int, ...]
    """from its top, or from its left"""
    beyond: tuple[int, ...]
    """the cells next to its ends, where overlines do not count: stones of the same player there
    make it too long
    """


def list_lines(
    rows: int, columns: int, win_length: int, *, overlines: bool = True, torus: bool = False
) -> list[Line]:
    """Return all lines of a board, in order of their cells; see the fields of ``Game``."""
    # by cells, because directions may give the same line
    lines: dict[tuple[tuple[int, ...], tuple[int, ...]], Line] = {}
    for row, column in np.ndindex(rows, columns):
        for row_step, column_step in ((0, 1), (1, 0), (1, 1), (1, -1)):
            steps = range(-1, win_length + 1)
            points = [(row + i * row_step, column + i * column_step) for i in steps]
            if torus:
                points = [(y % rows, x % columns) for y, x in points]
            previous_cell, *cells, next_cell = (
                y * columns + x if 0 <= y < rows and 0 <= x < columns else -1 for y, x in points
            )
            if -1 in cells or len(set(cells)) < win_length:
                continue
            beyond = () if overlines else tuple(sorted({previous_cell, next_cell} - {-1, *cells}))
            lines.setdefault((tuple(sorted(cells)), beyond), Line(tuple(cells), beyond))
    return [lines[key] for key in sorted(lines)]


def line_masks(lines: Sequence[Line]) -> Int64Array:
    """Return int64[2, W]: the cells of each line as bits, and the cells that must not hold a stone
    of its player.
    """
    masks = np.zeros((2, len(lines)), np.int64)
    for index, line in enumerate(lines):
        masks[0, index] = sum(1 << cell for cell in line.cells)
        masks[1, index] = sum(1 << cell for cell in line.beyond)
    masks.flags.writeable = False
    return masks


@inlined
def _runs(bits: int, step: int, win_length: int) -> int:
    """Return the starts of runs of ``win_length`` bits or more; ``step`` leads from a bit to the
    next of a run.
    """
    # conditional expressions, because numba compiles functions of its own for `min` and `max`
    shift_to_2 = win_length - 1 if win_length - 1 < 1 else 1
    remainder = win_length - 1 - shift_to_2
    shift_to_4 = remainder if remainder < 1 + shift_to_2 else 1 + shift_to_2
    bits &= bits >> (shift_to_2 * step)
    bits &= bits >> (shift_to_4 * step)
    if win_length > 4:
        shift_to_8 = win_length - 4 if win_length - 4 < 4 else 4
        remainder = win_length - 8 if win_length - 8 > 0 else 0
        shift_to_16 = remainder if remainder < 8 else 8
        shift_to_32 = win_length - 16 if win_length - 16 > 0 else 0
        bits &= bits >> (shift_to_8 * step)
        bits &= bits >> (shift_to_16 * step)
        bits &= bits >> (shift_to_32 * step)
    return bits


@pasted
def has_line(bits: int, parameters: Parameters) -> bool:
    """Return whether the stones of a player contain a line, on a board up to ``MAX_CELLS_IN_BITS``
    cells.

    The tested run length doubles with every step: two steps reach 4, five reach 32. Listed lines
    are tested one by one.
    """
    return _has_line(bits, parameters.lines, parameters)


@inlined
def _has_line(bits: int, masks: Int64Array | None, parameters: Parameters) -> bool:
    """Do :func:`has_line`; numba leaves out the branch that the type of an argument excludes, not
    of a field.
    """
    if masks is not None:
        is_line = False
        for i in range(masks.shape[1]):
            is_line |= (bits & masks[0, i] == masks[0, i]) & (bits & masks[1, i] == 0)
        return is_line
    bits &= NOT_NEGATIVE
    columns = parameters.columns
    win_length = parameters.win_length
    row_lines = _runs(bits, 1, win_length) & parameters.row_starts
    column_lines = _runs(bits, columns, win_length)
    falling_lines = _runs(bits, columns + 1, win_length) & parameters.falling_starts
    rising_lines = _runs(bits, columns - 1, win_length) & parameters.rising_starts
    return row_lines | column_lines | (falling_lines | rising_lines) != 0


@pasted
def completing_bits(bits: int, parameters: Parameters) -> int:
    """Return the cells, as bits, where one more stone completes a line; ignore the bits of cells
    that are not empty.
    """
    return _completing_bits(bits, parameters.lines, parameters)


@inlined
def _completing_bits(bits: int, masks: Int64Array | None, parameters: Parameters) -> int:
    """Do :func:`completing_bits`, see :func:`_has_line`."""
    cells = int64(0)
    if masks is not None:
        for i in range(masks.shape[1]):
            missing = masks[0, i] & ~bits
            if missing & (missing - 1) == 0 and bits & masks[1, i] == 0:
                cells |= missing
        return cells
    columns = parameters.columns
    for direction in range(4):
        step = int64(1)
        starts = parameters.row_starts
        if direction == 1:
            step = columns
            starts = int64(-1)
        elif direction == 2:
            step = columns + 1
            starts = parameters.falling_starts
        elif direction == 3:
            step = columns - 1
            starts = parameters.rising_starts
        all_stones = starts
        all_but_one = int64(0)
        for index in range(parameters.win_length):
            stones = bits >> (index * step)
            all_but_one = all_but_one & stones | all_stones & ~stones
            all_stones &= stones
        for index in range(parameters.win_length):
            cells |= all_but_one << (index * step)
    return cells


@inlined
def completes_line(cells: Int8Array, cell: int, stone: int, parameters: Parameters) -> bool:
    """Return whether a ``stone``, 1 or 2, on ``cell``, which may be empty, is part of a line; on
    boards of any size.

    Only lines through the last stone can be new, so the cost does not grow with the board.
    """
    rows = parameters.rows
    columns = parameters.columns
    win_length = parameters.win_length
    row = cell // columns
    column = cell - row * columns
    for direction in range(4):
        row_step = int64(direction > 0)
        column_step = int64(1 - (direction == 1) - 2 * (direction == 3))
        length = 1
        for sign in range(-1, 2, 2):
            y = row
            x = column
            while True:
                y += sign * row_step
                x += sign * column_step
                if parameters.variants & TORUS:
                    y = y % rows
                    x = x % columns
                elif y < 0 or y >= rows or x < 0 or x >= columns:
                    break
                if cells[y * columns + x] != stone or y * columns + x == cell:
                    break
                length += 1
            if y * columns + x == cell and sign < 0:
                break  # once around the torus
        if length == win_length or (length > win_length and not parameters.variants & NO_OVERLINES):
            return True
    return False


@inlined
def put_in_runs(runs: Int64Array, player: int, cell: int, parameters: Parameters) -> bool:
    """Put a stone of a player, who has no line; return whether it makes a run of ``win_length``
    stones or more.

    Unlike :func:`completes_line`, it has no branches that depend on the stones.

    Args:
        runs: int64[2, 4, rows + columns], written: each player's stones as bits, along every row,
            column, falling and rising diagonal.
        player: whose stone it is.
        cell: an empty cell.
        parameters: of a board of any size.
    """
    columns = parameters.columns
    row = cell * (65536 // columns + 1) >> 16  # exact for up to 361 cells, without a division
    column = cell - row * columns
    starts = 0
    lines = 0
    indices = (row, column, column - row + parameters.rows, column + row)
    for direction, index in enumerate(indices):
        stones = runs[player, direction, index]
        stones |= int64(1) << (row if direction > 0 else column)
        runs[player, direction, index] = stones
        lines = lines << 32 | stones
        if direction % 2 == 1:  # two lines at once: each has 19 bits at most
            starts |= _runs(lines, 1, parameters.win_length)
    return starts != 0


@inlined
def makes_line(cells: Int8Array, cell: int, parameters: Parameters) -> bool:
    """Return whether the last stone, on ``cell`` of int8[rows * columns], is part of a line."""
    stone = cells[cell]
    if len(cells) <= MAX_CELLS_IN_BITS:
        return has_line(to_bits(cells, stone), parameters)
    return completes_line(cells, cell, int64(stone), parameters)
