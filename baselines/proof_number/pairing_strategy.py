"""Proofs that the defender holds, by the weight of open lines and a pairing strategy."""

from __future__ import annotations

import numpy as np

from baselines.proof_number.bitsets import NONE, ONE, Board, cell_bit, count_cells, lowest_bit
from ttt_envs.core.jit import compiled_at_once_allocating, inlined

REACH = 5
"""Maximum number of further pairs, each as good as the best, before giving up; more are hardly ever needed."""


@compiled_at_once_allocating  # np.max does
def holds(first: np.uint64, second: np.uint64, mover: int, pairs: bool, board: Board) -> bool:
    """Return whether the weight of lines proves that the defender can stop all of the attacker's lines.

    Without pairs: while the open lines weigh less than 1 in total, the defender can always take the heaviest cell, the
    sum never grows, and a complete line would weigh 1 (Erdos and Selfridge, 1973). If the attacker is to move, the
    weight of the heaviest cell is added first. With pairs: the defender answers a stone on one cell of a pair on the
    other. So lines through both never fill, while every other line may lose its cells in pairs to the attacker; the
    rest of it must hold by its weight. The two parts of the strategy do not interfere, because the defender answers in
    the part where the attacker plays. The search gives up if even ``REACH`` pairs as good as the best would not
    suffice.

    Args:
        first: the attacker's stones, as a set.
        second: the defender's stones.
        mover: player to move, 0 the attacker or 1 the defender.
        pairs: whether to look for pairs.
        board: scratch memory.

    Returns:
        True if the attacker provably cannot win; False is inconclusive.
    """
    left, heavy, common = board.left, board.heavy, board.common
    win_length = board.win_length
    heavy[:] = 0
    common[:] = 0
    free = ~(first | second)
    count = 0
    total = 0
    for line in board.lines:
        if (line & second) == NONE:
            left[count] = line & free
            total += _weigh(left[count], 1, board)
            count += 1
    while True:
        if total + (np.max(heavy) if mover == 0 else 0) < 1 << win_length:
            return True
        if not pairs:
            return False
        # The pair that reduces the weight most: lines through both vanish, lines through one of them double
        most = -1
        pair = NONE
        for i in range(count):
            rest = left[i]
            while rest != NONE:
                cell = lowest_bit(rest)
                rest &= rest - ONE
                after = rest
                own = heavy[cell]
                while after != NONE:
                    other = lowest_bit(after)
                    after &= after - ONE
                    gain = 3 * common[cell, other] - heavy[other] - own
                    if gain > most:
                        most = gain
                        pair = cell_bit(cell) | cell_bit(other)
        if most < 0 or total - (1 << win_length) > REACH * most:
            return False
        kept = 0
        for i in range(count):
            line = left[i]
            if (line & pair) != NONE:
                total -= _weigh(line, -1, board)
                if (line & pair) == pair:
                    continue
                line &= ~pair
                total += _weigh(line, 1, board)
            left[kept] = line
            kept += 1
        count = kept


@inlined
def _weigh(line: np.uint64, sign: int, board: Board) -> int:
    """Add a line, given by its free cells, to the weights, or subtract it with a sign of -1; return its weight."""
    weight = 1 << (board.win_length - count_cells(line))
    change = sign * weight
    while line != NONE:
        cell = lowest_bit(line)
        line &= line - ONE
        board.heavy[cell] += change
        after = line
        while after != NONE:
            other = lowest_bit(after)
            after &= after - ONE
            board.common[cell, other] += change
    return weight
