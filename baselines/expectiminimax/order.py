"""Move selection: all moves, the most promising first, or a random sample.

The random numbers of a narrow search are indexed by node, so pruning does not change them.
"""

from __future__ import annotations

import numpy as np

from baselines.expectiminimax.lines import Board, LineArrays
from ttt_envs.core.jit import Int8Array, Int64Array, inlined, kernel
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.rules import is_legal

NUM_SORTED_MOVES = 8
"""Number of moves that are sorted; the rest stays in order of cells."""


@inlined
def sort_moves(hint: int, lines: LineArrays, board: Board, moves: Int64Array, weight: Int64Array, count: int) -> None:
    """Sort the first of ``count`` moves: those through heavy lines first, but ``hint`` before all, -1 for none.

    Every stone in a line quadruples its weight, as long as it is open to a player. ``weight`` int64[cells] is scratch.
    """
    through, scores, masks = lines.through, lines.scores, board.masks
    for i in range(count):
        cell = moves[i]
        weight[cell] = 1 << 60 if cell == hint else 0
        for j in range(1, through[cell, 0, 0]):
            line = through[cell, j, 0]
            if masks[0, line] == 0 or masks[1, line] == 0:
                weight[cell] += 1 << 2 * scores[1, masks[0, line] | masks[1, line]]
    for i in range(min(NUM_SORTED_MOVES, count)):
        for j in range(i + 1, count):
            if weight[moves[j]] > weight[moves[i]]:
                moves[i], moves[j] = moves[j], moves[i]


@kernel(forceinline=True)
def key_after(key: np.uint64, cell: int) -> np.uint64:
    """Return the random key of the chance node after a move at a decision node."""
    return splitmix64(key, (1 << 32) + cell)


@kernel(forceinline=True)
def key_of_turn(key: np.uint64, mover: int) -> np.uint64:
    """Return the random key of the decision node where ``mover`` moves after a chance node."""
    return splitmix64(key, (2 << 32) + mover)


@kernel(forceinline=True)
def write_moves(width: int, key: np.uint64, cells: Int8Array, moves: Int64Array, parameters: Parameters) -> int:
    """Write all moves, in order of cells, or ``width`` drawn without replacement, into ``moves``; return the number."""
    count = 0
    for cell in range(len(cells)):
        if is_legal(cells, cell, parameters):
            moves[count] = cell
            count += 1
    if 0 < width < count:
        for i in range(width):
            j = i + int(uniform(key, 0, i) * (count - i))
            moves[i], moves[j] = moves[j], moves[i]
        count = width
    return count
