"""Exact measures of one policy, by dynamic programming over the nodes that games reach; nothing is
sampled.

Probabilities flow forward and values back over the layers of :mod:`ttt_envs.graph`. A policy is
asked only about positions that games reach, in a phantom game about views, by which it plays; best
responders there remember everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from baselines.exact import MAX_SOLVER_CELLS, Solution, solve
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy
from ttt_envs.agents.specs import make_pure
from ttt_envs.core.checks import check_choice
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.work import DEFAULT_WORK, Work
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, PhantomGame, refuse_hidden
from ttt_envs.graph.estimate import is_measured_at_once
from ttt_envs.graph.layers import ON_POLICY, Players, Traversal
from ttt_envs.graph.passes import ILLEGAL, backward, forward
from ttt_eval.exact.phantom_best_response import best_response as search_best_response
from ttt_eval.exact.policy_cache import cached
from ttt_eval.exact.results import Exploitation, OutcomeProbabilities, in_seats


class RegretRow(NamedTuple):
    """Loss of a policy in self-play by its moves on boards with a given number of stones."""

    stones: int
    moves: float
    """expected number of such moves: the probability that a game lasts so long"""
    loss: float
    """expected loss of value by these moves"""


class Visit(NamedTuple):
    """Positions that games reach, all with the same mover and number of stones."""

    stones: int
    boards: Boards
    probabilities: Float64Array
    """float64[B, cells]: the mover's policy"""
    mass: Float64Array
    """float64[B]: probability that a game reaches the position, or its symmetry class"""


class Measurement:
    """Exact measures of a policy, which is made once for all of them.

    Each measure traverses the games of the policy once, and asks it once in each position that
    they reach.

    Args:
        game: the game.
        policy: a spec string or a pure policy.
        work: see :class:`Work`; its progress is that of each measure.
        cache: whether the policy's answers are kept for the next measure, see
            :class:`~ttt_eval.exact.policy_cache.CachedPolicy`.
        masked: whether a probability of an illegal move is refused; else the policy loses by such a
            move, and gives zeros where it makes no legal one. Only with visible stones.

    Raises:
        ValueError: a policy that is unknown or not pure; by all measures, one that does not play by
            the rules.
        MemoryError: by all measures, too many cells or positions.
    """

    def __init__(
        self,
        game: AnyGame,
        policy: str | Policy,
        work: Work = DEFAULT_WORK,
        *,
        cache: bool = False,
        masked: bool = True,
    ) -> None:
        self.game = game
        self.masked = masked
        self.policy = make_pure(policy, game)
        self.work = work
        if cache:
            self.policy = cached(self.policy, game)
        self._traverse = partial(Traversal, game, masked=masked, work=work)

    @cached_property
    def solution(self) -> Solution:
        """The solution of the game."""
        return solve(refuse_hidden(self.game))

    def outcome(self, opponent: str | Policy, seat: int) -> OutcomeProbabilities:
        """Return the result against an opponent, with the policy in a seat, 0 or 1."""
        return self._outcome(make_pure(opponent, self.game), seat, self.work)

    def outcomes(self, opponent: str | Policy) -> tuple[OutcomeProbabilities, OutcomeProbabilities]:
        """Return the results against an opponent, moving first and moving second."""
        other = make_pure(opponent, self.game)
        first = self._outcome(other, 0, self.work.part(0, 2))
        return first, self._outcome(other, 1, self.work.part(1, 2))

    def _outcome(self, opponent: Policy, seat: int, work: Work) -> OutcomeProbabilities:
        results = self._results(opponent, seat, work=work)
        return OutcomeProbabilities.from_results(results, seat)

    def _results(self, opponent: Policy, seat: int, **options: Any) -> Float64Array:
        """Return the probabilities of the results of a game, float64[4]."""
        results = np.zeros(4)
        players = in_seats(self.policy, opponent, seat)
        for _ in forward(self._traverse(players, **options), results):
            pass
        return results

    def illegal_share(self, opponent: str | Policy, seat: int) -> float:
        """Return the probability that a game ends by an illegal move of the policy, which may have
        probabilities of such moves; the opponent has none.
        """
        other = make_pure(opponent, self.game)
        return float(self._results(other, seat, masked=False)[ILLEGAL])

    def best_response(self, seat: int) -> OutcomeProbabilities:
        """Return the result of a best responder in a seat, from the responder's view.

        Raises:
            ValueError: another seat than 0 and 1.
        """
        check_choice("seat", seat, (0, 1))
        return self._best_responses((seat,))[0]

    def exploitation(self) -> Exploitation:
        """Return the results of best responders in both seats, and the value of the game."""
        value = self.solution.value if has_regret(self.game) else None
        first, second = self._best_responses((0, 1))
        return Exploitation(first, second, value)

    def exploitability(self) -> float:
        """Return NashConv / 2: the mean of both responders' values."""
        first, second = self._best_responses((0, 1))
        return Exploitation(first, second, None).exploitability

    def _best_responses(self, seats: tuple[int, ...]) -> list[OutcomeProbabilities]:
        """Return the best responder's results, by its seats."""
        if isinstance(self.game, PhantomGame):
            return [search_best_response(self.game, self.policy, seat) for seat in seats]
        if self.policy.colour_blind:  # one traversal serves both seats
            traversal = self._traverse((None, self.policy), roles=True, starts=seats, passes=2)
            chances = start_chances(traversal)
            return [OutcomeProbabilities.from_ends(*chances[seat]) for seat in seats]
        results = []
        for index, seat in enumerate(seats):
            work = self.work.part(index, len(seats))
            players: Players = in_seats(None, self.policy, seat)
            chances = start_chances(self._traverse(players, work=work, passes=2))[0]
            results.append(OutcomeProbabilities.from_ends(chances[seat], chances[1 - seat]))
        return results

    def regret(self) -> float:
        """Return the mean loss of value per move in self-play."""
        return mean_regret(self.regret_table())

    def regret_table(self) -> list[RegretRow]:
        """Return the loss of value in self-play by the number of stones on the board.

        Raises:
            ValueError: a board too large to solve, or hidden stones.
        """
        moves = np.zeros(self.game.cells)
        losses = np.zeros(self.game.cells)
        for visit in visits(self._traverse((self.policy, self.policy))):
            moves[visit.stones] += visit.mass.sum()
            action_values, shares = self._moves(visit.boards, visit.probabilities)
            losses[visit.stones] += visit.mass @ expected_losses(action_values, shares)
        rows = enumerate(zip(moves.tolist(), losses.tolist(), strict=True))
        return [RegretRow(stones, count, loss) for stones, (count, loss) in rows if count > 0]

    def mean_loss(self) -> float:
        """Return the mean loss of value by a move, over one position of each symmetry class in
        which moves differ in value; 0 if there are none.

        Raises:
            ValueError: a board too large to solve, or hidden stones.
        """
        traversal = self._traverse((self.policy, self.policy), complete=(True, True), merge=True)
        losses = []
        for layer, next_layer, nodes in traversal.walk():
            # all positions, also those that play of the policy does not reach
            next_layer.reach[next_layer.reach > 0] = ON_POLICY
            boards = traversal.boards(layer, nodes)
            values, shares = self._moves(boards, nodes.probabilities(self.game.cells))
            by_move = np.nanmax(values, axis=1, keepdims=True) - values
            differ = np.nanmax(by_move[:, : self.game.cells], axis=1) > VALUE_TOLERANCE
            losses.append((shares * np.nan_to_num(by_move)).sum(axis=1)[differ])
        total = np.concatenate(losses)
        return float(total.sum() / max(1, len(total)))

    def _moves(self, boards: Boards, shares: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return the exact values of moves, NaN where illegal, and their probabilities,
        float64[B, A]. If they are not masked, the last column is of all illegal moves.
        """
        values = self.solution.action_values(boards)
        if self.masked:
            return values, shares
        loss = np.full(len(values), -1.0)
        return np.c_[values, loss], np.c_[shares, 1 - shares.sum(axis=1)]


def visits(traversal: Traversal) -> Iterator[Visit]:
    """Yield the positions that games between two policies reach."""
    for layer, nodes, mass in forward(traversal):
        boards = traversal.boards(layer, nodes)
        yield Visit(layer.depth, boards, nodes.probabilities(boards.cells.shape[1]), mass)


def start_chances(traversal: Traversal) -> Float64Array:
    """Return the chances that player_0 and player_1 win on the empty board, float64[2, 2] by the
    player to move.
    """
    traversal.make_layers()
    for _, _, values, _ in backward(traversal):
        chances = values[0]
    return np.asarray(chances)


def has_regret(game: AnyGame) -> TypeGuard[Game]:
    """Return whether the values of all positions can be had, of which regret is a loss: not where
    stones are hidden.
    """
    return game.cells <= MAX_SOLVER_CELLS and isinstance(game, Game)


def has_mean_loss(game: AnyGame) -> TypeGuard[Game]:
    """Return whether the mean loss over all positions is part of the strength of policies: where
    exact results take a moment.
    """
    return has_regret(game) and is_measured_at_once(game)


def mean_regret(rows: Sequence[RegretRow]) -> float:
    """Return the mean loss of value per move, given the losses by the number of stones."""
    return sum(row.loss for row in rows) / sum(row.moves for row in rows)


def expected_losses(action_values: Float64Array, probabilities: Float64Array) -> Float64Array:
    """Return the expected loss of value by a move, float64[B]; action values are NaN where
    illegal.
    """
    values = np.nan_to_num(action_values)
    expected = np.zeros(len(probabilities))
    for cell in range(values.shape[1]):
        expected += probabilities[:, cell] * values[:, cell]
    best = np.fmax.reduce(action_values, axis=1, initial=-np.inf)
    return np.asarray(np.maximum(best - expected, 0.0))
