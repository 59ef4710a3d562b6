"""Chance nodes in the transposition table: boards up to symmetry, with bounds on the value of either turn.

A row of the table has the stones of both players as bits and the plies left for its key; a good move of either player;
and bounds on the value for player_0, with player_0 to move and with player_1 to move (Veness and Blair, "Effective use
of transposition tables in stochastic game tree search", 2007). In a narrow search it holds for one node of the tree
only: its random key is a part of the row's.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from baselines.search.transpositions import WORTH_SHIFT, find, store
from ttt_envs.core.jit import Float64Array, Int64Array, inlined, int64
from ttt_envs.game.game import Game
from ttt_envs.game.symmetry import inverse, symmetries

LOW, HIGH = range(2)
NO_MOVE = 511


class ChanceNodes(NamedTuple):
    """The chance nodes on the path, by plies left, and the current position under the symmetries of the board.

    D is the depth + 1. Turns after a chance node are numbered 0, the other player's, and 1, the maker's own after a
    skip; the maker is the player who has just moved.
    """

    bounds: Float64Array
    """float64[D, 2, 2]: ``LOW`` and ``HIGH`` of either turn, for the maker"""
    hints: Int64Array
    """int64[D, 2]: a good move of either turn, -1 for none"""
    keys: Int64Array
    """int64[D, 2 * words + 1]: of the table"""
    permutations: Int64Array
    """int64[S, cells]: new cell of a stone under each symmetry, the identity first"""
    inverses: Int64Array
    """int64[S, cells]: the inverse"""
    planes: Int64Array
    """int64[S, 2 * words]: the stones of both players under these symmetries, as bits"""

    @classmethod
    def empty(cls, game: Game, depth: int) -> ChanceNodes:
        """Return the chance nodes of a search to this depth."""
        permutations, inverses = _symmetry_tables(game)
        bounds, hints = np.zeros((depth + 1, 2, 2)), np.zeros((depth + 1, 2), np.int64)
        planes = np.zeros((len(inverses), key_words(game) - 1), np.int64)
        return cls(bounds, hints, np.zeros((depth + 1, key_words(game)), np.int64), permutations, inverses, planes)


def key_words(game: Game) -> int:
    """Return the number of words of a key: the stones of both players, and the plies left."""
    return 2 * -(-game.cells // 64) + 1


@lru_cache(maxsize=16)
def _symmetry_tables(game: Game) -> tuple[Int64Array, Int64Array]:
    """Return ``permutations`` and ``inverses``."""
    inverses = np.unique(symmetries(game), axis=0)  # a board of one row has fewer than 4; the identity sorts first
    return inverse(inverses), inverses


@inlined
def mark(cell: int, mover: int, nodes: ChanceNodes) -> None:
    """Put a stone into the planes, or take it back."""
    planes, half = nodes.planes, nodes.planes.shape[1] // 2
    for i in range(len(planes)):
        to = nodes.permutations[i, cell]
        planes[i, mover * half + (to >> 6)] ^= int64(1) << (to & 63)


@inlined
def _write_board(key: Int64Array, planes: Int64Array) -> int:
    """Write the canonical board, the least under symmetries; return the symmetry that leads to it."""
    least = 0
    for i in range(1, len(planes)):
        word = 0
        while word < planes.shape[1] - 1 and planes[i, word] == planes[least, word]:
            word += 1
        if planes[i, word] < planes[least, word]:
            least = i
    for word in range(planes.shape[1]):
        key[word] = planes[least, word]
    return int64(least)


@inlined
def look_up(depth: int, maker: int, random_key: int, nodes: ChanceNodes, table: Int64Array) -> int:
    """Narrow the bounds of a chance node and write its hints; a search one ply shallower gives hints only.

    ``random_key`` is 0, or the node's in a narrow search.

    Returns:
        The symmetry that maps the board to its key.
    """
    bounds, hints, keys = nodes.bounds[depth], nodes.hints[depth], nodes.keys
    values, words = table.view(np.float64), keys.shape[1]
    symmetry = _write_board(keys[depth], nodes.planes)
    entry, plies = -1, depth + 1
    while entry < 0 and plies > depth - 1:
        plies -= 1
        keys[depth, words - 1] = plies ^ random_key
        entry = find(keys, depth, words, table)
    keys[depth, words - 1] = depth ^ random_key
    for own in range(2 if entry >= 0 else 0):
        player = maker if own else 1 - maker
        move = table[entry, words] >> 9 * player & NO_MOVE
        hints[own] = nodes.inverses[symmetry, move] if move != NO_MOVE else -1
        if plies == depth:
            low, high = values[entry, words + 1 + 2 * player], values[entry, words + 2 + 2 * player]
            low, high = (low, high) if maker == 0 else (-high, -low)
            bounds[own, LOW], bounds[own, HIGH] = max(bounds[own, LOW], low), min(bounds[own, HIGH], high)
    return symmetry


@inlined
def store_bounds(depth: int, maker: int, symmetry: int, nodes: ChanceNodes, table: Int64Array) -> int:
    """Write the bounds and hints of a chance node after :func:`look_up`; return the number of rows gained, 0 or 1."""
    bounds, hints, words = nodes.bounds[depth], nodes.hints[depth], nodes.keys.shape[1]
    values, info = table.view(np.float64), depth << WORTH_SHIFT
    for own in range(2):
        player = maker if own else 1 - maker
        info |= (NO_MOVE if hints[own] < 0 else nodes.permutations[symmetry, hints[own]]) << 9 * player
    entry, gained = store(nodes.keys, depth, words, info, table)
    for own in range(2):
        player = maker if own else 1 - maker
        low, high = (bounds[own, LOW], bounds[own, HIGH]) if maker == 0 else (-bounds[own, HIGH], -bounds[own, LOW])
        values[entry, words + 1 + 2 * player], values[entry, words + 2 + 2 * player] = low, high
    return gained
