"""Which moves of a position are tried: all of them, the most promising first, or some drawn at random.

What a narrow search draws with are numbers that belong to a node, so that pruning does not change them.
"""

from __future__ import annotations

import numpy as np

from baselines.expectiminimax.windows import ALL_OF_THEM, COUNTED, Board, Windows
from ttt_envs.compiling import Cells, Integers, Parameters, compiled_nogil, inlined, inlined_public, wide
from ttt_envs.rules import is_legal, splitmix64, uniform

FIRST = 8
"""how many moves are put in order, the rest follows as it comes"""


@inlined
def in_cells(cells: Cells, depth: int, moves: Integers, parameters: Parameters) -> int:
    """Write all moves into ``moves[depth]`` as they come; returns how many there are."""
    count = 0
    for cell in range(len(cells)):
        if is_legal(cells, cell, parameters):
            moves[depth, count] = cell
            count += 1
    return count


@compiled_nogil
def in_order(
    mover: int,
    before: int,
    depth: int,
    windows: Windows,
    board: Board,
    weight: Integers,
    moves: Integers,
    parameters: Parameters,
) -> int:
    """Write all moves into ``moves[depth]``, those through weighty windows first; returns how many there are.

    A window weighs four times as much with every stone in it, as long as it is open to somebody. ``before`` is a move
    to try before all others, -1 for none; ``weight`` int64[cells] is scratch.
    """
    _, through, worth, _, _ = windows
    cells, masks, _ = board
    count = in_cells(cells, depth, moves, parameters)
    for i in range(count):
        cell = moves[depth, i]
        weight[cell] = 1 << 60 if cell == before else 0
        for j in range(1, wide(through[cell, 0, ALL_OF_THEM])):
            window = through[cell, j, 0]
            mine, theirs = masks[mover, window], masks[1 - mover, window]
            if mine == 0 or theirs == 0:
                weight[cell] += 1 << 2 * wide(worth[COUNTED, mine | theirs])
    for i in range(min(FIRST, count)):
        for j in range(i + 1, count):
            if weight[moves[depth, j]] > weight[moves[depth, i]]:
                moves[depth, i], moves[depth, j] = moves[depth, j], moves[depth, i]
    return count


@inlined_public
def luck_after(luck: np.uint64, cell: int) -> np.uint64:
    """Of the chance node after a move at a decision node."""
    return splitmix64(luck, (1 << 32) + cell)


@inlined_public
def luck_of_turn(luck: np.uint64, mover: int) -> np.uint64:
    """Of the decision node where ``mover`` moves after a chance node."""
    return splitmix64(luck, (2 << 32) + mover)


@inlined_public
def tried(width: int, luck: np.uint64, cells: Cells, depth: int, moves: Integers, parameters: Parameters) -> int:
    """Write all moves into ``moves[depth]``, or ``width`` drawn without replacement; returns how many there are."""
    count = in_cells(cells, depth, moves, parameters)
    if 0 < width < count:
        for i in range(width):
            j = i + int(uniform(luck, 0, i) * (count - i))
            moves[depth, i], moves[depth, j] = moves[depth, j], moves[depth, i]
        count = width
    return count
