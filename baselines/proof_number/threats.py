"""Static analysis of threats: forced results and candidate moves."""

from __future__ import annotations

import numpy as np

from baselines.proof_number.bitsets import NONE, ONE, Board, cell_bit, count_cells, has_several, lowest_bit
from ttt_envs.core.jit import compiled_at_once, inlined

# Verdicts. For the attacker: wins, does not win, or unknown. For a mover: completes a line first, or the other player
# does.
YES, NO, UNKNOWN = 1, -1, 0


@compiled_at_once
def find_threats(own: np.uint64, other: np.uint64, board: Board) -> tuple[int, np.uint64]:
    """Scan all lines: return the player who completes one first, if threats alone decide, else the candidate moves.

    A line is open to a player while the other has no stone in it. It weighs 2**(own stones in it), that is 2**-(empty
    cells) in units of 2**-win_length.

    Args:
        own: the stones of the mover, as a set; other: those of the other player. Neither has a line.
        board: its ``weight`` and ``total`` are filled in.

    Returns:
        (verdict, cells): ``YES`` if the mover completes a line before the other player can, starting with any of these
        cells; ``NO`` if the other player does; ``UNKNOWN`` if neither is forced: these cells contain a best move; none
        if no line is open to either player.
    """
    partners, shared = board.partners, board.shared
    shared[:] = ~NONE
    live_0, wins_0, twos_0 = _read(own, other, 0, board)
    live_1, wins_1, _ = _read(other, own, 1, board)
    live = live_0 | live_1
    if wins_0 != NONE:
        return YES, wins_0
    if wins_1 != NONE:
        return (NO, NONE) if has_several(wins_1) else (UNKNOWN, wins_1)
    moves = live
    for cell in range(len(shared)):
        mine, theirs = partners[0, cell], partners[1, cell]
        if mine != NONE and has_several(mine):
            return YES, cell_bit(cell)
        if theirs != NONE and has_several(theirs):
            # The other player could make two threats there: take that cell, block the threats, or make a threat first
            moves &= cell_bit(cell) | twos_0 | (NONE if has_several(theirs & (theirs - ONE)) else theirs)
    if moves == NONE and live != NONE:
        return NO, NONE
    # If all live lines through a cell contain a second empty cell too, that one dominates it, for either player: a
    # stone there is in every line that a stone here could complete, and stops every line that it could stop.
    for cell in range(len(shared)):
        if (moves & cell_bit(cell)) != NONE:
            better = shared[cell] & ~cell_bit(cell)
            while better != NONE:
                best = lowest_bit(better)
                better &= better - ONE
                if best < cell or (shared[best] & cell_bit(cell)) == NONE:  # of equivalent cells the first stays
                    moves &= ~cell_bit(cell)
                    break
    return UNKNOWN, moves


@inlined
def _read(stones: np.uint64, against: np.uint64, row: int, board: Board) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Read one player's open lines into a row of ``weight``, ``total`` and ``partners`` of the board, and ``shared``.

    Returns:
        The empty cells of open lines; of lines that lack one stone; of lines that lack two.
    """
    weight, partners, shared = board.weight[row], board.partners[row], board.shared
    win_length = board.win_length
    weight[:] = 0
    partners[:] = NONE
    live, ones, twos = NONE, NONE, NONE
    total = 0
    for line in board.lines:
        if (line & against) == NONE:
            empty = line & ~stones
            own = count_cells(line & stones)
            total += 1 << own
            live |= empty
            if own == win_length - 1:
                ones |= empty
            elif own == win_length - 2:
                twos |= empty
                low, rest = lowest_bit(empty), empty & (empty - ONE)
                partners[low] |= rest
                partners[lowest_bit(rest)] |= cell_bit(low)
            cells = empty
            while cells != NONE:
                cell = lowest_bit(cells)
                cells &= cells - ONE
                weight[cell] += 1 << own
                shared[cell] &= empty
    board.total[row] = total
    return live, ones, twos
