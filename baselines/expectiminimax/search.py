"""Star1 (Ballard, "The *-minimax search procedure for trees containing chance nodes", 1983; Hauk, Buro and Schaeffer,
"Rediscovering *-minimax search", 2004): alpha-beta with chance nodes, to a fixed depth, as a recursion.

The value of a chance node is ``(1 - p) v + p w``: v of the other player's turn, w of the maker's own after a skip.
Bounds on both turns, L <= v, w <= U, give bounds on the node. If these show that it is at most alpha or at least beta,
no search is needed. Else a turn is searched, but only in the window that still matters: if v lies outside of

    (alpha - p U_w) / (1 - p)  to  (beta - p L_w) / (1 - p)

the node is at most alpha, or at least beta, for any w. The result for one turn narrows the window of the other.
"""

from __future__ import annotations

import typing
from typing import Literal, NamedTuple

import numpy as np

from baselines.exact.tablebase import NO_LAYER, Probe, afterstate_score, empty_probe
from baselines.expectiminimax.canonical import HIGH, LOW, ChanceNodes, look_up, store_bounds
from baselines.expectiminimax.lines import (
    COUNTED,
    SCORED,
    Board,
    Heuristic,
    LineArrays,
    completes_line,
    horizon,
    largest,
    line_arrays,
    most_stones,
    put,
    take,
)
from baselines.expectiminimax.order import key_after, key_of_turn, sort_moves, write_moves
from baselines.search.canonical import Planes, mark
from baselines.search.transpositions import FOREVER, grow
from ttt_envs.agents.policy import VALUE_TOLERANCE, Values
from ttt_envs.core.checks import check_choice
from ttt_envs.core.hash_index import KeyIndex
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, UInt64Array, inlined, int64, kernel
from ttt_envs.core.records import Records, records
from ttt_envs.game.boards import Boards, keys
from ttt_envs.game.game import Game
from ttt_envs.game.parameters import Parameters, line_sign
from ttt_envs.game.rules import DRAW, NOT_OVER, outcome_of_move, value_over_skip

MAX_DEPTH = 361
BATCH = 1 << 14
"""Maximum number of positions that a leaf policy evaluates at once."""
DEFAULT_TABLE_BYTES = 1 << 28
"""Default maximum size of a table in bytes."""
PATIENCE = 1 << 10
"""Number of stops at the same move after which a search with a table visits twice as many positions until the next."""
Pruning = Literal["none", "alpha-beta", "star1"]
"""``"none"`` tries everything; ``"alpha-beta"`` prunes at decision nodes, and through chance nodes only without skips;
``"star1"`` through all chance nodes"""
NO_PRUNING, ALPHA_BETA, STAR1 = range(len(typing.get_args(Pruning)))


class Fixed(NamedTuple):
    """Constants of a search."""

    lines: LineArrays
    parameters: Parameters
    """``Game.parameters``"""
    pruning: int
    width: int
    """number of moves to draw below the root; 0 for all"""
    has_leaves: bool
    """whether a policy evaluates the horizon"""
    by_result: bool
    """whether every win counts 1; else the number of plies left"""
    margin: float
    """twice the tolerance within which moves count as equal to the best; infinite if every move counts"""
    probe: Probe
    """database layer for look-ups instead of searches"""


class Roots(NamedTuple):
    """The positions to search, and the results."""

    cells: Int8Array
    """int8[B, cells]"""
    mover: Int8Array
    """int8[B]"""
    hints: Int64Array
    """int64[B]: a move to try first, -1 for none"""
    random_keys: UInt64Array
    """uint64[B]: random keys of a narrow search"""
    values: Float64Array
    """float64[B, cells], of the moves, for the mover; written"""
    nodes: Int64Array
    """int64[B], positions visited; added to"""


class Leaves(NamedTuple):
    """Positions at the horizon that a policy evaluates, N in the order of the search; without a policy there are none.

    A search reaches them three times: to count them, to write them, and with their values.
    """

    cells: Int8Array
    """int8[N, cells]"""
    mover: Int8Array
    """int8[N]"""
    values: Float64Array
    """float64[N], for the mover"""

    @classmethod
    def empty(cls, count: int, game: Game) -> Leaves:
        """Return leaves to be written, of value 0."""
        return cls(np.zeros((count, game.cells), np.int8), np.zeros(count, np.int8), np.zeros(count))


class State:
    """Progress of a search."""

    row: int
    """index of the position being searched"""
    index: int
    """number of its moves that are searched"""
    best: float
    """the best of their values"""
    empty: int
    """number of empty cells"""
    leaf: int
    """number of leaves reached"""
    nodes: int
    """number of positions visited"""
    limit: int
    """number of nodes after which to stop"""
    stored: int
    """number of rows in the table"""
    full: int
    """number of rows at which to stop"""
    stopped: int
    """whether the search has to stop"""


class Path(NamedTuple):
    """The current position and the nodes that lead to it, indexed by plies left: D is the depth + 1.

    A decision node and the chance node before it share a row.
    """

    board: Board
    weight: Int64Array
    """int64[cells]: scratch for sorting moves"""
    moves: Int64Array
    """int64[D, cells]: the moves to try"""
    chosen: Int64Array
    """int64[D]: the best move of a decision node"""
    nodes: ChanceNodes
    states: Records
    """`State`[1]"""

    @classmethod
    def empty(cls, game: Game, depth: int, lines: LineArrays, states: Records) -> Path:
        """Return a path with capacity for a search to this depth."""
        rows, cells, kinds, planes = depth + 1, game.cells, (depth + 1, 2, 2), Planes.empty(game)
        masks, tally = np.zeros((2, len(lines.cells)), np.uint32), np.zeros((*kinds, game.win_length + 1), np.int64)
        keys = np.zeros((rows, planes.stones.shape[1] + 1), np.int64)
        moves, chosen = np.zeros((rows, cells), np.int64), np.zeros(rows, np.int64)
        board = Board(np.zeros(cells, np.int8), masks, tally, np.zeros(kinds, np.int64))
        nodes = ChanceNodes(np.zeros(kinds), np.zeros((rows, 2), np.int64), keys, planes)
        return cls(board, np.zeros(cells, np.int64), moves, chosen, nodes, states)


class Tree(NamedTuple):
    """All that a search reads and writes."""

    fixed: Fixed
    path: Path
    roots: Roots
    table: Int64Array
    """of chance nodes, may have no rows"""
    leaves: Leaves


# ---------------------------------------------------------------------------------------------------------------------
# Static evaluation


@inlined
def _maximum(player: int, is_mover: bool, depth: int, fixed: Fixed, path: Path) -> float:
    """Return an upper bound on the value for a player: a win within ``depth`` plies needs the missing stones first."""
    rules, empty = fixed.parameters, path.states[0].empty
    stones = most_stones(player, depth, path.board)
    missing = rules.win_length - stones
    ply = (missing if rules.skip_chance > 0 else 2 * missing - 1) + 1 - int64(is_mover)
    if stones >= 0 and ply <= min(depth, empty):
        return 1.0 if fixed.by_result else depth - ply + 1.0
    to_layer = fixed.probe.stones - len(path.board.cells) + empty
    if stones >= 0 and fixed.probe.stones != NO_LAYER and to_layer <= depth < empty:
        return 1.0  # a database has wins beyond the horizon
    return 0.5 if empty > depth else 0.0


@inlined
def _limits(mover: int, depth: int, fixed: Fixed, path: Path) -> tuple[float, float]:
    """Return bounds on the value for a mover with ``depth`` plies left."""
    rules = fixed.parameters
    low, high = -_maximum(1 - mover, False, depth, fixed, path), _maximum(mover, True, depth, fixed, path)
    # Win now: no score is higher. Of variants, the cell may be out of reach, or the line too long
    if rules.variants == 0 and most_stones(mover, depth, path.board) == rules.win_length - 1 and fixed.width == 0:
        low = high
    return (low, high) if line_sign(rules) > 0 else (-high, -low)


@inlined
def _last_ply(mover: int, key: np.uint64, fixed: Fixed, path: Path) -> float:
    """Return the value for a mover with one ply left, by the standard rules; ``key`` is that of the chance node before.

    A stone never worsens the mover's best line nor improves the other player's. And while a line is open and not full,
    some stone improves it. So with pruning, most positions need no stone to be tried.
    """
    lines, rules, board, moves, state = fixed.lines, fixed.parameters, path.board, path.moves[1], path.states[0]
    mine, theirs = board.best[1, SCORED, mover], board.best[1, SCORED, 1 - mover]
    wins = most_stones(mover, 1, board) == rules.win_length - 1
    ceiling = np.inf if fixed.pruning == NO_PRUNING else 1.0 if wins else 0.5
    best, count, line, tries_all = -1.0, 0, 0, fixed.pruning != NO_PRUNING and fixed.width == 0
    if tries_all:
        state.nodes += 1
        if wins:
            return 1.0
        if state.empty == 1 or (mine < 0 and theirs <= 0):
            return 0.0
        if mine >= theirs:
            return 0.5
    if tries_all and lines.counts:
        # a stone adds at most one, and weakens their best lines only in a cell of all of them
        best = 0.0 if mine == theirs - 1 and mine >= 0 else -0.5
        if board.tally[1, SCORED, 1 - mover, theirs] >= lines.through.shape[1]:
            return best
        while board.masks[mover, line] != 0 or lines.scores[SCORED, board.masks[1 - mover, line]] != theirs:
            line += 1
        for cell in lines.cells[line]:
            if board.cells[cell] == 0:
                moves[count] = cell
                count += 1
    else:
        turn_key = key_of_turn(key, mover) if fixed.width > 0 else key
        count = write_moves(fixed.width, turn_key, board.cells, moves, rules)
    i = 0
    while i < count and best < ceiling:
        best = max(best, _last_stone(moves[i], mover, mine, theirs, wins, fixed, path))
        i += 1
    state.nodes += i
    return best


@inlined
def _last_stone(cell: int, mover: int, mine: int, theirs: int, wins: bool, fixed: Fixed, path: Path) -> float:
    """Return the score of a stone at the last ply, where ``mine`` and ``theirs`` are the best lines before it.

    ``wins`` tells whether some stone completes a line: only then all lines through the cell are read.
    """
    lines, board = fixed.lines, path.board
    through, full = lines.through[cell], (1 << fixed.parameters.win_length) - 1
    for i in range(1, int64(through[0, COUNTED]) if wins else 1):
        if board.masks[mover, through[i, 0]] | through[i, 1] == full:
            return 1.0
    if path.states[0].empty == 1:
        return 0.0
    num_closed = int64(0)
    for i in range(1, int64(through[0, SCORED])):
        line = through[i, 0]
        own, against = board.masks[mover, line], board.masks[1 - mover, line]
        if against == 0:
            mine = max(mine, int64(lines.scores[SCORED, own | through[i, 1]]))
        elif own == 0:
            num_closed += int64(lines.scores[SCORED, against] == theirs)
    if theirs > 0 and num_closed == board.tally[1, SCORED, 1 - mover, theirs]:
        put(cell, mover, 1, 0, lines, board)
        theirs = board.best[0, SCORED, 1 - mover]
        take(cell, mover, lines, board)
    return horizon(mine, theirs, fixed.parameters)


# ---------------------------------------------------------------------------------------------------------------------
# The search


@inlined
def _begin_chance(depth: int, maker: int, key: np.uint64, is_static: bool, uses_table: bool, tree: Tree) -> int:
    """Initialise a chance node, with static bounds and table bounds on its turns; return the symmetry of its key.

    ``is_static`` tells whether the turns are the last ply, whose values are found without a search.
    """
    fixed, path, _, table, _ = tree
    bounds, hints = path.nodes.bounds[depth], path.nodes.hints[depth]
    for own in range(2):
        player, low, high = maker if own else 1 - maker, -np.inf, np.inf
        if is_static and (own == 0 or fixed.parameters.skip_chance > 0):
            low = high = _last_ply(player, key, fixed, path)
        elif fixed.pruning != NO_PRUNING:
            low, high = _limits(player, depth, fixed, path)
        hints[own] = -1
        bounds[own, LOW], bounds[own, HIGH] = (low, high) if own else (-high, -low)
    if not uses_table:
        return 0
    return look_up(depth, maker, int64(key) if fixed.width > 0 else int64(0), path.nodes, table)


@inlined
def _leaf_value(maker: int, tree: Tree) -> float:
    """Return the value for its maker of a chance node at the horizon, by the values of the leaves."""
    leaves, cells, state, own, other = tree.leaves, tree.path.board.cells, tree.path.states[0], 0.0, 0.0
    skip = tree.fixed.parameters.skip_chance
    for turn in range(2 if skip > 0 else 1):
        if state.leaf < len(leaves.values):
            for cell in range(len(cells)):
                leaves.cells[state.leaf, cell] = cells[cell]
            leaves.mover[state.leaf] = maker if turn else 1 - maker
            value = leaves.values[state.leaf]
            own, other = (value, other) if turn else (own, -value)
        state.leaf += 1
    return value_over_skip(own, other, skip)


@inlined
def _window(own: int, alpha: float, beta: float, bounds: Float64Array, fixed: Fixed) -> tuple[float, float]:
    """Return the window, for the maker, in which the value of a turn matters, given the bounds of the other one."""
    skip = fixed.parameters.skip_chance
    if skip == 0 and fixed.pruning != NO_PRUNING:
        return alpha, beta
    if fixed.pruning < STAR1:
        return -np.inf, np.inf
    chance, rest = (skip, 1.0 - skip) if own else (1.0 - skip, skip)
    return (alpha - rest * bounds[1 - own, HIGH]) / chance, (beta - rest * bounds[1 - own, LOW]) / chance


@inlined
def _solve(side: int, alpha: float, beta: float, bounds: Float64Array, skip: float) -> tuple[bool, float]:
    """Return whether a chance node needs no further search, and its value, a bound if at most alpha or at least beta.

    ``side`` is 1 or -1 if the value of a turn was above or below its window, which solves the node whatever rounding
    says.
    """
    low = value_over_skip(bounds[1, LOW], bounds[0, LOW], skip)
    high = value_over_skip(bounds[1, HIGH], bounds[0, HIGH], skip)
    is_solved = side != 0 or low >= beta or high <= alpha or low >= high
    return is_solved, high if side < 0 or (side == 0 and high <= alpha) else low


@kernel(interpreted=False, nogil=True)
def _search(
    mover: int, depth: int, alpha: float, beta: float, ceiling: float, hint: int, key: np.uint64, tree: Tree
) -> float:
    """Return the value of a decision node for its mover: exact between alpha and beta, else a bound beyond them.

    At the root, the values of the moves are written, and moves that have one are left out. The chance nodes after the
    moves are searched here, so that one kernel calls itself and no two call each other.

    Args:
        mover: the player to move.
        depth: plies left.
        alpha: the value matters only above this.
        beta: the value matters only below this.
        ceiling: upper bound on the value of all moves.
        hint: a move to try first, -1 for none.
        key: random key of the node.
        tree: all else.
    """
    fixed, path, roots, table, _ = tree
    board, moves, rules, state = path.board, path.moves[depth], fixed.parameters, path.states[0]
    is_root, uses_table = depth == len(path.moves) - 1, len(table) > 0 and depth > 2
    is_static = depth == 2 and rules.variants == 0 and not fixed.has_leaves
    if state.nodes >= state.limit or state.stored >= state.full:
        state.stopped = 1
        return 0.0
    count = write_moves(0 if is_root else fixed.width, key, board.cells, moves, rules)
    if is_root or (depth > 1 and fixed.pruning != NO_PRUNING and fixed.width == 0):
        sort_moves(hint, fixed.lines, board, moves, path.weight, count)
    best, first = (state.best, state.index) if is_root else (-np.inf, int64(0))
    for i in range(first, count):
        if is_root:
            alpha = best - fixed.margin
        cell = moves[i]
        put(cell, mover, depth, depth - 1, fixed.lines, board)
        state.empty -= 1
        state.nodes += 1
        stones = len(board.cells) - state.empty
        outcome = outcome_of_move(completes_line(cell, mover, depth - 1, board, rules), mover, stones, rules)
        node_key = key_after(key, cell) if fixed.width > 0 else np.uint64(0)
        if outcome == DRAW:
            value = 0.0
        elif outcome != NOT_OVER:
            value = (1.0 if fixed.by_result else float(depth)) * line_sign(rules)
        elif stones == fixed.probe.stones:
            value = afterstate_score(board.cells, mover, depth - 1, fixed.probe, rules)
        elif depth == 1 and fixed.has_leaves:
            value = _leaf_value(mover, tree)
        elif depth == 1:
            value = horizon(board.best[0, SCORED, mover], board.best[0, SCORED, 1 - mover], rules)
        else:
            bounds, hints = path.nodes.bounds[depth - 1], path.nodes.hints[depth - 1]
            if uses_table:
                mark(cell, mover, path.nodes.planes)
            is_last = is_static and stones + 1 != fixed.probe.stones
            symmetry = _begin_chance(depth - 1, mover, node_key, is_last, uses_table, tree)
            floor = alpha if is_root else max(alpha, best)
            is_solved, value = _solve(0, floor, beta, bounds, rules.skip_chance)
            is_changed, own = False, int64(0)
            while own < (2 if rules.skip_chance > 0 else 1) and not is_solved:
                if bounds[own, LOW] < bounds[own, HIGH]:
                    player = mover if own else 1 - mover
                    turn_key = key_of_turn(node_key, player) if fixed.width > 0 else node_key
                    low, high = _window(own, floor, beta, bounds, fixed)
                    top = bounds[own, HIGH] if own else -bounds[own, LOW]
                    bottom, limit = (low, high) if own else (-high, -low)
                    result = _search(player, depth - 1, bottom, limit, top, hints[own], turn_key, tree)
                    if state.stopped != 0:
                        break
                    result = result if own else -result
                    if result > low:
                        bounds[own, LOW] = max(bounds[own, LOW], result)
                    if result < high:
                        bounds[own, HIGH] = min(bounds[own, HIGH], result)
                    hints[own], is_changed = path.chosen[depth - 1], True
                    side = int64(result >= high) - int64(result <= low)
                    is_solved, value = _solve(side, floor, beta, bounds, rules.skip_chance)
                own += 1
            if uses_table:
                if is_changed:
                    state.stored += store_bounds(depth - 1, mover, symmetry, path.nodes, table)
                mark(cell, mover, path.nodes.planes)
        take(cell, mover, fixed.lines, board)
        state.empty += 1
        if state.stopped != 0:
            break
        if value > best:
            best, path.chosen[depth] = value, cell
        if is_root:
            roots.values[state.row, cell] = value
            state.best, state.index = best, i + 1
        elif best >= min(beta, ceiling):
            break
    return best


@inlined
def _begin_root(row: int, tree: Tree) -> None:
    """Replace the stones on the board by those of a root."""
    cells, lines, path = tree.roots.cells[row], tree.fixed.lines, tree.path
    board, state, root = path.board, path.states[0], len(path.moves) - 1
    board.cells[:] = 0
    board.masks[:] = 0
    board.tally[root, :, :, :] = 0
    path.nodes.planes.stones[:] = 0
    for player in range(2):
        for kind in range(2):
            board.tally[root, kind, player, 0] = abs(len(lines.cells) * kind - lines.num_scored)
            board.best[root, kind, player] = largest(board.tally[root, kind, player])
    state.empty = len(cells)
    for cell in range(len(cells)):
        if cells[cell] != 0:
            put(cell, int64(cells[cell]) - 1, root, root, lines, board)
            mark(cell, int64(cells[cell]) - 1, path.nodes.planes)
            state.empty -= 1


@kernel(interpreted=False, nogil=True)
def run_search(tree: Tree) -> None:
    """Search the roots, from the one that state names, until all are searched or the search has to stop."""
    roots, state, depth = tree.roots, tree.path.states[0], int64(len(tree.path.moves) - 1)
    while state.row < len(roots.cells) and state.stopped == 0:
        row, nodes_before = int64(state.row), state.nodes
        _begin_root(row, tree)
        _search(int64(roots.mover[row]), depth, -np.inf, np.inf, np.inf, roots.hints[row], roots.random_keys[row], tree)
        roots.nodes[row] += state.nodes - nodes_before
        if state.stopped == 0:
            state.row, state.index, state.best = row + 1, 0, -np.inf


# ---------------------------------------------------------------------------------------------------------------------
# Functions for Python callers


class SearchSettings(NamedTuple):
    """Settings of a search."""

    heuristic: Heuristic = "count"
    """quantity compared at the horizon"""
    pruning: Pruning = "star1"
    """amount of pruning; values do not depend on it"""
    width: int | None = None
    """number of random moves at every decision node below the root; None for all moves"""
    memory: int = DEFAULT_TABLE_BYTES
    """maximum size of the table in bytes; 0 for no table. A search without pruning has none"""
    every_move: bool = True
    """whether to compute the value of every move; else of the best moves, and upper bounds of others"""
    by_result: bool = False
    """whether every win counts 1; else sooner wins count more"""
    margin: float = VALUE_TOLERANCE
    """moves within this distance of the best have exact values"""


DEFAULT_SETTINGS = SearchSettings()


class Search:
    """A search of positions that can be stopped, continued and deepened.

    A stopped search keeps the values of finished moves and begins the next move again, with what the table holds. The
    values are the same as without a stop; the table is kept between depths. A clock needs ``run(depth, nodes)``, which
    tells whether the search is finished, ``move_values`` and ``nodes``: :mod:`baselines.timed` calls no more.

    >>> search = Search(Game(skip_chance=0.25), Boards.start(Game()))
    >>> for depth in (1, 2, 3):
    ...     while not search.run(depth, nodes=500):
    ...         pass  # look at the clock
    ...     print(depth, search.move_values[0].max())
    1 0.5
    2 0.125
    3 0.25

    Args:
        game: the game.
        boards: positions that are not over.
        settings: how to search; by default those of :class:`SearchSettings`.
        random_keys: uint64[B], random keys: the moves drawn for a position depend on its key only.
        probe: a layer of a database, reached from all positions: see :class:`baselines.exact.tablebase.Tablebase`.
        leaf: a policy whose values replace the heuristic: such a search prunes nothing and does not stop early.

    Attributes:
        depth: plies of the last or current search; 0 before the first.
        move_values: float64[B, rows * columns], for the mover, NaN where illegal or not yet searched.
        nodes: int64[B], positions visited so far, by all searches together; see `Analysis`.

    Raises:
        ValueError: a setting is out of range, or moves are drawn without ``random_keys``.
    """

    def __init__(
        self,
        game: Game,
        boards: Boards,
        settings: SearchSettings = DEFAULT_SETTINGS,
        *,
        random_keys: UInt64Array | None = None,
        probe: Probe | None = None,
        leaf: Values | None = None,
    ) -> None:
        check_settings(1, settings.width, settings.heuristic, settings.pruning)
        if settings.memory < 0:
            raise ValueError(f"memory={settings.memory} is negative: choose the bytes of the table, or 0 for no table")
        pruning, width = "none" if leaf is not None else settings.pruning, settings.width
        if width is not None and random_keys is None:
            raise ValueError(f"width={width} draws moves at random: give a 64-bit key for each position")
        count = len(boards.mover)
        self.depth, self._stops = 0, 0
        self._game, self._states, self._leaf = game, records(State, (1,)), leaf
        self._words = Planes.empty(game).stones.shape[1] + 1
        self._table = np.zeros((0, self._words + 5), np.int64)
        self._memory = 0 if pruning == "none" else settings.memory
        self._fixed = Fixed(
            line_arrays(game, settings.heuristic),
            game.parameters,
            typing.get_args(Pruning).index(pruning),
            width or 0,
            leaf is not None,
            settings.by_result,
            np.inf if settings.every_move else 2 * settings.margin,
            empty_probe() if probe is None else probe,
        )
        self._leaves = Leaves.empty(0, game)
        self._roots = Roots(
            np.ascontiguousarray(boards.cells),
            np.ascontiguousarray(boards.mover),
            hints=np.full(count, -1),
            random_keys=np.zeros(count, np.uint64) if random_keys is None else random_keys,
            values=np.full(boards.cells.shape, np.nan),
            nodes=np.zeros(count, np.int64),
        )
        self.move_values, self.nodes = self._roots.values, self._roots.nodes

    def run(self, depth: int, nodes: int | None = None) -> bool:
        """Search to ``depth``, or continue this search.

        Args:
            depth: plies to look ahead, 1 to 361. A depth other than the last one starts a new search.
            nodes: number of positions after which to stop at the next decision node; None for no limit. At least as
                many are visited as may lead back to where the search stopped, and twice the last number of a move
                that is begun again without a table.

        Returns:
            Whether the search is finished; if not, ``move_values`` has the values of the finished moves.
        """
        check_settings(depth)
        state = self._states[0]
        if depth != self.depth:
            self._begin(depth)
        # Without a table a stop loses the unfinished move; with a small one it may lose so much that none is gained
        doublings = self._stops // PATIENCE if len(self._table) else self._stops
        if self._leaf is not None:
            nodes = None
        visits = FOREVER if nodes is None else max(nodes, 2 * depth * self._game.cells) << min(doublings, 32)
        limit = min(int(state.nodes) + visits, FOREVER)
        before = int(state.row), int(state.index)
        while True:
            if depth > 2:  # the last two plies are not stored
                stored, words = int(state.stored), self._words
                self._table, state.stored, state.full = grow(self._table, stored, words, self._memory)
            state.limit, state.stopped = limit, 0
            self._run_kernel()
            if not state.stopped or state.nodes >= limit:
                self._stops = self._stops + 1 if before == (state.row, state.index) else 0
                return not state.stopped

    def _begin(self, depth: int) -> None:
        """Start a search to another depth, with the best known moves first."""
        values = np.nan_to_num(self.move_values, nan=-np.inf)
        searched = np.isfinite(values).any(axis=1)
        self._roots.hints[searched] = values[searched].argmax(axis=1)
        self.move_values[:] = np.nan
        self.depth, self._stops = depth, 0
        self._path = Path.empty(self._game, depth, self._fixed.lines, self._states)
        self._rewind()
        if self._leaf is not None:
            self._evaluate_leaves(self._leaf)

    def _rewind(self) -> None:
        """Go back to the first position."""
        state = self._states[0]
        state.row, state.index, state.best, state.leaf = 0, 0, -np.inf, 0
        state.limit, state.full, state.stopped = FOREVER, FOREVER, 0

    def _run_kernel(self) -> None:
        run_search(Tree(self._fixed, self._path, self._roots, self._table, self._leaves))

    def _evaluate_leaves(self, leaf: Values) -> None:
        """Count the leaves, write them, and evaluate each distinct one once."""
        nodes, self._leaves = self.nodes.copy(), Leaves.empty(0, self._game)
        self._run_kernel()
        self._leaves = Leaves.empty(int(self._states[0].leaf), self._game)
        self._rewind()
        self._run_kernel()
        self._rewind()
        self.nodes[:] = nodes
        boards = Boards(self._leaves.cells, self._leaves.mover)
        state_keys = np.column_stack([keys(boards.cells), boards.mover.astype(np.uint64)])
        index = KeyIndex(state_keys.shape[1])
        _, first, row = np.unique(index.rows(state_keys), return_index=True, return_inverse=True)
        parts = [part for part in np.array_split(first, 1 + len(first) // BATCH) if len(part)]
        self._leaves.values[:] = np.concatenate([np.zeros(0), *(leaf.values(boards.take(part)) for part in parts)])[row]


def check_settings(depth: int, width: int | None = None, heuristic: str = "count", pruning: str = "star1") -> None:
    """Raise ValueError for search settings that are out of range."""
    if not 1 <= depth <= MAX_DEPTH:
        raise ValueError(f"depth={depth} is no number of plies to look ahead: choose 1 to {MAX_DEPTH}")
    if width is not None and width < 1:
        raise ValueError(f"width={width} tries no moves: choose how many to draw at a node, or none to try all")
    check_choice("heuristic", heuristic, typing.get_args(Heuristic))
    check_choice("pruning", pruning, typing.get_args(Pruning))
