"""Who wins m,n,k without skips, on boards too large to tabulate.

An extra stone never hurts, so player_1 cannot win against best play (strategy stealing), and the question has two
answers: player_0 wins, or can be kept from it, which is a draw. It is answered by depth-first proof-number search
(df-pn; Nagai, 2002) over positions as two sets of cells, one bit a cell, with four things that keep the tree small:

- *Threats.* Who can complete a line does; a line that the other could complete is blocked; two such lines, or a cell
  that makes two, decide (`_look`). Elsewhere only moves remain that could matter.
- *Potential.* Where the lines still open to player_0 weigh less than 1, each 2**-(its empty cells), player_1 can take a
  cell of every one of them (Erdos and Selfridge, 1973). Pairs of cells of which player_1 always gets one (Hales and
  Jewett, 1963) join in: `_holds` takes pairs as long as they make the rest lighter.
- *Symmetry.* All images of a position are carried along, and the least of them is its key.
- *A table* of positions with their proof numbers. Entries hold the whole key, so that none is taken for another.

Uiterwijk and van den Herik ("The advantage of the initiative", 2000) solved boards up to 6 x 6 by proof-number search,
Hsu et al. ("On solving the 7,7,5-game and the 8,8,5-game", 2020) larger ones by weighing threats and pairs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ttt_envs.compiling import Integers, Keys, compiled, inlined, wide
from ttt_envs.rules import DRAW, Game, windows
from ttt_envs.symmetry import symmetries

LARGEST_BOARD = 64
WORTH_PAIRING = 3
"""weight of the open lines up to which it pays to look for pairs"""
SLICE = 1 << 14
"""positions between two looks at the clock, the keyboard and the size of the table"""
ENTRY = 24
"""bytes of a table's entry: two sets of cells; proof number, disproof number and size of the tree below"""
BUCKET = 4
"""entries among which a position may stand"""

# Kernels count in uint64 throughout, because numba makes floats of a mixture of uint64 and int64.
NONE = np.uint64(0)
ONE = np.uint64(1)

SOLVED = (1 << 28) - 1
"""the number against a proven or disproven position; numbers of others stay far below, see `_run`"""
NUMBER = np.uint64(SOLVED)

# What is known of player_0: wins, does not, or neither is known. Of a mover: completes a line first, or the other does.
YES, NO, UNKNOWN = 1, -1, 0


class Proof(NamedTuple):
    """Who wins a game without skips."""

    game: Game
    winner: int | None
    """0 player_0 wins with best play, ``DRAW`` neither player can, None undecided within the nodes allowed"""
    nodes: int
    """positions visited"""
    seconds: float
    """on the clock, the compilation of a first call included"""
    move: int | None
    """a first move with which player_0 wins, where player_0 does"""


def prove(
    game: Game,
    *,
    nodes: int | None = None,
    memory: int = 1 << 30,
    progress: Callable[[int], None] | None = None,
) -> Proof:
    """Find out who wins a game without skips when both play their best.

    Args:
        game: a game without skips on at most 64 cells.
        nodes: positions after which to stop undecided; None for no limit.
        memory: bytes that the table of positions may grow to. It begins small; 0 is no table.
        progress: called with the number of positions visited, a few times a second.

    Raises:
        ValueError: turns may be skipped, more than 64 cells, ``nodes`` below 1, ``memory`` below 0.
    """
    if game.skip_chance > 0:
        raise ValueError(
            f"skip_chance={game.skip_chance:g} leaves nothing to prove, because with skips either player may win: "
            f"choose skip_chance=0, or get the exact values with evaluate.py solve"
        )
    if game.cells > LARGEST_BOARD:
        raise ValueError(
            f"a board of {game.rows} x {game.columns} has {game.cells} cells: choose one of at most {LARGEST_BOARD}"
        )
    if nodes is not None and nodes < 1:
        raise ValueError(f"nodes={nodes} visits no position: choose at least 1, or None for no limit")
    if memory < 0:
        raise ValueError(f"memory={memory} is negative: choose the bytes of the table, or 0 for no table")
    started = time.perf_counter()
    board = _board(game)
    search = _search_from_empty(board)
    state = search.state
    table = _grown(np.zeros((0, 3), np.uint64), state, memory)
    while state[RESULT] == UNKNOWN and (nodes is None or state[NODES] < nodes):
        table = _grown(table, state, memory)
        stop = int(state[NODES]) + SLICE
        _run(search, table, board, stop if nodes is None else min(stop, nodes))
        if progress is not None:
            progress(int(state[NODES]))
    result = state[RESULT]
    return Proof(
        game,
        winner={YES: 0, NO: DRAW, UNKNOWN: None}[int(result)],
        nodes=int(state[NODES]),
        seconds=time.perf_counter() - started,
        move=int(state[MOVE]) if result == YES else None,
    )


# ---------------------------------------------------------------------------------------------------------------------
# Sets of cells: bit i is cell i


class _Board(NamedTuple):
    """What stays the same for all positions of a game, and scratch memory for looking at one."""

    win_length: int
    lines: Keys
    """uint64[W]: the cells of every line, as sets"""
    images: Integers
    """int64[S, cells]: where a stone goes, for each symmetry, the identity first"""
    weight: Integers
    """int64[2, cells]: what the open lines through a cell weigh together, the mover's and the other player's"""
    total: Integers
    """int64[2]: what all open lines weigh together"""
    partners: Keys
    """uint64[2, cells]: with which cell a stone on this cell threatens to complete a line"""
    shared: Keys
    """uint64[cells]: the empty cells that every live line through a cell holds"""
    left: Keys
    """uint64[W]: in `_holds`, the lines that no pair stops"""
    heavy: Integers
    """int64[cells]: in `_holds`, what the lines left weigh together"""
    common: Integers
    """int64[cells, cells]: in `_holds`, what the lines left through two cells weigh together; zero between calls"""


def _board(game: Game) -> _Board:
    cells, lines = game.cells, np.bitwise_or.reduce(ONE << windows(game).astype(np.uint64), axis=1)
    return _Board(
        win_length=game.win_length,
        lines=lines,
        images=np.unique(symmetries(game), axis=0),  # a board of one row has fewer than 4; the identity is the least
        weight=np.zeros((2, cells), np.int64),
        total=np.zeros(2, np.int64),
        partners=np.zeros((2, cells), np.uint64),
        shared=np.zeros(cells, np.uint64),
        left=np.zeros(len(lines), np.uint64),
        heavy=np.zeros(cells, np.int64),
        common=np.zeros((cells, cells), np.int64),
    )


@inlined
def _set(cell: int) -> np.uint64:
    """The set of one cell."""
    return ONE << np.uint64(cell)


@inlined
def _size(cells: np.uint64) -> int:
    """How many cells a set has."""
    cells = cells - ((cells >> ONE) & np.uint64(0x5555555555555555))
    cells = (cells & np.uint64(0x3333333333333333)) + ((cells >> np.uint64(2)) & np.uint64(0x3333333333333333))
    cells = (cells + (cells >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return wide((cells * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inlined
def _least(cells: np.uint64) -> int:
    """The least cell of a set that is not empty."""
    return _size((cells - ONE) & ~cells)


@inlined
def _several(cells: np.uint64) -> bool:
    """Whether a set that is not empty has more than one cell."""
    return bool((cells & (cells - ONE)) != NONE)


# ---------------------------------------------------------------------------------------------------------------------
# What can be said of a position without searching


@compiled
def _look(own: np.uint64, other: np.uint64, board: _Board) -> tuple[int, np.uint64]:
    """Read all lines: who completes one first, if threats alone decide it, and else which moves are worth a try.

    A line is open to a player while the other has no stone in it. It weighs 2**(own stones in it), that is 2**-(empty
    cells) in units of 2**-win_length.

    Args:
        own: the stones of the mover, as a set; other: those of the other player. Neither has a line.
        board: its ``weight`` and ``total`` are filled in.

    Returns:
        (verdict, cells): ``YES`` the mover completes a line before the other player can, beginning with any of these
        cells; ``NO`` the other player does; ``UNKNOWN``: of all moves the best is in these cells, none where no
        line is open to anybody.
    """
    partners, shared = board.partners, board.shared
    shared[:] = ~NONE
    live_0, wins_0, twos_0 = _read(own, other, 0, board)
    live_1, wins_1, _ = _read(other, own, 1, board)
    live = live_0 | live_1
    if wins_0 != NONE:
        return YES, wins_0
    if wins_1 != NONE:
        return (NO, NONE) if _several(wins_1) else (UNKNOWN, wins_1)
    moves = live
    for cell in range(len(shared)):
        mine, theirs = partners[0, cell], partners[1, cell]
        if mine != NONE and _several(mine):
            return YES, _set(cell)
        if theirs != NONE and _several(theirs):
            # There the other player would make two threats: take part in them, or make a threat first
            moves &= _set(cell) | twos_0 | (NONE if _several(theirs & (theirs - ONE)) else theirs)
    if moves == NONE and live != NONE:
        return NO, NONE
    # Where all live lines through a cell hold a second empty cell too, that one is at least as good, for either player:
    # a stone there is in every line that a stone here could complete, and stops every line that it could stop.
    for cell in range(len(shared)):
        if (moves & _set(cell)) != NONE:
            better = shared[cell] & ~_set(cell)
            while better != NONE:
                best = _least(better)
                better &= better - ONE
                if best < cell or (shared[best] & _set(cell)) == NONE:  # of equal cells the first stays
                    moves &= ~_set(cell)
                    break
    return UNKNOWN, moves


@inlined
def _read(stones: np.uint64, against: np.uint64, row: int, board: _Board) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Read one player's open lines into a row of the board's ``weight``, ``total`` and ``partners``, and ``shared``.

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
            own = _size(line & stones)
            total += 1 << own
            live |= empty
            if own == win_length - 1:
                ones |= empty
            elif own == win_length - 2:
                twos |= empty
                low, rest = _least(empty), empty & (empty - ONE)
                partners[low] |= rest
                partners[_least(rest)] |= _set(low)
            cells = empty
            while cells != NONE:
                cell = _least(cells)
                cells &= cells - ONE
                weight[cell] += 1 << own
                shared[cell] &= empty
    board.total[row] = total
    return live, ones, twos


@compiled
def _holds(first: np.uint64, second: np.uint64, mover: int, pairs: bool, board: _Board) -> bool:
    """Whether weighing lines shows that player_1 can keep player_0 from completing any.

    Without pairs: while the open lines weigh less than 1 in all, player_1 can always take the heaviest cell, the sum
    never grows, and a complete line would weigh 1 (Erdos and Selfridge, 1973). Where player_0 is to move, the heaviest
    cell is added first. With pairs: player_1 answers a stone on one cell of a pair on the other. So lines through both
    never fill, and every other line may lose its cells in pairs to player_0; what is left of it must hold by its
    weight. The two parts of the strategy do not disturb each other, since player_1 answers where player_0 plays.

    Args:
        first: player_0's stones, as a set; second: player_1's.
        mover: who is to move, 0 or 1.
        pairs: whether to look for pairs.
        board: scratch memory.

    Returns:
        True where player_0 cannot win; False says nothing.
    """
    left, heavy, common = board.left, board.heavy, board.common
    win_length = board.win_length
    count = 0
    for line in board.lines:
        if (line & second) == NONE:
            left[count] = line
            count += 1
    free = ~(first | second)
    while True:
        heavy[:] = 0
        total = 0
        for i in range(count):
            cells = left[i] & free
            line_weight = 1 << (win_length - _size(cells))
            total += line_weight
            while cells != NONE:
                cell = _least(cells)
                cells &= cells - ONE
                heavy[cell] += line_weight
                after = cells
                while after != NONE:
                    common[cell, _least(after)] += line_weight
                    after &= after - ONE
        # The pair that takes away most: lines through both go, lines through one of them double
        best = -1
        pair = NONE
        for i in range(count):
            cells = left[i] & free
            while cells != NONE:
                cell = _least(cells)
                cells &= cells - ONE
                after = cells
                while after != NONE:
                    other = _least(after)
                    after &= after - ONE
                    gain = 3 * common[cell, other] - heavy[cell] - heavy[other]
                    if gain > best and common[cell, other] > 0:
                        best = gain
                        pair = _set(cell) | _set(other)
                    common[cell, other] = 0
        if total + (np.max(heavy) if mover == 0 else 0) < 1 << win_length:
            return True
        if best < 0 or not pairs:
            return False
        free &= ~pair
        kept = 0
        for i in range(count):
            if (left[i] & pair) != pair:
                left[kept] = left[i]
                kept += 1
        count = kept


# ---------------------------------------------------------------------------------------------------------------------
# The table: uint64[N, 3], rows (player_0's stones, player_1's stones, numbers); the empty board is never in it


@inlined
def _bucket(first: np.uint64, second: np.uint64, table: Keys) -> int:
    mixed = (first ^ (second * np.uint64(0x9E3779B97F4A7C15)) ^ (second >> np.uint64(31))) * np.uint64(
        0xBF58476D1CE4E5B9
    )
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    return BUCKET * wide((mixed ^ (mixed >> np.uint64(32))) & np.uint64(len(table) // BUCKET - 1))


@inlined
def _stored(first: np.uint64, second: np.uint64, table: Keys) -> np.uint64:
    """What the table has of a position, 0 where nothing."""
    if len(table) > 0:
        start = _bucket(first, second, table)
        for i in range(start, start + BUCKET):
            if table[i, 0] == first and table[i, 1] == second:
                found: np.uint64 = table[i, 2]
                return found
    return NONE


@inlined
def _store(first: np.uint64, second: np.uint64, numbers: np.uint64, table: Keys) -> int:
    """Write an entry, in place of the one that cost least where the bucket is full; returns entries gained, 0 or 1."""
    if len(table) == 0:
        return 0
    start = _bucket(first, second, table)
    place = start
    for i in range(start, start + BUCKET):
        if table[i, 0] == first and table[i, 1] == second:
            place = i
            break
        if table[i, 2] >> np.uint64(56) < table[place, 2] >> np.uint64(56):
            place = i
    gained = 1 if table[place, 2] == NONE else 0
    table[place, 0] = first
    table[place, 1] = second
    table[place, 2] = numbers
    return gained


@compiled
def _refill(old: Keys, new: Keys) -> int:
    """Write all entries of one table into another; returns how many are there now."""
    count = 0
    for i in range(len(old)):
        if old[i, 2] != NONE:
            count += _store(old[i, 0], old[i, 1], old[i, 2], new)
    return count


def _grown(table: Keys, state: Integers, memory: int) -> Keys:
    """The table, moved into a larger one where a slice more would fill half of it and the memory holds both."""
    size = max(len(table), BUCKET)
    while size < 2 * (state[STORED] + SLICE) and (len(table) + 2 * size) * ENTRY <= memory:
        size *= 2
    if size == len(table) or (len(table) + size) * ENTRY > memory:
        return table
    larger = np.zeros((size, 3), np.uint64)
    state[STORED] = _refill(table, larger)
    return larger


# ---------------------------------------------------------------------------------------------------------------------
# The search

DEPTH, ENTERING, NODES, STORED, RESULT, MOVE = range(6)
"""where `_Search.state` holds what"""
COUNT, CHOSEN, PROOF_LIMIT, DISPROOF_LIMIT, BEFORE = range(5)
"""where a row of `_Search.frame` holds what"""


class _Search(NamedTuple):
    """A search that can be stopped and continued: the path from the root, D = cells + 1 positions at most."""

    stones: Keys
    """uint64[D, S, 2]: the stones of player_0 and player_1 in all images of the position"""
    moves: Integers
    """int64[D, cells]: the moves considered"""
    keys: Keys
    """uint64[D, cells, 2]: the positions after them, the least image"""
    proof: Integers
    """int64[D, cells]: the proof number of each"""
    disproof: Integers
    """int64[D, cells]: the disproof number"""
    frame: Integers
    """int64[D, 5]: number of moves, move being searched, limits of the two numbers, nodes before"""
    state: Integers
    """int64[6]: depth, whether its position is new, nodes visited, entries in the table, result, first move"""


def _search_from_empty(board: _Board) -> _Search:
    images, cells = board.images.shape
    deep = cells + 1
    frame = np.zeros((deep, 5), np.int64)
    frame[0, PROOF_LIMIT] = frame[0, DISPROOF_LIMIT] = SOLVED
    state = np.zeros(6, np.int64)
    state[ENTERING] = 1
    return _Search(
        stones=np.zeros((deep, images, 2), np.uint64),
        moves=np.zeros((deep, cells), np.int64),
        keys=np.zeros((deep, cells, 2), np.uint64),
        proof=np.zeros((deep, cells), np.int64),
        disproof=np.zeros((deep, cells), np.int64),
        frame=frame,
        state=state,
    )


@compiled
def _expand(search: _Search, depth: int, table: Keys, board: _Board) -> int:
    """Look at the position at ``depth`` of the path for the first time.

    Returns:
        Whether player_0 wins; where ``UNKNOWN`` the moves to be searched have been written down with their numbers,
        and where ``YES`` with player_0 to move, a winning move as the first.
    """
    stones, moves, keys, proof, disproof, frame, _ = search
    mover = depth & 1
    first, second = stones[depth, 0, 0], stones[depth, 0, 1]
    if mover == 0:
        verdict, choice = _look(first, second, board)
    else:
        verdict, choice = _look(second, first, board)
        verdict = -verdict
    if verdict != UNKNOWN:
        if choice != NONE:
            moves[depth, 0] = _least(choice)
        return verdict
    total, weight = board.total[mover], board.weight[mover]  # player_0's
    one = 1 << board.win_length
    most = total + (np.max(weight) if mover == 0 else 0)
    if most < one or (most < WORTH_PAIRING * one and _holds(first, second, mover, True, board)):
        return NO
    images = board.images
    same = False  # whether the position is an image of itself
    for s in range(1, len(images)):
        same |= stones[depth, s, 0] == first and stones[depth, s, 1] == second
    count = 0
    while choice != NONE:
        cell = _least(choice)
        choice &= choice - ONE
        low, high = _key(stones[depth], mover, cell, images)
        if same:
            seen = False
            for i in range(count):
                seen |= keys[depth, i, 0] == low and keys[depth, i, 1] == high
            if seen:
                continue
        numbers = _stored(low, high, table)
        after = total + (weight[cell] if mover == 0 else -weight[cell])
        moves[depth, count] = cell
        keys[depth, count, 0], keys[depth, count, 1] = low, high
        if numbers != NONE:
            proof[depth, count] = wide(numbers & NUMBER)
            disproof[depth, count] = wide((numbers >> np.uint64(28)) & NUMBER)
        elif mover == 0 and after < one:  # player_1 is to move and holds
            proof[depth, count] = SOLVED
            disproof[depth, count] = 0
        else:
            # The heavier the open lines, the more it will take to stop them
            proof[depth, count] = 1
            disproof[depth, count] = 1 + 4 * after // one
        count += 1
    frame[depth, COUNT] = count
    return UNKNOWN


@inlined
def _key(stones: Keys, mover: int, cell: int, images: Integers) -> tuple[np.uint64, np.uint64]:
    """The position after a move as the least of its images, from uint64[S, 2], all images of the one before."""
    low, high = ~NONE, ~NONE
    for s in range(len(images)):
        stone = _set(images[s, cell])
        first = stones[s, 0] | (stone if mover == 0 else NONE)
        second = stones[s, 1] | (stone if mover == 1 else NONE)
        if first < low or (first == low and second < high):
            low, high = first, second
    return low, high


@compiled
def _run(search: _Search, table: Keys, board: _Board, stop: int) -> None:
    """Go on with a search until it is decided or ``stop`` positions have been visited.

    The proof number of a position estimates how many positions below must still be won to prove that player_0 wins,
    the disproof number how many must still fail to prove the contrary (Allis et al., 1994). Where player_0 moves, one
    won move is enough, and the proof number is the least of the moves'. All must fail to fail, and because the trees
    below them share positions, the disproof number is the greatest of theirs and one for each other move still open,
    not the sum (Ueda et al., 2008). Where player_1 moves the two change places. The search goes where the least is
    missing, and comes back when a number there passes its limit: that of the next best move and a quarter, so that it
    does not jump to and fro (Pawlewicz and Lew, 2007).

    So the numbers of positions not solved stay below the first estimates and the moves along a path, far from
    ``SOLVED``. The numbers of all moves along the path are kept beside the table, so that a table of any size, losing
    what it will, leads to the same result in the end.
    """
    stones, moves, keys, proof, disproof, frame, state = search
    depth = state[DEPTH]
    while state[NODES] < stop:
        mover = depth & 1
        verdict = UNKNOWN
        if state[ENTERING] == 1:
            state[ENTERING] = 0
            frame[depth, BEFORE] = state[NODES]
            state[NODES] += 1
            verdict = _expand(search, depth, table, board)
        best, next_best, others = 0, SOLVED, 0
        if verdict != UNKNOWN:
            proving, disproving = (0, SOLVED) if verdict == YES else (SOLVED, 0)
        elif mover == 0:
            proving, disproving, best, next_best, others = _numbers_of(
                proof[depth], disproof[depth], frame[depth, COUNT]
            )
        else:
            disproving, proving, best, next_best, others = _numbers_of(
                disproof[depth], proof[depth], frame[depth, COUNT]
            )
        if proving >= frame[depth, PROOF_LIMIT] or disproving >= frame[depth, DISPROOF_LIMIT]:
            if depth == 0:
                state[RESULT] = YES if proving == 0 else NO
                state[MOVE] = moves[0, best]
                break
            cost = state[NODES] - frame[depth, BEFORE]
            depth -= 1
            chosen = frame[depth, CHOSEN]
            proof[depth, chosen] = proving
            disproof[depth, chosen] = disproving
            numbers = np.uint64(proving) | np.uint64(disproving) << np.uint64(28)
            numbers |= np.uint64(_magnitude(cost)) << np.uint64(56)
            state[STORED] += _store(keys[depth, chosen, 0], keys[depth, chosen, 1], numbers, table)
        else:
            frame[depth, CHOSEN] = best
            for s in range(len(board.images)):
                stone = _set(board.images[s, moves[depth, best]])
                stones[depth + 1, s, 0] = stones[depth, s, 0] | (stone if mover == 0 else NONE)
                stones[depth + 1, s, 1] = stones[depth, s, 1] | (stone if mover == 1 else NONE)
            near, far = (PROOF_LIMIT, DISPROOF_LIMIT) if mover == 0 else (DISPROOF_LIMIT, PROOF_LIMIT)
            frame[depth + 1, near] = min(frame[depth, near], next_best + next_best // 4 + 1)
            limit = frame[depth, far]
            frame[depth + 1, far] = limit if limit == SOLVED else limit - others
            depth += 1
            state[ENTERING] = 1
    state[DEPTH] = depth


@inlined
def _numbers_of(aim: Integers, hurdle: Integers, count: int) -> tuple[int, int, int, int, int]:
    """What the numbers of its moves say of a position, seen by the player to move.

    Args:
        aim: int64[cells]: for each move, the estimate of what it takes to have the mover's way.
        hurdle: int64[cells]: what it takes to stop it.
        count: the number of moves.

    Returns:
        (aim, hurdle) of the position, the most promising move, the next best aim, and the moves to stop besides one.
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
    if 0 < greatest < SOLVED:  # else all moves are stopped, or one cannot be
        greatest += others
    return least, greatest, best, next_best, others


@inlined
def _magnitude(count: int) -> int:
    """The number of binary digits."""
    digits = 0
    while count > 0:
        count >>= 1
        digits += 1
    return digits
