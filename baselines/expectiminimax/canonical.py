"""Chance nodes in the transposition table: boards up to symmetry, with bounds on the value of either turn.

A row of the table has the stones of both players as bits and the plies left for its key; a good move of either player;
and bounds on the value for player_0, with player_0 to move and with player_1 to move (Veness and Blair, "Effective use
of transposition tables in stochastic game tree search", 2007). In a narrow search it holds for one node of the tree
only: its random key is a part of the row's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baselines.search.canonical import Planes, write_key
from baselines.search.transpositions import WORTH_SHIFT, find, store
from ttt_envs.core.jit import Float64Array, Int64Array, inlined

LOW, HIGH = range(2)
NO_MOVE = 511


class ChanceNodes(NamedTuple):
    """The chance nodes on the path, by plies left: D is the depth + 1.

    Turns after a chance node are numbered 0, the other player's, and 1, the maker's own after a skip; the maker is the
    player who has just moved.
    """

    bounds: Float64Array
    """float64[D, 2, 2]: ``LOW`` and ``HIGH`` of either turn, for the maker"""
    hints: Int64Array
    """int64[D, 2]: a good move of either turn, -1 for none"""
    keys: Int64Array
    """int64[D, words + 1]: of the table, the words of ``planes`` and the plies left"""
    planes: Planes
    """the current position"""


@inlined
def look_up(depth: int, maker: int, random_key: int, nodes: ChanceNodes, table: Int64Array) -> int:
    """Narrow the bounds of a chance node and write its hints; a search one ply shallower gives hints only.

    ``random_key`` is 0, or the node's in a narrow search.

    Returns:
        The symmetry that maps the board to its key.
    """
    bounds, hints, keys = nodes.bounds[depth], nodes.hints[depth], nodes.keys
    values, words = table.view(np.float64), keys.shape[1]
    symmetry = write_key(keys[depth], nodes.planes)
    entry, plies = -1, depth + 1
    while entry < 0 and plies > depth - 1:
        plies -= 1
        keys[depth, words - 1] = plies ^ random_key
        entry = find(keys, depth, words, table)
    keys[depth, words - 1] = depth ^ random_key
    for own in range(2 if entry >= 0 else 0):
        player = maker if own else 1 - maker
        move = table[entry, words] >> 9 * player & NO_MOVE
        hints[own] = nodes.planes.inverses[symmetry, move] if move != NO_MOVE else -1
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
        info |= (NO_MOVE if hints[own] < 0 else nodes.planes.permutations[symmetry, hints[own]]) << 9 * player
    entry, gained = store(nodes.keys, depth, words, info, table)
    for own in range(2):
        player = maker if own else 1 - maker
        low, high = (bounds[own, LOW], bounds[own, HIGH]) if maker == 0 else (-bounds[own, HIGH], -bounds[own, LOW])
        values[entry, words + 1 + 2 * player], values[entry, words + 2 + 2 * player] = low, high
    return gained
