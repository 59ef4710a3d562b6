"""Move selection: all moves, the most promising first, or a random sample.

The random numbers of a narrow search are indexed by node, so pruning does not change them.
"""

from __future__ import annotations

import numpy as np

from baselines.expectiminimax.lines import COUNTED, Board, LineArrays
from ttt_envs.core.jit import Int8Array, Int64Array, inlined, int64, kernel
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
