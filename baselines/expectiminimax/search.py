"""Search to a fixed depth that can be interrupted at any node and resumed with the same result."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from baselines.exact.tablebase import NO_LAYER, Probe, afterstate_score, empty_probe
from baselines.expectiminimax.bounds import board_horizon, last_ply, last_stone, limits
from baselines.expectiminimax.lines import Heuristic, LineArrays, clear, line_arrays, most_stones, put, take
from baselines.expectiminimax.order import in_order, key_after, key_of_turn, write_moves
from baselines.expectiminimax.search_stack import (
    BEGIN_CHANCE,
    BEGIN_ROOT,
    DECIDE,
    END_TURN,
    OTHER,
    OWN,
    PROBE,
    TAKE_BACK,
    TRY,
    TURN,
    Chance,
    Path,
    Turn,
)
from baselines.expectiminimax.star1 import (
    NO_PRUNING,
    STAR2,
    Pruning,
    can_prune,
    child_window,
    decided_value,
    is_decided,
    learn,
)
from baselines.expectiminimax.transpositions import (
    SymmetryState,
    Table,
    empty_table,
    look_up,
    mark,
    num_set_words,
    refill,
    store,
    table_bytes,
    use_symmetries,
    write_key,
)
from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.checks import check_choice
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, UInt64Array, compiled_nogil, inlined, int64
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.parameters import Parameters, line_sign
from ttt_envs.game.rules import DRAW, NOT_OVER, outcome_of_move, value_over_skip

MAX_DEPTH = 361
FOREVER = np.iinfo(np.int64).max
DEFAULT_TABLE_BYTES = 1 << 28
"""Default maximum size of a table in bytes."""
MIN_TABLE_ENTRIES = 1 << 10


class Fixed(NamedTuple):
    """Constants of a search."""

    lines: LineArrays
    parameters: Parameters
    """``Game.parameters``"""
    pruning: int
    width: int
    """number of moves to draw below the root; 0 for all"""
    every_move: bool
    by_result: bool
    """whether every win counts 1; else the number of plies left"""
    margin: float
    """tolerance within which moves count as equal to the best"""
    probe: Probe
    """database layer for look-ups instead of searches"""


class Roots(NamedTuple):
    """The positions to search, and the results."""

    cells: Int8Array
    """int8[B, cells]"""
    mover: Int8Array
    """int8[B]"""
    before: Int64Array
    """int64[B]: a move to try first, -1 for none"""
    random_keys: UInt64Array
    """uint64[B]: random keys of a narrow search"""
    values: Float64Array
    """float64[B, cells], of the moves, for the mover; written"""
    nodes: Int64Array
    """int64[B], positions visited; added to"""


# ---------------------------------------------------------------------------------------------------------------------
# Roots


@inlined
def _begin_root(
    cells: Int8Array, mover: int, before: int, key: np.uint64, fixed: Fixed, path: Path, of_board: SymmetryState
) -> None:
    """Make a position the root: a decision node with an open window. ``before`` is a move to try first, -1 for none."""
    board, weight, moves, _, _, decisions, _, states = path
    root, state, decision = len(moves) - 1, states[0], decisions[len(moves) - 1]
    clear(root, fixed.lines, board)
    use_symmetries(cells, of_board)
    state.empty = len(cells)
    for cell in range(len(cells)):
        if cells[cell] != 0:
            player = int64(cells[cell]) - 1
            put(cell, player, root, root, fixed.lines, board, fixed.parameters)
            mark(cell, player, of_board)
            state.empty -= 1
    decision.mover, decision.index, decision.key = mover, 0, key
    decision.alpha = decision.best = -np.inf
    decision.beta = decision.ceiling = np.inf
    decision.count = in_order(mover, before, root, fixed.lines, board, weight, moves, fixed.parameters)


# ---------------------------------------------------------------------------------------------------------------------
# Chance nodes


@inlined
def _begin_chance(depth: int, fixed: Fixed, path: Path, of_board: SymmetryState, table: Table) -> None:
    """Initialise a chance node, with static bounds and table bounds on its turns."""
    board, _, _, chances, turns, _, keys, states = path
    chance, other, own = chances[depth], turns[depth, OTHER], turns[depth, OWN]
    chance.stage = PROBE if fixed.pruning == STAR2 else TURN
    chance.beyond = chance.changed = 0
    other.move = own.move = -1
    other.low = own.low = -np.inf
    other.high = own.high = np.inf
    if fixed.pruning != NO_PRUNING:
        mine, theirs = most_stones(chance.maker, depth, board), most_stones(1 - chance.maker, depth, board)
        empty = states[0].empty
        to_layer = fixed.probe.stones - len(board.cells) + empty
        beyond = fixed.probe.stones != NO_LAYER and to_layer <= depth < empty
        low, high = limits(theirs, mine, depth, empty, fixed.width, fixed.by_result, beyond, fixed.parameters)
        other.low, other.high = -high, -low
        own.low, own.high = limits(mine, theirs, depth, empty, fixed.width, fixed.by_result, beyond, fixed.parameters)
    if len(table.meta) > 0:
        chance.symmetry = write_key(depth, of_board, keys)
        look_up(depth, chance, turns, keys, of_board, table)


@inlined
def _decide(depth: int, fixed: Fixed, path: Path, of_board: SymmetryState, table: Table) -> tuple[int, float]:
    """Decide a chance node, or start to search a turn; return the next step and the value of a decided node."""
    chance, other, own = path.chances[depth], path.turns[depth, OTHER], path.turns[depth, OWN]
    state, skip = path.states[0], fixed.parameters.skip_chance
    least, most = value_over_skip(own.low, other.low, skip), value_over_skip(own.high, other.high, skip)
    if is_decided(chance, least, most):
        if len(table.meta) > 0:
            if chance.changed != 0:
                state.stored += store(depth, chance, path.turns, path.keys, of_board, table)
            mark(path.moves[depth + 1, path.decisions[depth + 1].index], chance.maker, of_board)
        return TAKE_BACK, decided_value(chance, least, most)
    if can_prune(chance, other if chance.stage == TURN else own, most, skip):
        chance.stage += 1
        return DECIDE, 0.0
    _begin_turn(depth, chance, other, own, fixed, path)
    return TRY, 0.0


@inlined
def _begin_turn(depth: int, chance: Chance, other: Turn, own: Turn, fixed: Fixed, path: Path) -> None:
    """Start to search the turn of this stage: set its window, from its mover's view, and its moves."""
    decision = path.decisions[depth]
    low, high = child_window(chance, other, own, fixed.parameters.skip_chance, fixed.pruning)
    if chance.stage == TURN:
        mover, before = 1 - chance.maker, other.move
        decision.alpha, decision.beta, decision.ceiling = -high, -low, -other.low
    else:
        mover, before = chance.maker, own.move
        decision.alpha, decision.beta, decision.ceiling = low, high, own.high
    decision.mover, decision.best, decision.index = mover, -np.inf, 0
    if fixed.pruning != NO_PRUNING and fixed.width == 0:
        count = in_order(mover, before, depth, fixed.lines, path.board, path.weight, path.moves, fixed.parameters)
    else:
        if fixed.width > 0:
            decision.key = key_of_turn(chance.key, mover)
        count = write_moves(fixed.width, decision.key, path.board.cells, depth, path.moves, fixed.parameters)
    decision.count = 1 if chance.stage == PROBE else count


# ---------------------------------------------------------------------------------------------------------------------
# Moves


@inlined
def _try(depth: int, fixed: Fixed, path: Path, of_board: SymmetryState, in_table: bool) -> tuple[int, float]:
    """Make the next move of a decision node; return the next step, and the value if the successor is not searched."""
    board, decision, state = path.board, path.decisions[depth], path.states[0]
    mover, cell = decision.mover, path.moves[depth, decision.index]
    completes_line = put(cell, mover, depth, depth - 1, fixed.lines, board, fixed.parameters)
    state.empty -= 1
    state.nodes += 1
    outcome = outcome_of_move(completes_line, mover, len(board.cells) - state.empty, fixed.parameters)
    if outcome != NOT_OVER:
        win = 1.0 if fixed.by_result else float(depth)
        return TAKE_BACK, 0.0 if outcome == DRAW else win * line_sign(fixed.parameters)
    stones = len(board.cells) - state.empty
    if stones == fixed.probe.stones:
        return TAKE_BACK, afterstate_score(board.cells, mover, depth - 1, fixed.probe, fixed.parameters)
    if depth == 1:
        return TAKE_BACK, board_horizon(mover, board, fixed.parameters)
    key = key_after(decision.key, cell) if fixed.width > 0 else np.uint64(0)
    if depth == 2 and stones + 1 != fixed.probe.stones:
        return TAKE_BACK, _last_turns(mover, key, fixed, path)
    if in_table:
        mark(cell, mover, of_board)
    chance = path.chances[depth - 1]
    chance.maker, chance.key, chance.beta = mover, key, decision.beta
    at_root = depth == len(path.moves) - 1
    chance.alpha = decision.alpha if at_root else max(decision.alpha, decision.best)
    return BEGIN_CHANCE, 0.0


@inlined
def _last_turns(maker: int, key: np.uint64, fixed: Fixed, path: Path) -> float:
    """Return the value for its maker of a chance node with one ply left, by static evaluation."""
    board, state, skip = path.board, path.states[0], fixed.parameters.skip_chance
    value_of_own, value_of_other, count = 0.0, 0.0, 0
    for own in range(2 if skip > 0 else 1):
        player = maker if own else 1 - maker
        if fixed.parameters.variants != 0:
            best, count = _last_moves(player, key_of_turn(key, player), fixed, path)
        elif fixed.pruning != NO_PRUNING and fixed.width == 0:
            best, count = last_ply(player, state.empty, fixed.lines, board, fixed.parameters)
        else:
            if fixed.width > 0 or own == 0:
                count = write_moves(fixed.width, key_of_turn(key, player), board.cells, 1, path.moves, fixed.parameters)
            best = -1.0
            for i in range(count):
                cell = path.moves[1, i]
                best = max(best, last_stone(cell, player, state.empty, fixed.lines, board, fixed.parameters))
        state.nodes += count
        if own:
            value_of_own = best
        else:
            value_of_other -= best
    return value_over_skip(value_of_own, value_of_other, skip)


@inlined
def _last_moves(mover: int, key: np.uint64, fixed: Fixed, path: Path) -> tuple[float, int]:
    """Return the value of a position with one ply left for its mover, move by move, and the number of moves."""
    board, state, parameters = path.board, path.states[0], fixed.parameters
    count = write_moves(fixed.width, key, board.cells, 1, path.moves, parameters)
    best = -1.0
    for i in range(count):
        cell = path.moves[1, i]
        completes_line = put(cell, mover, 1, 0, fixed.lines, board, parameters)
        outcome = outcome_of_move(completes_line, mover, len(board.cells) - state.empty + 1, parameters)
        if outcome == NOT_OVER:
            value = board_horizon(mover, board, parameters)
        else:
            value = 0.0 if outcome == DRAW else 1.0 * line_sign(parameters)
        take(cell, mover, fixed.lines, board)
        best = max(best, value)
    return best, count


@inlined
def _take_back(depth: int, value: float, fixed: Fixed, path: Path, values: Float64Array) -> int:
    """Take back the move of a decision node, given its ``value``; return the next step."""
    board, decision, state = path.board, path.decisions[depth], path.states[0]
    cell = path.moves[depth, decision.index]
    take(cell, int64(decision.mover), fixed.lines, board)
    state.empty += 1
    if value > decision.best:
        decision.best = value
        decision.chosen = cell
    decision.index += 1
    ended = decision.index == decision.count
    if depth == len(path.moves) - 1:
        values[state.row, cell] = value
        if not fixed.every_move:
            decision.alpha = decision.best - 2 * fixed.margin
    elif decision.best >= min(decision.beta, decision.ceiling):
        ended = True
    return END_TURN if ended else TRY


# ---------------------------------------------------------------------------------------------------------------------
# The search


@compiled_nogil
def run_search(fixed: Fixed, path: Path, of_board: SymmetryState, table: Table, roots: Roots) -> None:
    """Continue a search of the roots until it is finished or has to stop.

    The path leads from the root, a decision node, through chance nodes. A chance node has its turns searched stage by
    stage, until the bounds on both decide it: `star1`. It returns its value if that lies between alpha and beta, else a
    bound that is at most alpha or at least beta.
    """
    cells, mover, before, random_keys, values, nodes = roots
    root, state = len(path.moves) - 1, path.states[0]
    depth, step, nodes_before, value = int64(state.depth), int64(state.step), state.nodes, 0.0
    while state.row < len(cells):
        if step == BEGIN_ROOT:
            if state.nodes >= state.limit:
                break
            row = state.row
            _begin_root(cells[row], int64(mover[row]), before[row], random_keys[row], fixed, path, of_board)
            depth = root
            step = TRY

        if step == BEGIN_CHANCE:
            if state.nodes >= state.limit or state.stored >= state.full:
                break
            _begin_chance(depth, fixed, path, of_board, table)
            step = DECIDE

        if step == DECIDE:
            step, value = _decide(depth, fixed, path, of_board, table)
            if step == TAKE_BACK:
                depth += 1

        if step == TRY:
            step, value = _try(depth, fixed, path, of_board, len(table.meta) > 0)
            if step == BEGIN_CHANCE:
                depth -= 1

        if step == TAKE_BACK:
            step = _take_back(depth, value, fixed, path, values)

        if step == END_TURN and depth < root:
            chance = path.chances[depth]
            learn(chance, path.turns[depth, OTHER if chance.stage == TURN else OWN], path.decisions[depth])
            step = DECIDE
        elif step == END_TURN:
            nodes[state.row] += state.nodes - nodes_before
            nodes_before = state.nodes
            state.row += 1
            step = BEGIN_ROOT
    state.depth, state.step = depth, step
    if state.row < len(cells):
        nodes[state.row] += state.nodes - nodes_before


# ---------------------------------------------------------------------------------------------------------------------
# Functions for Python callers


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search.

    Attributes:
        heuristic: quantity compared at the horizon.
        pruning: amount of pruning; values do not depend on it.
        width: number of random moves at every decision node below the root; None for all moves.
        memory: maximum size of the table in bytes; 0 for no table. A search with ``width`` or without pruning has no
            table.
        every_move: whether to compute the value of every move; else of the best moves, and upper bounds of others.
        by_result: whether every win counts 1; else sooner wins count more.
        margin: moves within this distance of the best have exact values.

    Raises:
        ValueError: a setting is out of range.
    """

    heuristic: Heuristic = "count"
    pruning: Pruning = "star1"
    width: int | None = None
    memory: int = DEFAULT_TABLE_BYTES
    every_move: bool = True
    by_result: bool = False
    margin: float = VALUE_TOLERANCE

    def __post_init__(self) -> None:
        check_settings(1, self.width, self.heuristic, self.pruning)
        if self.memory < 0:
            raise ValueError(f"memory={self.memory} is negative: choose the bytes of the table, or 0 for no table")

    def compile(self, game: Game, probe: Probe) -> Fixed:
        """Return the constants of a search with these settings."""
        lines, level = line_arrays(game, self.heuristic), typing.get_args(Pruning).index(self.pruning)
        width, every_move, by_result = self.width or 0, self.every_move, self.by_result
        return Fixed(lines, game.parameters, level, width, every_move, by_result, self.margin, probe)


class Search:
    """A search of positions that can be interrupted, resumed and deepened.

    Interruptions do not change the result; the table is kept between depths.

    >>> search = Search(Game(skip_chance=0.25), Boards.start(Game()))
    >>> for depth in (1, 2, 3):
    ...     while not search.run(depth, nodes=50):
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

    Attributes:
        depth: plies of the last or current search; 0 before the first.
        move_values: float64[B, rows * columns], for the mover, NaN where illegal or not yet searched.
        nodes: int64[B], positions visited so far, by all searches together; see `Analysis`.

    Raises:
        ValueError: moves are drawn without ``random_keys``.
    """

    def __init__(
        self,
        game: Game,
        boards: Boards,
        settings: SearchSettings | None = None,
        *,
        random_keys: UInt64Array | None = None,
        probe: Probe | None = None,
    ) -> None:
        settings = SearchSettings() if settings is None else settings
        width = settings.width
        if width is not None and random_keys is None:
            raise ValueError(f"width={width} draws moves at random: give a 64-bit key for each position")
        count = len(boards.mover)
        self.depth = 0
        self._game = game
        self._fixed = settings.compile(game, empty_probe() if probe is None else probe)
        self._words = num_set_words(game)
        self._path = Path.empty(game, len(self._fixed.lines.lines), self._words)
        self._symmetries = SymmetryState.from_game(game)
        self._table = empty_table(0, self._words)
        self._memory = 0 if width is not None or settings.pruning == "none" else settings.memory
        self._roots = Roots(
            np.ascontiguousarray(boards.cells),
            np.ascontiguousarray(boards.mover),
            before=np.full(count, -1),
            random_keys=np.zeros(count, np.uint64) if random_keys is None else random_keys,
            values=np.full(boards.cells.shape, np.nan),
            nodes=np.zeros(count, np.int64),
        )
        self.move_values, self.nodes = self._roots.values, self._roots.nodes

    def run(self, depth: int, nodes: int | None = None) -> bool:
        """Search to ``depth``, or resume this search.

        Args:
            depth: plies to look ahead, 1 to 361. A depth other than the last one starts a new search.
            nodes: number of positions after which to stop at the next chance node or root; None for no limit.

        Returns:
            Whether the search is finished.
        """
        check_settings(depth)
        if depth != self.depth:
            self._begin(depth)
        state = self._path.states[0]
        state.limit = FOREVER if nodes is None else state.nodes + nodes
        while True:
            self._make_room()
            run_search(self._fixed, self._path, self._symmetries, self._table, self._roots)
            if state.row == len(self.nodes) or state.nodes >= state.limit:
                return bool(state.row == len(self.nodes))

    def _begin(self, depth: int) -> None:
        """Start a search to another depth, with the best known moves first."""
        known = np.nan_to_num(self.move_values, nan=-np.inf)
        searched = np.isfinite(known).any(axis=1)
        self._roots.before[searched] = known[searched].argmax(axis=1)
        self.move_values[:] = np.nan
        self.depth = depth
        self._path = self._path.to(depth, self._game)
        state = self._path.states[0]
        state.row, state.step = 0, BEGIN_ROOT

    def _make_room(self) -> None:
        """Move the table into a larger one once it is half full, if the memory limit holds both."""
        state, size = self._path.states[0], len(self._table.meta)
        if self.depth > 2 and 2 * state.stored >= size:  # the last two plies are not stored
            larger = max(4 * size, MIN_TABLE_ENTRIES)
            if table_bytes(size + larger, self._words) <= self._memory:
                table = empty_table(larger, self._words)
                state.stored = refill(self._table, table)
                self._table, size = table, larger
        grows = table_bytes(5 * size, self._words) <= self._memory
        state.full = size // 2 if size and grows else FOREVER


def check_settings(depth: int, width: int | None = None, heuristic: str = "count", pruning: str = "star1") -> None:
    """Raise ValueError for search settings that are out of range."""
    if not 1 <= depth <= MAX_DEPTH:
        raise ValueError(f"depth={depth} is no number of plies to look ahead: choose 1 to {MAX_DEPTH}")
    if width is not None and width < 1:
        raise ValueError(f"width={width} tries no moves: choose how many to draw at a node, or none to try all")
    check_choice("heuristic", heuristic, typing.get_args(Heuristic))
    check_choice("pruning", pruning, typing.get_args(Pruning))
