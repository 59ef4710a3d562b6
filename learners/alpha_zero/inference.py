"""Net evaluation kernels: one for batches of positions, and one fused with the search."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from baselines.mcts import SelectionParams, Tree, backup, simulate
from learners.alpha_zero.settings import MAX_SMALL_CELLS
from learners.base import one_ply_ahead
from learners.mlp import Packed, evaluate_net
from ttt_envs.core.jit import Float32Array, Float64Array, Int8Array, Int64Array, inlined, int64, kernel
from ttt_envs.game.boards import Boards, base_3, own_first_row
from ttt_envs.game.game import Game
from ttt_envs.game.symmetry import Symmetries, inverse, symmetries


class SymmetryTables(NamedTuple):
    """The symmetries of a board over which a net's outputs are averaged."""

    permutations: Int64Array
    """int64[I, cells]"""
    inverses: Int64Array
    """int64[I, cells]"""


class _Workspace(NamedTuple):
    """Workspace of the kernels."""

    room: Float32Array  # see Packed.room
    obs: Int8Array  # int8[cells]
    image: Int8Array  # int8[cells]
    means: Float64Array  # float64[cells]


class EvaluationCache(NamedTuple):
    """Cache of a net's evaluations, indexed by the base-3 digits of boards with own stones first."""

    known: Int8Array
    """int8[N]: 1 where cached; N is 3 ** cells on boards up to ``MAX_SMALL_CELLS`` cells, and 0 on others"""
    logits: Float32Array
    """float32[N, cells]"""
    values: Float64Array
    """float64[N]"""


class NetEvaluator:
    """A net that evaluates positions by the mean over their symmetries.

    An evaluation does not depend on the rest of its batch: a sum of few float32 numbers in float64 is exact. For the
    same reason symmetric moves have equal logits. On a board of few cells, searches evaluate each position at most
    once.

    Args:
        game: the game.
        net: the net; it must not change.
        which: the symmetries to average over.

    Attributes:
        caches: caches of the evaluations made by searches that are not in use. Searches in several threads have one
            each.
    """

    def __init__(self, game: Game, net: Packed, which: Symmetries) -> None:
        permutations = symmetries(game, which)
        self.game, self._net, self._group = game, net, SymmetryTables(permutations, inverse(permutations))
        self.caches = [self._make_cache()]

    def means(self, boards: Boards) -> tuple[Float64Array, Float64Array]:
        """Return logits float64[B, cells] and values float64[B] from the mover's view."""
        obs = boards.own_first()
        logits, values = np.empty(obs.shape), np.empty(len(obs))
        _evaluate_rows(obs, self._net, self._group, self._make_workspace(), logits, values)
        return logits, values

    def evaluate(self, boards: Boards) -> tuple[Float32Array, Float64Array]:
        """See :class:`~ttt_envs.agents.policy.Evaluator`."""
        logits, values = self.means(boards)
        return logits.astype(np.float32), values

    def values(self, boards: Boards) -> Float64Array:
        """Return values float64[B] from the mover's view."""
        return self.means(boards)[1]

    def action_values(self, boards: Boards) -> Float64Array:
        """Return action values float64[B, cells] from the mover's view, NaN where illegal, by one-ply lookahead."""
        return one_ply_ahead(self.game, boards, self.values)

    def run_simulations(self, considered_visit: Int64Array, params: SelectionParams, tree: Tree) -> None:
        """See :class:`~baselines.mcts.FusedEvaluator`."""
        try:
            cache = self.caches.pop()
        except IndexError:  # other threads have them
            cache = self._make_cache()
        _run_simulations(considered_visit, params, tree, self._net, self._group, self._make_workspace(), cache)
        self.caches.append(cache)

    def _make_cache(self) -> EvaluationCache:
        cells = self._group.permutations.shape[1]
        size = 3**cells if cells <= MAX_SMALL_CELLS else 0
        return EvaluationCache(np.zeros(size, np.int8), np.empty((size, cells), np.float32), np.empty(size))

    def _make_workspace(self) -> _Workspace:
        cells = self._group.permutations.shape[1]
        return _Workspace(self._net.room(), np.zeros(cells, np.int8), np.zeros(cells, np.int8), np.zeros(cells))


@inlined
def _evaluate(obs: Int8Array, net: Packed, group: SymmetryTables, work: _Workspace) -> float:
    """Return the value of a board, own stones first, and leave its logits in ``work.means``."""
    cells, count = len(obs), len(group.permutations)
    value = 0.0
    for cell in range(cells):
        work.means[cell] = 0.0
    for image in range(count):
        for cell in range(cells):
            work.image[cell] = obs[group.permutations[image, cell]]
        prior_logits = work.room[evaluate_net(work.image, net, work.room)]
        for cell in range(cells):
            work.means[cell] += prior_logits[group.inverses[image, cell]]
        value += math.tanh(np.float64(prior_logits[cells]))
    for cell in range(cells):
        work.means[cell] /= count
    return value / count


@kernel(interpreted=False, nogil=True)
def _evaluate_rows(
    obs: Int8Array,
    net: Packed,
    group: SymmetryTables,
    work: _Workspace,
    logits: Float64Array,
    values: Float64Array,
) -> None:
    """Evaluate boards int8[B, cells] into ``logits`` float64[B, cells] and ``values`` float64[B]."""
    for b in range(len(obs)):
        values[b] = _evaluate(obs[b], net, group, work)
        for cell in range(obs.shape[1]):
            logits[b, cell] = work.means[cell]


@inlined
def _cached_evaluate(
    leaf: int, tree: Tree, net: Packed, group: SymmetryTables, work: _Workspace, cache: EvaluationCache
) -> None:
    """Write the logits and the value of a leaf into the tree, from the cache if possible."""
    obs, logits = work.obs, tree.prior_logits[leaf]
    own_first_row(tree.leaves[leaf], int64(tree.movers[leaf]), obs)
    has_cache = len(cache.known) > 0
    key = int64(base_3(obs)) if has_cache else int64(0)
    if has_cache and cache.known[key] == 1:
        tree.values[leaf] = cache.values[key]
        for cell in range(len(obs)):
            logits[cell] = cache.logits[key, cell]
        return
    tree.values[leaf] = _evaluate(obs, net, group, work)
    for cell in range(len(obs)):
        logits[cell] = work.means[cell]
    if has_cache:
        cache.known[key] = 1
        cache.values[key] = tree.values[leaf]
        for cell in range(len(obs)):
            cache.logits[key, cell] = logits[cell]


@kernel(interpreted=False, nogil=True)
def _run_simulations(
    considered_visit: Int64Array,
    params: SelectionParams,
    tree: Tree,
    net: Packed,
    group: SymmetryTables,
    work: _Workspace,
    cache: EvaluationCache,
) -> None:
    """Run S simulations in all trees, tree by tree for cache locality."""
    for b in range(len(tree.cells)):
        for simulation in range(len(considered_visit)):
            for leaf in range(simulate(b, considered_visit[simulation, b], params, tree, int64(0))):
                _cached_evaluate(leaf, tree, net, group, work, cache)
            backup(b, tree, int64(0))
