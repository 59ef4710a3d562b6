"""Depth-first proof-number search (df-pn) that can be interrupted and resumed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baselines.proof_number.bitsets import NONE, ONE, Board, cell_bit, lowest_bit
from baselines.proof_number.pairing_strategy import holds
from baselines.proof_number.table import SOLVED, lookup, pack_numbers, store, unpack_numbers
from baselines.proof_number.threats import NO, UNKNOWN, YES, find_threats
from ttt_envs.core.jit import Int64Array, UInt64Array, compiled_at_once, compiled_at_once_allocating, inlined
from ttt_envs.core.records import Records, records

MAX_WEIGHT_FOR_PAIRS = 3
"""Maximum weight of the open lines for which a search for pairs pays."""


class Frame:
    """A position on the path."""

    count: int
    """number of moves to search"""
    chosen: int
    """index of the move being searched"""
    proof_limit: int
    """the search returns from the position when a number reaches its limit"""
    disproof_limit: int
    nodes_before: int
    """number of positions visited before this one"""


class State:
    """Progress of a search."""

    root: int
    """depth of the root"""
    depth: int
    """depth of the current position"""
    is_new: int
    """whether the current position is still to be expanded"""
    nodes: int
    """number of positions visited"""
    stored: int
    """number of entries in the table"""
    result: int
    """``YES``, ``NO`` or ``UNKNOWN``"""
    move: int
    """the first move to try"""


class Search(NamedTuple):
    """State of an interruptible search: the path from the root, of at most D = cells + 2 positions.

    The attacker moves at even depths, the defender at odd ones, and the root is at depth 0 or 1.
    """

    stones: UInt64Array
    """uint64[D, S, 2]: the stones of attacker and defender under all symmetries"""
    moves: Int64Array
    """int64[D, cells]: the candidate moves"""
    keys: UInt64Array
    """uint64[D, cells, 2]: canonical keys of the positions after them"""
    proof: Int64Array
    """int64[D, cells]: their proof numbers"""
    disproof: Int64Array
    """int64[D, cells]: their disproof numbers"""
    frames: Records
    """`Frame`[D]"""
    states: Records
    """`State`[1]"""


def search_from(board: Board, attacker: int = 0, defender: int = 0, mover: int = 0) -> Search:
    """Return a search that starts at a position.

    Args:
        board: of the game.
        attacker: stones, as a set, of the player whose win is to be proved; neither player has a line.
        defender: stones of the other player.
        mover: player to move, 0 the attacker or 1 the defender.
    """
    variants, cells = board.permutations.shape
    deep = cells + 2
    frames, states = records(Frame, (deep,)), records(State, (1,))
    frames[mover].proof_limit = frames[mover].disproof_limit = SOLVED
    states[0].root = states[0].depth = mover
    states[0].is_new = 1
    stones = np.zeros((deep, variants, 2), np.uint64)
    bits = ONE << board.permutations.astype(np.uint64)
    for player, members in enumerate((attacker, defender)):
        chosen = [cell for cell in range(cells) if members >> cell & 1]
        stones[mover, :, player] = np.bitwise_or.reduce(bits[:, chosen], axis=1)
    return Search(
        stones=stones,
        moves=np.zeros((deep, cells), np.int64),
        keys=np.zeros((deep, cells, 2), np.uint64),
        proof=np.zeros((deep, cells), np.int64),
        disproof=np.zeros((deep, cells), np.int64),
        frames=frames,
        states=states,
    )


@compiled_at_once_allocating  # np.max does
def _expand(search: Search, depth: int, table: Records, board: Board) -> int:
    """Evaluate the new position at ``depth`` of the path and write its moves.

    Returns:
        Whether the attacker wins. If ``UNKNOWN``, the moves to search are written with their numbers; if ``YES`` with
        the attacker to move, the first move wins.
    """
    stones, moves, keys, proof, disproof, frames, _ = search
    mover = depth & 1
    first, second = stones[depth, 0, 0], stones[depth, 0, 1]
    if mover == 0:
        verdict, choice = find_threats(first, second, board)
    else:
        verdict, choice = find_threats(second, first, board)
        verdict = -verdict
    if verdict != UNKNOWN:
        if choice != NONE:
            moves[depth, 0] = lowest_bit(choice)
        return verdict
    total, weight = board.total[mover], board.weight[mover]  # the attacker's
    one = 1 << board.win_length
    most = total + (np.max(weight) if mover == 0 else 0)
    if most < one or (most < MAX_WEIGHT_FOR_PAIRS * one and holds(first, second, mover, True, board)):
        return NO
    permutations = board.permutations
    same = False  # whether a symmetry maps the position to itself
    for s in range(1, len(permutations)):
        same |= stones[depth, s, 0] == first and stones[depth, s, 1] == second
    count = 0
    while choice != NONE:
        cell = lowest_bit(choice)
        choice &= choice - ONE
        low, high = key_after(stones[depth], mover, cell, permutations)
        if same:
            seen = False
            for i in range(count):
                seen |= keys[depth, i, 0] == low and keys[depth, i, 1] == high
            if seen:
                continue
        numbers = lookup(low, high, table)
        after = total + (weight[cell] if mover == 0 else -weight[cell])
        moves[depth, count] = cell
        keys[depth, count, 0], keys[depth, count, 1] = low, high
        if numbers != NONE:
            proof[depth, count], disproof[depth, count] = unpack_numbers(numbers)
        elif mover == 0 and after < one:  # with the defender to move, the position holds
            proof[depth, count] = SOLVED
            disproof[depth, count] = 0
        else:
            # Heavier open lines are harder to stop
            proof[depth, count] = 1
            disproof[depth, count] = 1 + 4 * after // one
        count += 1
    frames[depth].count = count
    return UNKNOWN


@inlined
def key_after(stones: UInt64Array, mover: int, cell: int, permutations: Int64Array) -> tuple[np.uint64, np.uint64]:
    """Return the canonical key of the position after a move, from all variants uint64[S, 2] of the one before."""
    low, high = ~NONE, ~NONE
    for s in range(len(permutations)):
        stone = cell_bit(permutations[s, cell])
        first = stones[s, 0] | (stone if mover == 0 else NONE)
        second = stones[s, 1] | (stone if mover == 1 else NONE)
        if first < low or (first == low and second < high):
            low, high = first, second
    return low, high


@compiled_at_once
def run(search: Search, table: Records, board: Board, stop: int) -> None:
    """Continue a search until it is decided or ``stop`` positions have been visited.

    The proof number of a position estimates the number of positions below that must still be won to prove that the
    attacker wins; the disproof number, the number that must fail to disprove it (Allis et al., 1994). If the attacker
    moves, one winning move is enough, and the proof number is the minimum over moves. To disprove, all moves must fail;
    because their subtrees share positions, the disproof number is their maximum plus one for each other open move, not
    the sum (Ueda et al., 2008). If the defender moves, the two are exchanged. The search descends to the smallest
    number and returns when a number there exceeds its threshold: that of the second best move plus a quarter, which
    avoids switching back and forth (Pawlewicz and Lew, 2007).

    So the numbers of unsolved positions are bounded by the initial estimates plus the moves along a path, far below
    ``SOLVED``. The numbers of all moves along the path are stored outside the table, so a table of any size leads
    to the same result in the end, in spite of lost entries.
    """
    stones, moves, keys, proof, disproof, frames, states = search
    state = states[0]
    depth = state.depth
    while state.nodes < stop:
        mover = depth & 1
        frame = frames[depth]
        verdict = UNKNOWN
        if state.is_new == 1:
            state.is_new = 0
            frame.nodes_before = state.nodes
            state.nodes += 1
            verdict = _expand(search, depth, table, board)
        best, next_best, others = 0, SOLVED, 0
        if verdict != UNKNOWN:
            proving, disproving = (0, SOLVED) if verdict == YES else (SOLVED, 0)
        elif mover == 0:
            proving, disproving, best, next_best, others = _proof_numbers(proof[depth], disproof[depth], frame.count)
        else:
            disproving, proving, best, next_best, others = _proof_numbers(disproof[depth], proof[depth], frame.count)
        if proving >= frame.proof_limit or disproving >= frame.disproof_limit:
            if depth == state.root:
                state.result = YES if proving == 0 else NO
                state.move = moves[depth, best]
                break
            numbers = pack_numbers(proving, disproving, state.nodes - frame.nodes_before)
            depth -= 1
            chosen = frames[depth].chosen
            proof[depth, chosen] = proving
            disproof[depth, chosen] = disproving
            state.stored += store(keys[depth, chosen, 0], keys[depth, chosen, 1], numbers, table)
        else:
            frame.chosen = best
            for s in range(len(board.permutations)):
                stone = cell_bit(board.permutations[s, moves[depth, best]])
                stones[depth + 1, s, 0] = stones[depth, s, 0] | (stone if mover == 0 else NONE)
                stones[depth + 1, s, 1] = stones[depth, s, 1] | (stone if mover == 1 else NONE)
            limit = next_best + next_best // 4 + 1
            depth += 1
            below = frames[depth]
            if mover == 0:
                below.proof_limit = min(frame.proof_limit, limit)
                below.disproof_limit = _lower(frame.disproof_limit, others)
            else:
                below.disproof_limit = min(frame.disproof_limit, limit)
                below.proof_limit = _lower(frame.proof_limit, others)
            state.is_new = 1
    state.depth = depth


@inlined
def _lower(limit: int, others: int) -> int:
    """Return the limit of a move whose siblings add ``others`` to the number."""
    return limit if limit == SOLVED else limit - others


@inlined
def _proof_numbers(aim: Int64Array, hurdle: Int64Array, count: int) -> tuple[int, int, int, int, int]:
    """Return the numbers of a position from those of its moves, from the view of the player to move.

    Args:
        aim: int64[cells]: for each move, its number towards the mover's goal.
        hurdle: int64[cells]: its number towards the opposite.
        count: the number of moves.

    Returns:
        (aim, hurdle) of the position, the most promising move, the second best aim, and the number of other open moves.
    """
    best, least, next_best = 0, SOLVED, SOLVED
    greatest, others = 0, -1
    for i in range(count):
        if aim[i] < least:
            next_best = least
            least = aim[i]
            best = i
        elif aim[i] < next_best:
            next_best = aim[i]
        greatest = max(greatest, hurdle[i])
        others += 1 if hurdle[i] > 0 else 0
    if 0 < greatest < SOLVED:  # else all moves have failed, or one cannot fail
        greatest += others
    return least, greatest, best, next_best, others
