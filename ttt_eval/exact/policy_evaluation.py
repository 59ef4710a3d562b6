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
from typing import Any, NamedTuple

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.agents.softmax_table import PositionIndex
from ttt_envs.agents.specs import make_pure
from ttt_envs.core.checks import Refusal, check_choice
from ttt_envs.core.hash_index import distinct_rows
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array
from ttt_envs.core.work import DEFAULT_WORK, Work
from ttt_envs.game.boards import Boards, position_words
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, PhantomGame
from ttt_envs.graph.estimate import KEPT_BYTES_PER_BOARD, watch
from ttt_envs.graph.kept import sum_by
from ttt_envs.graph.layers import ON_POLICY, Layer, Nodes, Traversal
from ttt_envs.graph.passes import DRAW, Clock, backward, forward, forward_again
from ttt_eval.exact.dynamic_programming import OutcomeProbabilities
from ttt_eval.exact.results import in_seats

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
        return self.seats[0].outcome.mean(
            self.seats[-1].outcome
        )  # the same one where one is evaluated

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
    weights = (
        evaluation.discounted_occupancy[:, None] * evaluation.probabilities / len(evaluation.seats)
    )
    return np.asarray(weights * np.nan_to_num(evaluation.advantages))


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
        discount: weight of a later time step, 0 to 1; a time step is an own decision, see this
            module. In phantom games it is 1.
        merge_symmetries: evaluate one position of each symmetry class. Occupancy is that of the
            class. Both policies must declare themselves symmetric.
        work: see :class:`Work`.

    Raises:
        ValueError: a policy that is unknown, is not pure, or does not play by the rules; an invalid
            option.
        MemoryError: too many cells or positions.
    """
    check_choice("seat", seat, (0, 1, None))
    if not 0 <= discount <= 1 or (discount < 1 and isinstance(game, PhantomGame)):
        raise Refusal(
            f"discount={discount!r} is no weight of later decisions: choose a number from 0 to 1, "
            "in a phantom game 1"
        )
    own = make_pure(policy, game)
    other = own if opponent is None else make_pure(opponent, game)
    if merge_symmetries and not (own.symmetric and other.symmetric and isinstance(game, Game)):
        raise Refusal(
            f"symmetries of {own} against {other} cannot be merged: both must declare themselves "
            "symmetric, in a game "
            f"with visible stones"
        )
    seats = (0, 1) if seat is None else (seat,)
    games = [seats] if opponent is None else [(single,) for single in seats]
    parts, results = list[Columns](), list[SeatEvaluation]()
    for index, evaluated in enumerate(games):
        players = in_seats(own, other, evaluated[0])
        complete = 0 in evaluated, 1 in evaluated
        traversal = Traversal(
            game, players, complete=complete, merge=merge_symmetries, query_size=work.chunk
        )
        columns, seat_results = _evaluate(
            traversal, evaluated, discount, work.part(index, len(games))
        )
        parts.append(columns if isinstance(game, Game) else _mean_by_view(columns))
        results += seat_results
    cells, mover, *arrays = (
        parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
    )
    for array in (cells, mover, *arrays):
        array.flags.writeable = False
    fields: list[Any] = [Boards(cells, mover), *arrays, tuple(results), merge_symmetries]
    return PolicyEvaluation(game, discount, *fields)


def query_values(value_function: Critic, boards: Boards) -> Float64Array:
    """Return the values of positions, float64[B].

    Raises:
        ValueError: the function gave another shape, or values that are not finite.
    """
    answer = np.asarray(value_function(boards), np.float64)
    if answer.shape != boards.mover.shape:
        raise Refusal(
            f"the value function gave values of shape {list(answer.shape)} for {len(boards.mover)} "
            "positions: "
            f"it must give one value for each position"
        )
    if not np.isfinite(answer).all():
        raise Refusal(
            "the value function gave values that are NaN or infinite: they must be finite"
        )
    return answer


Columns = tuple[Any, ...]
"""arrays: cells and mover of rows, then the other columns in the order of the fields of
:class:`PolicyEvaluation`
"""


def _evaluate(
    traversal: Traversal, seats: tuple[int, ...], discount: float, work: Work
) -> tuple[Columns, list[SeatEvaluation]]:
    """Return the rows of the evaluated seats of a game, and their results.

    The forward pass counts the rows, so that the backward pass writes each to its place: no column
    is made twice.
    """
    game, passes = traversal.game, 1 + len(seats)
    wins, decisions, ends = np.zeros(4), [0.0, 0.0], [0]
    # without skips, only one player moves on a board
    kept = KEPT_BYTES_PER_BOARD + (27 + 17 * game.cells) * len(seats) / (
        1 if game.skip_chance else 2
    )
    for layer, nodes, mass in watch(
        work.part(0, passes), game, forward(traversal, wins, keep=True), kept=kept
    ):
        decisions[nodes.mover] += float(mass.sum())
        ends.append(ends[-1] + (int(_on_policy(layer, nodes).sum()) if nodes.mover in seats else 0))
    rows, wide = ends[-1], (ends[-1], game.cells)
    whole = (np.empty(shape, np.int8) for shape in (wide, rows, rows))
    columns: Columns = (*whole, *(np.empty(shape) for shape in (wide, rows, wide, rows, rows)))
    results = []
    for index, seat in enumerate(seats, 1):
        clock, number = Clock(seat, discount), len(ends) - 1
        weighed = [] if discount == 1 else list(forward_again(traversal, np.zeros(4), clock))
        for layer, nodes, values, gains in watch(
            work.part(index, passes), game, backward(traversal, clock=clock)
        ):
            number -= 1
            if nodes.mover == seat:
                mass = layer.mass[nodes.rows, seat]
                discounted = weighed[number] if weighed else mass
                described = *_describe(traversal, layer, nodes, values, gains), mass, discounted
                for column, part in zip(columns, described, strict=True):
                    column[ends[number] : ends[number + 1]] = part[_on_policy(layer, nodes)]
        outcome = OutcomeProbabilities(float(wins[seat]), float(wins[DRAW]), float(wins[1 - seat]))
        value = float(values[0, 0, seat] - values[0, 0, 1 - seat])
        results.append(SeatEvaluation(seat, outcome, value, decisions[seat], sum(decisions)))
    return columns, results


def _on_policy(layer: Layer, nodes: Nodes) -> BoolArray:
    """Return bool[B]: whether the policies reach nodes."""
    return np.asarray(layer.reach[nodes.rows, nodes.mover] == ON_POLICY)


def _describe(
    traversal: Traversal, layer: Layer, nodes: Nodes, values: Float64Array, gains: Float64Array
) -> Columns:
    """Return the columns of nodes, but for those of their occupancy."""
    boards, mover = traversal.boards(layer, nodes), nodes.mover
    chances = values[nodes.rows, mover]
    action_values = np.full(boards.cells.shape, np.nan)
    action_values[nodes.places] = gains
    stones = np.count_nonzero(boards.cells, axis=1).astype(np.int8)
    node_values = chances[:, mover] - chances[:, 1 - mover]
    return (*boards, stones, nodes.probabilities(boards.cells.shape[1]), node_values, action_values)


def _mean_by_view(columns: Columns) -> Columns:
    """Return the means over the nodes of each view, weighed by their visits."""
    cells, mover, _, _, values, action_values, visits, _ = columns
    first, view = distinct_rows(position_words(Boards(cells, mover)))
    occupancy = sum_by(view, visits, len(first))
    weights = visits / occupancy[view]
    mean_values = sum_by(view, weights * values, len(first))
    mean_actions = np.stack(
        [sum_by(view, weights * column, len(first)) for column in action_values.T], axis=1
    )
    of_view = (column[first] for column in columns[:4])  # the same in all its nodes
    return (*of_view, mean_values, mean_actions, occupancy, occupancy)
