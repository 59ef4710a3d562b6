"""Whether the weight of the open lines, and pairs of cells, keep the attacker from a line."""

from __future__ import annotations

import numpy as np

from baselines.proof.sets import NONE, ONE, Board, least_of, set_of, size_of
from ttt_envs.compiling import compiled_at_once_allocating, inlined

REACH = 5
"""pairs, each as good as the best, after which to give up: nearly all positions that hold need fewer"""


@compiled_at_once_allocating  # np.max does
def holds(first: np.uint64, second: np.uint64, mover: int, pairs: bool, board: Board) -> bool:
    """Whether weighing lines shows that the defender can keep the attacker from completing any.

    Without pairs: while the open lines weigh less than 1 in all, the defender can always take the heaviest cell, the
    sum never grows, and a complete line would weigh 1 (Erdos and Selfridge, 1973). Where the attacker is to move, the
    heaviest cell is added first. With pairs: the defender answers a stone on one cell of a pair on the other. So lines
    through both never fill, and every other line may lose its cells in pairs to the attacker; what is left of it must
    hold by its weight. The two parts of the strategy do not disturb each other, since the defender answers where the
    attacker plays. The search gives up where even ``REACH`` pairs as good as the best would not do.

    Args:
        first: the attacker's stones, as a set.
        second: the defender's.
        mover: who is to move, 0 or 1.
        pairs: whether to look for pairs.
        board: scratch memory.

    Returns:
        True where the attacker cannot win; False says nothing.
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
        # The pair that takes away most: lines through both go, lines through one of them double
        most = -1
        pair = NONE
        for i in range(count):
            rest = left[i]
            while rest != NONE:
                cell = least_of(rest)
                rest &= rest - ONE
                after = rest
                own = heavy[cell]
                while after != NONE:
                    other = least_of(after)
                    after &= after - ONE
                    gain = 3 * common[cell, other] - heavy[other] - own
                    if gain > most:
                        most = gain
                        pair = set_of(cell) | set_of(other)
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
    """Add a line, by its free cells, to what lines weigh together, or with a sign of -1 take it away; its weight."""
    weight = 1 << (board.win_length - size_of(line))
    change = sign * weight
    while line != NONE:
        cell = least_of(line)
        line &= line - ONE
        board.heavy[cell] += change
        after = line
        while after != NONE:
            other = least_of(after)
            after &= after - ONE
            board.common[cell, other] += change
    return weight
