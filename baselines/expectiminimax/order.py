"""Move selection: all moves, the most promising first, or a random sample.

The random numbers of a narrow search are indexed by node, so pruning does not change them.
"""

from __future__ import annotations

import numpy as np

from baselines.expectiminimax.lines import ALL_END, COUNTED, Board, LineArrays
from ttt_envs.core.jit import Int8Array, Int64Array, compiled_nogil, inlined, inlined_public, int64
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.rules import is_legal

NUM_SORTED_MOVES = 8
"""Number of moves that are sorted; the rest stays in order of cells."""


@inlined
def in_cells(cells: Int8Array, depth: int, moves: Int64Array, parameters: Parameters) -> int:
    """Write all moves into ``moves[depth]`` in order of cells; return their number."""
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
    winning_lines: LineArrays,
    board: Board,
    weight: Int64Array,
    moves: Int64Array,
    parameters: Parameters,
) -> int:
    """Write all moves into ``moves[depth]``, those through heavy lines first; return their number.

    Every stone in a line quadruples its weight, as long as it is open to a player. ``before`` is a move to try first,
    -1 for none; ``weight`` int64[cells] is scratch.
    """
    _, through, scores, _, _ = winning_lines
    cells, masks, _ = board
    count = in_cells(cells, depth, moves, parameters)
    for i in range(count):
        cell = moves[depth, i]
        weight[cell] = 1 << 60 if cell == before else 0
        for j in range(1, int64(through[cell, 0, ALL_END])):
            line = through[cell, j, 0]
            mine, theirs = masks[mover, line], masks[1 - mover, line]
            if mine == 0 or theirs == 0:
                weight[cell] += 1 << 2 * int64(scores[COUNTED, mine | theirs])
    for i in range(min(NUM_SORTED_MOVES, count)):
        for j in range(i + 1, count):
            if weight[moves[depth, j]] > weight[moves[depth, i]]:
                moves[depth, i], moves[depth, j] = moves[depth, j], moves[depth, i]
    return count


@inlined_public
def key_after(key: np.uint64, cell: int) -> np.uint64:
    """Return the random key of the chance node after a move at a decision node."""
    return splitmix64(key, (1 << 32) + cell)


@inlined_public
def key_of_turn(key: np.uint64, mover: int) -> np.uint64:
    """Return the random key of the decision node where ``mover`` moves after a chance node."""
    return splitmix64(key, (2 << 32) + mover)


@inlined_public
def write_moves(
    width: int, key: np.uint64, cells: Int8Array, depth: int, moves: Int64Array, parameters: Parameters
) -> int:
    """Write all moves into ``moves[depth]``, or ``width`` drawn without replacement; return their number."""
    count = in_cells(cells, depth, moves, parameters)
    if 0 < width < count:
        for i in range(width):
            j = i + int(uniform(key, 0, i) * (count - i))
            moves[depth, i], moves[depth, j] = moves[depth, j], moves[depth, i]
        count = width
    return count
