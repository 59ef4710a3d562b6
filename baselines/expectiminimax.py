"""Expectiminimax: search to a fixed depth, with chance nodes for the turns that may be skipped.

At a decision node the mover picks the best move. A move that does not end the game leads to a chance node: the other
player moves on with probability 1 - p, the same player with probability p, the skip chance. There is no chance node
above the root. A win at ply k scores depth - k + 1, the moves at the root having ply 1, a loss the same with a minus, a
full board 0; at the horizon +1/2, 0 or -1/2 says whose best line is the longer one (`Heuristic`). player_0 maximises.
So a node's value depends on its board, its mover and the plies left, and on nothing else.

Without ``width`` the value is exact, and is found with

- star1 and star2 pruning (Ballard, "The *-minimax search procedure for trees containing chance nodes", 1983; Hauk, Buro
  and Schaeffer, "Rediscovering *-minimax search", 2004): a chance node knows bounds on the value of either turn, and
  searches a turn only in the window in which it could still matter. Without skips this is alpha-beta;
- bounds that need no search: who lacks how many stones in an open window cannot win before so many plies (`_limits`);
- the last ply read off the tallies of open windows instead of being tried (`_last_ply`);
- a table of bounds, one entry for a board up to symmetry and the plies left (Veness and Blair, "Effective use of
  transposition tables in stochastic game tree search", 2007). Entries hold the whole key, so that none is taken for
  another.

With ``width`` every decision node from the second layer on tries so many moves, drawn at random. A width that leaves
no node fewer moves than it has is none.

Lines are the windows of ``rules.windows``: a window with stones of one player only is open to that player, and a full
one is a line. What a stone does to the windows through its cell is counted as it is put down (`_put`).
"""

from __future__ import annotations

import typing
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttt_envs.boards import Boards
from ttt_envs.boards import keys as keys_of
from ttt_envs.compiling import Cells, Integers, Keys, Parameters, Reals, compiled, inlined, wide
from ttt_envs.index import KeyIndex
from ttt_envs.policy import TIE, Named, Policy, Values, best_shares, make_policy
from ttt_envs.rules import DRAW, NOT_OVER, Game, Position, place, splitmix64, uniform, windows, winner
from ttt_envs.symmetry import inverse, symmetries

Heuristic = Literal["count", "consecutive", "all-diagonals"]
"""what is compared at the horizon, in windows that are still open to a player: ``"count"`` the most stones in one, in a
row, column or main diagonal; ``"consecutive"`` the longest run of stones in one of the same; ``"all-diagonals"`` the
most stones, the short diagonals included. The main diagonals are those that begin in a corner of the board"""
Pruning = Literal["none", "alpha-beta", "star1", "star2"]
"""``"none"`` tries everything; ``"alpha-beta"`` prunes at decision nodes, and through chance nodes only where nothing
is skipped; ``"star1"`` through all chance nodes; ``"star2"`` probes one move of the turn after a skip before that"""

Masks = NDArray[np.uint32]
Octets = NDArray[np.uint8]

NO_PRUNING, ALPHA_BETA, STAR1, STAR2 = range(4)

LARGEST_DEPTH = 361
FOREVER = np.iinfo(np.int64).max
MEMORY = 1 << 28
"""bytes to which a table may grow"""
SMALLEST_TABLE = 1 << 10
BUCKET = 4
"""entries among which a position may stand"""
FIRST = 8
"""how many moves are put in order, the rest follows as it comes"""
BATCH = 1 << 14
"""positions that are expanded at once for a leaf policy: it is asked about twice as many, or fewer"""


class Analysis(NamedTuple):
    """What a search says of one position, in its own scores: no expected results, see the module."""

    value: float
    """to player_0"""
    move_values: Reals
    """float64[rows * columns], of every move, to player_0; NaN where illegal"""
    variation: tuple[int, ...]
    """the principal variation: the best moves of both, first of equals, as long as no turn is skipped"""
    nodes: int
    """positions looked at: stones put down in the search, and positions before the last ply that were only read"""


# ---------------------------------------------------------------------------------------------------------------------
# What a search works on

THE_SCORED, ALL_OF_THEM = range(2)
"""where `_Tree.through` says how many windows there are"""
COUNTED, SCORED = range(2)
"""kinds of windows: those of which the stones are counted, and those that the heuristic looks at; where the heuristic
counts stones itself no window need be both"""

EMPTY, NODES, LIMIT, STORED, FULL, ROW, DEPTH, DOING = range(8)
"""where `_Tree.state` holds what"""
BEGIN_ROW, BEGIN, DECIDE, TRY, BACK, END = range(6)
"""what a search does next: begin a root; begin a chance node; decide it or choose a turn to search; try the turn's next
move; come back from that; end the turn"""
MAKER, STAGE, BEYOND, CHANGED, IMAGE, MOVE_0, MOVE_1, MOVER, COUNT, INDEX, CHOSEN = range(11)
"""where a row of `_Tree.frame` holds what"""
ALPHA, BETA, LOW_0, HIGH_0, LOW_1, HIGH_1, LOW, HIGH, CEILING, BEST = range(10)
"""where a row of `_Tree.bounds` holds what"""
PROBE, TURN, SKIPPED, DONE, ROOT = range(5)
"""stages of a node, see `_run`"""


class _Tree(NamedTuple):
    """What stays the same for all positions of a game, then the position being looked at and the path to it."""

    lines: Integers
    """int64[W, win_length]: the cells of the windows"""
    through: Masks
    """uint32[cells, 1 + T, 2]: from 1 on, of the windows through a cell the number, and the cell's bit in it; before
    them where the scored ones end, and where all end (``THE_SCORED``, ``ALL_OF_THEM``)"""
    worth: Octets
    """uint8[2, 2**win_length]: by the bits of a player's stones in a window, how many (``COUNTED``), and what the
    heuristic makes of them (``SCORED``)"""
    images: Integers
    """int64[S, cells]: where a stone goes, for each symmetry, the identity first"""
    back: Integers
    """int64[S, cells]: the way back"""
    cells: Cells
    """int8[cells]: the board"""
    masks: Masks
    """uint32[2, W]: each player's stones in each window, as bits"""
    used: Integers
    """int64[1 + S]: how many symmetries leave the root as it is, and which: only they make equals of what follows"""
    planes: Keys
    """uint64[S, 2, words]: the stones of both players in these images, as bits"""
    weight: Integers
    """int64[cells]: scratch for ordering moves"""
    tally: Integers
    """int64[D, 2, 2, win_length + 2]: how many windows of a kind are open to a player with so much in them; and at the
    end the largest of which there is one, -1 where no window is open. Of the nodes of the path, by plies left: D is the
    depth + 1. So are the following"""
    moves: Integers
    """int64[D, cells]: the moves tried"""
    frame: Integers
    """int64[D, 11]"""
    bounds: Reals
    """float64[D, 10]"""
    keys: Keys
    """uint64[D, 2 * words]: the least image"""
    luck: Keys
    """uint64[D, 2]: what a narrow search draws with, of the chance node and of the turn being searched"""
    state: Integers
    """int64[8]: empty cells; nodes, and after how many to stop; entries in the table, and at how many to stop; the
    position being searched, the plies left at the node, and what to do next"""


class _Settings(NamedTuple):
    """The same for all positions of a search."""

    scored: int
    """the windows that the heuristic looks at are those with smaller numbers"""
    counted: int
    """the others have their stones counted: windows from this number on, all of them where the heuristic does not"""
    skip: float
    pruning: int
    width: int
    """moves to draw below the root; 0 for all"""
    every_move: bool


@lru_cache(maxsize=16)
def _windows_of(game: Game, heuristic: Heuristic) -> tuple[Integers, Masks, Octets, Integers, Integers, int]:
    """``lines``, ``through``, ``worth``, ``images`` and ``back`` of a tree, and how many windows are scored."""
    lines = windows(game)
    length, size = game.win_length, game.cells
    scored = np.full(len(lines), True) if heuristic == "all-diagonals" else _straight_or_main(game, lines)
    lines = np.concatenate([lines[scored], lines[~scored]])
    through = np.zeros((size, 1 + int(np.bincount(lines.ravel()).max()), 2), np.uint32)
    for cell in range(size):
        numbers, places = np.nonzero(lines == cell)
        through[cell, 0] = 1 + (numbers < scored.sum()).sum(), 1 + len(numbers)
        through[cell, 1 : 1 + len(numbers)] = np.stack([numbers, 1 << places], axis=1)
    masks = np.arange(1 << length)
    worth = np.zeros((2, 1 << length), np.uint8)
    runs = masks
    for cell in range(length):
        worth[COUNTED] += (masks >> cell & 1).astype(np.uint8)
        worth[SCORED] += runs != 0  # the longest run
        runs = runs & runs >> 1  # every run less by one
    if heuristic != "consecutive":
        worth[SCORED] = worth[COUNTED]
    images = np.unique(symmetries(game), axis=0)  # a board of one row has fewer than 4; the identity is the least
    return lines, through, worth, inverse(images), images, int(scored.sum())


def _tree(game: Game, heuristic: Heuristic) -> tuple[_Tree, int]:
    """The tree of the empty board, and how many windows the heuristic looks at."""
    lines, through, worth, images, back, scored = _windows_of(game, heuristic)
    tree = _Tree(
        lines=lines,
        through=through,
        worth=worth,
        images=images,
        back=back,
        cells=np.zeros(game.cells, np.int8),
        masks=np.zeros((2, len(lines)), np.uint32),
        used=np.zeros(1 + len(images), np.int64),
        planes=np.zeros((len(images), 2, _words(game)), np.uint64),
        weight=np.zeros(game.cells, np.int64),
        **_path(0, game),
        state=np.zeros(8, np.int64),
    )
    return tree, scored


def _path(depth: int, game: Game) -> dict[str, Any]:
    """Room for the nodes of a path."""
    return {
        "tally": np.zeros((depth + 1, 2, 2, game.win_length + 2), np.int64),
        "moves": np.zeros((depth + 1, game.cells), np.int64),
        "frame": np.zeros((depth + 1, 11), np.int64),
        "bounds": np.zeros((depth + 1, 10)),
        "keys": np.zeros((depth + 1, 2 * _words(game)), np.uint64),
        "luck": np.zeros((depth + 1, 2), np.uint64),
    }


def _words(game: Game) -> int:
    """How many words of 64 bits hold a set of cells."""
    return -(-game.cells // 64)


def _straight_or_main(game: Game, lines: Integers) -> NDArray[np.bool_]:
    """bool[W]: the windows in a row, in a column, or in a diagonal that begins in a corner."""
    row, column = np.divmod(lines[:, [0, -1]].T, game.columns)  # of the first cell, the upper one, and of the last
    straight = (row[0] == row[1]) | (column[0] == column[1])
    falling = (column[1] > column[0]) & np.isin(row[0] - column[0], (0, game.rows - game.columns))
    rising = (column[1] < column[0]) & np.isin(row[0] + column[0], (game.columns - 1, game.rows - 1))
    main: NDArray[np.bool_] = straight | falling | rising
    return main


# ---------------------------------------------------------------------------------------------------------------------
# Stones, and what they do to the windows. Kernels take arrays one by one: numba counts references to what it takes out
# of a tuple, and that costs more than the work


@inlined
def _put(
    cell: int,
    mover: int,
    before: int,
    after: int,
    through: Masks,
    worth: Octets,
    masks: Masks,
    tally: Integers,
    scored: int,
    counted: int,
) -> bool:
    """Count a stone on an empty cell; returns whether a line is full. The cells are the caller's.

    ``tally[after]`` becomes ``tally[before]`` with the stone. To take it back :func:`_take` is enough.
    """
    last = tally.shape[3] - 1
    other = 1 - mover
    if before != after:
        for kind in range(2):
            for player in range(2):
                for value in range(last + 1):
                    tally[after, kind, player, value] = tally[before, kind, player, value]
    most, top = tally[after, COUNTED, mover, last], tally[after, SCORED, mover, last]
    for i in range(1, wide(through[cell, 0, ALL_OF_THEM])):
        window, bit = through[cell, i, 0], through[cell, i, 1]
        mine, theirs = masks[mover, window], masks[other, window]
        masks[mover, window] = mine | bit
        if theirs == 0:
            if window < scored:
                value = wide(worth[SCORED, mine | bit])
                tally[after, SCORED, mover, worth[SCORED, mine]] -= 1
                tally[after, SCORED, mover, value] += 1
                top = max(top, value)
            if window >= counted:
                value = wide(worth[COUNTED, mine | bit])
                tally[after, COUNTED, mover, value - 1] -= 1
                tally[after, COUNTED, mover, value] += 1
                most = max(most, value)
        if mine == 0:
            if window < scored:
                tally[after, SCORED, other, worth[SCORED, theirs]] -= 1
            if window >= counted:
                tally[after, COUNTED, other, worth[COUNTED, theirs]] -= 1
    tally[after, COUNTED, mover, last], tally[after, SCORED, mover, last] = most, top
    _settle(other, after, tally)
    return bool(max(most, top) == last - 1)


@inlined
def _take(cell: int, mover: int, through: Masks, masks: Masks) -> None:
    """Undo :func:`_put`."""
    for i in range(1, wide(through[cell, 0, ALL_OF_THEM])):
        masks[mover, through[cell, i, 0]] ^= through[cell, i, 1]


@inlined
def _settle(player: int, depth: int, tally: Integers) -> None:
    """Lower the largest values of a player to where there is a window."""
    last = tally.shape[3] - 1
    for kind in range(2):
        value = tally[depth, kind, player, last]
        while value >= 0 and tally[depth, kind, player, value] == 0:
            value -= 1
        tally[depth, kind, player, last] = value


@inlined
def _most(player: int, depth: int, tally: Integers) -> int:
    """The most stones of a player in an open window, -1 where none is open; a run is never more than the count."""
    last = tally.shape[3] - 1
    return wide(max(tally[depth, COUNTED, player, last], tally[depth, SCORED, player, last]))


@inlined
def _mark(cell: int, mover: int, images: Integers, used: Integers, planes: Keys) -> None:
    """Put a stone into the planes, or take it out of them."""
    for i in range(used[0]):
        to = images[used[1 + i], cell]
        planes[i, mover, to >> 6] ^= np.uint64(1) << np.uint64(to & 63)


@compiled
def _load(cells: Cells, tree: _Tree, scored: int, counted: int) -> None:
    """Make a board the root."""
    _, through, worth, images, _, board, masks, used, planes, _, tally, _, _, _, _, _, state = tree
    board[:] = cells
    masks[:] = 0
    root = len(tally) - 1
    tally[root, :, :, :] = 0
    for player in range(2):
        tally[root, COUNTED, player, 0] = masks.shape[1] - counted
        tally[root, SCORED, player, 0] = scored
        _settle(player, root, tally)
    used[0] = 0
    for image in range(len(images)):
        same = True
        for cell in range(len(cells)):
            if cells[cell] != cells[images[image, cell]]:
                same = False
                break
        if same:
            used[0] += 1
            used[used[0]] = image
    planes[:] = np.uint64(0)
    state[EMPTY] = len(cells)
    for cell in range(len(cells)):
        if cells[cell] != 0:
            player = wide(cells[cell]) - 1
            _put(cell, player, root, root, through, worth, masks, tally, scored, counted)
            _mark(cell, player, images, used, planes)
            state[EMPTY] -= 1


# ---------------------------------------------------------------------------------------------------------------------
# What can be said without searching


@inlined
def _horizon(mine: int, theirs: int) -> float:
    """The score at the horizon to the player whose best window is worth ``mine``; -1, no window, is as good as 0."""
    return 0.5 * (wide(mine > max(theirs, 0)) - wide(theirs > max(mine, 0)))


@inlined
def _limits(
    mine: int, theirs: int, depth: int, empty: int, win_length: int, skip: float, width: int
) -> tuple[float, float]:
    """Bounds on the value to a mover with ``depth`` plies left: nobody wins before the missing stones are placed.

    ``mine`` and ``theirs`` are the most stones that either player has in an open window, -1 where none is open.
    """
    high = 0.5 if empty > depth else 0.0
    low = -high
    plies = min(depth, empty)
    if mine >= 0:
        missing = win_length - mine
        ply = missing if skip > 0 else 2 * missing - 1
        if ply <= plies:
            high = depth - ply + 1.0
        if missing == 1 and width == 0:  # now, and nothing scores more
            return high, high
    if theirs >= 0:
        missing = win_length - theirs
        ply = missing + 1 if skip > 0 else 2 * missing
        if ply <= plies:
            low = -(depth - ply + 1.0)
    return low, high


@inlined
def _last_ply(
    mover: int,
    depth: int,
    empty: int,
    cells: Cells,
    through: Masks,
    worth: Octets,
    masks: Masks,
    tally: Integers,
    scored: int,
    lines: Integers,
    counted: int,
) -> tuple[float, int]:
    """The value to a mover with one ply left, read off the tallies.

    A stone never makes the mover's best window worse nor the other player's better. And as long as a window is open and
    not full, some stone makes it better, by number and by run.

    Returns:
        (value, positions looked at).
    """
    last = tally.shape[3] - 1
    mine, theirs = tally[depth, SCORED, mover, last], tally[depth, SCORED, 1 - mover, last]
    if _most(mover, depth, tally) == last - 2:  # one stone is missing
        return 1.0, 1
    if empty == 1 or (mine < 0 and theirs <= 0):
        return 0.0, 1
    if mine >= theirs and mine >= 0:
        return 0.5, 1
    value = -0.5
    window = 0
    joins = counted < scored  # a stone may join two runs
    if joins:
        choices = len(cells)
    else:
        # A stone adds one at most, and only in a cell of all best windows of the other player makes those worse
        if mine == theirs - 1 and mine >= 0:
            value = 0.0
        choices = 0
        if tally[depth, SCORED, 1 - mover, theirs] < through.shape[1]:
            choices = lines.shape[1]
            while masks[mover, window] != 0 or worth[SCORED, masks[1 - mover, window]] != theirs:
                window += 1
    i = 0
    looked = 1
    while i < choices and value < 0.5:
        cell = i if joins else lines[window, i]
        if cells[cell] == 0:
            looked += 1
            value = max(value, _horizon_with(cell, mover, depth, through, worth, masks, tally, scored))
        i += 1
    return value, looked


@inlined
def _horizon_with(
    cell: int, mover: int, depth: int, through: Masks, worth: Octets, masks: Masks, tally: Integers, scored: int
) -> float:
    """The score at the horizon to the mover if a stone of the mover stood on ``cell``."""
    last = tally.shape[3] - 1
    other = 1 - mover
    mine, theirs = tally[depth, SCORED, mover, last], tally[depth, SCORED, other, last]
    still_open = tally[depth, SCORED, other, theirs] if theirs > 0 else 1
    for i in range(1, wide(through[cell, 0, THE_SCORED])):
        window = through[cell, i, 0]
        own, against = masks[mover, window], masks[other, window]
        if against == 0:
            mine = max(mine, wide(worth[SCORED, own | through[cell, i, 1]]))
        elif own == 0:
            still_open -= wide(worth[SCORED, against] == theirs)
    while still_open == 0:  # this stone closes the best windows of the other player
        theirs -= 1
        still_open = tally[depth, SCORED, other, theirs] if theirs > 0 else 1
        for i in range(1, wide(through[cell, 0, THE_SCORED])):
            window = through[cell, i, 0]
            if masks[mover, window] == 0 and theirs > 0:
                still_open -= wide(worth[SCORED, masks[other, window]] == theirs)
    return _horizon(mine, theirs)


@inlined
def _last_stone(
    cell: int,
    mover: int,
    depth: int,
    empty: int,
    through: Masks,
    worth: Octets,
    masks: Masks,
    tally: Integers,
    scored: int,
) -> float:
    """The score to the mover of a stone on ``cell`` at the last ply."""
    last = tally.shape[3] - 1
    if _most(mover, depth, tally) == last - 2:  # some window lacks one stone
        for i in range(1, wide(through[cell, 0, ALL_OF_THEM])):
            window = through[cell, i, 0]
            if masks[1 - mover, window] == 0 and worth[COUNTED, masks[mover, window]] == last - 2:
                return 1.0
    return 0.0 if empty == 1 else _horizon_with(cell, mover, depth, through, worth, masks, tally, scored)


@inlined
def _in_cells(cells: Cells, depth: int, moves: Integers) -> int:
    """Write all moves into ``moves[depth]`` as they come; returns how many there are."""
    count = 0
    for cell in range(len(cells)):
        if cells[cell] == 0:
            moves[depth, count] = cell
            count += 1
    return count


@compiled
def _in_order(
    mover: int,
    before: int,
    cells: Cells,
    through: Masks,
    worth: Octets,
    masks: Masks,
    weight: Integers,
    depth: int,
    moves: Integers,
) -> int:
    """Write all moves into ``moves[depth]``, those through weighty windows first; returns how many there are.

    A window weighs four times as much with every stone in it, as long as it is open to somebody. ``before`` is a move
    to try before all others, -1 for none.
    """
    count = _in_cells(cells, depth, moves)
    for i in range(count):
        cell = moves[depth, i]
        weight[cell] = 1 << 60 if cell == before else 0
        for j in range(1, wide(through[cell, 0, ALL_OF_THEM])):
            window = through[cell, j, 0]
            mine, theirs = masks[mover, window], masks[1 - mover, window]
            if mine == 0 or theirs == 0:
                weight[cell] += 1 << 2 * wide(worth[COUNTED, mine | theirs])
    for i in range(min(FIRST, count)):
        for j in range(i + 1, count):
            if weight[moves[depth, j]] > weight[moves[depth, i]]:
                moves[depth, i], moves[depth, j] = moves[depth, j], moves[depth, i]
    return count


# ---------------------------------------------------------------------------------------------------------------------
# What a narrow search draws: numbers that belong to a node, so that pruning does not change them


@inlined
def _luck_after(luck: np.uint64, cell: int) -> np.uint64:
    """Of the chance node after a move at a decision node."""
    return splitmix64(luck, (1 << 32) + cell)


@inlined
def _luck_of_turn(luck: np.uint64, mover: int) -> np.uint64:
    """Of the decision node where ``mover`` moves after a chance node."""
    return splitmix64(luck, (2 << 32) + mover)


@inlined
def _tried(width: int, luck: np.uint64, cells: Cells, depth: int, moves: Integers) -> int:
    """Write all moves into ``moves[depth]``, or ``width`` drawn without replacement; returns how many there are."""
    count = _in_cells(cells, depth, moves)
    if 0 < width < count:
        for i in range(width):
            j = i + int(uniform(luck, 0, i) * (count - i))
            moves[depth, i], moves[depth, j] = moves[depth, j], moves[depth, i]
        count = width
    return count


# ---------------------------------------------------------------------------------------------------------------------
# The table


class _Table(NamedTuple):
    """What is known of boards with so many plies left; N entries, none or a power of two."""

    keys: Keys
    """uint64[N, 2 * words]: the board, the least of its images"""
    meta: Integers
    """int64[N]: plies left, then 9 bits for a good move of either player, ``NO_MOVE`` for none; 0 for no entry"""
    bounds: Reals
    """float64[N, 4]: what the position is worth to player_0, at least and at most, where player_0 is to move; and where
    player_1 is"""


NO_MOVE = 511


def _table(size: int, words: int) -> _Table:
    return _Table(np.zeros((size, 2 * words), np.uint64), np.zeros(size, np.int64), np.zeros((size, 4)))


def _bytes_of(size: int, words: int) -> int:
    return 8 * size * (2 * words + 5)


@inlined
def _bucket(keys: Keys, row: int, depth: int, known: Integers) -> int:
    """Where the entries of ``keys[row]`` begin."""
    mixed = splitmix64(np.uint64(depth), 0)
    for word in range(keys.shape[1]):
        mixed = splitmix64(mixed ^ keys[row, word], 0)
    return BUCKET * wide(mixed & np.uint64(len(known) // BUCKET - 1))


@compiled
def _found(keys: Keys, row: int, depth: int, boards: Keys, known: Integers) -> int:
    """The entry of the board ``keys[row]`` with so many plies left, -1 where there is none."""
    found = -1
    start = _bucket(keys, row, depth, known)
    for entry in range(start, start + BUCKET):
        same = known[entry] >> 18 == depth
        for word in range(keys.shape[1] if same else 0):
            same &= boards[entry, word] == keys[row, word]
        if same:
            found = entry
    return found


@compiled
def _place_for(keys: Keys, row: int, depth: int, boards: Keys, known: Integers) -> int:
    """Where to write: the board's entry, else a free one, else that with the fewest plies left."""
    entry = _found(keys, row, depth, boards, known)
    if entry < 0:
        start = _bucket(keys, row, depth, known)
        entry = start
        for other in range(start + 1, start + BUCKET):
            if known[other] >> 18 < known[entry] >> 18:
                entry = other
    return entry


@compiled
def _refill(old: _Table, new: _Table) -> int:
    """Write all entries of one table into another; returns how many are there now."""
    count = 0
    for entry in range(len(old.meta)):
        if old.meta[entry] != 0:
            to = _place_for(old.keys, entry, old.meta[entry] >> 18, new.keys, new.meta)
            count += wide(new.meta[to] == 0)
            new.meta[to] = old.meta[entry]
            for word in range(old.keys.shape[1]):
                new.keys[to, word] = old.keys[entry, word]
            for bound in range(4):
                new.bounds[to, bound] = old.bounds[entry, bound]
    return count


@compiled
def _write_key(planes: Keys, used: Integers, depth: int, keys: Keys) -> int:
    """Write the least image of the board into ``keys[depth]``; returns which symmetry leads to it."""
    words = planes.shape[2]
    least = 0
    for image in range(1, used[0]):
        for i in range(2 * words):
            new, old = planes[image, i // words, i % words], planes[least, i // words, i % words]
            if new != old:
                if new < old:
                    least = image
                break
    for i in range(2 * words):
        keys[depth, i] = planes[least, i // words, i % words]
    return wide(used[1 + least])


# ---------------------------------------------------------------------------------------------------------------------
# The search


@compiled
def _run(
    tree: _Tree,
    table: _Table,
    settings: _Settings,
    cells: Cells,
    movers: Cells,
    before: Integers,
    lucks: Keys,
    values: Reals,
    looked: Integers,
) -> None:
    """Go on with a search of the positions (cells[b], movers[b]) until it is done or has to stop.

    The path leads from the root, a decision node, through chance nodes: a position that its *maker* has just made, with
    so many plies left. Such a node keeps bounds, to its maker, on what either turn is worth: the other player's
    (``LOW_0``, ``HIGH_0``), and the maker's own after a skip (``LOW_1``, ``HIGH_1``). Stage by stage one of them is
    searched, in the window that the bounds of the other leave of (``ALPHA``, ``BETA``), until the two decide the node:

    - ``PROBE``: the first move of the maker's own turn, for a lower bound, which narrows the window of
    - ``TURN``: the other player's turn;
    - ``SKIPPED``: the maker's own turn.

    A node returns its value where that lies between alpha and beta, else a bound that is at most alpha or at least
    beta. All that it knows is in ``tree``, so that the search can stop at any node and go on as if it had not.

    Args:
        before: int64[B]: a move to try first, -1 for none.
        lucks: uint64[B]: what a narrow search draws with.
        values: float64[B, cells], of the moves, to the mover; written.
        looked: int64[B], positions looked at; added to.
    """
    (
        lines,
        through,
        worth,
        images,
        back,
        board,
        masks,
        used,
        planes,
        weight,
        tally,
        moves,
        frame,
        bounds,
        keys,
        luck,
        state,
    ) = tree
    boards, known, entries = table
    scored, counted, skip, pruning, width, every_move = settings
    turn = 1.0 - skip
    last = tally.shape[3] - 1
    root = len(moves) - 1
    by_tallies = pruning != NO_PRUNING and width == 0
    depth, doing, nodes = state[DEPTH], state[DOING], state[NODES]
    begun = nodes
    found = 0.0
    while state[ROW] < len(cells):
        row = state[ROW]
        if doing == BEGIN_ROW:
            if nodes >= state[LIMIT]:
                break
            _load(cells[row], tree, scored, counted)
            depth = root
            mover = wide(movers[row])
            count = _in_order(mover, before[row], board, through, worth, masks, weight, depth, moves)
            frame[depth, STAGE], frame[depth, MOVER], frame[depth, COUNT], frame[depth, INDEX] = ROOT, mover, count, 0
            bounds[depth, LOW] = bounds[depth, BEST] = -np.inf
            bounds[depth, HIGH] = bounds[depth, CEILING] = np.inf
            luck[depth, 1] = lucks[row]
            doing = TRY

        if doing == BEGIN:
            if nodes >= state[LIMIT] or state[STORED] >= state[FULL]:
                break
            maker = frame[depth, MAKER]
            frame[depth, STAGE] = PROBE if pruning == STAR2 else TURN
            frame[depth, BEYOND] = frame[depth, CHANGED] = 0
            frame[depth, MOVE_0] = frame[depth, MOVE_1] = -1
            bounds[depth, LOW_0] = bounds[depth, LOW_1] = -np.inf
            bounds[depth, HIGH_0] = bounds[depth, HIGH_1] = np.inf
            if pruning != NO_PRUNING:
                mine, theirs = _most(maker, depth, tally), _most(1 - maker, depth, tally)
                low, high = _limits(theirs, mine, depth, state[EMPTY], last - 1, skip, width)
                bounds[depth, LOW_0], bounds[depth, HIGH_0] = -high, -low
                low, high = _limits(mine, theirs, depth, state[EMPTY], last - 1, skip, width)
                bounds[depth, LOW_1], bounds[depth, HIGH_1] = low, high
            if len(known) > 0:
                frame[depth, IMAGE] = _write_key(planes, used, depth, keys)
                for plies in range(depth, depth - 2, -1):  # a shallower search knows good moves, but no bounds
                    entry = _found(keys, depth, plies, boards, known)
                    if entry >= 0:
                        for player in range(2):
                            move = known[entry] >> 9 * player & NO_MOVE
                            if move != NO_MOVE:
                                at = MOVE_1 if player == maker else MOVE_0
                                frame[depth, at] = back[frame[depth, IMAGE], move]
                            if plies == depth:
                                low, high = entries[entry, 2 * player], entries[entry, 2 * player + 1]
                                if maker == 1:
                                    low, high = -high, -low
                                at = LOW_1 if player == maker else LOW_0
                                bounds[depth, at] = max(bounds[depth, at], low)
                                bounds[depth, at + 1] = min(bounds[depth, at + 1], high)
                        break
            doing = DECIDE

        if doing == DECIDE:
            stage, maker = frame[depth, STAGE], frame[depth, MAKER]
            alpha, beta = bounds[depth, ALPHA], bounds[depth, BETA]
            low_0, high_0 = bounds[depth, LOW_0], bounds[depth, HIGH_0]
            low_1, high_1 = bounds[depth, LOW_1], bounds[depth, HIGH_1]
            least = turn * low_0 + skip * low_1 if skip > 0 else low_0
            most = turn * high_0 + skip * high_1 if skip > 0 else high_0
            beyond = frame[depth, BEYOND]  # a turn was worth less or more than its window: rounding must not ask again
            if beyond != 0 or stage == DONE or least >= beta or most <= alpha or least >= most:
                found = most if beyond < 0 or (beyond == 0 and most <= alpha) else least
                if frame[depth, CHANGED] != 0 and len(known) > 0:
                    entry = _place_for(keys, depth, depth, boards, known)
                    state[STORED] += wide(known[entry] == 0)
                    for word in range(keys.shape[1]):
                        boards[entry, word] = keys[depth, word]
                    meta = wide(depth)
                    for player in range(1, -1, -1):
                        at = LOW_1 if player == maker else LOW_0
                        low, high = bounds[depth, at], bounds[depth, at + 1]
                        if maker == 1:
                            low, high = -high, -low
                        entries[entry, 2 * player], entries[entry, 2 * player + 1] = low, high
                        move = frame[depth, MOVE_1 if player == maker else MOVE_0]
                        meta = meta << 9 | (NO_MOVE if move < 0 else images[frame[depth, IMAGE], move])
                    known[entry] = meta
                depth += 1
                if len(known) > 0:
                    _mark(moves[depth, frame[depth, INDEX]], maker, images, used, planes)
                doing = BACK
            else:
                own = stage != TURN
                known_already = low_1 == high_1 if own else low_0 == high_0
                if known_already or (own and skip == 0) or (stage == PROBE and beta >= most):
                    frame[depth, STAGE] = stage + 1
                    continue
                low, high = -np.inf, np.inf  # the window of this turn
                if skip == 0:
                    low, high = alpha, beta
                elif pruning >= STAR1 and own:
                    low, high = (alpha - turn * high_0) / skip, (beta - turn * low_0) / skip
                elif pruning >= STAR1:
                    low, high = (alpha - skip * high_1) / turn, (beta - skip * low_1) / turn
                if own:
                    mover, ceiling, move = maker, high_1, frame[depth, MOVE_1]
                else:  # in the eyes of the other player, who moves
                    mover, ceiling, move = 1 - maker, -low_0, frame[depth, MOVE_0]
                    low, high = -high, -low
                if by_tallies:
                    count = _in_order(mover, move, board, through, worth, masks, weight, depth, moves)
                else:
                    if width > 0:
                        luck[depth, 1] = _luck_of_turn(luck[depth, 0], mover)
                    count = _tried(width, luck[depth, 1], board, depth, moves)
                if stage == PROBE:
                    count = 1
                frame[depth, MOVER], frame[depth, COUNT], frame[depth, INDEX] = mover, count, 0
                bounds[depth, LOW], bounds[depth, HIGH], bounds[depth, CEILING] = low, high, ceiling
                bounds[depth, BEST] = -np.inf
                doing = TRY

        if doing == TRY:
            mover, cell = frame[depth, MOVER], moves[depth, frame[depth, INDEX]]
            full = _put(cell, mover, depth, depth - 1, through, worth, masks, tally, scored, counted)
            board[cell] = mover + 1
            state[EMPTY] -= 1
            nodes += 1
            doing = BACK
            if full:
                found = float(depth)
            elif state[EMPTY] == 0:
                found = 0.0
            elif depth == 1:
                found = _horizon(tally[0, SCORED, mover, last], tally[0, SCORED, 1 - mover, last])
            elif depth == 2:
                found = 0.0
                read = 0
                if width > 0:
                    luck[1, 0] = _luck_after(luck[2, 1], cell)
                for own in range(2 if skip > 0 else 1):
                    player = mover if own else 1 - mover
                    if by_tallies:
                        best, read = _last_ply(
                            player, 1, state[EMPTY], board, through, worth, masks, tally, scored, lines, counted
                        )
                    else:
                        if width > 0 or own == 0:
                            read = _tried(width, _luck_of_turn(luck[1, 0], player), board, 1, moves)
                        best = -1.0
                        for i in range(read):
                            best = max(
                                best,
                                _last_stone(moves[1, i], player, 1, state[EMPTY], through, worth, masks, tally, scored),
                            )
                    nodes += read
                    found += skip * best if own else -turn * best
            else:
                if len(known) > 0:
                    _mark(cell, mover, images, used, planes)
                low, best = bounds[depth, LOW], bounds[depth, BEST]
                if width > 0:
                    luck[depth - 1, 0] = _luck_after(luck[depth, 1], cell)
                bounds[depth - 1, ALPHA] = low if frame[depth, STAGE] == ROOT else max(low, best)
                bounds[depth - 1, BETA] = bounds[depth, HIGH]
                depth -= 1
                frame[depth, MAKER] = mover
                doing = BEGIN

        if doing == BACK:
            stage, mover, index = frame[depth, STAGE], frame[depth, MOVER], frame[depth, INDEX]
            cell = moves[depth, index]
            _take(cell, mover, through, masks)
            board[cell] = 0
            state[EMPTY] += 1
            if found > bounds[depth, BEST]:
                bounds[depth, BEST] = found
                frame[depth, CHOSEN] = cell
            frame[depth, INDEX] = index + 1
            ended = index + 1 == frame[depth, COUNT]
            if stage == ROOT:
                values[row, cell] = found
                if not every_move:
                    bounds[depth, LOW] = bounds[depth, BEST] - 2 * TIE
            elif bounds[depth, BEST] >= min(bounds[depth, HIGH], bounds[depth, CEILING]):
                ended = True
            doing = END if ended else TRY

        if doing == END:
            stage = frame[depth, STAGE]
            if stage == ROOT:
                looked[row] += nodes - begun
                begun = nodes
                state[ROW] += 1
                doing = BEGIN_ROW
                continue
            # All moves tried give the value, or what it is at most; some of them what it is at least
            best, low, high = bounds[depth, BEST], bounds[depth, LOW], bounds[depth, HIGH]
            probing, own = stage == PROBE, stage != TURN
            floor = best if probing or best > low else -np.inf
            ceiling = np.inf if probing or best >= high else best
            if own:
                bounds[depth, LOW_1] = max(bounds[depth, LOW_1], floor)
                bounds[depth, HIGH_1] = min(bounds[depth, HIGH_1], ceiling)
                frame[depth, MOVE_1] = frame[depth, CHOSEN]
            else:
                bounds[depth, LOW_0] = max(bounds[depth, LOW_0], -ceiling)
                bounds[depth, HIGH_0] = min(bounds[depth, HIGH_0], -floor)
                frame[depth, MOVE_0] = frame[depth, CHOSEN]
            if not probing and (best >= high or best <= low):
                frame[depth, BEYOND] = 1 if (best >= high) == own else -1
            frame[depth, STAGE] = stage + 1
            frame[depth, CHANGED] = 1
            doing = DECIDE
    state[DEPTH], state[DOING], state[NODES] = depth, doing, nodes
    if state[ROW] < len(cells):
        looked[state[ROW]] += nodes - begun


class Search:
    """A search of positions that can be stopped, continued and deepened from outside.

    Where it stops, it goes on as if it had not; between two depths it keeps its table.

    >>> search = Search(Game(skip_chance=0.25), Boards.start(Game()))
    >>> for depth in (1, 2, 3):
    ...     while not search.run(depth, nodes=50):
    ...         pass  # look at the clock
    ...     print(depth, search.move_values[0].max())
    1 0.5
    2 0.125
    3 0.25

    Args:
        game: what is played.
        boards: positions that are not over.
        heuristic: what is compared at the horizon.
        pruning: how much is left out; the values are the same.
        width: moves drawn at every decision node below the root; None for all.
        luck: uint64[B], what they are drawn with: what is drawn for a position depends on its number only.
        memory: bytes to which the table of positions may grow; 0 is no table. A search that is narrow or does not
            prune has none.
        every_move: find the value of every move; else of the best moves, and of others what they are at most.

    Attributes:
        depth: plies, of the search done last or going on; 0 before the first.
        move_values: float64[B, rows * columns], to the mover, NaN where illegal or not yet searched.
        nodes: int64[B], positions looked at so far, by all searches together; see `Analysis`.

    Raises:
        ValueError: a setting out of range, ``width`` without ``luck``.
    """

    def __init__(
        self,
        game: Game,
        boards: Boards,
        *,
        heuristic: Heuristic = "count",
        pruning: Pruning = "star1",
        width: int | None = None,
        luck: Keys | None = None,
        memory: int = MEMORY,
        every_move: bool = True,
    ) -> None:
        check_settings(1, width, heuristic, pruning)
        if memory < 0:
            raise ValueError(f"memory={memory} is negative: choose the bytes of the table, or 0 for no table")
        if width is not None and luck is None:
            raise ValueError(f"width={width} draws moves and needs luck: give a number of 64 bits for each position")
        count = len(boards.mover)
        self.depth = 0
        self.move_values = np.full(boards.cells.shape, np.nan)
        self.nodes = np.zeros(count, np.int64)
        self._before = np.full(count, -1)
        self._tree, scored = _tree(game, heuristic)
        level = typing.get_args(Pruning).index(pruning)
        self._settings = _Settings(
            scored, 0 if heuristic == "consecutive" else scored, game.skip_chance, level, width or 0, every_move
        )
        self._game = game
        self._table = _table(0, _words(game))
        self._memory = 0 if width is not None or level == NO_PRUNING else memory
        self._cells, self._mover = map(np.ascontiguousarray, boards)
        self._luck = np.zeros(count, np.uint64) if luck is None else luck

    def run(self, depth: int, nodes: int | None = None) -> bool:
        """Search to ``depth``, or go on with that.

        Args:
            depth: plies to look ahead, 1 to 361. With another depth than before all values are found anew.
            nodes: positions after which it stops at the next chance node or root; None for no limit.

        Returns:
            Whether it is done.
        """
        check_settings(depth)
        if depth != self.depth:
            self._begin(depth)
        state = self._tree.state
        state[LIMIT] = FOREVER if nodes is None else state[NODES] + nodes
        while True:
            self._make_room()
            _run(
                self._tree,
                self._table,
                self._settings,
                self._cells,
                self._mover,
                self._before,
                self._luck,
                self.move_values,
                self.nodes,
            )
            if state[ROW] == len(self._mover) or state[NODES] >= state[LIMIT]:
                return bool(state[ROW] == len(self._mover))

    def _begin(self, depth: int) -> None:
        """Begin a search to another depth, with the best moves known first."""
        known = np.nan_to_num(self.move_values, nan=-np.inf)
        searched = np.isfinite(known).any(axis=1)
        self._before[searched] = known[searched].argmax(axis=1)
        self.move_values[:] = np.nan
        self.depth = depth
        self._tree = self._tree._replace(**_path(depth, self._game))
        state = self._tree.state
        state[ROW], state[DOING] = 0, BEGIN_ROW

    def _make_room(self) -> None:
        """Move the table into a larger one where it is half full and the memory holds both."""
        state, size = self._tree.state, len(self._table.meta)
        if self.depth > 2 and 2 * state[STORED] >= size:  # the last two plies are not kept
            larger = max(4 * size, SMALLEST_TABLE)
            if _bytes_of(size + larger, _words(self._game)) <= self._memory:
                table = _table(larger, _words(self._game))
                state[STORED] = _refill(self._table, table)
                self._table, size = table, larger
        grows = _bytes_of(5 * size, _words(self._game)) <= self._memory
        state[FULL] = size // 2 if size and grows else FOREVER


def check_settings(depth: int, width: int | None = None, heuristic: str = "count", pruning: str = "star1") -> None:
    """Raise ValueError for settings of a search that are out of range."""
    if not 1 <= depth <= LARGEST_DEPTH:
        raise ValueError(f"depth={depth} is no number of plies to look ahead: choose 1 to {LARGEST_DEPTH}")
    if width is not None and width < 1:
        raise ValueError(f"width={width} tries no moves: choose how many to draw at a node, or none to try all")
    for name, value, known in (("heuristic", heuristic, Heuristic), ("pruning", pruning, Pruning)):
        if value not in typing.get_args(known):
            raise ValueError(f"{name}={value!r} is not known: choose one of {', '.join(typing.get_args(known))}")


# ---------------------------------------------------------------------------------------------------------------------
# Leaves valued by another policy


@compiled
def _expand(
    cells: Cells,
    mover: Cells,
    luck: Keys,
    width: int,
    depth: int,
    parameters: Parameters,
    values: Reals,
    child: Integers,
    after: Cells,
    maker: Cells,
    turns: Keys,
) -> int:
    """Make the moves of every position, or draw ``width`` of them.

    Args:
        cells: int8[B, cells]; mover: int8[B]; luck: uint64[B], the positions.
        width: moves to draw, 0 for all.
        depth: plies left, the score of a win.
        kernel: ``Game.parameters``.
        values: float64[B, cells], written where a move ends the game, to the mover.
        child: int64[B, cells], written where it does not: the row in the following.
        after: int8[M, cells]; maker: int8[M], written: the position and who made it.
        turns: uint64[M, 2], written: the luck of the other player's turn, and of the maker's after a skip.

    Returns:
        How many rows were written.
    """
    size = cells.shape[1]
    moves = np.empty((1, size), np.int64)
    made = 0
    for b in range(len(cells)):
        player = wide(mover[b])
        count = _tried(width, luck[b], cells[b], 0, moves)
        stones = 0
        for cell in range(size):
            stones += wide(cells[b, cell] != 0)
        for i in range(count):
            cell = moves[0, i]
            after[made, :] = cells[b]
            outcome = place(after[made], player, cell, stones, parameters)
            if outcome == NOT_OVER:
                node = _luck_after(luck[b], cell)
                turns[made, 0], turns[made, 1] = _luck_of_turn(node, 1 - player), _luck_of_turn(node, player)
                maker[made] = player
                child[b, cell] = made
                made += 1
            else:
                values[b, cell] = 0.0 if outcome == DRAW else float(depth)
    return made


class _ByLeaves:
    """The same search, without pruning, with the value of a policy in place of the heuristic."""

    def __init__(self, game: Game, leaf: Values, width: int | None) -> None:
        self._game, self._leaf, self._width = game, leaf, width
        self.nodes = 0
        """positions made"""

    def move_values(self, boards: Boards, luck: Keys, depth: int, width: int | None = None) -> Reals:
        """float64[B, rows * columns], to the mover, NaN where illegal or not drawn; the root draws nothing."""
        values = np.full(boards.cells.shape, np.nan)
        child = np.full(boards.cells.shape, -1)
        empty = (boards.cells == 0).sum(axis=1)
        room = int(np.minimum(empty, width or self._game.cells).sum())
        after, maker = np.empty((room, self._game.cells), np.int8), np.empty(room, np.int8)
        turns = np.empty((room, 2), np.uint64)
        made = _expand(
            np.ascontiguousarray(boards.cells),
            boards.mover,
            luck,
            width or 0,
            depth,
            self._game.parameters,
            values,
            child,
            after,
            maker,
            turns,
        )
        after, maker, turns = after[:made], maker[:made], turns[:made]
        self.nodes += made
        if made:
            skip = self._game.skip_chance
            if skip > 0:  # all leaves in one batch
                both = Boards(np.concatenate([after, after]), np.concatenate([1 - maker, maker]))
                other, own = np.split(self._values(both, turns.T.ravel(), depth - 1), 2)
                worth = skip * own - (1 - skip) * other
            else:
                worth = -self._values(Boards(after, 1 - maker), turns[:, 0].copy(), depth - 1)
            values[child >= 0] = worth[child[child >= 0]]
        return values

    def _values(self, boards: Boards, luck: Keys, depth: int) -> Reals:
        """float64[B], to the mover."""
        if self._width is None:  # the same position has the same value
            wanted = np.column_stack([keys_of(boards.cells), boards.mover.astype(np.uint64)])
            index = KeyIndex(wanted.shape[1])
            index.reserve(len(wanted))
            rows = index.rows(wanted)
            _, first = np.unique(rows, return_index=True)
            boards, luck = boards.take(first), luck[first]
        else:
            rows = np.arange(len(luck))
        if depth == 0:
            return self._leaf.values(boards)[rows]
        values = np.empty(len(luck))
        for start in range(0, len(luck), max(1, BATCH // self._game.cells)):
            part = slice(start, start + max(1, BATCH // self._game.cells))
            moves = self.move_values(Boards(boards.cells[part], boards.mover[part]), luck[part], depth, self._width)
            values[part] = np.nanmax(moves, axis=1)
        return values[rows]


# ---------------------------------------------------------------------------------------------------------------------
# The policy


@dataclass(frozen=True)
class Expectiminimax(Named):
    """Plays the best move of a search to ``depth``; moves within 1e-9 of the best have equal shares.

    It has no ``values``, because the scores of the search are no expected results; :meth:`analyse` gives them.

    Raises:
        ValueError: a setting out of range, a leaf policy without values.
    """

    name: ClassVar[str] = "expectiminimax"

    game: Game
    depth: int = 3
    """plies to look ahead"""
    width: int | None = None
    """moves drawn at every decision node below the root; none for all"""
    heuristic: Heuristic = "count"
    """what is compared at the horizon"""
    leaf: str | Policy | None = None
    """a policy whose values take the place of the heuristic: to the mover, -1 loss to 1 win"""
    pure: bool = field(init=False)
    """whether nothing is drawn"""

    def __post_init__(self) -> None:
        check_settings(self.depth, self.width, self.heuristic)
        object.__setattr__(self, "pure", self._drawn is None)
        if self.leaf is not None:
            self._leaf  # noqa: B018  # now, rather than at the first move

    @property
    def _drawn(self) -> int | None:
        """How many moves are drawn at a node, None where all are tried: a node below the root has a stone at least."""
        return None if self.width is None or self.width >= self.game.cells - 1 else self.width

    @cached_property
    def _leaf(self) -> Values:
        assert self.leaf is not None
        policy = make_policy(self.leaf, self.game)
        if not isinstance(policy, Values):
            raise ValueError(f"leaf={self.leaf} has no values: choose a policy that has, as optimal or run:PATH")
        return policy

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B, rows * columns]; with ``width`` it needs ``rng`` and draws one number of 64 bits a position."""
        return best_shares(self.scores(boards, rng), TIE)

    def scores(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """Scores of the search, float64[B, rows * columns], to the mover, NaN where illegal.

        The best moves have their values; of others a bound below the best may be all that is known.
        """
        return self._search(boards, self._luck(boards, rng), self.depth, every_move=False)[0]

    def analyse(self, position: Position, rng: np.random.Generator | None = None) -> Analysis:
        """What the search says of a position; see :meth:`analyse_all`."""
        return self.analyse_all(Boards.of([position]), rng)[0]

    def analyse_all(self, boards: Boards, rng: np.random.Generator | None = None) -> list[Analysis]:
        """What the search says of positions, in its own scores, to player_0.

        Args:
            boards: positions that are not over.
            rng: for a search that draws moves.

        Raises:
            ValueError: a position that is over, no ``rng`` where it is needed.
        """
        for cells in boards.cells:
            if winner(self.game, cells) is not None:
                raise ValueError("the game is over in a position: only positions in which somebody moves are analysed")
        luck = self._luck(boards, rng)
        values, nodes = self._search(boards, luck, self.depth, every_move=True)
        return [
            Analysis(
                value=float(sign * np.nanmax(values[row])) + 0.0,  # no -0.0
                move_values=sign * values[row] + 0.0,
                variation=self._variation(boards.position(row), luck[row], values[row]),
                nodes=int(nodes[row]),
            )
            for row, sign in enumerate(1 - 2 * boards.mover.astype(np.int64))
        ]

    def _luck(self, boards: Boards, rng: np.random.Generator | None) -> Keys:
        count = len(boards.mover)
        if self._drawn is None:
            return np.zeros(count, np.uint64)
        if rng is None:
            raise ValueError(f"{self} draws moves and needs a generator: give rng=np.random.default_rng(seed)")
        return rng.integers(0, 1 << 64, count, dtype=np.uint64)

    def _search(self, boards: Boards, luck: Keys, depth: int, every_move: bool) -> tuple[Reals, Integers]:
        """Values of the moves, float64[B, cells] to the mover, and the positions looked at, int64[B]."""
        if self.leaf is None:
            search = Search(
                self.game, boards, heuristic=self.heuristic, width=self._drawn, luck=luck, every_move=every_move
            )
            search.run(depth)
            return search.move_values, search.nodes
        values, nodes = np.empty(boards.cells.shape), np.empty(len(luck), np.int64)
        rows = 1 if every_move else max(1, BATCH // self.game.cells)  # one by one for an analysis, to count their nodes
        for start in range(0, len(luck), rows):
            part = slice(start, start + rows)
            by_leaves = _ByLeaves(self.game, self._leaf, self._drawn)
            values[part] = by_leaves.move_values(Boards(boards.cells[part], boards.mover[part]), luck[part], depth)
            nodes[part] = by_leaves.nodes
        return values, nodes

    def _variation(self, position: Position, luck: np.uint64, values: Reals) -> tuple[int, ...]:
        """The principal variation from a position whose moves are worth ``values`` to the mover."""
        cells, mover = position.cells.copy(), position.mover
        moves: list[int] = []
        while True:
            cell = int(np.argmax(values >= np.nanmax(values) - TIE))
            moves.append(cell)
            outcome = place(cells, mover, cell, int(np.count_nonzero(cells)), self.game.parameters)
            if outcome != NOT_OVER or len(moves) == self.depth:
                return tuple(moves)
            mover = 1 - mover
            luck = np.uint64(_luck_of_turn(np.uint64(_luck_after(luck, cell)), mover))
            after = Boards.of([Position(cells, mover)])
            width = self._drawn
            values = self._search(after, np.array([luck]), self.depth - len(moves), every_move=width is not None)[0][0]
            if width is not None:  # what the search knows is the moves drawn here
                drawn = np.empty((1, self.game.cells), np.int64)
                count = _tried(width, luck, cells, 0, drawn)
                values[np.setdiff1d(np.arange(self.game.cells), drawn[0, :count])] = np.nan
