"""Search trees in arrays, many side by side: storage, reading and subtree copies.

An *edge* is a move, a *node* is a position with its mover. Two nodes follow an edge where turns may
be skipped, else one. Symbols are those of Silver et al. (2018).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np

from baselines.exact.tablebase import Probe
from ttt_envs.core.jit import (
    Float32Array,
    Float64Array,
    Int8Array,
    Int64Array,
    UInt64Array,
    int8,
    kernel,
    pasted,
)
from ttt_envs.core.records import Records, record_dtype, records
from ttt_envs.game.bits import MAX_CELLS_IN_BITS, to_bits
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.parameters import Parameters

Int32 = Annotated[int, np.int32]
"""a number of 32 bits in a record"""


class Edge:
    """A move, made in a position s."""

    parent: Int32
    """the node s"""
    player: Int32
    cell: Int32
    next_sibling: Int32
    """the edge made before, from the same node; 0 for none"""
    visits: Int32
    """N(s, a): simulations through it"""
    is_solved: Int32
    """whether ``q`` is solved"""
    q: float
    """Q(s, a): value for the player"""
    p: float
    """P(s, a): prior"""


class Node:
    """A position with its mover. Values are for the player of the edge above."""

    first_child: Int32
    """the edge made last; 0 for none"""
    visits: Int32
    """1 for the evaluation, and the simulations through its edges; 0 if not evaluated"""
    num_legal: Int32
    """number of moves to try; 0 if not known yet"""
    num_unsolved: Int32
    """number of moves that are not solved"""
    next_cell: Int32
    """the move to try next; `ANY` to draw one of those without an edge, -1 for none"""
    raw_value: float
    """its evaluation"""
    value_sum: float
    """W: sum of the evaluation and of the values of the edges, by their visits"""
    solved_value: float
    """solved value, if any"""


ANY = 1 << 20
"""next cell of positions whose moves have equal priors"""


class Scratch(NamedTuple):
    """What one thread writes during its simulations: A leaves with their evaluations, and memory
    for selection.

    A is 2 for evaluators with their own kernel, else 2 * B.
    """

    leaves: Int8Array
    """int8[A, cells]: positions to evaluate"""
    movers: Int8Array
    """int8[A]: their movers"""
    prior_logits: Float32Array
    """float32[A, cells]: their evaluations: log priors, up to a constant; no cells if priors are
    equal
    """
    values: Float64Array
    """float64[A]: values for their movers"""
    mask: Int8Array
    """int8[cells]"""
    weights: Float64Array
    """float64[cells]"""

    @classmethod
    def empty(cls, leaves: int, cells: int, has_priors: bool) -> Scratch:
        """Allocate memory for a number of ``leaves``."""
        return cls(
            leaves=np.zeros((leaves, cells), np.int8),
            movers=np.zeros(leaves, np.int8),
            prior_logits=np.zeros((leaves, cells if has_priors else 0), np.float32),
            values=np.zeros(leaves),
            mask=np.zeros(cells, np.int8),
            weights=np.zeros(cells),
        )

    def copy(self) -> Scratch:
        """Return a copy, for another thread."""
        return Scratch._make(array.copy() for array in self)


BY_TREE = (
    "edges",
    "nodes",
    "priors",
    "cells",
    "bits",
    "stones",
    "root_wins",
    "counts",
    "keys",
    "reached",
)
"""fields of :class:`Tree` with a row for each tree"""


class Tree(NamedTuple):
    """B trees with capacity for N edges each; T nodes follow an edge, 1 without skips, else 2.

    Edge 0 led to the root, which is node 0. Node ``edge * T`` is the turn of the other player, and
    ``edge * T + 1`` another turn of the same player. Edges are in order of creation: a simulation
    appends one at most.
    """

    edges: Records[Records[Edge]]
    """`Edge`[B, N]"""
    nodes: Records[Records[Node]]
    """`Node`[B, N * T]"""
    priors: Float32Array
    """float32[B, N * T, cells]: priors of the moves, 0 for moves never to be made; no cells if all
    are equal
    """
    cells: Int8Array
    """int8[B, cells], the roots, with the stones of the current simulation"""
    bits: Int64Array
    """int64[B, 2]: the stones of each player on ``cells``, up to ``MAX_CELLS_IN_BITS`` cells"""
    stones: Int64Array
    """int64[B], number of stones of the roots"""
    root_wins: Int64Array
    """int64[B], number of winning stones of both players at the roots; -1 before the first
    simulation
    """
    counts: Int64Array
    """int64[B], edges in use; every simulation needs room for one more"""
    keys: UInt64Array
    """uint64[B], keys of the random numbers, of which each edge has its own"""
    reached: Int64Array
    """int64[B]: the last node of the current simulation, the first of those after a new edge; -1
    for no simulation
    """
    scratch: Scratch
    parameters: Parameters
    probe: Probe | None
    """None, or the layer of a database: positions with this number of stones are solved"""
    decisive: bool
    """whether moves are forced and solved values propagated"""
    turns_per_move: int
    """T"""

    @classmethod
    def empty(
        cls,
        game: Game,
        boards: Boards,
        keys: UInt64Array,
        *,
        room: int,
        leaves: int,
        has_priors: bool,
        decisive: bool,
    ) -> Tree:
        """Allocate trees of positions with capacity for ``room`` edges and ``leaves``, without a
        database.
        """
        count, size = boards.cells.shape
        turns = 2 if game.skip_chance > 0 else 1
        prior_cells = size if has_priors else 0
        tree = cls(
            edges=records(Edge, (count, room)),
            nodes=records(Node, (count, room * turns)),
            priors=np.zeros((count, room * turns, prior_cells), np.float32),
            cells=boards.cells.copy(),
            bits=np.zeros((count, 2), np.int64),
            stones=np.zeros(count, np.int64),
            root_wins=np.full(count, -1),
            counts=np.ones(count, np.int64),
            keys=keys,
            reached=np.zeros(count, np.int64),
            scratch=Scratch.empty(leaves, size, has_priors),
            parameters=game.parameters,
            probe=None,
            decisive=decisive,
            turns_per_move=turns,
        )
        tree.edges["player"][:, 0] = 1 - boards.mover
        _read_stones(tree.cells, tree.bits, tree.stones)
        return tree

    def rows(self, rows: slice) -> Tree:
        """Return views of some of the trees, with scratch of their own; for all of them, this
        object.
        """
        if rows == slice(0, len(self.cells)):
            return self
        arrays = {name: getattr(self, name)[rows] for name in BY_TREE}
        return self._replace(**arrays, scratch=self.scratch.copy())

    def resized(self, room: int) -> Tree:
        """Return a copy with capacity for more edges: ``room``."""
        num_nodes = room * self.turns_per_move
        return self._replace(
            edges=_resized(self.edges, room),
            nodes=_resized(self.nodes, num_nodes),
            priors=_resized(self.priors, num_nodes),
        )

    @staticmethod
    def num_bytes(room: int, turns_per_move: int, cells: int = 0) -> int:
        """Return the size of one tree in bytes; ``cells`` of the board if moves have priors."""
        edge = record_dtype(Edge).itemsize
        node = record_dtype(Node).itemsize
        return room * (edge + (node + 4 * cells) * turns_per_move)


@kernel
def _read_stones(cells: Int8Array, bits: Int64Array, stones: Int64Array) -> None:
    """Read boards int8[B, cells]: the stones of each player as bits int64[B, 2], on boards up to
    ``MAX_CELLS_IN_BITS`` cells, and the number of stones int64[B].
    """
    for b in range(len(cells)):
        for cell in range(cells.shape[1]):
            stones[b] += cells[b, cell] != 0
        if cells.shape[1] <= MAX_CELLS_IN_BITS:
            for player in range(2):
                bits[b, player] = to_bits(cells[b], int8(player + 1))


def _resized(array: Any, room: int) -> Any:
    """Return a copy with more columns: ``room``."""
    copy = np.zeros((len(array), room, *array.shape[2:]), array.dtype)
    copy[:, : array.shape[1]] = array
    return copy


@pasted
def is_solved(node: int, nodes: Records[Node]) -> bool:
    """Return whether the value of a node is solved."""
    return bool(nodes[node].num_legal > 0) and bool(nodes[node].num_unsolved == 0)


@pasted
def edge_above(node: int, tree: Tree) -> int:
    """Return the edge that leads to a node: a division by T, which is 1 or 2, as a shift."""
    return node >> (tree.turns_per_move - 1)


@pasted
def is_skip(node: int, tree: Tree) -> bool:
    """Return whether the mover at a node is the player of the edge above."""
    return node & (tree.turns_per_move - 1) == 1


# --------------------------------------------------------------------------------------------------
# Tree reuse between moves


def children_of(tree: Tree, row: int, node: int) -> list[int]:
    """Return the edges of a node of tree ``row``, the last one first."""
    edges = []
    next_sibling = tree.edges["next_sibling"][row]
    edge = int(tree.nodes["first_child"][row, node])
    while edge > 0:
        edges.append(edge)
        edge = int(next_sibling[edge])
    return edges


def find_node(tree: Tree, cells: Int8Array, mover: int) -> int:
    """Return the node of tree 0 for the position (cells, mover), after one move of the root's
    mover; -1 for none.

    The other player may have made several moves in a row because of skips. Their order is unknown:
    the most visited one is taken.
    """
    before = tree.cells[0]
    player = 1 - int(tree.edges["player"][0, 0])
    node = 0
    stones = set(np.flatnonzero(before != cells).tolist())
    own = {cell for cell in stones if cells[cell] == player + 1}
    if len(own) != 1 or any(before[cell] for cell in stones):
        return -1
    if mover != player and len(stones) > 1:
        return -1
    other_moves = [1 - player] * (len(stones) - 1)
    for last, next_mover in pairwise([player, *other_moves, mover]):
        cells_of_last = own if last == player else stones - own
        children = children_of(tree, 0, node)
        moves = [edge for edge in children if tree.edges["cell"][0, edge] in cells_of_last]
        if not moves or (last == next_mover and tree.turns_per_move == 1):
            return -1
        best = max(moves, key=lambda edge: int(tree.edges["visits"][0, edge]))
        node = best * tree.turns_per_move + int(last == next_mover)
    return node


def copy_subtree(root: int, old: Tree, new: Tree, row: int) -> None:
    """Copy the subtree of node ``root`` > 0 of tree 0 into the empty tree ``row``."""
    count = int(old.counts[0])
    turns = old.turns_per_move
    number = np.zeros(count, np.int64)  # edge -> its number in the copy, 0 if it is not there
    new.counts[row] = number_edges(root, old, number)
    edges = np.flatnonzero(number)
    nodes = np.concatenate([[root], *(turn + turns * edges for turn in range(turns))])
    copies = np.concatenate([[0], *(turn + turns * number[edges] for turn in range(turns))])
    new.nodes[row, copies] = old.nodes[0, nodes]
    new.priors[row, copies] = old.priors[0, nodes]
    new.nodes["first_child"][row, copies] = number[new.nodes["first_child"][row, copies]]
    copy_of_node = np.zeros(count * turns, np.int64)
    copy_of_node[nodes] = copies
    moves = old.edges[0, edges]
    moves["parent"] = copy_of_node[moves["parent"]]
    moves["next_sibling"] = number[moves["next_sibling"]]
    new.edges[row, 1 : 1 + len(edges)] = moves
    if root % turns == 1:  # values are for the player not to move at the root
        for value in ("raw_value", "value_sum", "solved_value"):
            new.nodes[value][row, 0] *= -1


@kernel(interpreted=False)
def number_edges(root: int, tree: Tree, number: Int64Array) -> int:
    """Number the edges below a node of tree 0, from 1, in ``number`` int64[edges], zeros; return
    the next number.

    Edges come after those above them.
    """
    edges = tree.edges[0]
    count = 1
    for edge in range(1, len(number)):
        if edges[edge].parent == root or number[edges[edge].parent // tree.turns_per_move] > 0:
            number[edge] = count
            count += 1
    return count
