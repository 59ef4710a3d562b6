"""Depth-first proof-number search (df-pn), a recursion that stops after a number of positions, and
what it proves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from baselines.proof_number.threats import (
    NO,
    UNKNOWN,
    YES,
    ProofBoard,
    find_threats,
    holds,
    lowest_cell,
    make_board,
)
from baselines.search.canonical import Planes, mark, write_key
from baselines.search.transpositions import find, grow, num_visits, store, worth_of
from ttt_envs.core.checks import Refusal, check_range
from ttt_envs.core.jit import Int8Array, Int64Array, inlined, int64, kernel
from ttt_envs.core.records import Records, records
from ttt_envs.game.boards import check_opening
from ttt_envs.game.game import Game, Position
from ttt_envs.game.phantom import check_variants
from ttt_envs.game.rules import DRAW, NOT_OVER, legal, put_stone

SOLVED = (1 << 24) - 1
"""infinity for proof and disproof numbers of solved positions; other numbers stay far below, see
:func:`search`
"""
MAX_WEIGHT_FOR_PAIRS = 3
"""Maximum weight of the open lines for which a search for pairs pays."""
KEY_WORDS, TABLE_WORDS = 2, 3
"""Number of words of a key, the stones of attacker and defender; and of a row of the table, which
has both numbers.
"""
SLICE = 1 << 14
"""Number of positions between two checks of the clock and of interrupts."""

# Results for the player who moves, and codes for occupied cells and for moves that are not proved
WIN, TIED, LOSS = 1, 0, -1
TAKEN = 2
UNDECIDED = 3
MAX_PROOF_CELLS = 64


class ProofState(ProofBoard):
    """The lines and the progress of a search, as a record."""

    nodes: int
    """number of positions visited"""
    stop: int
    """number of positions after which to stop"""
    stored: int
    """number of rows in the table"""
    full: int
    """number of rows at which to stop"""
    move: int
    """the first move to try at the root"""


class ProofNode:
    """A position on the path, as a record."""

    moves: Annotated[Int64Array, np.int64, (MAX_PROOF_CELLS,)]
    """the candidate moves"""
    keys: Annotated[Int64Array, np.int64, (MAX_PROOF_CELLS, KEY_WORDS)]
    """canonical keys of the positions after them"""
    numbers: Annotated[Int64Array, np.int64, (2, MAX_PROOF_CELLS)]
    """their proof numbers and disproof numbers"""


class ProofTree(NamedTuple):
    """All that a search reads and writes."""

    state: ProofState
    nodes: Records[ProofNode]
    """`ProofNode`[D]: the attacker moves at even depths, the defender at odd ones; the root is at
    depth 0 or 1
    """
    planes: Planes
    """the current position: the stones of the attacker, then those of the defender"""
    table: Int64Array
    """of positions, may have no rows"""


@kernel(interpreted=False, allocates=True)  # np.max does
def _expand(depth: int, tree: ProofTree) -> tuple[int, int]:
    """Evaluate the position at ``depth`` of the path and write its moves.

    Returns:
        (verdict, count): ``YES`` if the mover reaches its goal, for the attacker to win and for the
        defender to prevent it, ``NO`` if the other player does. If ``UNKNOWN``, ``count`` moves to
        search are written with their numbers; if ``YES`` with the attacker to move, the first move
        wins.
    """
    board, _, planes, table = tree
    node = tree.nodes[depth]
    mover = depth & 1
    moves = node.moves
    keys = node.keys
    numbers = node.numbers
    first, second = planes.stones[0]
    own, other = (first, second) if mover == 0 else (second, first)
    verdict, choice = find_threats(own, other, board)
    if verdict != UNKNOWN:
        if choice != 0:
            moves[0] = lowest_cell(choice)
        return verdict, 0
    # the attacker's
    total = board.total[mover]
    weight = board.weight[mover]
    unit = 1 << board.win_length
    max_weight = total + (np.max(weight) if mover == 0 else 0)
    is_light = max_weight < MAX_WEIGHT_FOR_PAIRS * unit
    if max_weight < unit or (is_light and holds(first, second, mover, board)):
        return YES if mover == 1 else NO, 0
    count = 0
    while choice != 0:
        cell = lowest_cell(choice)
        choice &= choice - 1
        mark(cell, mover, planes)
        write_key(keys[count], planes)
        mark(cell, mover, planes)
        is_copy = False
        for i in range(count):
            is_copy |= keys[i, 0] == keys[count, 0] and keys[i, 1] == keys[count, 1]
        if is_copy:
            continue
        entry = find(keys, count, KEY_WORDS, table)
        open_weight = total + (weight[cell] if mover == 0 else -weight[cell])
        moves[count] = cell
        if entry >= 0:
            numbers[0, count] = table[entry, KEY_WORDS] & SOLVED
            numbers[1, count] = table[entry, KEY_WORDS] >> 24 & SOLVED
        elif mover == 0 and open_weight < unit:  # with the defender to move, the position holds
            numbers[0, count] = SOLVED
            numbers[1, count] = 0
        else:  # heavier open lines are harder to stop
            numbers[0, count] = 1
            numbers[1, count] = 1 + 4 * open_weight // unit
        count += 1
    return UNKNOWN, count


@kernel(interpreted=False)
def search(depth: int, limit: int, other_limit: int, tree: ProofTree) -> tuple[int, int]:
    """Search a position until one of its numbers reaches its limit, or the search has to stop.

    The proof number of a position estimates the number of positions below that must still be won to
    prove that the attacker wins; the disproof number, the number that must fail to disprove it
    (Allis et al., 1994). If the attacker moves, one winning move is enough, and the proof number is
    the minimum over moves. To disprove, all moves must fail; because their subtrees share
    positions, the disproof number is their maximum plus one for each other open move, not the sum
    (Ueda et al., 2008). If the defender moves, the two are exchanged. The search descends to the
    smallest number and returns when a number there exceeds its threshold: that of the second best
    move plus a quarter, which avoids switching back and forth (Pawlewicz and Lew, 2007).

    So the numbers of unsolved positions are bounded by the initial estimates plus the moves along a
    path, far below ``SOLVED``. The numbers of all moves along the path are kept outside the table,
    so a table of any size leads to the same result in the end, in spite of lost rows. A search that
    stops leaves the numbers of its path in the table.

    Args:
        depth: of the position, whose stones are written; the attacker moves at even depths.
        limit: of the number that counts towards the mover's goal: the proof number if the attacker
            moves.
        other_limit: of the other number.
        tree: all else.

    Returns:
        The two numbers, that of the mover first.
    """
    state, nodes, planes, table = tree
    moves = nodes[depth].moves
    numbers = nodes[depth].numbers
    mover = depth & 1
    state.nodes += 1
    verdict, count = _expand(depth, tree)
    if verdict != UNKNOWN:
        state.move = moves[0]
        return (int64(0), int64(SOLVED)) if verdict == YES else (int64(SOLVED), int64(0))
    while True:
        number, other_number, best, next_best, siblings = _combine(
            numbers[mover], numbers[1 - mover], count
        )
        is_reached = number >= limit or other_number >= other_limit
        if is_reached or state.nodes >= state.stop or state.stored >= state.full:
            state.move = moves[best]
            return number, other_number
        mark(moves[best], mover, planes)
        nodes_before = state.nodes
        next_limit = other_limit if other_limit == SOLVED else other_limit - siblings
        next_other_limit = min(limit, next_best + next_best // 4 + 1)
        numbers[1 - mover, best], numbers[mover, best] = search(
            depth + 1, next_limit, next_other_limit, tree
        )
        mark(moves[best], mover, planes)
        if len(table) > 0:
            info = worth_of(state.nodes - nodes_before) | numbers[1, best] << 24 | numbers[0, best]
            state.stored += store(nodes[depth].keys, best, KEY_WORDS, info, table)[1]


@inlined
def _combine(aim: Int64Array, hurdle: Int64Array, count: int) -> tuple[int, int, int, int, int]:
    """Return the numbers of a position from those of its moves, from the view of the player to
    move.

    Args:
        aim: int64[cells]: for each move, its number towards the mover's goal.
        hurdle: int64[cells]: its number towards the opposite.
        count: the number of moves.

    Returns:
        (aim, hurdle) of the position, the most promising move, the second best aim, and the number
        of other open moves.
    """
    best = 0
    min_aim = int64(SOLVED)
    next_best = int64(SOLVED)
    max_hurdle = 0
    siblings = -1
    for i in range(count):
        if aim[i] < min_aim:
            next_best = min_aim
            min_aim = aim[i]
            best = i
        elif aim[i] < next_best:
            next_best = aim[i]
        max_hurdle = max(max_hurdle, hurdle[i])
        siblings += 1 if hurdle[i] > 0 else 0
    if 0 < max_hurdle < SOLVED:  # else all moves have failed, or one cannot fail
        max_hurdle += siblings
    return min_aim, max_hurdle, best, next_best, siblings


class ProofSearch:
    """Decides whether one player, the attacker, wins positions, with a table that later positions
    share.

    They must have the same attacker and the same player to move.
    """

    def __init__(self, game: Game, memory: int) -> None:
        """Make it, for a game and a maximum size of the table in bytes; it starts small."""
        state = make_board(game, ProofState)
        self._memory = memory
        table = np.zeros((0, TABLE_WORDS), np.int64)
        self._tree = ProofTree(
            state, records(ProofNode, (game.cells + 2,)), Planes.empty(game), table
        )

    def decide(
        self,
        stones: Sequence[Sequence[int]],
        mover: int,
        nodes: int | None,
        progress: Callable[[int], None] | None = None,
    ) -> tuple[int, int, int]:
        """Search a position.

        Args:
            stones: the cells of attacker and defender; neither player has a line.
            mover: player to move, 0 the attacker or 1 the defender.
            nodes: number of positions after which to stop undecided; None for no limit.
            progress: called with the number of positions visited, a few times a second.

        Returns:
            ``YES``, ``NO`` or ``UNKNOWN``; the number of positions visited; the first move to try.
        """
        state, _, planes, table = self._tree
        planes.stones[:] = 0
        for player, cells in enumerate(stones):
            for cell in cells:
                mark(cell, player, planes)
        state.nodes = 0
        while True:
            table, state.stored, state.full = grow(
                table, int(state.stored), KEY_WORDS, self._memory
            )
            self._tree = self._tree._replace(table=table)
            stop = int(state.nodes) + num_visits(int(state.nodes), SLICE, table)
            state.stop = stop if nodes is None else min(stop, nodes)
            number, other_number = search(mover, SOLVED, SOLVED, self._tree)
            if progress is not None:
                progress(int(state.nodes))
            if number == 0 or other_number == 0:
                verdict = YES if (number == 0) == (mover == 0) else NO
                return verdict, int(state.nodes), int(state.move)
            if state.nodes == nodes:
                return UNKNOWN, int(state.nodes), -1


# --------------------------------------------------------------------------------------------------
# Functions for Python callers


class Proof(NamedTuple):
    """The winner of a game without skips."""

    game: Game
    winner: int | None
    """0 if player_0 wins with best play, ``DRAW`` if neither player can, None if undecided within
    the nodes allowed
    """
    nodes: int
    """number of positions visited"""
    seconds: float
    """elapsed time, including the compilation at a first call"""
    move: int | None
    """a winning first move, if player_0 wins"""


def prove(
    game: Game,
    *,
    nodes: int | None = None,
    memory: int = 1 << 30,
    progress: Callable[[int], None] | None = None,
) -> Proof:
    """Prove the winner of a game without skips under best play by both players.

    Args:
        game: a game without skips on at most 64 cells.
        nodes: number of positions after which to stop undecided; None for no limit.
        memory: maximum size of the table in bytes. It starts small; 0 for no table.
        progress: called with the number of positions visited, a few times a second.

    Raises:
        ValueError: turns may be skipped, more than 64 cells, ``nodes`` below 1, or ``memory`` below
            0.
    """
    check_provable(game)
    check_range("nodes", nodes, 1, problem="visits no position")
    check_range("memory", memory, 0, problem="is no size of a table", hint=" bytes, 0 for no table")
    start = time.perf_counter()
    verdict, num_nodes, move = ProofSearch(game, memory).decide(([], []), 0, nodes, progress)
    return Proof(
        game=game,
        winner={YES: 0, NO: DRAW, UNKNOWN: None}[verdict],
        nodes=num_nodes,
        seconds=time.perf_counter() - start,
        move=move if verdict == YES else None,
    )


def check_provable(game: Game) -> None:
    """Raise ValueError for a game with skips, with other rules than the standard ones, or on more
    than 64 cells.
    """
    check_variants(
        "a proof of the winner",
        game,
        reasons=(
            "pairings, threats and strategy stealing hold for lines and moves of the standard rules"
        ),
        instead="evaluate.py solve",
    )
    if game.skip_chance > 0:
        raise Refusal(
            f"skip_chance={game.skip_chance:g} allows no proof, because with skips either player "
            "may win: choose skip_chance=0, or get the exact values with evaluate.py solve"
        )
    if game.cells > MAX_PROOF_CELLS:
        raise Refusal(
            f"a board of {game.rows} x {game.columns} has {game.cells} cells: choose one of at "
            f"most {MAX_PROOF_CELLS}"
        )


@dataclass(frozen=True)
class Prover:
    """Proves the result of every move of a position under best play by both players.

    Whether a position is proved within ``nodes`` depends on the position only: no table outlives a
    call.

    Raises:
        ValueError: the game has skips, or more than 64 cells.
    """

    game: Game
    nodes: int = 100_000
    """maximum number of positions visited before a position is given up"""
    memory: int = 1 << 28
    """maximum size of each of two tables in bytes"""

    def __post_init__(self) -> None:
        check_provable(self.game)

    def results(
        self,
        position: Position,
        *,
        shares: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Int8Array:
        """Return int8[rows * columns]: for each move ``WIN``, ``TIED`` or ``LOSS`` for the mover,
        else ``TAKEN``.

        Moves that are not proved are ``UNDECIDED``.

        Args:
            position: stones and mover.
            shares: whether every move gets an equal share of the nodes that are left; else the
                first move that is not proved ends the work.
            progress: called with the number of positions visited by one search, a few times a
                second; what it raises ends the work.

        Raises:
            ValueError: the position is over or unreachable.
        """
        check_opening(self.game, position, "a position to be proved")
        searches = [ProofSearch(self.game, self.memory) for _ in range(2)]
        moves = np.flatnonzero(legal(self.game, position.cells)).tolist()
        num_left = self.nodes
        out = np.full(self.game.cells, TAKEN, np.int8)
        out[moves] = UNDECIDED
        for number, cell in enumerate(moves):
            share = num_left // (len(moves) - number) if shares else num_left
            if share > 0:
                out[cell], num_nodes = self._prove_move(position, cell, share, searches, progress)
                num_left -= num_nodes
            if out[cell] == UNDECIDED and not shares:
                break
        return out

    def _prove_move(
        self,
        position: Position,
        cell: int,
        nodes: int,
        searches: list[ProofSearch],
        progress: Callable[[int], None] | None,
    ) -> tuple[int, int]:
        """Return a move's result and the number of positions visited.

        Of the two searches, the mover is the attacker in one, and the other player in the other.
        """
        mover = position.mover
        cells = position.cells.copy()
        outcome = put_stone(self.game, cells, mover, cell)
        if outcome != NOT_OVER:
            return TIED if outcome == DRAW else WIN, 0
        stones = [np.flatnonzero(cells == player + 1).tolist() for player in (mover, 1 - mover)]
        total = 0
        # The other player is to move now, so in the mover's own question the attacker is not on
        # move
        for attacker, result in ((0, WIN), (1, LOSS)):
            pair = stones[attacker], stones[1 - attacker]
            verdict, num_nodes, _ = searches[attacker].decide(
                pair, 1 - attacker, nodes - total, progress
            )
            total += num_nodes
            if verdict == UNKNOWN or total >= nodes:
                return UNDECIDED, total
            if verdict == YES:
                return result, total
        return TIED, total
