"""Layered traversal of a game: the positions with a given number of stones that two players can reach.

The forward pass propagates each position's probability to the next layer. The backward pass computes the values of a
best responder from it. Rows are numbered in the order in which positions are met, which does not depend on the number
of positions per query: so all sums are identical.

With several threads, each computes the moves or values of one query at a time. Policies are asked by one thread at a
time, and boards are numbered and probabilities added in the same order, so results are identical, too.

If every playing policy is symmetric, the traversal visits one canonical board of each symmetry class: reachability,
probability and value are equal within a class, and a best responder may play symmetric moves in symmetric positions.
Against a colour-blind policy the responder is player_0 of the traversal in either seat, so that one traversal can serve
both.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from evaluation.exact.symmetry_classes import (
    MAX_CLASS_CELLS,
    SymmetryTables,
    canonical,
    stones_in_code,
    symmetry_tables,
)
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy, is_colour_blind, is_symmetric
from ttt_envs.core.hash_index import KeyIndex, extend_rows
from ttt_envs.core.jit import (
    BoolArray,
    Float64Array,
    Int8Array,
    Int32Array,
    Int64Array,
    Parameters,
    UInt64Array,
    compiled,
    compiled_nogil_small,
    inlined,
    int64,
)
from ttt_envs.core.threads import map_threads
from ttt_envs.game.bits import completing_bits, count_bits
from ttt_envs.game.boards import Boards, to_text
from ttt_envs.game.rules import (
    DRAW,
    Game,
    completing_cells,
    is_legal,
    legal_bits,
    line_result,
    outcome_of_move,
    skip_chance_of,
    value_over_skip,
)

MAX_POSITIONS_PER_LAYER = 1 << 27
"""Maximum number of positions of a layer."""
QUERIES_PER_THREAD = 4
"""Number of queries for each thread whose moves are found before their boards are numbered."""
NO_FLAGS: BoolArray = np.zeros(0, np.bool_)

Players = tuple[Policy | None, Policy | None]
"""Players by seat; None is the best responder, who may play any move. Two best responders play perfectly."""


class TraversalSpec(NamedTuple):
    """Specification of a traversal."""

    game: Game
    players: Players
    """players of the traversal: the responder is player_0 if ``by_roles``"""
    by_roles: bool
    """whether stones belong to the responder and the policy, and not to player_0 and player_1"""
    classes: bool
    """whether one board represents all its symmetries"""
    symmetries: SymmetryTables
    starts: tuple[int, ...] = (0,)
    """possible movers on the empty board; only a best responder's values are meaningful for both"""
    all_moves: bool = False
    """whether a best responder's moves beside a win are followed"""

    @classmethod
    def from_players(cls, game: Game, players: Players) -> TraversalSpec:
        """Return the traversal of two players with the fewest queries and positions."""
        policies = [player for player in players if player is not None]
        in_code = game.cells <= MAX_CLASS_CELLS
        classes = in_code and all(map(is_symmetric, policies))
        by_roles = in_code and len(policies) == 1 and is_colour_blind(policies[0])
        starts = (0,)
        if by_roles and players[1] is None:
            players, starts = (None, policies[0]), (1,)
        return cls(game, players, by_roles, classes, symmetry_tables(game, "all" if classes else "none"), starts)

    @classmethod
    def plain(cls, game: Game, players: Players) -> TraversalSpec:
        """Return the traversal over every single board."""
        return cls(game, players, by_roles=False, classes=False, symmetries=symmetry_tables(game, "none"))

    @property
    def words(self) -> int:
        """Number of 64-bit words of a key: 1 where a board has a code, else the words of both players' stones."""
        return 1 if self.game.cells <= MAX_CLASS_CELLS else 2 * -(-self.game.cells // 64)


class Edges(NamedTuple):
    """Successors of the positions of one query, for the backward pass."""

    ends: Int64Array
    """int64[B]: end index of each position's moves"""
    child: Int32Array
    """int32[K]: row in the next layer of the board after a non-final move"""
    share: Float64Array
    """float64[K]: the probability of the move; empty where a best responder moves"""
    line: Float64Array
    """float64[B]: the probability of a move that completes a line; 1 where a best responder makes such a move, because
    it wins, or because every move loses in misère"""

    @property
    def nbytes(self) -> int:
        """Total size of the arrays in bytes."""
        return sum(array.nbytes for array in self)


class Layer:
    """The reachable positions with a given number of stones.

    Attributes:
        index: the boards by their keys: canonical boards, if the traversal is over classes.
        reached: int8[capacity, 2]: 1 where a board is reached with this player to move.
        mass: float64[capacity, 2]: probability of reaching it.
        edges: for each query in order; None where they are not kept.
        values: float64[size, 2, 3]: value, wins and losses of the best responder, set by the backward pass.
        total: the probability that games reach this layer, where positions are visited.
        following: number of reachable boards of the next layer.
    """

    def __init__(self, traversal: TraversalSpec, stones: int) -> None:
        self.traversal = traversal
        self.game = traversal.game
        self.stones = stones
        self.index = KeyIndex(traversal.words)
        self.reached: Int8Array = np.zeros((0, 2), np.int8)
        self.mass: Float64Array = np.zeros((0, 2))
        self.edges: list[Edges | None] = []
        self.values: Float64Array = np.zeros((0, 2, 3))
        self.total = 0.0
        self.following = 0

    @classmethod
    def start(cls, traversal: TraversalSpec) -> Layer:
        """Return the layer of the empty board, with the traversal's possible first movers."""
        layer = cls(traversal, 0)
        row = layer.rows(np.zeros((1, traversal.words), np.uint64))[0]
        for mover in traversal.starts:
            layer.reached[row, mover] = 1
            layer.mass[row, mover] = 1.0
        return layer

    def find(self, keys: UInt64Array) -> _KnownRows:
        """Return the rows of the boards that were met before; several threads may call it."""
        rows = self.index.find(keys)
        missing = np.flatnonzero(rows < 0)
        return _KnownRows(rows, missing, keys[missing])

    def complete(self, known: _KnownRows) -> Int64Array:
        """Return the rows int64[B] of boards from :meth:`find`, adding those not met before."""
        known.rows[known.missing] = self.rows(known.keys)
        return known.rows

    def rows(self, keys: UInt64Array) -> Int64Array:
        """Return the rows int64[B] of boards, adding those not met before.

        Raises:
            MemoryError: there are too many positions.
        """
        needed = self.index.size + len(keys)
        capacity = len(self.index.keys)
        if needed > capacity:
            capacity = max(needed, 2 * capacity, 64)
            if self.index.size > MAX_POSITIONS_PER_LAYER:
                raise MemoryError(
                    f"more than {MAX_POSITIONS_PER_LAYER:,} positions of {self.game} with {self.stones} stones can "
                    f"be reached, too many "
                    f"to evaluate exactly: sample them with evaluate.py match, or take a smaller board"
                )
            self.index.reserve(capacity)
            self.reached = extend_rows(self.reached, capacity)
            self.mass = extend_rows(self.mass, capacity)
        return self.index.rows(keys)


class _KnownRows(NamedTuple):
    """The rows of boards met before."""

    rows: Int64Array
    """int64[B], -1 for boards not met before"""
    missing: Int64Array
    """int64[N]: indices of these boards"""
    keys: UInt64Array
    """uint64[N, words]: their keys"""


def queries(layer: Layer, chunk: int) -> Iterator[tuple[int, Int64Array]]:
    """Yield queries of at most ``chunk`` positions of a layer: mover, rows of the layer.

    Raises:
        ValueError: ``chunk`` is not positive.
    """
    if chunk < 1:
        raise ValueError(f"chunk={chunk} leaves nothing to ask: choose 1 or more positions at once")
    for mover in (0, 1):
        rows = layer.reached[: layer.index.size, mover].nonzero()[0]
        for start in range(0, len(rows), chunk):
            yield mover, rows[start : start + chunk]


def _batched(pairs: Iterator[tuple[int, Int64Array]], count: int) -> Iterator[list[tuple[int, Int64Array]]]:
    """Yield lists of ``count`` queries, the last one shorter."""
    while batch := list(itertools.islice(pairs, count)):
        yield batch


def query_boards(layer: Layer, mover: int, rows: Int64Array) -> Boards:
    """Return the positions of a query as the queried policy sees them."""
    traversal = layer.traversal
    boards = Boards(np.empty((len(rows), traversal.game.cells), np.int8), np.empty(len(rows), np.int8))
    keys = layer.index.keys.take(rows, axis=0)
    _write_boards(keys, mover, traversal.by_roles, traversal.game.parameters, *boards)
    return boards


def query_policy(policy: Policy, boards: Boards) -> Float64Array:
    """Return the probabilities of a policy, float64[B, cells].

    Raises:
        ValueError: it gave another shape.
    """
    answer = np.ascontiguousarray(policy.probabilities(boards), np.float64)
    if answer.shape != boards.cells.shape:
        raise ValueError(
            f"{policy} gave probabilities of shape {list(answer.shape)} for {len(boards.mover)} positions: "
            f"they must be {list(boards.cells.shape)}, one for each cell"
        )
    return answer


class Moves(NamedTuple):
    """Successors of the positions of one query; the rows of the successors are not known yet."""

    keys: UInt64Array
    """uint64[K, words]: the boards after non-final moves"""
    ends: Int64Array
    share: Float64Array
    line: Float64Array
    drawn: Float64Array
    """float64[B]: the probability that the move fills the board"""
    cell: Int8Array
    """int8[K]: the cells of the non-final moves"""

    @classmethod
    def from_rows(
        cls,
        layer: Layer,
        mover: int,
        rows: Int64Array,
        boards: Boards | None,
        p: Float64Array | None,
        complete: BoolArray = NO_FLAGS,
    ) -> Moves:
        """Return the moves with a positive probability ``p``; for a best responder ``p`` is None.

        A best responder makes all moves, but where it can win only the winning ones unless ``traversal.all_moves``.

        Args:
            layer, mover, rows: the query.
            boards: its positions.
            p: float64[B, cells], the policy's probabilities.
            complete: bool[B]: positions of which moves of probability 0 are also returned; empty for none.

        Raises:
            ValueError: the policy's answer is no distribution over legal moves.
        """
        traversal = layer.traversal
        cells, count = traversal.game.cells, len(rows)
        free = cells - layer.stones
        most = count * (min(free, traversal.game.columns) if traversal.game.gravity else free)
        found = cls(
            np.empty((most, traversal.words), np.uint64),
            np.empty(count, np.int64),
            np.empty(0 if p is None else most),
            np.zeros(count),
            np.zeros(count),
            np.empty(most, np.int8),
        )
        weights = np.empty((0, cells)) if p is None else p
        if p is None and traversal.all_moves:
            complete = np.ones(count, np.bool_)
        scratch = None if traversal.words == 1 else np.empty((2, cells), np.int8)
        keys = layer.index.keys.take(rows, axis=0)
        size = _write_moves(
            keys,
            mover,
            layer.stones,
            weights,
            complete,
            traversal.game.parameters,
            traversal.symmetries,
            scratch,
            found,
        )
        if size < 0:
            row = -1 - size
            assert boards is not None
            raise ValueError(
                f"{traversal.players[mover]} gave no distribution over legal moves in "
                f"{to_text(boards.position(row), layer.game)!r}: {np.array2string(weights[row], precision=4)} must be "
                f"0 on occupied cells, nowhere negative, and sum to 1"
            )
        return found._replace(keys=found.keys[:size], share=found.share[:size], cell=found.cell[:size])


class _Query(NamedTuple):
    """A query of a policy, with its answer; a best responder is not asked."""

    mover: int
    rows: Int64Array
    boards: Boards | None
    p: Float64Array | None


Visit = Callable[[int, Boards, Float64Array, Float64Array], None]
"""called with stones, boards, the mover's answers and the probability of the boards, or of their classes"""


def _ask(layer: Layer, players: Players, mover: int, rows: Int64Array, visit: Visit | None = None) -> _Query:
    """Ask the mover about positions of a layer."""
    player = players[mover]
    if player is None:
        return _Query(mover, rows, None, None)
    boards = query_boards(layer, mover, rows)
    p = query_policy(player, boards)
    if visit is not None:
        visit(layer.stones, boards, p, layer.mass[rows, mover])
    return _Query(mover, rows, boards, p)


class _Found(NamedTuple):
    """The moves of a query and, with several threads, what is known of their rows in the next layer."""

    query: _Query
    moves: Moves
    known: _KnownRows | None


def _find_moves(
    layer: Layer, after: Layer, threads: int, visit: Visit | None, chunk: int, number: Callable[[_Found], None]
) -> None:
    """Find the moves of all queries of a layer, and call ``number`` with those of each query, in order.

    With several threads, one of them numbers the moves of some queries while others find those of the next ones.
    """

    def ask(pairs: Iterable[tuple[int, Int64Array]]) -> Iterator[_Query]:
        return (_ask(layer, layer.traversal.players, mover, rows, visit) for mover, rows in pairs)

    def find(query: _Query) -> _Found:
        moves = Moves.from_rows(layer, *query)
        return _Found(query._replace(boards=None, p=None), moves, None)

    if threads == 1:
        for query in ask(queries(layer, chunk)):
            number(find(query))
        return
    found: list[_Found] = []

    def find_or_number(_: int, query: _Query | None) -> _Found | None:
        if query is not None:
            return find(query)
        for one in found:
            number(one)
        return None

    for batch in _batched(queries(layer, chunk), QUERIES_PER_THREAD * threads):
        moves = map_threads(find_or_number, itertools.chain([None], ask(batch)), threads)
        of_batch = [one for one in moves if one is not None]
        found = map_threads(lambda _, one: one._replace(known=after.find(one.moves.keys)), of_batch, threads)
    for one in found:
        number(one)


def forward(
    game: Game,
    players: Players,
    chunk: int,
    *,
    results: Float64Array | None = None,
    visit: Visit | None = None,
) -> Iterator[Layer]:
    """Yield the layers that two players can reach, over every single board: see :func:`forward_layers`."""
    return forward_layers(TraversalSpec.plain(game, players), chunk, results=results, visit=visit)


def forward_layers(
    traversal: TraversalSpec,
    chunk: int,
    *,
    results: Float64Array | None = None,
    visit: Visit | None = None,
    edge_budget: list[int] | None = None,
    masses: bool = True,
    threads: int = 1,
) -> Iterator[Layer]:
    """Yield the layers that two players can reach, in order.

    Args:
        traversal: the traversal.
        chunk: maximum number of positions per query.
        results: float64[3, 2], to which the probabilities of a win of player_0, of player_1 and of a draw are added:
            sums, and their rounding errors.
        visit: called for each query of a policy, in order.
        edge_budget: remaining bytes of edges that the layers may keep; none by default, for no backward pass.
        masses: whether probabilities are computed; else ``Layer.mass`` and ``results`` are meaningless.
        threads: number of threads.
    """
    parameters = traversal.game.parameters
    sums = np.zeros((3, 2)) if results is None else results

    def number(layer: Layer, after: Layer, found: _Found) -> None:
        """Add the boards after the moves of a query to the next layer, and their probabilities."""
        query, moves, known = found
        child = after.rows(moves.keys) if known is None else after.complete(known)
        edges = Edges(moves.ends, child.astype(np.int32), moves.share, moves.line)
        if masses:
            both = layer.mass, after.mass
            _propagate(query.rows, edges, moves.drawn, query.mover, both, parameters, after.reached, sums)
        else:
            _mark_reached(edges.child, query.mover, parameters, after.reached)
        if edge_budget is not None:
            fits = edges.nbytes <= edge_budget[0]
            layer.edges.append(edges if fits else None)
            edge_budget[0] -= edges.nbytes if fits else 0

    layer = Layer.start(traversal)
    while layer.index.size:
        after = Layer(traversal, layer.stones + 1)
        if visit is not None:
            layer.total = float(layer.mass[: layer.index.size].sum())
        _find_moves(layer, after, threads, visit, chunk, functools.partial(number, layer, after))
        layer.mass = layer.mass[:0]
        layer.following = after.index.size
        yield layer
        layer = after


def backward(traversal: TraversalSpec, chunk: int, layer: Layer, after: Layer, *, threads: int = 1) -> None:
    """Compute ``layer.values`` of the best responder from those of the layer ``after``.

    Of two best responders, only the values of player_0 are computed.
    """
    parameters = traversal.game.parameters
    perfect = traversal.players == (None, None)
    layer.values = np.zeros((layer.index.size, 2, 3))
    if None in layer.edges:
        after.index.reserve(max(1, after.index.size))

    def asked() -> Iterator[tuple[_Query, Edges | None]]:
        for (mover, rows), edges in zip(queries(layer, chunk), layer.edges, strict=True):
            query = _ask(layer, traversal.players, mover, rows) if edges is None else _Query(mover, rows, None, None)
            yield query, edges

    def write_values(_: int, work: tuple[_Query, Edges | None]) -> None:
        query, edges = work
        if edges is None:
            moves = Moves.from_rows(layer, *query)
            edges = Edges(moves.ends, after.index.find(moves.keys).astype(np.int32), moves.share, moves.line)
        responds = _perfect_values if perfect else _best_response_values
        kernel = responds if traversal.players[query.mover] is None else _expected_values
        kernel(query.rows, edges, query.mover, after.values, parameters, layer.values)

    map_threads(write_values, asked(), min(threads, max(1, len(layer.edges))))
    layer.edges.clear()
    after.index.pack()


# ---------------------------------------------------------------------------------------------------------------------
# Kernels


@inlined
def _stone_at(keys: UInt64Array, row: int, cell: int) -> int:
    """Return 0 for an empty cell of a board, 1 for a stone of player_0 of the traversal, 2 of player_1."""
    words = keys.shape[1]
    if words == 1:
        code = int64(keys[row, 0])
        return (code >> cell & 1) + 2 * (code >> (32 + cell) & 1)
    at, bit = cell // 64, np.uint64(cell % 64)
    one = np.uint64(1)
    return int64(keys[row, at] >> bit & one) + 2 * int64(keys[row, words // 2 + at] >> bit & one)


@compiled_nogil_small
def _write_boards(
    keys: UInt64Array, mover: int, by_roles: bool, parameters: Parameters, cells: Int8Array, movers: Int8Array
) -> None:
    """Write the positions of a query, uint64[B, words], into int8[B, cells] and int8[B].

    A policy queried by its role is player_1 wherever games can reach the position so, and else player_0.
    """
    for b in range(len(keys)):
        exchanged = False
        if by_roles:
            code = int64(keys[b, 0])
            others, own = count_bits(stones_in_code(code, 0)), count_bits(stones_in_code(code, 1))
            exchanged = others == 0 if skip_chance_of(parameters) > 0 else others == own
        for cell in range(cells.shape[1]):
            stone = _stone_at(keys, b, cell)
            cells[b, cell] = 3 - stone if exchanged and stone > 0 else stone
        movers[b] = 1 - mover if exchanged else mover


@compiled_nogil_small
def _write_moves(
    keys: UInt64Array,
    mover: int,
    stones: int,
    p: Float64Array,
    complete: BoolArray,
    parameters: Parameters,
    symmetries: SymmetryTables,
    scratch: Int8Array | None,
    moves: Moves,
) -> int:
    """Write ``moves``; return the number of non-final moves, or -1 - b if row b of ``p`` is no distribution.

    ``keys`` uint64[B, words] are the boards of the query, with ``stones`` each.
    ``p`` is empty where a best responder moves. ``complete`` bool[B] are the rows of which moves of probability 0, or a
    responder's moves beside a win, are wanted; it is empty for none.
    ``scratch`` is None where a key is one word: the compiler removes a branch on None.
    """
    found, ends, share, line, drawn, moved = moves
    size, is_policy = p.shape[1], len(p) > 0
    last = outcome_of_move(False, mover, stones + 1, parameters) == DRAW
    made = 0
    for b in range(len(keys)):
        own, other, legal, completing = 0, 0, 0, 0
        if scratch is None:
            code = int64(keys[b, 0])
            own, other = stones_in_code(code, mover), stones_in_code(code, 1 - mover)
            legal = legal_bits(own, other, parameters)
            completing = completing_bits(own, parameters) & legal
        else:
            for cell in range(size):
                scratch[0, cell] = _stone_at(keys, b, cell)
            completing_cells(scratch[0], mover, parameters, scratch[1])
        if is_policy:
            total = 0.0
            for cell in range(size):
                chance = p[b, cell]
                total += chance
                may = legal >> cell & 1 != 0 if scratch is None else is_legal(scratch[0], cell, parameters)
                if not chance >= 0 or (chance > 0 and not may):
                    return -1 - b
            if not abs(total - 1.0) <= 1e-6:
                return -1 - b
        begin = made
        every = len(complete) > 0 and complete[b]
        for cell in range(size):
            may = legal >> cell & 1 != 0 if scratch is None else is_legal(scratch[0], cell, parameters)
            chance = p[b, cell] if is_policy else 1.0
            if not may or not (chance > 0 or every):
                continue
            completes = completing >> cell & 1 != 0 if scratch is None else scratch[1, cell] != 0
            if completes:
                line[b] += chance
            elif last:
                drawn[b] += chance
            else:
                if scratch is None:
                    mine = own | int64(1) << cell
                    first, second = (mine, other) if mover == 0 else (other, mine)
                    found[made, 0], _ = canonical(first, second, symmetries)
                else:
                    words = keys.shape[1]
                    for word in range(words):
                        found[made, word] = keys[b, word]
                    found[made, mover * (words // 2) + cell // 64] |= np.uint64(1) << np.uint64(cell % 64)
                if is_policy:
                    share[made] = chance
                moved[made] = cell
                made += 1
        if not is_policy and line[b] > 0:
            if line_result(parameters) > 0:  # a best responder takes a win, so nothing else is reached
                line[b], drawn[b] = 1.0, 0.0
                made = made if every else begin
            else:  # it loses only where it has no other move
                line[b] = 1.0 if made == begin and drawn[b] == 0 else 0.0
        ends[b] = made
    return made


@inlined
def add_compensated(sums: Float64Array, row: int, term: float) -> None:
    """Add by compensated summation (Neumaier, 1974), for millions of terms without loss of digits."""
    total = sums[row, 0] + term
    if abs(sums[row, 0]) >= abs(term):
        sums[row, 1] += (sums[row, 0] - total) + term
    else:
        sums[row, 1] += (term - total) + sums[row, 0]
    sums[row, 0] = total


@compiled
def add_losses(
    action_values: Float64Array, p: Float64Array, mass: Float64Array, stones: int, lost: Float64Array
) -> None:
    """Add a policy's expected loss of value by its moves to ``lost`` float64[cells + 1, 2], by stones.

    Args:
        action_values: float64[B, cells], of perfect play, NaN where illegal.
        p: float64[B, cells], the policy's probabilities; mass: float64[B], those of the positions.
        stones: number on the boards.
        lost: sums, and their rounding errors.
    """
    for b in range(len(mass)):
        best = -np.inf
        got = 0.0
        for cell in range(p.shape[1]):
            value = action_values[b, cell]
            if not np.isnan(value):
                best = value if value > best else best
                got += p[b, cell] * value
        loss = best - got
        add_compensated(lost, stones, mass[b] * (loss if loss > 0 else 0.0))


@compiled_nogil_small
def _propagate(
    rows: Int64Array,
    edges: Edges,
    drawn: Float64Array,
    mover: int,
    masses: tuple[Float64Array, Float64Array],
    parameters: Parameters,
    reached: Int8Array,
    results: Float64Array,
) -> None:
    """Add the probability of positions to their successors and to the results, in order.

    ``masses`` are those of the positions and of the next layer.
    """
    ends, child, share, line = edges
    mass, after_mass = masses
    winner = outcome_of_move(True, mover, 0, parameters)  # the outcome of a line of the mover
    skip = skip_chance_of(parameters)
    k = 0
    for b in range(len(rows)):
        here = mass[rows[b], mover]
        add_compensated(results, winner, here * line[b])
        add_compensated(results, 2, here * drawn[b])
        while k < ends[b]:
            part = here * share[k] if len(share) else here
            after_mass[child[k], 1 - mover] += (1.0 - skip) * part
            reached[child[k], 1 - mover] = 1
            if skip > 0:
                after_mass[child[k], mover] += skip * part
                reached[child[k], mover] = 1
            k += 1


@compiled_nogil_small
def _mark_reached(child: Int32Array, mover: int, parameters: Parameters, reached: Int8Array) -> None:
    """Mark the boards after moves as reached, as :func:`_propagate` does."""
    skips = skip_chance_of(parameters) > 0
    for k in range(len(child)):
        reached[child[k], 1 - mover] = 1
        if skips:
            reached[child[k], mover] = 1


@compiled_nogil_small
def _expected_values(
    rows: Int64Array, edges: Edges, mover: int, after: Float64Array, parameters: Parameters, values: Float64Array
) -> None:
    """Compute expected value, wins and losses of the best responder where the other player moves."""
    ends, child, share, line = edges
    skip = skip_chance_of(parameters)
    result = -line_result(parameters)  # of the responder
    k = 0
    for b in range(len(rows)):
        out = values[rows[b], mover]
        out[0] = result * line[b]
        out[1 if result > 0 else 2] = line[b]
        while k < ends[b]:
            for i in range(3):
                out[i] += share[k] * value_over_skip(after[child[k], mover, i], after[child[k], 1 - mover, i], skip)
            k += 1


@compiled_nogil_small
def _best_response_values(
    rows: Int64Array, edges: Edges, mover: int, after: Float64Array, parameters: Parameters, values: Float64Array
) -> None:
    """Compute the best value where the best responder moves, and the mean wins and losses of all best moves.

    Wins minus losses equal the best value, up to rounding.
    """
    ends, child, _, line = edges
    skip = skip_chance_of(parameters)
    result = line_result(parameters)
    begin = 0
    for b in range(len(rows)):
        end = ends[b]
        best = -2.0
        for k in range(begin, end):
            value = value_over_skip(after[child[k], mover, 0], after[child[k], 1 - mover, 0], skip)
            best = value if value > best else best  # `max` takes longer to compile
        out = values[rows[b], mover]
        if line[b] > 0:
            out[0] = result
            out[1 if result > 0 else 2] = 1.0
        elif end > begin:
            out[0] = best
            ties = 0
            for k in range(begin, end):
                value = value_over_skip(after[child[k], mover, 0], after[child[k], 1 - mover, 0], skip)
                if value >= best - VALUE_TOLERANCE:
                    ties += 1
                    for i in range(1, 3):
                        out[i] += value_over_skip(after[child[k], mover, i], after[child[k], 1 - mover, i], skip)
            out[1] /= ties
            out[2] /= ties
            # moves within VALUE_TOLERANCE of the best share wins and losses without lowering the value
            missing = best - (out[1] - out[2])
            missing = missing if missing > 0 else 0.0
            fewer = missing if missing < out[2] else out[2]
            out[2] -= fewer
            out[1] += missing - fewer
        begin = end


@compiled_nogil_small
def _perfect_values(
    rows: Int64Array, edges: Edges, mover: int, after: Float64Array, parameters: Parameters, values: Float64Array
) -> None:
    """Compute the values of player_0 where both players move as well as possible."""
    ends, child, _, line = edges
    skip, sign = skip_chance_of(parameters), 1.0 - 2.0 * mover
    k = 0
    for b in range(len(rows)):
        best = -1.0 if line_result(parameters) * line[b] < 0 or k < ends[b] else 0.0
        while k < ends[b]:
            value = value_over_skip(after[child[k], mover, 0], after[child[k], 1 - mover, 0], skip)
            best = max(best, sign * value)
            k += 1
        values[rows[b], mover, 0] = sign * (1.0 if line_result(parameters) * line[b] > 0 else best)
