"""All nodes of a small game, held for repeated exact evaluation of tables with a row for each
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
from ttt_envs.core.records import concatenate
from ttt_envs.game.boards import distinct_boards, position_keys
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


class GameGraph:
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
        parts = []
        num_edges = 0
        for layer, _, nodes in self.traversal.walk(keep=True):
            parts.append(self.traversal.boards(layer, nodes))
            num_edges += len(nodes.child)
            if num_edges > MAX_EDGES:
                raise MemoryError(
                    f"{game} has more than {MAX_EDGES:,} moves, too many for exact updates of a "
                    "table: choose a smaller board, such as 3x3 or 3x4"
                )
        nodes_boards = concatenate(parts)
        if isinstance(game, Game):
            stones = nodes_boards.num_stones
            order = np.lexsort((position_keys(nodes_boards), stones))
            self.boards = nodes_boards.take(order)
            self.info_set = np.argsort(order)
        else:
            self.boards, self.info_set = distinct_boards(nodes_boards)
        self.legal: BoolArray = self.boards.legal(game)
        self._share = np.empty(num_edges)
        self._edge_node, self._edge = self._number_edges()

    def _number_edges(self) -> tuple[Int64Array, Int64Array]:
        """Return the node of each edge, and its place in a table, int64[K] each; shares become
        views of one array.
        """
        num_edges = 0
        num_nodes = 0
        edge_nodes = []
        edge_cells = []
        for layer in self.traversal.layers:
            for index, nodes in enumerate(layer.nodes):
                row, cell = nodes.places
                edge_nodes.append(row + num_nodes)
                edge_cells.append(cell)
                share = self._share[num_edges : num_edges + len(nodes.child)]
                layer.nodes[index] = nodes._replace(share=share)
                num_edges += len(nodes.child)
                num_nodes += len(nodes.rows)
        rows = np.concatenate(edge_nodes)
        return rows, self.info_set[rows] * self.game.cells + np.concatenate(edge_cells)

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
        is_phantom = isinstance(self.game, PhantomGame)
        if responder is not None and is_phantom:
            raise Refusal("best policies over views cannot be found by dynamic programming")
        results, visits = self._visits()
        node_values, gains = self._node_values(costs, responder)
        occupancy = self._sum_by_info_set(visits)
        weights = np.ones(len(visits))
        if is_phantom:
            weights = visits / np.where(occupancy > 0, occupancy, 1.0)[self.info_set]
        values = self._sum_by_info_set(weights * node_values)
        edge_values = weights[self._edge_node] * gains
        action_values = sum_by(self._edge, edge_values, self.legal.size).reshape(self.legal.shape)
        if responder is not None:
            masked_values = np.where(self.legal, action_values, np.nan)
            responses = best_shares(masked_values, VALUE_TOLERANCE)
            policy = np.where((self.boards.mover == responder)[:, None], responses, policy)
            self.play(policy)
            results, visits = self._visits()
            occupancy = self._sum_by_info_set(visits)
        return GraphEvaluation(policy, action_values, values, occupancy, results)

    def _sum_by_info_set(self, weights: Float64Array) -> Float64Array:
        """Return the sums over the nodes of each information set, float64[V], of weights
        float64[N].
        """
        return sum_by(self.info_set, weights, len(self.boards.mover))

    def _node_values(
        self, costs: Float64Array | None, responder: int | None
    ) -> tuple[Float64Array, Float64Array]:
        """Return the mover's expected result in each node, float64[N], and after each edge,
        float64[K], of the table that is played; see :meth:`evaluate`.
        """
        edge_costs = None
        if costs is not None:
            layers = self.traversal.layers
            ends = np.cumsum([len(nodes.child) for layer in layers for nodes in layer.nodes])
            edge_costs = np.split(costs.ravel()[self._edge], ends[:-1])
        best = responder == 0, responder == 1
        node_values = []
        edge_values = []
        for _, nodes, chances, gains in backward(self.traversal, best=best, costs=edge_costs):
            by_player = chances[nodes.rows, nodes.mover]
            node_values.append(by_player[:, nodes.mover] - by_player[:, 1 - nodes.mover])
            edge_values.append(gains)
        return np.concatenate(node_values[::-1]), np.concatenate(edge_values[::-1])

    def _visits(self) -> tuple[tuple[float, float, float], Float64Array]:
        """Return the results of the table that is played, and the probability of each node,
        float64[N].
        """
        results = np.zeros(4)
        visits = np.concatenate(list(forward_again(self.traversal, results)))
        return (float(results[WIN_0]), float(results[DRAW]), float(results[WIN_1])), visits
