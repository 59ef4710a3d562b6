"""Static analysis of a position: forced results and candidate moves by threats; and proofs that the
defender holds, by the weight of open lines and a pairing strategy.

Sets of cells are int64, cell i as bit i, on at most 64 cells.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ttt_envs.core.jit import Int64Array, inlined, int64, kernel
from ttt_envs.core.records import record
from ttt_envs.game.bits import count_bits
from ttt_envs.game.game import Game

# Verdicts. For the attacker: wins, does not win, or unknown. For a mover: completes a line first,
# or the other player does.
YES, NO, UNKNOWN = 1, -1, 0
MAX_CELLS = 64
MAX_LINES = 4 * MAX_CELLS
"""Maximum number of lines."""
REACH = 5
"""Maximum number of further pairs, each as good as the best, before giving up; more are hardly ever
needed.
"""


class ProofBoard:
    """The lines of a game, and scratch memory for one position, as a record."""

    win_length: int
    num_cells: int
    num_lines: int
    lines: Annotated[Int64Array, np.int64, (MAX_LINES,)]
    """the cells of every line, as sets"""
    weight: Annotated[Int64Array, np.int64, (2, MAX_CELLS)]
    """total weight of the open lines through a cell, the mover's and the other player's"""
    total: Annotated[Int64Array, np.int64, (2,)]
    """total weight of all open lines"""
    partners: Annotated[Int64Array, np.int64, (2, MAX_CELLS)]
    """cells that together with this cell complete a line"""
    free_cells: Annotated[Int64Array, np.int64, (MAX_LINES,)]
    """in `holds`, the free cells of the lines that no pair stops"""
    common: Annotated[Int64Array, np.int64, (MAX_CELLS, MAX_CELLS)]
    """in `holds`, total weight of these lines through two cells, or through one, in the diagonal"""


def make_board(game: Game, kind: type[ProofBoard] = ProofBoard) -> Any:
    """Return the board of a game, as a record with the fields of ``kind``."""
    board: Any = record(kind)
    lines = np.bitwise_or.reduce(np.int64(1) << game.line_cells, axis=1)
    board["win_length"] = game.win_length
    board["num_cells"] = game.cells
    board["num_lines"] = len(lines)
    board["lines"][: len(lines)] = lines
    return board


@inlined
def lowest_cell(cells: int) -> int:
    """Return the smallest cell of a non-empty set."""
    return count_bits((cells & -cells) - 1)


@inlined
def has_several(cells: int) -> bool:
    """Return whether a set has more than one cell."""
    return cells & (cells - 1) != 0


@kernel(interpreted=False)
def find_threats(own: int, other: int, board: ProofBoard) -> tuple[int, int]:
    """Scan all lines: return the player who completes one first, if threats alone decide, else the
    candidate moves.

    A line is open to a player while the other has no stone in it. It weighs 2**(own stones in it),
    that is 2**-(empty cells) in units of 2**-win_length.

    Args:
        own: the stones of the mover, as a set; other: those of the other player. Neither has a
            line.
        board: its ``weight`` and ``total`` are filled in.

    Returns:
        (verdict, cells): ``YES`` if the mover completes a line before the other player can,
        starting with any of these cells; ``NO`` if the other player does; ``UNKNOWN`` if neither is
        forced: these cells contain a best move; none if no line is open to either player.
    """
    partners = board.partners
    live_0, wins_0, twos_0 = _read(own, other, 0, board)
    live_1, wins_1, _ = _read(other, own, 1, board)
    live = live_0 | live_1
    if wins_0 != 0:
        return YES, wins_0
    if wins_1 != 0:
        return (NO, int64(0)) if has_several(wins_1) else (UNKNOWN, wins_1)
    moves = live
    for cell in range(board.num_cells):
        first = partners[0, cell]
        second = partners[1, cell]
        if has_several(first):
            return YES, int64(1) << cell
        if has_several(second):
            # The other player could make two threats there: take that cell, block the threats, or
            # make a threat first
            blocks = int64(0) if has_several(second & (second - 1)) else second
            moves &= int64(1) << cell | twos_0 | blocks
    if moves == 0 and live != 0:
        return NO, int64(0)
    return UNKNOWN, moves


@inlined
def _read(stones: int, against: int, row: int, board: ProofBoard) -> tuple[int, int, int]:
    """Read one player's open lines into a row of ``weight``, ``total`` and ``partners`` of the
    board.

    Returns:
        The empty cells of open lines; of lines that lack one stone; of lines that lack two.
    """
    weight = board.weight[row]
    partners = board.partners[row]
    win_length = board.win_length
    weight[:] = 0
    partners[:] = 0
    live = 0
    ones = 0
    twos = 0
    total = 0
    for line in board.lines[: board.num_lines]:
        if line & against == 0:
            empty_cells = line & ~stones
            own = count_bits(line & stones)
            total += 1 << own
            live |= empty_cells
            if own == win_length - 1:
                ones |= empty_cells
            elif own == win_length - 2:
                twos |= empty_cells
                partner = lowest_cell(empty_cells)
                partner_bit = empty_cells & -empty_cells
                partners[partner] |= empty_cells ^ partner_bit
                partners[lowest_cell(empty_cells ^ partner_bit)] |= partner_bit
            cells = empty_cells
            while cells != 0:
                cell = lowest_cell(cells)
                cells &= cells - 1
                weight[cell] += 1 << own
    board.total[row] = total
    return live, ones, twos


@kernel(interpreted=False, allocates=True)  # np.max does
def holds(first: int, second: int, mover: int, board: ProofBoard) -> bool:
    """Return whether the weight of lines proves that the defender can stop all of the attacker's
    lines.

    While the open lines weigh less than 1 in total, the defender can always take the heaviest cell,
    the sum never grows, and a complete line would weigh 1 (Erdos and Selfridge, 1973). If the
    attacker is to move, the weight of the heaviest cell is added first. With pairs of cells, the
    defender answers a stone on one cell of a pair on the other. So lines through both never fill,
    while every other line may lose its cells in pairs to the attacker; the rest of it must hold by
    its weight. The two parts of the strategy do not interfere, because the defender answers in the
    part where the attacker plays. The search gives up if even ``REACH`` pairs as good as the best
    would not suffice.

    Args:
        first: the attacker's stones, as a set.
        second: the defender's stones.
        mover: player to move, 0 the attacker or 1 the defender.
        board: scratch memory.

    Returns:
        True if the attacker provably cannot win; False is inconclusive.
    """
    lines = board.free_cells
    common = board.common
    win_weight = 1 << board.win_length
    common[: board.num_cells] = 0
    count = 0
    total = 0
    for line in board.lines[: board.num_lines]:
        if line & second == 0:
            lines[count] = line & ~first
            total += _weigh(lines[count], 1, board)
            count += 1
    while total + (np.max(np.diag(common)) if mover == 0 else 0) >= win_weight:
        gain, pair = _best_pair(count, board)
        if gain < 0 or total - win_weight > REACH * gain:
            return False
        length = 0
        for i in range(count):
            line = lines[i]
            if line & pair != 0:
                total -= _weigh(line, -1, board)
                if line & pair == pair:
                    continue
                line &= ~pair
                total += _weigh(line, 1, board)
            lines[length] = line
            length += 1
        count = length
    return True


@inlined
def _best_pair(count: int, board: ProofBoard) -> tuple[int, int]:
    """Return the pair of cells, as a set, that reduces the weight of ``count`` lines most, and by
    how much, -1 for none: lines through both vanish, lines through one of them double.
    """
    common = board.common
    best_gain = -1
    best_pair = 0
    for i in range(count):
        cells = board.free_cells[i]
        while cells != 0:
            cell = lowest_cell(cells)
            cells &= cells - 1
            partners = cells
            while partners != 0:
                other = lowest_cell(partners)
                partners &= partners - 1
                gain = 3 * common[cell, other] - common[other, other] - common[cell, cell]
                if gain > best_gain:
                    best_gain = gain
                    best_pair = int64(1) << cell | int64(1) << other
    return best_gain, best_pair


@inlined
def _weigh(line: int, sign: int, board: ProofBoard) -> int:
    """Add a line, given by its free cells, to the weights, or subtract it with a sign of -1; return
    its weight.
    """
    weight = 1 << (board.win_length - count_bits(line))
    while line != 0:
        cell = lowest_cell(line)
        partners = line
        line &= line - 1
        while partners != 0:
            other = lowest_cell(partners)
            partners &= partners - 1
            board.common[cell, other] += sign * weight
    return weight
