"""Proofs that the defender holds, by the weight of open lines and a pairing strategy."""

from __future__ import annotations

import numpy as np

from baselines.proof_number.threats import Board, lowest_cell
from ttt_envs.core.jit import inlined, int64, kernel
from ttt_envs.game.bits import count_bits

REACH = 5
"""Maximum number of further pairs, each as good as the best, before giving up; more are hardly ever needed."""


@kernel(interpreted=False, allocates=True)  # np.max does
def holds(first: int, second: int, mover: int, board: Board) -> bool:
    """Return whether the weight of lines proves that the defender can stop all of the attacker's lines.

    While the open lines weigh less than 1 in total, the defender can always take the heaviest cell, the sum never
    grows, and a complete line would weigh 1 (Erdos and Selfridge, 1973). If the attacker is to move, the weight of the
    heaviest cell is added first. With pairs of cells, the defender answers a stone on one cell of a pair on the other.
    So lines through both never fill, while every other line may lose its cells in pairs to the attacker; the rest of it
    must hold by its weight. The two parts of the strategy do not interfere, because the defender answers in the part
    where the attacker plays. The search gives up if even ``REACH`` pairs as good as the best would not suffice.

    Args:
        first: the attacker's stones, as a set.
        second: the defender's stones.
        mover: player to move, 0 the attacker or 1 the defender.
        board: scratch memory.

    Returns:
        True if the attacker provably cannot win; False is inconclusive.
    """
    rests, heavy, common = board.rests, board.heavy, board.common
    win_weight = 1 << board.win_length
    heavy[:] = 0
    common[:] = 0
    count = 0
    total = 0
    for line in board.lines:
        if line & second == 0:
            rests[count] = line & ~first
            total += _weigh(rests[count], 1, board)
            count += 1
    while total + (np.max(heavy) if mover == 0 else 0) >= win_weight:
        # The pair that reduces the weight most: lines through both vanish, lines through one of them double
        largest_gain, pair = -1, int64(0)
        for i in range(count):
            rest = rests[i]
            while rest != 0:
                cell = lowest_cell(rest)
                rest &= rest - 1
                others = rest
                while others != 0:
                    other = lowest_cell(others)
                    others &= others - 1
                    gain = 3 * common[cell, other] - heavy[other] - heavy[cell]
                    if gain > largest_gain:
                        largest_gain, pair = gain, int64(1) << cell | int64(1) << other
        if largest_gain < 0 or total - win_weight > REACH * largest_gain:
            return False
        kept = 0
        for i in range(count):
            line = rests[i]
            if line & pair != 0:
                total -= _weigh(line, -1, board)
                if line & pair == pair:
                    continue
                line &= ~pair
                total += _weigh(line, 1, board)
            rests[kept] = line
            kept += 1
        count = kept
    return True


@inlined
def _weigh(line: int, sign: int, board: Board) -> int:
    """Add a line, given by its free cells, to the weights, or subtract it with a sign of -1; return its weight."""
    weight = 1 << (board.win_length - count_bits(line))
    while line != 0:
        cell = lowest_cell(line)
        line &= line - 1
        board.heavy[cell] += sign * weight
        others = line
        while others != 0:
            other = lowest_cell(others)
            others &= others - 1
            board.common[cell, other] += sign * weight
    return weight
