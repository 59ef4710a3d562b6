"""Alpha-beta search with null windows, as one kernel that can be interrupted and resumed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baselines.connect_four.bitboards import Board, column_bits, completing_bits
from baselines.connect_four.table import locate, look_up, position_key, store
from ttt_envs.core.jit import Int64Array, compiled_at_once, inlined, int64
from ttt_envs.core.records import Records, records
from ttt_envs.game.bits import count_bits


class Frame:
    """A position on the path. The mover cannot win at once, and has a move after which the other player cannot."""

    mine: int
    """stones of the mover, as bits"""
    mask: int
    """stones of both players"""
    choices: int
    """cells of the moves after which the other player cannot win at once"""
    target: int
    """the search decides whether the score is at least this"""
    best: int
    """the highest score of the moves searched"""
    low: int
    """lower bound of the score"""
    high: int
    """upper bound of the score"""
    count: int
    """number of moves to search"""
    next: int
    """index of the next one"""
    start: int
    """index of the first entry of the position's bucket"""
    rest: int
    """what an entry of the position holds of its key"""
    nodes_before: int
    """number of positions visited before this one"""


class State:
    """Progress of a search."""

    depth: int
    """depth of the current position below the root"""
    is_new: int
    """whether the current position is still to be expanded"""
    nodes: int
    """number of positions visited"""
    low: int
    """lower bound of the score of the root"""
    high: int
    """upper bound"""


class Search(NamedTuple):
    """State of an interruptible search: the path from the root, of at most D = cells + 1 positions."""

    moves: Int64Array
    """int64[D, columns]: the moves to search, best first, each as one bit"""
    replies: Int64Array
    """int64[D, columns]: after each, the ``choices`` of the other player"""
    ranks: Int64Array
    """int64[D, columns]: the higher, the earlier a move is searched"""
    frames: Records
    """`Frame`[D]"""
    states: Records
    """`State`[1]"""


def new_search(board: Board) -> Search:
    """Return a search without a position: see :func:`begin`."""
    depth = board.rows * board.columns + 2
    moves, replies, ranks = np.zeros((3, depth, board.columns), np.int64)
    return Search(moves, replies, ranks, records(Frame, (depth,)), records(State, (1,)))


@inlined
def safe_moves(mask: int, threats: int, board: Board) -> int:
    """Return the moves after which the other player, who threatens to win on ``threats``, cannot win at once."""
    possible = (mask + board.bottom) & board.cells
    forced = possible & threats
    if forced != 0:
        possible = forced if forced & (forced - 1) == 0 else int64(0)
    return possible & ~(threats >> 1)


@compiled_at_once
def begin(search: Search, mine: int, mask: int, low: int, high: int, board: Board) -> int:
    """Set the root of a search: the stones of the mover and of both players, and bounds of the score.

    A position decided at once gets its score as both bounds. Returns the number of stones.
    """
    state, frame = search.states[0], search.frames[0]
    num_cells, stones = board.rows * board.columns, count_bits(mask)
    frame.mine, frame.mask = mine, mask
    empty = board.cells & ~mask
    wins = completing_bits(mine, board) & empty
    frame.choices = safe_moves(mask, completing_bits(mine ^ mask, board) & empty, board)
    state.depth, state.is_new, state.nodes = 0, 1, 0
    state.low = max(low, -((num_cells - stones) // 2))
    state.high = min(high, (num_cells + 1 - stones) // 2)
    if wins & (mask + board.bottom) != 0:
        state.low = state.high = (num_cells + 1 - stones) // 2
    elif stones == num_cells:
        state.low = state.high = 0
    elif frame.choices == 0 and stones < num_cells:
        state.low = state.high = -((num_cells - stones) // 2)
    return stones


@compiled_at_once
def run(search: Search, stones: int, table: Int64Array, shift: int, board: Board, stop: int) -> None:
    """Continue a search until the bounds of the root's score meet or ``stop`` positions have been visited.

    A score counts the stones that the winner has left, so faster wins are higher: a player who wins with their last
    stone scores 1, one who loses against it -1, and a draw is 0. Every search has a null window: it decides whether
    the score of the root is at least some target, where targets near 0 come first, because they are decided faster.
    The score returned for a position is a bound, on the side of its target where the true score lies.

    Args:
        search: from :func:`begin`.
        stones: on the board of the root.
        table: of positions.
        shift: ``index_shift`` of the table.
        board: its size.
        stop: number of positions.
    """
    moves, replies, _, frames, states = search
    state = states[0]
    depth = state.depth
    is_new = state.is_new
    nodes = state.nodes
    while nodes < stop and state.low < state.high:
        frame = frames[depth]
        score = int64(0)
        is_done = False
        if is_new != 0:
            is_new = 0
            if depth == 0:
                frame.target = _next_target(state.low, state.high)
            frame.nodes_before = nodes
            nodes += 1
            is_done, score = _expand(search, depth, stones + depth, table, shift, board)
        elif frame.best >= frame.target or frame.next == frame.count:
            is_done, score = True, frame.best
            if score >= frame.target:
                frame.low = max(frame.low, score)
            else:
                frame.high = min(frame.high, score)
            store(frame.start, frame.rest, frame.low, frame.high, nodes - frame.nodes_before, table)
        if is_done:
            if depth == 0:
                if score >= frame.target:
                    state.low = max(state.low, score)
                else:
                    state.high = min(state.high, score)
                is_new = 1
            else:
                depth -= 1
                frames[depth].best = max(frames[depth].best, -score)
        else:
            below = frames[depth + 1]
            i = frame.next
            frame.next = i + 1
            move = moves[depth, i]
            below.mine = frame.mine ^ frame.mask
            below.mask = frame.mask | move
            below.choices = replies[depth, i]
            below.target = 1 - frame.target
            depth += 1
            is_new = 1
    state.depth = depth
    state.is_new = is_new
    state.nodes = nodes


@inlined
def _next_target(low: int, high: int) -> int:
    """Return a target above ``low`` and at most ``high``, far from 0 at first: such a target bounds the depth."""
    middle = low + (high - low) // 2
    return 1 + (min(middle, -(-low // 2)) if middle <= 0 else max(middle, high // 2))


@inlined
def _expand(search: Search, depth: int, stones: int, table: Int64Array, shift: int, board: Board) -> tuple[bool, int]:
    """Write the moves of the new position at ``depth`` of the path; or return its score, or a sufficient bound of it.

    Returns:
        (True, score), or (False, 0) if the moves have to be searched.
    """
    moves, replies, ranks, frames, _ = search
    frame = frames[depth]
    num_cells = board.rows * board.columns
    if stones >= num_cells - 2:
        return True, 0
    low, high = -((num_cells - 2 - stones) // 2), (num_cells - 1 - stones) // 2
    target = frame.target
    if high < target:
        return True, high
    if low >= target:
        return True, low
    mine, mask = frame.mine, frame.mask
    frame.start, frame.rest = locate(position_key(mine, mask, board), shift, board)
    stored_low, stored_high = look_up(frame.start, frame.rest, table)
    if stored_high < target:
        return True, stored_high
    if stored_low >= target:
        return True, stored_low
    frame.low, frame.high = max(low, stored_low), min(high, stored_high)
    count = 0
    for i in range(board.columns):
        column = board.columns // 2 + (1 - 2 * (i & 1)) * ((i + 1) // 2)
        move = frame.choices & column_bits(board, column)
        if move == 0:
            continue
        after = mask | move
        made = completing_bits(mine | move, board) & board.cells & ~after
        answers = safe_moves(after, made, board)
        if answers == 0:  # the other player cannot stop a win at the next turn, which is the earliest possible
            return True, high
        rank = count_bits(made)
        at = count
        while at > 0 and ranks[depth, at - 1] < rank:
            ranks[depth, at] = ranks[depth, at - 1]
            moves[depth, at] = moves[depth, at - 1]
            replies[depth, at] = replies[depth, at - 1]
            at -= 1
        ranks[depth, at], moves[depth, at] = rank, move
        replies[depth, at] = answers
        count += 1
    frame.count = count
    frame.next = 0
    frame.best = frame.low
    return False, int64(0)
