"""Exact values, advantages and occupancy of a policy in every position that it reaches.

One forward pass over the layers of positions (:mod:`evaluation.exact.forward_backward`) computes how often games visit
each position; one backward pass computes the values. Nothing is sampled.

Time steps of a discount are the player's own decisions, as in a Gymnasium environment with an opponent inside: the
opponent's moves and skipped turns take no time. With discount g, the return of a decision is g**n times the result of
the game for its player (1, 0 or -1), where n is the number of the player's later decisions. Values are those of the
mover. Without a discount this is the expected result (Sutton and Barto, 2018, chapter 3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from baselines.retrograde.solver import Progress
from baselines.softmax_table import PositionIndex
from evaluation.exact.dynamic_programming import (
    CHUNK,
    OutcomeProbabilities,
    make_pure,
    partial_progress,
    report_end,
    report_progress,
)
from evaluation.exact.estimate import check_fits
from evaluation.exact.forward_backward import (
    NO_FLAGS,
    Edges,
    Layer,
    Moves,
    TraversalSpec,
    add_compensated,
    queries,
    query_boards,
    query_policy,
)
from evaluation.exact.symmetry_classes import MAX_CLASS_CELLS, symmetry_tables
from ttt_envs.agents.policy import Policy, is_symmetric
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array, Parameters, compiled, inlined
from ttt_envs.game.boards import Boards
from ttt_envs.game.rules import Game, line_result, outcome_of_move, skip_chance_of, value_over_skip

OFF_POLICY, ON_POLICY = 1, 2
"""Marks of positions: reached only after a move that the evaluated policy never makes; reached by the policy."""
BYTES_PER_CELL = 56
"""Stored bytes per cell of a position: probabilities, action values, their copies, the board and its edges."""


@runtime_checkable
class HasIllegalMass(Protocol):
    """A policy that reports the probability of illegal moves before they are masked."""

    def illegal_mass(self, boards: Boards) -> Float64Array:
        """Return float64[B]: the probability of all illegal moves of each position before masking."""
        ...


class SeatEvaluation(NamedTuple):
    """Exact results of a policy in one seat."""

    seat: int
    """0 moves first, 1 second"""
    outcome: OutcomeProbabilities
    """from the view of the player in this seat"""
    value: float
    """expected result, discounted from the player's first decision"""
    expected_decisions: float
    """expected number of the player's moves in a game"""
    expected_length: float
    """expected number of both players' moves in a game"""


@dataclass(frozen=True)
class PolicyEvaluation:
    """Exact evaluation of a policy: see :func:`evaluate_policy`.

    Rows are the N positions that the evaluated policy reaches and in which it is to move, in ascending order of seat
    (against an opponent) and of stones. Arrays are read-only.
    """

    game: Game
    discount: float
    boards: Boards
    """the positions; with merged symmetries, one of each symmetry class"""
    stones: Int8Array
    """int8[N]: number of stones on the board"""
    probabilities: Float64Array
    """float64[N, cells]: the policy"""
    values: Float64Array
    """float64[N]: expected discounted result for the mover"""
    action_values: Float64Array
    """float64[N, cells]: the same after each move, also after moves of probability 0; NaN where illegal"""
    occupancy: Float64Array
    """float64[N]: expected visits per game. A game visits a position once at most: it is the probability of a visit."""
    discounted_occupancy: Float64Array
    """float64[N]: each visit weighs discount**n, where n is the number of the mover's earlier decisions"""
    illegal_mass: Float64Array | None
    """float64[N]: probability of illegal moves before masking; None if the policy does not report it"""
    seats: tuple[SeatEvaluation, ...]
    """results in each evaluated seat"""
    merged: bool
    """whether a row stands for a symmetry class"""

    @property
    def advantages(self) -> Float64Array:
        """float64[N, cells]: action values minus values, NaN where illegal; a new array at every access."""
        return self.action_values - self.values[:, None]

    @property
    def value(self) -> float:
        """Expected discounted result, the mean over the evaluated seats."""
        return sum(seat.value for seat in self.seats) / len(self.seats)

    @property
    def outcome(self) -> OutcomeProbabilities:
        """Probabilities of the results, the mean over the evaluated seats."""
        parts = zip(*(seat.outcome for seat in self.seats), strict=True)
        return OutcomeProbabilities(*(sum(part) / len(self.seats) for part in parts))

    @cached_property
    def _index(self) -> PositionIndex:
        return PositionIndex(self.game, self.boards)

    def find(self, boards: Boards) -> Int64Array:
        """Return the rows int64[B] of positions, -1 for positions that are no rows.

        Raises:
            ValueError: symmetries are merged, so that a row is no single position.
        """
        if self.merged:
            raise ValueError("rows of merged symmetries cannot be looked up: evaluate with merge_symmetries=False")
        return self._index.find(boards)


def evaluate_policy(
    game: Game,
    policy: str | Policy,
    opponent: str | Policy | None = None,
    *,
    seat: int | None = None,
    discount: float = 1.0,
    merge_symmetries: bool = False,
    chunk: int = CHUNK,
    progress: Progress | None = None,
) -> PolicyEvaluation:
    """Return the exact values, action values and occupancy of a policy in all positions that it reaches.

    The action value of a move that the policy never makes is also exact: it makes the move once and follows the policy
    from there. Probabilities are normalised to a sum of 1 within rounding.

    Args:
        game: the game.
        policy: a spec string or a pure policy.
        opponent: the same, in the other seat; None for self-play.
        seat: the policy's, 0 moves first, 1 second; None for both. Against an opponent, both seats are two games.
        discount: weight of a later time step, 0 to 1; a time step is an own decision, see this module.
        merge_symmetries: evaluate one position of each symmetry class. Occupancy is that of the class. Both policies
            must declare themselves symmetric.
        chunk: maximum number of positions per query of a policy; the result does not depend on it.
        progress: called with the share that is done.

    Raises:
        ValueError: a policy that is unknown, is not pure, or does not play by the rules; an invalid option.
        MemoryError: too many reachable positions; raised after the first layers.
    """
    passes = _passes(game, policy, opponent, seat, discount, merge_symmetries, chunk)
    parts = _evaluate(passes, progress)
    return PolicyEvaluation(
        game,
        discount,
        Boards(parts.cells, parts.mover),
        parts.stones,
        parts.probabilities,
        parts.values,
        parts.action_values,
        parts.occupancy,
        parts.occupancy if discount == 1 else parts.discounted_occupancy,
        parts.illegal_mass,
        tuple(result for one in passes for result in one.results()),
        merge_symmetries,
    )


class ValueFunction(Protocol):
    """A function of positions, such as a critic or the method ``values`` of a learner."""

    def __call__(self, boards: Boards, /) -> Float64Array:
        """Return float64[B]: expected discounted result for the mover."""
        ...


class BellmanError(NamedTuple):
    """Exact Bellman errors of a value function in the positions that a policy reaches."""

    boards: Boards
    """the N positions"""
    values: Float64Array
    """float64[N]: the value function"""
    targets: Float64Array
    """float64[N]: expected result, or discounted value function at the mover's next decision"""
    occupancy: Float64Array
    """float64[N]: expected visits per game"""

    @property
    def errors(self) -> Float64Array:
        """float64[N]: target minus value; 0 everywhere only for the exact values."""
        return self.targets - self.values

    @property
    def root_mean_square(self) -> float:
        """Root of the mean squared error, weighted by occupancy."""
        return float(np.sqrt(self.occupancy @ self.errors**2 / self.occupancy.sum()))


def bellman_error(
    game: Game,
    policy: str | Policy,
    value_function: ValueFunction,
    opponent: str | Policy | None = None,
    *,
    seat: int | None = None,
    discount: float = 1.0,
    chunk: int = CHUNK,
    progress: Progress | None = None,
) -> BellmanError:
    """Return the exact one-decision Bellman errors of a value function (Sutton and Barto, 2018, section 11.4).

    The backup leads from a decision to the next decision of the same player, and takes the expectation over the
    policy, the opponent's moves and skips.

    Args:
        game, policy, opponent, seat, discount, chunk, progress: as for :func:`evaluate_policy`.
        value_function: called with positions in which the policy is to move.

    Raises:
        ValueError, MemoryError: as :func:`evaluate_policy`; values of another shape or that are not finite.
    """
    passes = _passes(game, policy, opponent, seat, discount, False, chunk)
    rows = _evaluate(passes, progress, value_function)
    boards = Boards(rows.cells, rows.mover)
    return BellmanError(boards, query_values(value_function, boards), rows.values, rows.occupancy)


def query_values(value_function: ValueFunction, boards: Boards) -> Float64Array:
    """Return the values of positions, float64[B].

    Raises:
        ValueError: the function gave another shape, or values that are not finite.
    """
    answer = np.asarray(value_function(boards), np.float64)
    if answer.shape != boards.mover.shape:
        raise ValueError(
            f"the value function gave values of shape {list(answer.shape)} for {len(boards.mover)} positions: "
            f"it must give one value for each position"
        )
    if not np.isfinite(answer).all():
        raise ValueError("the value function gave values that are NaN or infinite: they must be finite")
    return answer


# ---------------------------------------------------------------------------------------------------------------------
# Passes


class _Query(NamedTuple):
    """Positions of one query of a layer, and what the backward pass needs."""

    mover: int
    rows: Int64Array
    """int64[B]: rows of the layer"""
    edges: Edges
    cell: Int8Array
    """int8[K]: cell of each edge"""
    drawn: Float64Array
    """float64[B]: probability that the move fills the board"""
    first_turn: BoolArray
    """bool[B]: whether the player who is not to move has not moved yet; empty without a discount"""
    boards: Boards | None
    """None where the other player moves"""
    probabilities: Float64Array | None
    reached: BoolArray
    """bool[B]: whether the policy reaches the position"""


class _Rows(NamedTuple):
    """Arrays of :class:`PolicyEvaluation`."""

    cells: Int8Array
    mover: Int8Array
    stones: Int8Array
    probabilities: Float64Array
    values: Float64Array
    action_values: Float64Array
    occupancy: Float64Array
    discounted_occupancy: Float64Array
    illegal_mass: Float64Array | None


class _ForwardLayer(NamedTuple):
    """A layer after the forward pass."""

    layer: Layer
    size: int
    queries: list[_Query]


class _Pass:
    """Evaluation of one or both players of a traversal."""

    def __init__(self, traversal: TraversalSpec, seats: tuple[int, ...], discount: float, chunk: int) -> None:
        self.traversal = traversal
        self.game = traversal.game
        self.seats = seats
        self.discount = discount
        self.chunk = chunk
        self.wins = np.zeros((3, 2))  # of player_0, of player_1, draws: sums, and their rounding errors
        self.visits = np.zeros((2, 2))  # expected moves of either player: the same
        self.start_values = np.zeros(2)
        self.occupancy: list[Float64Array] = []
        self.discounted: list[Float64Array] = []

    def evaluate(self, progress: Progress | None, value_function: ValueFunction | None = None) -> _Rows:
        """Return the rows of the evaluated seats; their values are Bellman targets if a value function is given."""
        layers = []
        for one in self._forward():
            layers.append(one)
            report_progress(progress, one.layer, 0, 0.5)
        own = [query for one in layers for query in one.queries if query.boards is not None]
        count = sum(int(query.reached.sum()) for query in own)
        cells = self.game.cells
        out = _Rows(
            np.empty((count, cells), np.int8),
            np.empty(count, np.int8),
            np.empty(count, np.int8),
            np.empty((count, cells)),
            np.empty(count),
            np.empty((count, cells)),
            np.concatenate([np.zeros(0), *self.occupancy]),
            np.concatenate([np.zeros(0), *self.discounted]),
            None,
        )
        masses = [np.zeros(0)]
        end = count
        after = np.zeros((0, 2, 2))
        while layers:
            one = layers.pop()
            values = np.zeros((one.size, 2, 2))
            for query in reversed(one.queries):
                self._back_up(query, after, values)
                if query.boards is None:
                    continue
                begin = end - int(query.reached.sum())
                if begin < end:
                    self._write_rows(query, one.layer.stones, after, values, out, slice(begin, end), masses)
                if value_function is not None:
                    given = query_values(value_function, query.boards)
                    values[query.rows, query.mover, query.mover] = given
                end = begin
            report_progress(progress, one.layer, 1, 0.5)
            after = values
        self.start_values[:] = after[0, 0]
        mass = np.concatenate(masses[::-1]) if self._illegal_policy() is not None else None
        return out._replace(illegal_mass=mass)

    def results(self) -> Iterator[SeatEvaluation]:
        """Yield the results of the evaluated seats."""
        first, second, draw = (float(total) for total in self.wins.sum(axis=1))
        decisions = self.visits.sum(axis=1)
        for seat in self.seats:
            outcome = OutcomeProbabilities(*((first, draw, second) if seat == 0 else (second, draw, first)))
            yield SeatEvaluation(
                seat, outcome, float(self.start_values[seat]), float(decisions[seat]), float(decisions.sum())
            )

    def _illegal_policy(self) -> HasIllegalMass | None:
        """Return the evaluated policy if it reports the mass of illegal moves."""
        policy = self.traversal.players[self.seats[0]]
        return policy if isinstance(policy, HasIllegalMass) else None

    def _forward(self) -> Iterator[_ForwardLayer]:
        """Yield the layers, with edges also for moves of probability 0 of the evaluated policy where it comes."""
        parameters = self.game.parameters
        layer = Layer.start(self.traversal)
        layer.reached *= ON_POLICY
        weight = np.ones((len(layer.reached), 2, 2))
        while layer.index.size:
            after = Layer(self.traversal, layer.stones + 1)
            after_weight = np.zeros((0, 2, 2))
            asked = []
            for mover, rows in queries(layer, self.chunk):
                query, moves = self._query(layer, mover, rows)
                child = after.rows(moves.keys).astype(np.int32)
                query = query._replace(edges=query.edges._replace(child=child))
                if self.discount != 1 and len(after_weight) < len(after.mass):
                    longer = np.zeros((len(after.mass), 2, 2))
                    longer[: len(after_weight)] = after_weight
                    after_weight = longer
                if query.boards is not None:
                    kept = rows[query.reached]
                    self.occupancy.append(layer.mass[kept, mover])
                    self.discounted.append(
                        layer.mass[kept, mover] if self.discount == 1 else weight[kept, mover, mover]
                    )
                marks = layer.reached, after.reached
                masses = layer.mass, after.mass
                _add_visits(rows, query.edges, query.drawn, mover, marks, masses, parameters, self.wins, self.visits)
                if self.discount != 1:
                    _add_discounted(rows, query.edges, mover, weight, after_weight, self.discount, parameters)
                asked.append(query)
            size = layer.index.size
            layer.index.pack()
            layer.mass = layer.mass[:0]
            yield _ForwardLayer(layer, size, asked)
            layer, weight = after, after_weight

    def _query(self, layer: Layer, mover: int, rows: Int64Array) -> tuple[_Query, Moves]:
        """Query the mover's policy; the rows of the next layer are not known yet."""
        player = self.traversal.players[mover]
        assert player is not None
        boards = query_boards(layer, mover, rows)
        p = query_policy(player, boards)
        total = p.sum(axis=1, keepdims=True)
        p = p / np.where(np.abs(total - 1) <= 1e-6, total, 1.0)  # Moves.from_rows reports other sums
        own = mover in self.seats
        reached = layer.reached[rows, mover] == ON_POLICY
        moves = Moves.from_rows(layer, mover, rows, boards, p, reached if own else NO_FLAGS)
        first_turn = NO_FLAGS if self.discount == 1 else (boards.cells != 2 - mover).all(axis=1)
        edges = Edges(moves.ends, np.zeros(0, np.int32), moves.share, moves.line)
        if own:
            return _Query(mover, rows, edges, moves.cell, moves.drawn, first_turn, boards, p, reached), moves
        return _Query(mover, rows, edges, moves.cell[:0], moves.drawn, first_turn, None, None, reached), moves

    def _back_up(self, query: _Query, after: Float64Array, values: Float64Array) -> None:
        """Compute both players' values of the positions of a query."""
        _state_values(
            query.rows, query.edges, query.mover, query.first_turn, self.discount, after, self.game.parameters, values
        )

    def _write_rows(
        self,
        query: _Query,
        stones: int,
        after: Float64Array,
        values: Float64Array,
        out: _Rows,
        place: slice,
        masses: list[Float64Array],
    ) -> None:
        """Write the rows of a query."""
        assert query.boards is not None
        assert query.probabilities is not None
        kept = query.reached
        final = np.where(query.drawn[:, None] > 0, 0.0, float(line_result(self.game.parameters)))
        action_values = np.where(query.boards.legal(self.game), final, np.nan)
        _write_action_values(
            query.edges, query.cell, query.mover, self.discount, after, self.game.parameters, action_values
        )
        boards = query.boards.take(kept)
        out.cells[place], out.mover[place], out.stones[place] = boards.cells, boards.mover, stones
        out.probabilities[place] = query.probabilities[kept]
        out.values[place] = values[query.rows[kept], query.mover, query.mover]
        out.action_values[place] = action_values[kept]
        policy = self._illegal_policy()
        if policy is not None:
            masses.append(np.asarray(policy.illegal_mass(boards), np.float64))


def _passes(
    game: Game,
    policy: str | Policy,
    opponent: str | Policy | None,
    seat: int | None,
    discount: float,
    merge_symmetries: bool,
    chunk: int,
) -> list[_Pass]:
    """Return the traversals of an evaluation.

    Raises:
        ValueError, MemoryError: as :func:`evaluate_policy`.
    """
    if seat not in (None, 0, 1):
        raise ValueError(f"seat={seat!r} is no seat: choose 0 (first), 1 (second), or None for both")
    if not 0 <= discount <= 1:
        raise ValueError(f"discount={discount!r} is no weight of later decisions: choose a number from 0 to 1")
    own = make_pure(policy, game)
    other = own if opponent is None else make_pure(opponent, game)
    if merge_symmetries and not (is_symmetric(own) and is_symmetric(other) and game.cells <= MAX_CLASS_CELLS):
        raise ValueError(
            f"symmetries of {own} against {other} cannot be merged: both must declare themselves symmetric, on a board "
            f"of at most {MAX_CLASS_CELLS} cells"
        )
    seats = (0, 1) if seat is None else (seat,)
    tables = symmetry_tables(game, "all" if merge_symmetries else "none")

    def make(players: tuple[Policy, Policy], evaluated: tuple[int, ...]) -> _Pass:
        traversal = TraversalSpec(game, players, False, merge_symmetries, tables)
        bytes_per_position = BYTES_PER_CELL * game.cells * (2 if game.skip_chance else 1)
        check_fits(game, players, chunk, backward=True, traversal=traversal, bytes_per_position=bytes_per_position)
        return _Pass(traversal, evaluated, discount, chunk)

    if opponent is None:
        return [make((own, own), seats)]
    return [make((own, other) if one == 0 else (other, own), (one,)) for one in seats]


def _evaluate(passes: list[_Pass], progress: Progress | None, value_function: ValueFunction | None = None) -> _Rows:
    """Return the rows of all traversals, read-only."""
    found = [
        one.evaluate(partial_progress(progress, index, len(passes)), value_function) for index, one in enumerate(passes)
    ]
    report_end(progress)
    masses = [rows.illegal_mass for rows in found if rows.illegal_mass is not None]
    rows = found[0]
    if len(found) > 1:
        both = (np.concatenate(arrays) for arrays in zip(*(one[:-1] for one in found), strict=True))
        rows = _Rows._make((*both, np.concatenate(masses) if masses else None))
    for array in rows:
        if array is not None:
            array.flags.writeable = False
    return rows


# ---------------------------------------------------------------------------------------------------------------------
# Kernels


@compiled
def _add_visits(
    rows: Int64Array,
    edges: Edges,
    drawn: Float64Array,
    mover: int,
    marks: tuple[Int8Array, Int8Array],
    masses: tuple[Float64Array, Float64Array],
    parameters: Parameters,
    wins: Float64Array,
    visits: Float64Array,
) -> None:
    """Add the probability of positions to their successors, and mark these.

    ``marks`` and ``masses`` are those of the positions and of the next layer.
    """
    ends, child, share, line = edges
    mark, after_mark = marks
    mass, after_mass = masses
    winner = outcome_of_move(True, mover, 0, parameters)  # the outcome of a line of the mover
    skip = skip_chance_of(parameters)
    k = 0
    for b in range(len(rows)):
        here = mass[rows[b], mover]
        add_compensated(visits, mover, here)
        add_compensated(wins, winner, here * line[b])
        add_compensated(wins, 2, here * drawn[b])
        while k < ends[b]:
            at, part = child[k], here * share[k]
            new = mark[rows[b], mover] if share[k] > 0 else OFF_POLICY
            after_mass[at, 1 - mover] += (1.0 - skip) * part
            after_mark[at, 1 - mover] = max(after_mark[at, 1 - mover], new)
            if skip > 0:
                after_mass[at, mover] += skip * part
                after_mark[at, mover] = max(after_mark[at, mover], new)
            k += 1


@compiled
def _add_discounted(
    rows: Int64Array,
    edges: Edges,
    mover: int,
    weight: Float64Array,
    after: Float64Array,
    discount: float,
    parameters: Parameters,
) -> None:
    """Add both players' discounted visits, float64[size, 2, 2] by mover and player, to those of the next layer."""
    ends, child, share, _ = edges
    skip = skip_chance_of(parameters)
    k = 0
    for b in range(len(rows)):
        while k < ends[b]:
            for player in range(2):
                part = weight[rows[b], mover, player] * share[k] * (discount if player == mover else 1.0)
                after[child[k], 1 - mover, player] += (1.0 - skip) * part
                after[child[k], mover, player] += skip * part
            k += 1


@inlined
def _continuation(
    after: Float64Array, child: int, mover: int, player: int, discounts: tuple[float, float], skip: float
) -> float:
    """Return a player's value of the board after a move; ``discounts`` weigh the mover's and the other's turn."""
    same, other = discounts
    value: float = value_over_skip(same * after[child, mover, player], other * after[child, 1 - mover, player], skip)
    return value


@compiled
def _state_values(
    rows: Int64Array,
    edges: Edges,
    mover: int,
    first_turn: BoolArray,
    discount: float,
    after: Float64Array,
    parameters: Parameters,
    values: Float64Array,
) -> None:
    """Compute both players' values, float64[size, 2, 2] by mover and player, from those of the next layer.

    A turn is discounted for the player who moves in it, except the first.
    """
    ends, child, share, line = edges
    skip, result = skip_chance_of(parameters), line_result(parameters)
    k = 0
    for b in range(len(rows)):
        out = values[rows[b], mover]
        out[mover], out[1 - mover] = result * line[b], -result * line[b]
        again = 1.0 if len(first_turn) == 0 or first_turn[b] else discount
        while k < ends[b]:
            out[mover] += share[k] * _continuation(after, child[k], mover, mover, (discount, 1.0), skip)
            out[1 - mover] += share[k] * _continuation(after, child[k], mover, 1 - mover, (1.0, again), skip)
            k += 1


@compiled
def _write_action_values(
    edges: Edges,
    cell: Int8Array,
    mover: int,
    discount: float,
    after: Float64Array,
    parameters: Parameters,
    action_values: Float64Array,
) -> None:
    """Write the mover's values of its non-final moves into float64[B, cells]."""
    ends, child, _, _ = edges
    skip = skip_chance_of(parameters)
    k = 0
    for b in range(len(ends)):
        while k < ends[b]:
            action_values[b, cell[k]] = _continuation(after, child[k], mover, mover, (discount, 1.0), skip)
            k += 1
