"""Exact values, advantages and occupancy of a policy in every position that it reaches.

One pass forward over the nodes of a game (:mod:`ttt_envs.graph`) computes how often games visit
each position; one pass back computes the values. Nothing is sampled.

Time steps of a discount are the player's own decisions, as in a Gymnasium environment with an
opponent inside: the opponent's moves and skipped turns take no time. With discount g, the return of
a decision is g**n times the result of the game for its player (1, 0 or -1), where n is the number
of the player's later decisions. Values are those of the mover. Without a discount this is the
expected result (Sutton and Barto, 2018, chapter 3).

In a phantom game positions are *views*: what a view is worth is the mean over its nodes, weighed by
their visits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.agents.softmax_table import PositionIndex
from ttt_envs.agents.specs import make_pure
from ttt_envs.core.checks import Refusal, check_choice
from ttt_envs.core.hash_index import distinct_rows
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array
from ttt_envs.core.records import concatenate
from ttt_envs.core.work import DEFAULT_WORK, Work
from ttt_envs.game.boards import Boards, position_words
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, PhantomGame
from ttt_envs.graph.game_graph import sum_by
from ttt_envs.graph.layers import ON_POLICY, Layer, Nodes, Traversal
from ttt_envs.graph.passes import Discount, backward, forward, forward_again
from ttt_eval.exact.results import OutcomeProbabilities, in_seats

Critic = Callable[[Boards], Float64Array]
"""A function of positions, such as the method ``values`` of a learner; returns float64[B]: expected
results for the mover."""


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

    Rows are the N positions that the evaluated policy reaches and in which it is to move, in
    ascending order of seat (against an opponent) and of stones. Arrays are read-only.
    """

    game: AnyGame
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
    """float64[N, cells]: the same after each move, also after moves of probability 0; NaN where
    illegal
    """
    occupancy: Float64Array
    """float64[N]: expected visits per game. A game visits a position once at most: it is the
    probability of a visit.
    """
    discounted_occupancy: Float64Array
    """float64[N]: each visit weighs discount**n, where n is the number of the mover's earlier
    decisions
    """
    seats: tuple[SeatEvaluation, ...]
    """results in each evaluated seat"""
    merged: bool
    """whether a row stands for a symmetry class"""

    @property
    def advantages(self) -> Float64Array:
        """float64[N, cells]: action values minus values, NaN where illegal; a new array at every
        access.
        """
        return self.action_values - self.values[:, None]

    @property
    def value(self) -> float:
        """Expected discounted result, the mean over the evaluated seats."""
        return sum(seat.value for seat in self.seats) / len(self.seats)

    @property
    def outcome(self) -> OutcomeProbabilities:
        """Probabilities of the results, the mean over the evaluated seats."""
        # the first and the last seat are the same one where one is evaluated
        return self.seats[0].outcome.mean(self.seats[-1].outcome)

    @cached_property
    def _index(self) -> PositionIndex:
        return PositionIndex(self.game, self.boards)

    def find(self, boards: Boards) -> Int64Array:
        """Return the rows int64[B] of positions, -1 for positions that are no rows.

        Raises:
            ValueError: symmetries are merged, so that a row is no single position.
        """
        if self.merged:
            raise Refusal(
                "rows of merged symmetries cannot be looked up: evaluate with "
                "merge_symmetries=False"
            )
        return self._index.find(boards)


def policy_gradient(evaluation: PolicyEvaluation) -> Float64Array:
    """Return the gradient of ``evaluation.value`` in the logits of a softmax policy, float64[N,
    cells].

    Row and column are position and move: discounted occupancy * probability * advantage, the policy
    gradient theorem (Sutton et al., 2000, Theorem 1) for a softmax, divided by the number of
    evaluated seats. Illegal moves have 0.

    In self-play each player's decisions are differentiated for that player, while the other
    player's policy is held fixed: the simultaneous gradient of a game. The gradient in the
    parameters of a net follows by the chain rule.
    """
    occupancy = evaluation.discounted_occupancy[:, None]
    weights = occupancy * evaluation.probabilities / len(evaluation.seats)
    return weights * np.nan_to_num(evaluation.advantages)


class EvaluationRows(NamedTuple):
    """The columns of N rows of a :class:`PolicyEvaluation`."""

    cells: Int8Array
    mover: Int8Array
    stones: Int8Array
    probabilities: Float64Array
    values: Float64Array
    action_values: Float64Array
    occupancy: Float64Array
    discounted_occupancy: Float64Array

    @classmethod
    def empty(cls, count: int, cells: int) -> EvaluationRows:
        """Return ``count`` rows to be written."""
        return cls(
            cells=np.empty((count, cells), np.int8),
            mover=np.empty(count, np.int8),
            stones=np.empty(count, np.int8),
            probabilities=np.empty((count, cells)),
            values=np.empty(count),
            action_values=np.empty((count, cells)),
            occupancy=np.empty(count),
            discounted_occupancy=np.empty(count),
        )

    @classmethod
    def num_bytes(cls, cells: int) -> int:
        """Return the size of a row in bytes."""
        return sum(column.nbytes for column in cls.empty(1, cells))


def evaluate_policy(
    game: AnyGame,
    policy: str | Policy,
    opponent: str | Policy | None = None,
    *,
    seat: int | None = None,
    discount: float = 1.0,
    merge_symmetries: bool = False,
    work: Work = DEFAULT_WORK,
) -> PolicyEvaluation:
    """Return the exact values, action values and occupancy of a policy in all positions that it
    reaches.

    The action value of a move that the policy never makes is also exact: it makes the move once and
    follows the policy from there. Probabilities are normalised to a sum of 1 within rounding.

    Args:
        game: the game.
        policy: a spec string or a pure policy.
        opponent: the same, in the other seat; None for self-play.
        seat: the policy's, 0 moves first, 1 second; None for both. Against an opponent, both seats
            are two games.
        discount: weight of a later time step, 0 to 1; a time step is an own decision. In
            phantom games it is 1.
        merge_symmetries: evaluate one position of each symmetry class. Occupancy is that of the
            class. Both policies must declare themselves symmetric.
        work: see :class:`Work`.

    Raises:
        ValueError: a policy that is unknown, is not pure, or does not play by the rules; an invalid
            option.
        MemoryError: too many cells or positions.
    """
    own = make_pure(policy, game)
    other = own if opponent is None else make_pure(opponent, game)
    _check_options(game, (own, other), seat, discount, merge_symmetries)
    seats = (0, 1) if seat is None else (seat,)
    # in self-play one game serves both seats
    games = [seats] if opponent is None else [(single_seat,) for single_seat in seats]
    parts: list[EvaluationRows] = []
    results: list[SeatEvaluation] = []
    for index, evaluated_seats in enumerate(games):
        # without skips, only one player moves on a board
        rows_per_board = len(evaluated_seats) / (1 if game.skip_chance else 2)
        traversal = Traversal(
            game,
            in_seats(own, other, evaluated_seats[0]),
            complete=(0 in evaluated_seats, 1 in evaluated_seats),
            merge=merge_symmetries,
            work=work.part(index, len(games)),
            passes=1 + len(evaluated_seats),
            row_bytes=EvaluationRows.num_bytes(game.cells) * rows_per_board,
        )
        rows, seat_results = _evaluate(traversal, evaluated_seats, discount)
        parts.append(rows if isinstance(game, Game) else _mean_by_view(rows))
        results += seat_results
    rows = parts[0]
    if len(parts) > 1:
        rows = concatenate(parts)
    for column in rows:
        column.flags.writeable = False
    return PolicyEvaluation(
        game,
        discount,
        boards=Boards(rows.cells, rows.mover),
        stones=rows.stones,
        probabilities=rows.probabilities,
        values=rows.values,
        action_values=rows.action_values,
        occupancy=rows.occupancy,
        discounted_occupancy=rows.discounted_occupancy,
        seats=tuple(results),
        merged=merge_symmetries,
    )


def _check_options(
    game: AnyGame,
    players: tuple[Policy, Policy],
    seat: int | None,
    discount: float,
    merge_symmetries: bool,
) -> None:
    """Raise ValueError for invalid options of an evaluation."""
    check_choice("seat", seat, (0, 1, None))
    if not 0 <= discount <= 1 or (discount < 1 and isinstance(game, PhantomGame)):
        raise Refusal(
            f"discount={discount!r} is no weight of later decisions: choose a number from 0 to 1, "
            "in a phantom game 1"
        )
    are_symmetric = all(player.symmetric for player in players)
    if merge_symmetries and not (are_symmetric and isinstance(game, Game)):
        own, other = players
        raise Refusal(
            f"symmetries of {own} against {other} cannot be merged: both must declare themselves "
            "symmetric, in a game with visible stones"
        )


def query_values(value_function: Critic, boards: Boards) -> Float64Array:
    """Return the values of positions, float64[B].

    Raises:
        ValueError: the function gave another shape, or values that are not finite.
    """
    answer = np.asarray(value_function(boards), np.float64)
    if answer.shape != boards.mover.shape:
        raise Refusal(
            f"the value function gave values of shape {list(answer.shape)} for {len(boards.mover)} "
            "positions: it must give one value for each position"
        )
    if not np.isfinite(answer).all():
        raise Refusal(
            "the value function gave values that are NaN or infinite: they must be finite"
        )
    return answer


def _evaluate(
    traversal: Traversal, seats: tuple[int, ...], discount: float
) -> tuple[EvaluationRows, list[SeatEvaluation]]:
    """Return the rows of the evaluated seats of a game, and their results.

    The forward pass counts the rows, so that the backward pass writes each to its place: no column
    is made twice.
    """
    wins = np.zeros(4)
    decisions = [0.0, 0.0]
    ends = [0]
    for layer, nodes, mass in forward(traversal, wins, keep=True):
        decisions[nodes.mover] += float(mass.sum())
        num_rows = int(_is_on_policy(layer, nodes).sum()) if nodes.mover in seats else 0
        ends.append(ends[-1] + num_rows)
    rows = EvaluationRows.empty(ends[-1], traversal.game.cells)
    results = []
    for seat in seats:
        value = _write_rows(traversal, Discount(seat, discount), ends, rows)
        outcome = OutcomeProbabilities.from_results(wins, seat)
        results.append(SeatEvaluation(seat, outcome, value, decisions[seat], sum(decisions)))
    return rows, results


def _write_rows(
    traversal: Traversal, discount: Discount, ends: list[int], rows: EvaluationRows
) -> float:
    """Write the rows of the discount's player, and return its value of the game.

    Args:
        traversal: with kept layers.
        discount: the discount.
        ends: the rows of the i-th nodes are ``ends[i]`` to ``ends[i + 1] - 1``.
        rows: written.
    """
    seat = discount.player
    weighed_masses = []
    if discount.factor != 1:
        weighed_masses = list(forward_again(traversal, np.zeros(4), discount))
    index = len(ends) - 1
    for layer, nodes, values, gains in backward(traversal, discount=discount):
        index -= 1
        if nodes.mover != seat:
            continue
        mass = layer.mass[nodes.rows, seat]
        boards = traversal.boards(layer, nodes)
        chances = values[nodes.rows, seat]
        action_values = np.full(boards.cells.shape, np.nan)
        action_values[nodes.places] = gains
        node_rows = EvaluationRows(
            *boards,
            stones=boards.num_stones.astype(np.int8),
            probabilities=nodes.probabilities(boards.cells.shape[1]),
            values=chances[:, seat] - chances[:, 1 - seat],
            action_values=action_values,
            occupancy=mass,
            discounted_occupancy=weighed_masses[index] if weighed_masses else mass,
        )
        is_on_policy = _is_on_policy(layer, nodes)
        for name, column in node_rows._asdict().items():
            getattr(rows, name)[ends[index] : ends[index + 1]] = column[is_on_policy]
    return float(values[0, 0, seat] - values[0, 0, 1 - seat])


def _is_on_policy(layer: Layer, nodes: Nodes) -> BoolArray:
    """Return bool[B]: whether the policies reach nodes."""
    return np.asarray(layer.reach[nodes.rows, nodes.mover] == ON_POLICY)


def _mean_by_view(nodes: EvaluationRows) -> EvaluationRows:
    """Return the means over the nodes of each view, weighed by their visits."""
    first, view = distinct_rows(position_words(Boards(nodes.cells, nodes.mover)))
    occupancy = sum_by(view, nodes.occupancy, len(first))
    weights = nodes.occupancy / occupancy[view]
    action_values = [sum_by(view, weights * column, len(first)) for column in nodes.action_values.T]
    # other columns are the same in all nodes of a view
    rows = EvaluationRows._make(column[first] for column in nodes)
    return rows._replace(
        values=sum_by(view, weights * nodes.values, len(first)),
        action_values=np.stack(action_values, axis=1),
        occupancy=occupancy,
        discounted_occupancy=occupancy,
    )
