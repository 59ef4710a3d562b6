"""Search trees in arrays, many side by side: storage, reading and subtree copies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.jit import (
    BoolArray,
    Float64Array,
    Int8Array,
    Int64Array,
    compiled_at_once,
    compiled_at_once_allocating,
    inlined,
    int64,
)

Int32Array = NDArray[np.int32]
Float32Array = NDArray[np.float32]

MAKER, CELL, NEXT, SETTLED = range(4)
"""columns of `Tree.moves`: player who made the move; cell; next sibling, 0 for none; whether its value is solved"""
MEAN, WIDTH = range(2)
"""columns of `Tree.rates`, for a move: its value for its player; 1 / sqrt(visits), which only UCT needs"""
FIRST, VISITS, TRIED, LIMIT, URGENT, OPEN, LIKELIEST = range(7)
"""columns of `Tree.turns`, for a position with its mover: first child, the move tried last, 0 for none; visits; number
of moves tried; number of moves to try, 0 if not expanded; number of forced moves, tried first; number of unsolved
moves; and in guided searches the likeliest unvisited cell, -1 for none"""
SUM, KNOWN = range(2)
"""columns of `Tree.sums`, for such a position: the sum of its results, and its solved value, if any; both for the
player who made the move that led there"""


class Tree(NamedTuple):
    """B trees with capacity for N moves each; T turns may follow a move, 1 without skips, else 2.

    Row 0 is the move that led to the root, and its turn 0 is the root. After move m, row ``m * T`` is the turn of the
    other player and row ``m * T + 1`` another turn of the same player. Rows are in order of creation: every simulation
    appends one.
    """

    moves: Int32Array
    """int32[B, N, 4]"""
    rates: Float64Array
    """float64[B, N, 2]"""
    turns: Int32Array
    """int32[B, N * T, 7]"""
    sums: Float64Array
    """float64[B, N * T, 2]"""
    priors: Float32Array
    """float32[B, N * T, cells], in guided searches: priors of the moves, 0 for moves never to be made; else no cells"""
    raw_values: Float64Array
    """float64[B, N * T], in guided searches: raw value of a position, for the player who made the move that led there;
    else no nodes"""

    @classmethod
    def empty(cls, count: int, room: int, turns: int, cells: int = 0) -> Tree:
        """Allocate empty trees; ``cells`` of the board for guided searches."""
        return cls(
            np.zeros((count, room, 4), np.int32),
            np.zeros((count, room, 2)),
            np.zeros((count, room * turns, 7), np.int32),
            np.zeros((count, room * turns, 2)),
            np.zeros((count, room * turns, cells), np.float32),
            np.zeros((count, room * turns if cells else 0)),
        )

    def of(self, rows: slice) -> Tree:
        """Return views of some of the trees."""
        moves, rates, turns, sums, priors, raw_values = self
        return Tree(moves[rows], rates[rows], turns[rows], sums[rows], priors[rows], raw_values[rows])

    def resized(self, room: int) -> Tree:
        """Return a copy with capacity for ``room`` moves, more or fewer."""
        count, before, _ = self.moves.shape
        turns = self.turns.shape[1] // before
        new = Tree.empty(count, room, turns, self.priors.shape[2])
        used = min(room, before)
        nodes = used * turns
        new.moves[:, :used], new.rates[:, :used] = self.moves[:, :used], self.rates[:, :used]
        new.turns[:, :nodes], new.sums[:, :nodes] = self.turns[:, :nodes], self.sums[:, :nodes]
        new.priors[:, :nodes], new.raw_values[:, :nodes] = self.priors[:, :nodes], self.raw_values[:, :nodes]
        return new

    @staticmethod
    def bytes_of(room: int, turns: int, cells: int = 0) -> int:
        """Return the size of one tree in bytes."""
        return room * (32 + (44 + (4 * cells + 8 if cells else 0)) * turns)


class Workspace(NamedTuple):
    """Workspace of the kernels of one search, with one entry per cell of the board."""

    forced_mask: Int8Array
    closed: Int8Array
    visits: Int64Array
    made: Int64Array
    q: Float64Array
    p: Float64Array

    @classmethod
    def of(cls, cells: int) -> Workspace:
        """Allocate for a board of ``cells`` cells."""
        return cls(*np.zeros((2, cells), np.int8), *np.zeros((2, cells), np.int64), *np.zeros((2, cells)))


class SavedSubtree(NamedTuple):
    """A move that was made, and its subtree."""

    cells: Int8Array
    """int8[rows * columns], the board after it"""
    trees: Tree
    """one tree, whose row 0 is the move with all turns after it"""


@inlined
def is_solved(node: int, turns: Int32Array) -> bool:
    """Return whether the value of a position is solved."""
    known: bool = turns[node, LIMIT] > 0 and turns[node, OPEN] == 0
    return known


@inlined
def visits_of(move: int, turns: Int32Array, turns_per_move: int, guided: bool) -> int:
    """Return the simulations through a move; in guided searches, the first one visits both turns after it."""
    visits = int64(turns[move * turns_per_move, VISITS])
    if turns_per_move == 2:
        visits += int64(turns[move * turns_per_move + 1, VISITS]) - int64(guided)
    return visits


@compiled_at_once
def read_roots(trees: Tree, turns_per_move: int, visits: Int64Array, means: Float64Array, solved: BoolArray) -> None:
    """Read all root moves: visits int64[B, cells], means float64[B, cells], solved or not bool[B, cells]."""
    moves, rates, turns = trees.moves, trees.rates, trees.turns
    for b in range(len(moves)):
        move = int64(turns[b, 0, FIRST])
        while move > 0:
            cell = moves[b, move, CELL]
            visits[b, cell] = visits_of(move, turns[b], turns_per_move, len(trees.raw_values[b]) > 0)
            means[b, cell] = rates[b, move, MEAN]
            solved[b, cell] = moves[b, move, SETTLED] == 1
            move = int64(moves[b, move, NEXT])


# ---------------------------------------------------------------------------------------------------------------------
# Tree reuse between moves


@compiled_at_once
def node_of(
    before: Int8Array, now: Int8Array, mover: int, moves: Int32Array, turns: Int32Array, turns_per_move: int
) -> int:
    """Return the node of a kept tree, as in `SavedSubtree`, for the position (now, mover); -1 if it is not in the tree.

    If the other player has made several moves in a row because of skips, their order is unknown: the most visited one
    is taken.
    """
    maker = int64(moves[0, MAKER])
    left = 0
    for cell in range(len(now)):
        if before[cell] != now[cell]:
            if before[cell] != 0 or now[cell] != 2 - maker:
                return -1
            left += 1
    if left == 0:
        own = int64(mover == maker)
        return own if own < turns_per_move else -1
    if mover != maker:
        return -1
    node = 0
    while left > 0:
        most = 0
        best = 0
        move = int64(turns[node, FIRST])
        while move > 0:
            cell = moves[move, CELL]
            visits = 0
            for turn in range(turns_per_move):
                visits += int64(turns[move * turns_per_move + turn, VISITS])
            if before[cell] != now[cell] and visits > most:
                most = visits
                best = move
            move = int64(moves[move, NEXT])
        left -= 1
        own = int64(left > 0)
        if best == 0 or own >= turns_per_move:
            return -1
        node = best * turns_per_move + own
    return node


@compiled_at_once_allocating
def copy_tree(move: int, turn: int, old: Tree, row: int, new: Tree, to: int, turns_per_move: int) -> int:
    """Copy a move of tree ``row`` and its subtree into the empty tree ``to``; return the number of moves copied.

    ``turn`` selects the turn after the move that becomes turn 0, without the other one; -1 copies both.
    """
    moves, rates, turns, sums = old.moves[row], old.rates[row], old.turns[row], old.sums[row]
    new_moves, new_rates, new_turns, new_sums = new.moves[to], new.rates[to], new.turns[to], new.sums[to]
    guided = len(old.raw_values[row]) > 0
    origin = np.empty(len(new_moves), np.int64)
    origin[0] = move
    for column in range(moves.shape[1]):  # assignments of rows would take seconds to compile
        new_moves[0, column] = moves[move, column]
    new_moves[0, NEXT] = 0
    for column in range(rates.shape[1]):
        new_rates[0, column] = rates[move, column]
    count = 1
    copied = 0
    while copied < count:
        one = turn >= 0 and copied == 0
        for i in range(1 if one else turns_per_move):
            node = origin[copied] * turns_per_move + (turn if one else i)
            new_node = copied * turns_per_move + i
            for column in range(turns.shape[1]):
                new_turns[new_node, column] = turns[node, column]
            for column in range(sums.shape[1]):
                new_sums[new_node, column] = sums[node, column]
            if guided:
                for cell in range(old.priors.shape[2]):
                    new.priors[to, new_node, cell] = old.priors[row, node, cell]
                new.raw_values[to, new_node] = old.raw_values[row, node]
            child = int64(turns[node, FIRST])
            if child > 0:
                new_turns[new_node, FIRST] = count
            while child > 0:
                origin[count] = child
                for column in range(rates.shape[1]):
                    new_rates[count, column] = rates[child, column]
                for column in range(moves.shape[1]):
                    new_moves[count, column] = moves[child, column]
                child = int64(moves[child, NEXT])
                new_moves[count, NEXT] = count + 1 if child > 0 else 0
                count += 1
        copied += 1
    return count
