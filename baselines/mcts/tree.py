"""Search trees in arrays, many side by side: storage, reading and subtree copies.

An *edge* is a move, a *node* is a position with its mover. Two nodes follow an edge where turns may be skipped, else
one. An array holds the fields of an edge, or of a node, side by side; kernels read each field as an array of its own
(:func:`tree_view`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baselines.exact.tablebase import Probe
from ttt_envs.core.jit import (
    BoolArray,
    Float32Array,
    Float64Array,
    Int8Array,
    Int32Array,
    Int64Array,
    compiled_at_once,
    compiled_at_once_allocating,
    inlined,
    int64,
)
from ttt_envs.core.records import Records
from ttt_envs.game.parameters import Parameters


class Edges(NamedTuple):
    """The edges of one tree, an array for each field."""

    player: Int32Array
    cell: Int32Array
    next_sibling: Int32Array
    """the edge tried before, from the same node; 0 for none"""
    is_solved: Int32Array
    """whether ``q`` is solved"""
    q: Float64Array
    """value for the player"""
    inv_sqrt_visits: Float64Array
    """1 / sqrt(visits), which only UCT needs"""


class Nodes(NamedTuple):
    """The nodes of one tree, an array for each field."""

    first_child: Int32Array
    """the edge tried last; 0 for none"""
    visits: Int32Array
    num_children: Int32Array
    """number of edges"""
    num_legal: Int32Array
    """number of moves to try; 0 if not expanded"""
    num_forced: Int32Array
    """number of forced moves, which are tried first"""
    num_unsolved: Int32Array
    """number of moves that are not solved"""
    next_prior: Int32Array
    """in guided searches the likeliest cell without an edge; -1 for none"""
    value_sum: Float64Array
    """sum of results, for the player of the edge above"""
    solved_value: Float64Array
    """solved value, if any, for the player of the edge above"""


EDGE = np.dtype({"names": Edges._fields, "formats": ["i4"] * 4 + ["f8"] * 2}, align=True)
NODE = np.dtype({"names": Nodes._fields, "formats": ["i4"] * 7 + ["f8"] * 2}, align=True)


class Tree(NamedTuple):
    """B trees with capacity for N edges each; T nodes follow an edge, 1 without skips, else 2.

    Edge 0 led to the root, which is node 0. Node ``edge * T`` is the turn of the other player, and ``edge * T + 1``
    another turn of the same player. Edges are in order of creation: a simulation appends one at most.
    """

    edges: Records
    """`EDGE`[B, N]"""
    nodes: Records
    """`NODE`[B, N * T]"""
    priors: Float32Array
    """float32[B, N * T, cells], in guided searches: priors of the moves, 0 for moves never to be made; else no cells"""
    raw_values: Float64Array
    """float64[B, N * T], in guided searches: raw value of a position, for the player of the edge above; else empty"""

    @classmethod
    def empty(cls, count: int, room: int, turns_per_move: int, cells: int = 0) -> Tree:
        """Allocate empty trees; ``cells`` of the board for guided searches."""
        nodes = room * turns_per_move
        return cls(
            np.zeros((count, room), EDGE),
            np.zeros((count, nodes), NODE),
            np.zeros((count, nodes, cells), np.float32),
            np.zeros((count, nodes if cells else 0)),
        )

    @property
    def turns_per_move(self) -> int:
        """Number of nodes after an edge."""
        return int(self.nodes.shape[1] // self.edges.shape[1])

    def view(self, rows: slice) -> Tree:
        """Return views of some of the trees."""
        edges, nodes, priors, raw_values = self
        return Tree(edges[rows], nodes[rows], priors[rows], raw_values[rows])

    def resized(self, room: int) -> Tree:
        """Return a copy with capacity for ``room`` edges, more or fewer."""
        count, before = self.edges.shape
        new = Tree.empty(count, room, self.turns_per_move, self.priors.shape[2])
        edges = min(room, before)
        nodes = edges * self.turns_per_move
        new.edges[:, :edges] = self.edges[:, :edges]
        new.nodes[:, :nodes], new.priors[:, :nodes] = self.nodes[:, :nodes], self.priors[:, :nodes]
        new.raw_values[:, :nodes] = self.raw_values[:, :nodes]
        return new

    @staticmethod
    def num_bytes(room: int, turns_per_move: int, cells: int = 0) -> int:
        """Return the size of one tree in bytes."""
        return room * (EDGE.itemsize + (NODE.itemsize + (4 * cells + 8 if cells else 0)) * turns_per_move)


class SavedSubtree(NamedTuple):
    """A move that was made, and its subtree."""

    cells: Int8Array
    """int8[rows * columns], the board after it"""
    tree: Tree
    """one tree, whose edge 0 is the move"""


class Workspace(NamedTuple):
    """Workspace of the kernels of one search, with one entry per cell of the board."""

    forced_mask: Int8Array
    closed: Int8Array
    visits: Int64Array
    edges: Int64Array
    q: Float64Array
    p: Float64Array

    @classmethod
    def empty(cls, cells: int) -> Workspace:
        """Allocate for a board of ``cells`` cells."""
        return cls(*np.zeros((2, cells), np.int8), *np.zeros((2, cells), np.int64), *np.zeros((2, cells)))


class SearchBatch(NamedTuple):
    """B trees, with the state of their current simulation."""

    cells: Int8Array
    """int8[B, rows * columns], the positions"""
    stones: Int64Array
    """int64[B], their numbers of stones"""
    counts: Int64Array
    """int64[B], edges in use; every simulation needs room for one more"""
    trees: Tree
    parameters: Parameters
    paths: Int64Array
    """int64[B, cells + 1]: the nodes that a simulation visits"""
    depths: Int64Array
    """int64[B]: index of the last of them; -1 for no simulation"""
    probe: Probe
    """positions with this number of stones are solved, see :class:`baselines.exact.tablebase.Probe`"""
    scratch: Workspace

    def of_rows(self, rows: slice, scratch: Workspace) -> SearchBatch:
        """Return views of some of the trees, with a workspace of their own."""
        cells, stones, counts, trees, parameters, paths, depths, probe, _ = self
        return SearchBatch(
            cells[rows],
            stones[rows],
            counts[rows],
            trees.view(rows),
            parameters,
            paths[rows],
            depths[rows],
            probe,
            scratch,
        )


class TreeView(NamedTuple):
    """One tree of a batch, with the state of its current simulation."""

    edges: Edges
    nodes: Nodes
    priors: Float32Array
    """float32[nodes, cells], see `Tree`"""
    raw_values: Float64Array
    """float64[nodes], see `Tree`"""
    board: Int8Array
    """int8[cells], the root, with the stones that the simulation has put"""
    path: Int64Array
    """int64[cells + 1], the nodes visited"""
    turns_per_move: int


@inlined
def edge_fields(edges: Records) -> Edges:
    """Return the fields of the edges of one tree."""
    return Edges(
        edges["player"],
        edges["cell"],
        edges["next_sibling"],
        edges["is_solved"],
        edges["q"],
        edges["inv_sqrt_visits"],
    )


@inlined
def node_fields(nodes: Records) -> Nodes:
    """Return the fields of the nodes of one tree."""
    return Nodes(
        nodes["first_child"],
        nodes["visits"],
        nodes["num_children"],
        nodes["num_legal"],
        nodes["num_forced"],
        nodes["num_unsolved"],
        nodes["next_prior"],
        nodes["value_sum"],
        nodes["solved_value"],
    )


@inlined
def tree_view(b: int, batch: SearchBatch) -> TreeView:
    """Return tree ``b`` of a batch."""
    trees = batch.trees
    return TreeView(
        edge_fields(trees.edges[b]),
        node_fields(trees.nodes[b]),
        trees.priors[b],
        trees.raw_values[b],
        batch.cells[b],
        batch.paths[b],
        2 if batch.parameters.skip_chance > 0 else 1,
    )


@inlined
def is_solved(node: int, nodes: Nodes) -> bool:
    """Return whether the value of a node is solved."""
    solved: bool = nodes.num_legal[node] > 0 and nodes.num_unsolved[node] == 0
    return solved


@inlined
def edge_visits(edge: int, nodes: Nodes, turns_per_move: int, guided: bool) -> int:
    """Return the simulations through an edge; in guided searches, the first one visits both nodes after it."""
    visits = int64(nodes.visits[edge * turns_per_move])
    if turns_per_move == 2:
        visits += int64(nodes.visits[edge * turns_per_move + 1]) - int64(guided)
    return visits


@compiled_at_once
def read_roots(trees: Tree, turns_per_move: int, visits: Int64Array, q: Float64Array, solved: BoolArray) -> None:
    """Read all root moves: visits int64[B, cells], values float64[B, cells], solved or not bool[B, cells]."""
    for b in range(len(visits)):
        edges, nodes = edge_fields(trees.edges[b]), node_fields(trees.nodes[b])
        edge = int64(nodes.first_child[0])
        while edge > 0:
            cell = edges.cell[edge]
            visits[b, cell] = edge_visits(edge, nodes, turns_per_move, len(trees.raw_values[b]) > 0)
            q[b, cell] = edges.q[edge]
            solved[b, cell] = edges.is_solved[edge] == 1
            edge = int64(edges.next_sibling[edge])


# ---------------------------------------------------------------------------------------------------------------------
# Tree reuse between moves


@compiled_at_once
def find_node(before: Int8Array, now: Int8Array, mover: int, trees: Tree, turns_per_move: int) -> int:
    """Return the node of a saved subtree for the position (now, mover); -1 if it is not in the tree.

    If the other player has made several moves in a row because of skips, their order is unknown: the most visited one
    is taken.

    Args:
        before: int8[cells], the board of the `SavedSubtree`.
        now: int8[cells].
        mover: player to move.
        trees: the tree of the `SavedSubtree`.
        turns_per_move: 1 without skips, else 2.
    """
    edges, nodes = edge_fields(trees.edges[0]), node_fields(trees.nodes[0])
    player = int64(edges.player[0])
    left = 0
    for cell in range(len(now)):
        if before[cell] != now[cell]:
            if before[cell] != 0 or now[cell] != 2 - player:
                return -1
            left += 1
    if left == 0:
        own = int64(mover == player)
        return own if own < turns_per_move else -1
    if mover != player:
        return -1
    node = 0
    while left > 0:
        most = 0
        best = 0
        edge = int64(nodes.first_child[node])
        while edge > 0:
            cell = edges.cell[edge]
            visits = edge_visits(edge, nodes, turns_per_move, False)
            if before[cell] != now[cell] and visits > most:
                most = visits
                best = edge
            edge = int64(edges.next_sibling[edge])
        left -= 1
        own = int64(left > 0)
        if best == 0 or own >= turns_per_move:
            return -1
        node = best * turns_per_move + own
    return node


@compiled_at_once_allocating
def copy_tree(edge: int, turn: int, old: Tree, row: int, new: Tree, to: int, turns_per_move: int) -> int:
    """Copy an edge of tree ``row`` and its subtree into the empty tree ``to``; return the number of edges copied.

    ``turn`` selects the node after the edge that becomes the root, without the other one; -1 copies both.
    """
    edges, nodes, new_edges, new_nodes = old.edges[row], old.nodes[row], new.edges[to], new.nodes[to]
    first_child, new_first_child = nodes["first_child"], new_nodes["first_child"]
    next_sibling, new_next_sibling = edges["next_sibling"], new_edges["next_sibling"]
    guided = len(old.raw_values[row]) > 0
    origin = np.empty(len(new_edges), np.int64)
    origin[0] = edge
    new_edges[0] = edges[edge]
    new_next_sibling[0] = 0
    count = 1
    copied = 0
    while copied < count:
        one = turn >= 0 and copied == 0
        for i in range(1 if one else turns_per_move):
            node = origin[copied] * turns_per_move + (turn if one else i)
            new_node = copied * turns_per_move + i
            new_nodes[new_node] = nodes[node]
            if guided:
                for cell in range(old.priors.shape[2]):  # an assignment of rows would take seconds to compile
                    new.priors[to, new_node, cell] = old.priors[row, node, cell]
                new.raw_values[to, new_node] = old.raw_values[row, node]
            child = int64(first_child[node])
            if child > 0:
                new_first_child[new_node] = count
            while child > 0:
                origin[count] = child
                new_edges[count] = edges[child]
                child = int64(next_sibling[child])
                new_next_sibling[count] = count + 1 if child > 0 else 0
                count += 1
        copied += 1
    return count
