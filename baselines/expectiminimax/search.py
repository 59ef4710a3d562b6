"""Star1 (Ballard, "The *-minimax search procedure for trees containing chance nodes", 1983; Hauk,
Buro and Schaeffer, "Rediscovering *-minimax search", 2004): alpha-beta with chance nodes, to a
fixed depth, as a recursion.

The value of a chance node is ``(1 - p) v + p w``: v of the other player's turn, w of the maker's
own after a skip. Bounds on both turns, L <= v, w <= U, give bounds on the node. If these show that
it is at most alpha or at least beta, no search is needed. Else a turn is searched, but only in the
window that still matters: if v lies outside of

    (alpha - p U_w) / (1 - p)  to  (beta - p L_w) / (1 - p)

the node is at most alpha, or at least beta, for any w. The result for one turn narrows the window
of the other.
"""

from __future__ import annotations

import typing
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from baselines.exact.tablebase import Probe, afterstate_score
from baselines.expectiminimax.chance import (
    OTHER,
    OWN,
    Chance,
    add,
    begin,
    for_mover,
    is_solved,
    value_of,
    window,
)
from baselines.expectiminimax.lines import (
    MAX_CELLS,
    SCORED,
    Heuristic,
    LineBoard,
    Lines,
    Tally,
    horizon,
    lines_of,
    most_stones,
    put,
    rules_of,
    sort_moves,
    take,
)
from baselines.search.canonical import INVERSE, MAX_WORDS, PERMUTATION, Planes, mark, write_key
from baselines.search.transpositions import FOREVER, WORTH_SHIFT, find, grow, store
from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.checks import Refusal, check_choice, check_range
from ttt_envs.core.jit import (
    Float64Array,
    Int8Array,
    Int64Array,
    UInt64Array,
    inlined,
    int64,
    kernel,
)
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.core.records import Records, record, records
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.lines import completes_line
from ttt_envs.game.parameters import NO_OVERLINES, Parameters, line_sign
from ttt_envs.game.rules import DRAW, NOT_OVER, is_legal, outcome_of_move

MAX_DEPTH = 361
DEFAULT_TABLE_BYTES = 1 << 28
"""Default maximum size of a table in bytes."""
PATIENCE = 1 << 10
"""Number of stops at the same move after which a search with a table visits twice as many positions
until the next.
"""
Pruning = Literal["none", "alpha-beta", "star1"]
"""``"none"`` tries everything; ``"alpha-beta"`` prunes at decision nodes, and through chance nodes
only without skips; ``"star1"`` through all chance nodes"""
NO_PRUNING, ALPHA_BETA, STAR1 = range(len(typing.get_args(Pruning)))
NO_LAYER = 1 << 10
"""Number of stones of a database layer that no search reaches."""
CELL_BITS = (1 << 9) - 1
"""the bits of a cell in a word of the table"""
INFO, LOW, HIGH = range(3)
"""columns of the table behind the key: the worth and the best move, and both bounds on the value"""
NUM_COLUMNS = 3
"""Number of columns behind the key."""


class Roots(NamedTuple):
    """The positions to search."""

    cells: Int8Array
    """int8[B, cells]"""
    mover: Int8Array
    """int8[B]"""
    hints: Int64Array
    """int64[B]: a move to try first, -1 for none"""
    random_keys: UInt64Array
    """uint64[B]: random keys of a narrow search"""
    nodes: Int64Array
    """int64[B], positions visited; added to"""
    values: Float64Array
    """float64[B, cells]: the values of the moves, for the mover; written"""


class SearchState(LineBoard):
    """The current position, the settings and the progress of a search, as a record."""

    pruning: int
    width: int
    """number of moves to draw below the root; 0 for all"""
    by_result: int
    """whether every win counts 1; else the number of plies left"""
    margin: float
    """twice the tolerance within which moves count as equal to the best; infinite if every move
    counts
    """
    probe_stones: int
    """number of stones at which the probe is read, ``NO_LAYER`` without one"""
    weight: Annotated[Int64Array, np.int64, (MAX_CELLS,)]
    """scratch for sorting moves"""
    row: int
    """index of the position being searched"""
    index: int
    """number of its moves that are searched"""
    best: float
    """the best of their values"""
    values: Annotated[Float64Array, np.float64, (MAX_CELLS,)]
    """the values of these moves, for the mover"""
    num_cells: int
    empty: int
    """number of empty cells"""
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


class DecisionNode(Tally):
    """A decision node, as a record."""

    moves: Annotated[Int64Array, np.int64, (MAX_CELLS,)]
    """the moves to try"""
    key: Annotated[Int64Array, np.int64, (1, MAX_WORDS + 1)]
    """of the table: the words of ``planes``; the plies left and the mover"""
    symmetry: int
    """the symmetry that maps the board to its key"""
    hint: int
    """the move to try first, -1 for none"""


class Path(NamedTuple):
    """All that a search reads and writes; every call of the recursion copies the pointers and the
    arrays' shapes.
    """

    lines: Lines
    state: SearchState
    nodes: Records[DecisionNode]
    """`DecisionNode`[D], by plies left: D is the depth + 1"""
    chances: Records[Chance]
    """`Chance`[D]: the chance nodes after the moves of these"""
    planes: Planes
    """the current position, down to the last ply but one"""
    table: Int64Array
    """of decision nodes, may have no rows: the key, and the columns from ``INFO`` on"""
    probe: Probe | None
    """database layer for look-ups instead of searches"""


# --------------------------------------------------------------------------------------------------
# Moves drawn at random: their random numbers are indexed by node, so pruning does not change them


@kernel(forceinline=True)
def turn_key(key: np.uint64, cell: int, mover: int) -> np.uint64:
    """Return the random key of the decision node where ``mover`` moves after the move ``cell`` at a
    decision node.
    """
    return splitmix64(splitmix64(key, (1 << 32) + cell), (2 << 32) + mover)


@kernel(forceinline=True)
def write_moves(
    width: int, key: np.uint64, cells: Int8Array, moves: Int64Array, parameters: Parameters
) -> int:
    """Write all moves, in order of cells, or ``width`` drawn without replacement, into ``moves``;
    return the number.
    """
    count = 0
    for cell in range(len(cells)):
        moves[count] = cell
        count += int64(is_legal(cells, cell, parameters))
    if 0 < width < count:
        for i in range(width):
            j = i + int(uniform(key, 0, i) * (count - i))
            moves[i], moves[j] = moves[j], moves[i]
        count = width
    return count


# --------------------------------------------------------------------------------------------------
# Static bounds


@inlined
def _maximum(player: int, is_mover: bool, depth: int, tally: Tally, path: Path) -> float:
    """Return an upper bound on the value for a player: a win within ``depth`` plies needs the
    missing stones first.
    """
    lines = path.lines
    state = path.state
    empty = state.empty
    stones = most_stones(player, tally)
    missing = lines.win_length - stones
    num_plies = missing if lines.skip_chance > 0 else 2 * missing - 1
    ply = num_plies + 1 - int64(is_mover)
    if stones >= 0 and ply <= min(depth, empty):
        return 1.0 if state.by_result else depth - ply + 1.0
    if stones >= 0 and state.probe_stones - state.num_cells + empty <= depth < empty:
        return 1.0  # a database has wins beyond the horizon
    return 0.5 if empty > depth else 0.0


@inlined
def _limits(mover: int, depth: int, tally: Tally, path: Path) -> tuple[float, float]:
    """Return bounds on the value for a mover with ``depth`` plies left."""
    lines = path.lines
    state = path.state
    stones = state.num_cells - state.empty
    is_plain = state.width == 0 and lines.variants == 0
    low = -_maximum(1 - mover, False, depth, tally, path)
    high = _maximum(mover, True, depth, tally, path)
    own_best = tally.best[SCORED, mover]
    other_best = tally.best[SCORED, 1 - mover]
    # Win now: no score is higher. Of variants, the cell may be out of reach, or the line too long
    if is_plain and most_stones(mover, tally) == lines.win_length - 1:
        low = high
    elif is_plain and depth == 1 and stones + 1 != state.probe_stones:
        # A stone never worsens the mover's best line nor improves the other player's; some stone
        # improves an open line
        if state.empty == 1 or (own_best < 0 and other_best <= 0):
            low = high = 0.0
        elif own_best >= other_best:
            low = high = 0.5
        else:
            # by counts, a stone adds at most one, and weakens their best lines only in a cell of
            # all of them
            catches_up = lines.counts and own_best == other_best - 1 and own_best >= 0
            low = 0.0 if catches_up else -0.5
            high = 0.5
            if lines.counts and tally.counts[SCORED, 1 - mover, other_best] > lines.num_through:
                high = low
    return (low, high) if line_sign(rules_of(lines)) > 0 else (-high, -low)


# --------------------------------------------------------------------------------------------------
# The search


@inlined
def _look_up(
    mover: int,
    depth: int,
    low: float,
    high: float,
    random_key: np.uint64,
    node: DecisionNode,
    path: Path,
) -> tuple[bool, float, float]:
    """Write the key of a decision node, which in a narrow search is that of one node of the tree
    only, the symmetry that maps the board to it, and a good move, also of a search one ply
    shallower.

    Returns:
        Whether the table has the node; and ``low`` and ``high``, narrowed by its bounds.
    """
    table = path.table
    words = table.shape[1] - NUM_COLUMNS
    node.symmetry = write_key(node.key[0], path.planes)
    node.hint = -1
    entry = -1
    for plies in range(max(depth - 1, 2), depth + 1):
        node.key[0, words - 1] = 2 * plies + mover ^ int64(random_key)
        entry = find(node.key, 0, words, table)
        if entry >= 0:
            move = table[entry, words + INFO] & CELL_BITS
            node.hint = path.planes.maps[node.symmetry, INVERSE, move]
    if entry >= 0:
        values = table.view(np.float64)[entry]
        low = max(low, values[words + LOW])
        high = min(high, values[words + HIGH])
    return entry >= 0, low, high


@inlined
def _store(
    depth: int,
    alpha: float,
    beta: float,
    low: float,
    high: float,
    best: float,
    move: int,
    node: DecisionNode,
    path: Path,
) -> None:
    """Write the bounds on the value of a decision node into the table, after a search has returned
    ``best`` of the best move.
    """
    table = path.table
    words = table.shape[1] - NUM_COLUMNS
    info = depth << WORTH_SHIFT | path.planes.maps[node.symmetry, PERMUTATION, move]
    entry, num_new = store(node.key, 0, words, info, table)
    values = table.view(np.float64)[entry]
    values[words + LOW] = max(low, best) if best > alpha else low
    values[words + HIGH] = min(high, best) if best < beta else high
    path.state.stored += num_new


@inlined
def _write_moves(is_root: bool, key: np.uint64, node: DecisionNode, path: Path) -> int:
    """Write the moves of a decision node, the best first as far as is known; return the number."""
    lines = path.lines
    state = path.state
    moves = node.moves
    cells = state.cells[: state.num_cells]
    weight = state.weight[: state.num_cells]
    width = 0 if is_root else state.width
    count = write_moves(width, key, cells, moves, rules_of(lines))
    if is_root or (state.pruning != NO_PRUNING and width == 0):
        sort_moves(node.hint, lines, state, moves, weight, count)
    return count


@inlined
def _play(
    cell: int, mover: int, depth: int, is_last: bool, previous: Tally, tally: Tally, path: Path
) -> tuple[bool, float]:
    """Put a stone with ``depth`` plies left; return whether no search is needed, and then the value
    for its player.
    """
    rules = rules_of(path.lines)
    state = path.state
    put(cell, mover, is_last, previous, tally, path.lines, state)
    state.empty -= 1
    state.nodes += 1
    stones = state.num_cells - state.empty
    best = tally.best[SCORED]
    is_line = most_stones(mover, tally) == rules.win_length
    if rules.variants & NO_OVERLINES:  # a line may be too long
        is_line = completes_line(state.cells, cell, mover + 1, rules)
    outcome = outcome_of_move(is_line, mover, stones, rules)
    if outcome != NOT_OVER:
        win = 1.0 if state.by_result else float(depth)
        return True, 0.0 if outcome == DRAW else win * line_sign(rules)
    if stones == state.probe_stones:
        return True, afterstate_score(state.cells[: state.num_cells], mover, depth - 1, path.probe)
    return depth == 1, horizon(best[mover], best[1 - mover], rules)


@inlined
def _take_back(cell: int, mover: int, is_last: bool, path: Path) -> None:
    """Undo :func:`_play`."""
    take(cell, mover, is_last, path.lines, path.state)
    path.state.empty += 1


@inlined
def _begin_chance(
    cell: int, mover: int, depth: int, alpha: float, beta: float, chance: Chance, path: Path
) -> None:
    """Begin the chance node after a move of ``mover`` with ``depth`` plies left."""
    state = path.state
    tally = path.nodes[depth - 1]
    skip = path.lines.skip_chance
    if len(path.table) > 0 and depth > 2:
        mark(cell, mover, path.planes)
    begin(skip, alpha, beta, chance)
    if state.pruning != NO_PRUNING:
        low, high = _limits(1 - mover, depth - 1, tally, path)
        chance.low[OTHER] = -high
        chance.high[OTHER] = -low
        if skip > 0:
            low, high = _limits(mover, depth - 1, tally, path)
            chance.low[OWN] = low
            chance.high[OWN] = high


@inlined
def _end_chance(cell: int, mover: int, depth: int, chance: Chance, path: Path) -> float:
    """End the chance node of :func:`_begin_chance`; return its value."""
    if len(path.table) > 0 and depth > 2:
        mark(cell, mover, path.planes)
    return value_of(chance)


@inlined
def _window(turn: int, chance: Chance, path: Path) -> tuple[float, float]:
    """Return the window in which to search a turn; infinite if chance nodes do not narrow it."""
    pruning = path.state.pruning
    if pruning == STAR1 or (pruning == ALPHA_BETA and path.lines.skip_chance == 0):
        return window(turn, chance)
    return -np.inf, np.inf


@inlined
def _last_ply(
    mover: int, key: np.uint64, beta: float, low: float, high: float, path: Path
) -> float:
    """Do :func:`_search` for the last ply; all moves are the same for both turns after a move."""
    state = path.state
    chance = path.chances[2]
    node = path.nodes[1]
    moves = path.nodes[1].moves
    if chance.num_replies == 0 or state.width > 0:
        cells = state.cells[: state.num_cells]
        chance.num_replies = write_moves(state.width, key, cells, moves, rules_of(path.lines))
    ceiling = min(beta, high)
    best = low
    i = 0
    while i < chance.num_replies and best < ceiling:
        _, value = _play(moves[i], mover, 1, True, node, path.nodes[0], path)
        best = max(best, value)
        _take_back(moves[i], mover, True, path)
        i += 1
    return best


@kernel(interpreted=False, nogil=True)
def _search(
    mover: int,
    depth: int,
    alpha: float,
    beta: float,
    low: float,
    high: float,
    key: np.uint64,
    path: Path,
) -> float:
    """Return the value of a decision node for its mover: exact between alpha and beta, else a bound
    beyond them.

    At the root, the values of the moves are written, and moves that have one are left out. The
    chance nodes after the moves are searched here, so that one kernel calls itself and no two call
    each other.

    Args:
        mover: the player to move.
        depth: plies left.
        alpha: the value matters only above this.
        beta: the value matters only below this.
        low, high: bounds on the value.
        key: random key of the node, 0 in a search of all moves.
        path: all else.
    """
    state = path.state
    node = path.nodes[depth]
    next_node = path.nodes[depth - 1]
    if state.nodes >= state.limit or state.stored >= state.full:
        state.stopped = 1
        return 0.0
    is_root = depth == len(path.nodes) - 1
    uses_table = len(path.table) > 0 and depth > 1 and not is_root
    if uses_table:
        is_stored, low, high = _look_up(mover, depth, low, high, key, node, path)
        if is_stored and (low >= beta or high <= alpha or low >= high):
            return low if low >= beta else high
    first = state.index if is_root else int64(0)
    best = state.best if is_root else -np.inf
    best_move = int64(-1)
    for i in range(first, _write_moves(is_root, key, node, path)):
        cell = node.moves[i]
        is_known, value = _play(cell, mover, depth, False, node, next_node, path)
        if not is_known:
            chance = path.chances[depth]
            floor = best - state.margin if is_root else max(alpha, best)
            _begin_chance(cell, mover, depth, floor, beta, chance, path)
            for turn in range(1 + int64(path.lines.skip_chance > 0)):
                if is_solved(chance) or state.stopped != 0:
                    break
                if chance.low[turn] < chance.high[turn]:
                    player = mover if turn == OWN else 1 - mover
                    next_key = turn_key(key, cell, player) if state.width > 0 else key
                    window_low, window_high = _window(turn, chance, path)
                    start, end = for_mover(turn, window_low, window_high)
                    lower, upper = for_mover(turn, chance.low[turn], chance.high[turn])
                    if depth == 2:
                        value = _last_ply(player, next_key, end, lower, upper, path)
                    else:
                        value = _search(player, depth - 1, start, end, lower, upper, next_key, path)
                    add(turn, value if turn == OWN else -value, window_low, window_high, chance)
            value = _end_chance(cell, mover, depth, chance, path)
        _take_back(cell, mover, False, path)
        if state.stopped != 0:
            return best
        if value > best:
            best = value
            best_move = cell
        if is_root:
            state.values[i] = value
            state.best = best
            state.index = i + 1
        elif best >= min(beta, high):
            break
    if uses_table:
        _store(depth, alpha, beta, low, high, best, best_move, node, path)
    return best


@inlined
def _begin_root(cells: Int8Array, path: Path) -> None:
    """Replace the stones on the board by those of a root, int8[cells]."""
    lines = path.lines
    state = path.state
    tally = path.nodes[len(path.nodes) - 1]
    state.cells[:] = 0
    state.masks[:, : lines.num_lines] = 0
    tally.counts[:] = 0
    path.planes.stones[:] = 0
    for kind in range(2):
        count = abs(lines.num_lines * kind - lines.num_scored)
        tally.counts[kind, :, 0] = count
        tally.best[kind] = min(count, 1) - 1
    state.empty = state.num_cells = len(cells)
    for cell in range(len(cells)):
        if cells[cell] != 0:
            put(cell, int64(cells[cell]) - 1, False, tally, tally, lines, state)
            mark(cell, int64(cells[cell]) - 1, path.planes)
            state.empty -= 1


@kernel(interpreted=False, nogil=True)
def run_search(roots: Roots, path: Path) -> None:
    """Search the roots, from the one that state names, until all are searched or the search has to
    stop.
    """
    state = path.state
    depth = int64(len(path.nodes) - 1)
    moves = path.nodes[depth].moves
    while state.row < len(roots.cells) and state.stopped == 0:
        row = int64(state.row)
        nodes_before = state.nodes
        _begin_root(roots.cells[row], path)
        path.nodes[depth].hint = roots.hints[row]
        mover = int64(roots.mover[row])
        random_key = roots.random_keys[row]
        _search(mover, depth, -np.inf, np.inf, -np.inf, np.inf, random_key, path)
        for i in range(state.index):
            roots.values[row, moves[i]] = state.values[i]
        roots.nodes[row] += state.nodes - nodes_before
        if state.stopped == 0:
            state.row = row + 1
            state.index = 0
            state.best = -np.inf


# --------------------------------------------------------------------------------------------------
# Functions for Python callers


class Search:
    """A search of positions that can be stopped, continued and deepened.

    A stopped search keeps the values of finished moves and begins the next move again, with what
    the table holds. The values are the same as without a stop; the table is kept between depths. A
    clock needs ``run(depth, nodes)``, which tells whether the search is finished, ``move_values``
    and ``nodes``: :mod:`baselines.timed` calls no more.

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
        heuristic: quantity compared at the horizon.
        pruning: amount of pruning; values do not depend on it.
        width: number of random moves at every decision node below the root; None for all moves.
        memory: maximum size of the table in bytes; 0 for no table. A search without pruning has
            none.
        every_move: whether to compute the value of every move; else of the best moves, and upper
            bounds of others.
        by_result: whether every win counts 1; else sooner wins count more.
        margin: moves within this distance of the best have exact values.
        random_keys: uint64[B], random keys: the moves drawn for a position depend on its key only.
        probe: a layer of a database, reached from all positions: see
            :class:`baselines.exact.tablebase.Tablebase`.

    Attributes:
        depth: plies of the last or current search; 0 before the first.
        move_values: float64[B, rows * columns], for the mover, NaN where illegal or not yet
            searched.
        nodes: int64[B], positions visited so far, by all searches together; see `Analysis`.

    Raises:
        ValueError: a setting is out of range, or moves are drawn without ``random_keys``.
    """

    def __init__(
        self,
        game: Game,
        boards: Boards,
        *,
        heuristic: Heuristic = "count",
        pruning: Pruning = "star1",
        width: int | None = None,
        memory: int = DEFAULT_TABLE_BYTES,
        every_move: bool = True,
        by_result: bool = False,
        margin: float = VALUE_TOLERANCE,
        random_keys: UInt64Array | None = None,
        probe: Probe | None = None,
    ) -> None:
        check_settings(1, width, heuristic, pruning)
        check_range(
            "memory", memory, 0, problem="is no size of a table", hint=" bytes, 0 for no table"
        )
        if width is not None and random_keys is None:
            raise Refusal(
                f"width={width} draws moves at random: give a 64-bit key for each position"
            )
        kind = typing.get_args(Pruning).index(pruning)
        count = len(boards.mover)
        planes = Planes.empty(game)
        self.depth = 0
        self._stops = 0
        self._memory = 0 if kind == NO_PRUNING else memory
        self._key_words = planes.stones.shape[1] + 1
        self.move_values = np.full(boards.cells.shape, np.nan)
        state: Any = record(SearchState)
        state["pruning"] = kind
        state["width"] = width or 0
        state["by_result"] = by_result
        state["margin"] = np.inf if every_move else 2 * margin
        state["probe_stones"] = NO_LAYER if probe is None else probe.stones
        self._path = Path(
            lines_of(game, heuristic),
            state,
            records(DecisionNode, (0,)),
            records(Chance, (0,)),
            planes,
            np.zeros((0, self._key_words + NUM_COLUMNS), np.int64),
            probe,
        )
        if width is None or random_keys is None:
            random_keys = np.zeros(count, np.uint64)
        self._roots = Roots(
            *boards.carrays(),
            hints=np.full(count, -1),
            random_keys=random_keys,
            nodes=np.zeros(count, np.int64),
            values=self.move_values,
        )
        self.nodes = self._roots.nodes

    def run(self, depth: int, nodes: int | None = None) -> bool:
        """Search to ``depth``, or continue this search.

        Args:
            depth: plies to look ahead, 1 to 361. A depth other than the last one starts a new
                search.
            nodes: number of positions after which to stop at the next decision node; None for no
                limit. At least as many are visited as may lead back to where the search stopped,
                and twice the last number of a move that is begun again without a table.

        Returns:
            Whether the search is finished; if not, ``move_values`` has the values of the finished
            moves.
        """
        check_settings(depth)
        # read by item: attributes of a record take Python ten times as long
        state: Any = self._path.state
        if depth != self.depth:
            self._begin(depth)
        # Without a table a stop loses the unfinished move; with a small one it may lose so much
        # that none is gained
        doublings = self._stops // PATIENCE if len(self._path.table) else self._stops
        limit = FOREVER
        if nodes is not None:
            min_nodes = 2 * depth * self._roots.cells.shape[1]
            visits = max(nodes, min_nodes) << min(doublings, 32)
            limit = min(int(state["nodes"]) + visits, FOREVER)
        before = state["row"], state["index"]
        while True:
            if depth > 2:  # the last two plies are not stored
                grown = grow(self._path.table, int(state["stored"]), self._key_words, self._memory)
                table, state["stored"], state["full"] = grown
                self._path = self._path._replace(table=table)
            state["limit"] = limit
            state["stopped"] = 0
            run_search(self._roots, self._path)
            is_finished = not state["stopped"]
            if is_finished or state["nodes"] >= limit:
                has_advanced = before != (state["row"], state["index"])
                self._stops = 0 if has_advanced else self._stops + 1
                return is_finished

    def _begin(self, depth: int) -> None:
        """Start a search to another depth, with the best known moves first."""
        values = np.nan_to_num(self.move_values, nan=-np.inf)
        searched = np.isfinite(values).any(axis=1)
        self._roots.hints[searched] = values[searched].argmax(axis=1)
        self.move_values[:] = np.nan
        self.depth = depth
        self._stops = 0
        nodes = records(DecisionNode, (depth + 1,))
        state = self._path.state
        nodes["best"] = -1
        nodes["hint"] = -1
        chances = records(Chance, (depth + 1,))
        self._path = self._path._replace(nodes=nodes, chances=chances)
        state.row = 0
        state.index = 0
        state.best = -np.inf
        state.full = FOREVER


def check_settings(
    depth: int, width: int | None = None, heuristic: str = "count", pruning: str = "star1"
) -> None:
    """Raise ValueError for search settings that are out of range."""
    check_range("depth", depth, 1, MAX_DEPTH, "is no number of plies to look ahead")
    check_range(
        "width",
        width,
        1,
        problem="tries no moves",
        hint=" moves to draw at a node, or none to try all",
    )
    check_choice("heuristic", heuristic, typing.get_args(Heuristic))
    check_choice("pruning", pruning, typing.get_args(Pruning))
