"""All nodes of a small game, kept for repeated exact evaluation of tables with a row for each
information set.

An information set is a position; in a phantom game it is a player's view, which stands for several
nodes. A view occurs at most once in a game, so the policy gradient theorem (Sutton et al., 2000,
Theorem 1) holds with views as states: what a move of a view is worth is the mean over its nodes,
weighed by their visits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ttt_envs.agents.policy import VALUE_TOLERANCE, best_shares
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array
from ttt_envs.game.boards import Boards, distinct_boards, position_keys
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, PhantomGame
from ttt_envs.graph.layers import Traversal
from ttt_envs.graph.passes import DRAW, WIN_0, WIN_1, backward, forward_again

MAX_EDGES = 1 << 22
"""Maximum number of moves of a graph."""


class GraphEvaluation(NamedTuple):
    """Exact evaluation of one policy for each player; values are those of the mover.

    In a phantom game they are means over the nodes of a view by their visits, 0 in views that are
    not visited.
    """

    policy: Float64Array
    """float64[V, cells]: the mover's probabilities"""
    action_values: Float64Array
    """float64[V, cells]: expected result after each move, 0 where illegal"""
    values: Float64Array
    """float64[V]: expected result"""
    occupancy: Float64Array
    """float64[V]: probability of a visit"""
    results: tuple[float, float, float]
    """probabilities that player_0 wins, of a draw, and that player_1 wins"""

    @property
    def advantages(self) -> Float64Array:
        """float64[V, cells]: action values minus values; a new array at every access."""
        return self.action_values - self.values[:, None]


def sum_by(index: Int64Array, weights: Float64Array, size: int) -> Float64Array:
    """Return the sums of weights float64[N] with the same index int64[N], float64[size]."""
    return np.asarray(np.bincount(index, weights, size), np.float64)


class KeptGraph:
    """All nodes of a game and the moves between them.

    Args:
        game: the game.

    Attributes:
        boards: the V information sets of both players, in a game with visible stones by the number
            of stones.
        legal: bool[V, cells]: the legal moves.
        traversal: the graph.
        info_set: int64[N]: the information set of each node, in the order of the layers.

    Raises:
        MemoryError: too many cells, or more than ``MAX_EDGES`` moves.
    """

    def __init__(self, game: AnyGame) -> None:
        self.game = game
        self.traversal = Traversal(game, (None, None), complete=(True, True), merge=False)
        parts, num_edges = [], 0
        for layer, _, nodes in self.traversal.walk(keep=True):
            parts.append(self.traversal.boards(layer, nodes))
            num_edges += len(nodes.child)
            if num_edges > MAX_EDGES:
                raise MemoryError(
                    f"{game} has more than {MAX_EDGES:,} moves, too many for exact updates of a "
                    "table: choose a "
                    f"smaller board, such as 3x3 or 3x4"
                )
        nodes_boards = Boards(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
        if isinstance(game, Game):
            order = np.lexsort(
                (position_keys(nodes_boards), np.count_nonzero(nodes_boards.cells, axis=1))
            )
            self.boards, self.info_set = nodes_boards.take(order), np.argsort(order)
        else:
            self.boards, self.info_set = distinct_boards(nodes_boards)
        self.legal: BoolArray = self.boards.legal(game)
        self._share = np.empty(num_edges)
        self._edge_node, self._edge = self._number_edges()

    def _number_edges(self) -> tuple[Int64Array, Int64Array]:
        """Return the node of each edge, and its place in a table, int64[K] each; shares become
        views of one array.
        """
        start, node, places = 0, 0, []
        for layer in self.traversal.layers:
            for at, nodes in enumerate(layer.nodes):
                stop = start + len(nodes.child)
                row, cell = nodes.places
                places.append((row + node, cell))
                layer.nodes[at] = nodes._replace(share=self._share[start:stop])
                start, node = stop, node + len(nodes.rows)
        rows, cells = (np.concatenate(column) for column in zip(*places, strict=True))
        return rows, self.info_set[rows] * self.game.cells + cells

    def play(self, policy: Float64Array) -> None:
        """Let both players play a table float64[V, cells]."""
        self._share[:] = policy.ravel()[self._edge]

    def evaluate(
        self, policy: Float64Array, costs: Float64Array | None = None, responder: int | None = None
    ) -> GraphEvaluation:
        """Return exact values of a table.

        Args:
            policy: float64[V, cells]: the mover's probability of each move, 0 where illegal.
            costs: float64[V, cells]: what each move costs the mover and pays to the other player;
                None for nothing.
            responder: a player whose moves are replaced by the best ones, equal shares of equal
                ones; None for neither.

        Raises:
            ValueError: a responder in a phantom game: a best policy over views cannot be found
                backward, view by view.
        """
        self.play(policy)
        hidden = isinstance(self.game, PhantomGame)
        if responder is not None and hidden:
            raise Refusal("best policies over views cannot be found by dynamic programming")
        results, visits = self._visits()
        paid = None
        if costs is not None:
            ends = np.cumsum(
                [len(nodes.child) for layer in self.traversal.layers for nodes in layer.nodes]
            )
            paid = np.split(costs.ravel()[self._edge], ends[:-1])
        best = responder == 0, responder == 1
        passes = backward(self.traversal, best=best, costs=paid)
        parts = [
            (values[nodes.rows, nodes.mover], gains, nodes.mover)
            for _, nodes, values, gains in passes
        ][::-1]
        node_values = np.concatenate(
            [chances[:, mover] - chances[:, 1 - mover] for chances, _, mover in parts]
        )
        gains = np.concatenate([part for _, part, _ in parts])
        size, shape = len(self.boards.mover), self.legal.shape
        occupancy = sum_by(self.info_set, visits, size)
        weights = (
            visits / np.where(occupancy > 0, occupancy, 1.0)[self.info_set]
            if hidden
            else np.ones(len(visits))
        )
        values = sum_by(self.info_set, weights * node_values, size)
        action_values = sum_by(
            self._edge, weights[self._edge_node] * gains, size * shape[1]
        ).reshape(shape)
        if responder is not None:
            masked = np.where(self.legal, action_values, np.nan)
            policy = np.where(
                (self.boards.mover == responder)[:, None],
                best_shares(masked, VALUE_TOLERANCE),
                policy,
            )
            self.play(policy)
            results, visits = self._visits()
            occupancy = sum_by(self.info_set, visits, size)
        return GraphEvaluation(policy, action_values, values, occupancy, results)

    def _visits(self) -> tuple[tuple[float, float, float], Float64Array]:
        """Return the results of the table that is played, and the probability of each node,
        float64[N].
        """
        results = np.zeros(4)
        visits = np.concatenate(list(forward_again(self.traversal, results)))
        return (float(results[WIN_0]), float(results[DRAW]), float(results[WIN_1])), visits
