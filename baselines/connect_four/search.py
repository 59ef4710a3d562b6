"""Alpha-beta search with null windows, as a recursion that stops after a number of positions."""

from __future__ import annotations

from typing import NamedTuple

from baselines.connect_four.bitboards import Board, column_bits, mirror, winning_cells
from baselines.search.transpositions import find, store, worth_of
from ttt_envs.core.jit import Int64Array, inlined, int64, kernel
from ttt_envs.core.records import Records
from ttt_envs.game.bits import count_bits

TABLE_WORDS = 2
"""Number of words of a row of the table: the key; its worth and the bounds of the score."""
OFFSET = 64
"""Added to a score, so that it fits into 7 bits."""
STOPPED = 1 << 20
"""Takes the place of a score if the search has to stop."""
MOVE, REPLIES, RANK, KEY = range(4)


class State:
    """Progress of a search."""

    nodes: int
    """number of positions visited"""
    stop: int
    """number of positions after which to stop"""
    low: int
    """lower bound of the score of the root"""
    high: int
    """upper bound"""


class Path(NamedTuple):
    """Memory of a search, by number of stones: N is the number of cells + 1."""

    moves: Int64Array
    """int64[N, 4, columns]: the moves to search, each as one bit (``MOVE``), with those cells of the other player's
    next moves that do not lose at once (``REPLIES``); the higher the ``RANK``, the earlier a move is searched. The
    first number of ``KEY`` is a key of the position"""
    states: Records
    """`State`[1]"""


@inlined
def position_key(mine: int, mask: int, board: Board) -> int:
    """Return a key of a position: the mover's stones and those of both players, the same for mirrored positions.

    Adding the two marks the height of every column by a carry into its lowest empty cell.
    """
    key = mine + mask
    other = mirror(key, board)
    return min(key, other)


@inlined
def safe_moves(mask: int, threats: int, board: Board) -> int:
    """Return the moves after which the other player, who threatens to win on ``threats``, cannot win at once."""
    possible = (mask + board.bottom) & board.cells
    forced = possible & threats
    if forced != 0:
        possible = forced if forced & (forced - 1) == 0 else int64(0)
    return possible & ~(threats >> 1)


@kernel(interpreted=False)
def bound_score(mine: int, mask: int, path: Path, table: Int64Array, board: Board) -> None:
    """Narrow the bounds of a position's score, until they meet or the search has to stop.

    A score counts the stones that the winner has left, so faster wins are higher: a player who wins with their last
    stone scores 1, one who loses against it -1, and a draw is 0. Every search has a null window: it decides whether
    the score is at least some target, where targets near 0 come first, because they are decided faster.

    Args:
        mine: the stones of the mover, as bits; mask: those of both players.
        path: its state holds bounds, and gets narrower ones.
        table: of positions.
        board: its size.
    """
    state = path.states[0]
    stones, num_cells = count_bits(mask), board.rows * board.columns
    lowest, highest = -((num_cells - stones) // 2), (num_cells + 1 - stones) // 2
    choices = safe_moves(mask, winning_cells(mine ^ mask, board) & ~mask, board)
    if winning_cells(mine, board) & (mask + board.bottom) & ~mask != 0:
        lowest = highest
    elif stones == num_cells:
        lowest = highest = 0
    elif choices == 0:
        highest = lowest
    state.low, state.high = max(state.low, lowest), min(state.high, highest)
    while state.low < state.high:
        target = _next_target(state.low, state.high)
        score = _search(mine, mask, choices, target, stones, path, table, board)
        if score == STOPPED:
            break
        if score >= target:
            state.low = max(state.low, score)
        else:
            state.high = min(state.high, score)


@inlined
def _next_target(low: int, high: int) -> int:
    """Return a target above ``low`` and at most ``high``, far from 0 at first: such a target bounds the depth."""
    middle = low + (high - low) // 2
    return 1 + (min(middle, -(-low // 2)) if middle <= 0 else max(middle, high // 2))


@kernel(interpreted=False)
def _search(
    mine: int, mask: int, choices: int, target: int, stones: int, path: Path, table: Int64Array, board: Board
) -> int:
    """Return a bound of the score, on the side of ``target`` where the score lies, or ``STOPPED``.

    The mover cannot win at once; after ``choices``, as bits, neither can the other player.
    """
    moves, states = path
    state, num_cells = states[0], board.rows * board.columns
    if state.nodes >= state.stop:
        return STOPPED
    nodes_before = state.nodes
    state.nodes += 1
    if stones >= num_cells - 2:
        return 0
    low, high = -((num_cells - 2 - stones) // 2), (num_cells - 1 - stones) // 2
    if low >= target or high < target:
        return low if low >= target else high
    moves[stones, KEY, 0] = position_key(mine, mask, board)
    entry = find(moves[stones], KEY, 1, table)
    if entry >= 0:
        info = int64(table[entry, 1])
        low, high = max(low, (info & 127) - OFFSET), min(high, (info >> 7 & 127) - OFFSET)
        if low >= target or high < target:
            return low if low >= target else high
    count = 0
    for i in range(board.columns):
        move = choices & column_bits(board, board.columns // 2 + (1 - 2 * (i & 1)) * ((i + 1) // 2))
        if move == 0:
            continue
        threats = winning_cells(mine | move, board) & ~(mask | move)
        replies = safe_moves(mask | move, threats, board)
        if replies == 0:  # the other player cannot stop a win at the next turn, which is the earliest possible
            return high
        rank = count_bits(threats)
        at = count
        while at > 0 and moves[stones, RANK, at - 1] < rank:
            for part in range(3):
                moves[stones, part, at] = moves[stones, part, at - 1]
            at -= 1
        moves[stones, MOVE, at], moves[stones, REPLIES, at], moves[stones, RANK, at] = move, replies, rank
        count += 1
    best, i = low, 0
    while best < target and i < count:
        move, replies = moves[stones, MOVE, i], moves[stones, REPLIES, i]
        score = _search(mine ^ mask, mask | move, replies, 1 - target, stones + 1, path, table, board)
        if score == STOPPED:
            return STOPPED
        best = max(best, -score)
        i += 1
    if best >= target:
        low = best
    else:
        high = best
    info = worth_of(state.nodes - nodes_before) | (high + OFFSET) << 7 | (low + OFFSET)
    store(moves[stones], KEY, 1, info, table)
    return best
