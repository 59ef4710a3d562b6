"""Exact results in phantom games: outcomes, values, policy gradients, best responses and exploitability.

Policies play by views (:mod:`ttt_envs.game.phantom`): they are asked about boards with the own stones and the found
ones, with the player's seat as mover. Best responders remember everything that they were told. Nothing is sampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from baselines.joint_view_graph import JointViewGraph, joint_view_graph
from evaluation.exact.forward_backward import query_policy
from evaluation.exact.phantom_best_response import best_response as search_best_response
from evaluation.exact.phantom_best_response import count_information_sets as count_sets
from evaluation.exact.results import Exploitation, OutcomeProbabilities, check_responder, make_pure
from ttt_envs.agents.peeking import is_peeking
from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.phantom import check_phantom
from ttt_envs.game.rules import Game

CHUNK = 1 << 14
"""Maximum number of views per query of a policy."""
TOLERANCE = 1e-6
"""Maximum difference of a sum of probabilities from 1."""


@dataclass(frozen=True)
class ViewEvaluation:
    """Exact evaluation of two policies over views: see :func:`evaluate_policies`.

    Rows are the V views in which a player can be to move, those of both players, whether they are visited or not.
    """

    views: Boards
    """the views; ``views.mover`` is the player whose view it is"""
    probabilities: Float64Array
    """float64[V, cells]: the player's policy"""
    values: Float64Array
    """float64[V]: expected result for the player, given its view; 0 where the view is never visited"""
    action_values: Float64Array
    """float64[V, cells]: the same after each attempt; NaN where illegal"""
    occupancy: Float64Array
    """float64[V]: probability that a game visits the view"""
    outcome: OutcomeProbabilities
    """from the view of player_0"""

    @property
    def policy_gradient(self) -> Float64Array:
        """float64[V, cells]: gradient of each player's expected result in the logits of its own softmax policy.

        The policy gradient theorem (Sutton et al., 2000, Theorem 1) with views as states, see
        :mod:`baselines.joint_view_graph`. The other player's policy is held fixed.
        """
        advantages = np.nan_to_num(self.action_values - self.values[:, None])
        return np.asarray(self.occupancy[:, None] * self.probabilities * advantages)


def evaluate_policies(game: Game, first: str | Policy, second: str | Policy) -> ViewEvaluation:
    """Return exact values and occupancy of all views, where ``first`` is player_0.

    Args:
        game: a game with hidden stones.
        first, second: spec strings or pure policies.

    Raises:
        ValueError: the stones are not hidden; a policy that is unknown, is not pure, sees the whole board, or does not
            play by the rules.
        MemoryError: too many joint views.
    """
    graph = _graph(game)
    players = make_pure(first, game), make_pure(second, game)
    for player in players:
        if is_peeking(player):
            raise ValueError(f"{player} sees hidden stones, so that it is no policy over views: choose one that is")
    table = _joint_table(graph, *players).probabilities
    exact, occupancy = graph.evaluate(table), graph.occupancy(table)
    by_view = graph.view_values(exact, occupancy)
    return ViewEvaluation(
        graph.views.boards,
        table,
        by_view.values,
        np.where(graph.legal, by_view.action_values, np.nan),
        graph.sum_by_view(occupancy),
        _to_probabilities(graph.results(table, occupancy)),
    )


def outcome(game: Game, first: str | Policy, second: str | Policy) -> OutcomeProbabilities:
    """Return the exact result of ``first``, who is player_0, against ``second``.

    Args and Raises: as :func:`evaluate_policies`.
    """
    graph = _graph(game)
    table, rows = _joint_table(graph, first, second)
    return _to_probabilities(graph.results(table, graph.occupancy(table, rows), rows))


def best_response(game: Game, policy: str | Policy, responder: int) -> OutcomeProbabilities:
    """Return the exact result of a best responder with perfect recall against a policy over views.

    Args:
        game: a game with hidden stones.
        policy: a spec string or a pure policy.
        responder: the responder's seat, 0 moves first, 1 second.

    Raises:
        ValueError: another seat; and as :func:`evaluate_policies`.
        MemoryError: as :func:`evaluate_policies`.
    """
    check_responder(responder)
    graph = _graph(game)
    return _respond(graph, _joint_table(graph, policy, policy), responder)


def exploitation(game: Game, policy: str | Policy) -> Exploitation:
    """Return the exact results of best responders in both seats; the value of the game is not known.

    Args and Raises: as :func:`best_response`.
    """
    graph = _graph(game)
    table = _joint_table(graph, policy, policy)
    return Exploitation(_respond(graph, table, 0), _respond(graph, table, 1), None)


def exploitability(game: Game, policy: str | Policy) -> float:
    """Return NashConv / 2 of a policy that plays in both seats; see :func:`exploitation`."""
    return exploitation(game, policy).exploitability


def count_information_sets(game: Game, player: int) -> int:
    """Return the number of a player's information sets with perfect recall: sequences of its attempts and observations.

    They are listed one by one: 3 x 3 takes some ten seconds.

    Raises:
        ValueError, MemoryError: as :func:`evaluate_policies`.
    """
    return count_sets(_graph(game), player, np.iinfo(np.int32).max).sets


def view_table(graph: JointViewGraph, policy: str | Policy) -> Float64Array:
    """Return a policy's probabilities in all views of both players, float64[V, cells].

    Raises:
        ValueError: a policy that is unknown, is not pure, sees the whole board, or does not play by the rules.
    """
    return _query(make_pure(policy, graph.game), graph.views.boards)


def _query(player: Policy, boards: Boards) -> Float64Array:
    """Return a policy's probabilities on boards, float64[B, cells], which may be attempts on empty cells only.

    Raises:
        ValueError: they are none.
    """
    parts = [
        query_policy(player, Boards(*(array[start : start + CHUNK] for array in boards)))
        for start in range(0, len(boards.mover), CHUNK)
    ]
    table = np.concatenate(parts)
    sound = np.isfinite(table).all() and (table >= 0).all() and (table[boards.cells != 0] == 0).all()
    if not sound or np.abs(table.sum(axis=1) - 1.0).max() > TOLERANCE:
        raise ValueError(
            f"{player} gave no probabilities of the legal attempts in some view: they must be 0 for cells known to be "
            f"taken, not negative, and have the sum 1"
        )
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def _graph(game: Game) -> JointViewGraph:
    check_phantom(game)
    return joint_view_graph(game)


class _JointTable(NamedTuple):
    """Both players' policies, see :class:`JointViewGraph`."""

    probabilities: Float64Array
    """float64[R, cells]"""
    rows: Int64Array | None
    """int64[N]: the row of each joint view; None if rows are those of views"""


def _joint_table(graph: JointViewGraph, first: str | Policy, second: str | Policy) -> _JointTable:
    """Return the probabilities of ``first`` for player_0 and of ``second`` for player_1."""
    players = [make_pure(first, graph.game)]
    if second is not first:
        players.append(make_pure(second, graph.game))
    mover = graph.views.boards.mover
    tables = [graph.uniform() if is_peeking(player) else view_table(graph, player) for player in players]
    table = np.where(mover[:, None] == 0, tables[0], tables[-1])
    if not any(map(is_peeking, players)):
        return _JointTable(table, None)
    parts, rows = [table], graph.view.copy()
    positions = Boards(graph.cells, graph.mover)
    for seat, player in enumerate((players[0], players[-1])):
        if is_peeking(player):
            own = np.flatnonzero(graph.mover == seat)
            rows[own] = sum(map(len, parts)) + np.arange(len(own))
            parts.append(_query(player, positions.take(own)))
    return _JointTable(np.concatenate(parts), rows)


def _respond(graph: JointViewGraph, table: _JointTable, responder: int) -> OutcomeProbabilities:
    found = search_best_response(graph, table.probabilities, responder, rows=table.rows)
    loss = found.wins - found.value
    return OutcomeProbabilities(found.wins, 1.0 - found.wins - loss, loss)


def _to_probabilities(results: tuple[float, float, float]) -> OutcomeProbabilities:
    return OutcomeProbabilities(*results)
