"""Net evaluation kernels: one for batches of positions, and one fused with the search."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
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


class _Workspace(NamedTuple):
    """What the kernels read and write: a net, the symmetries, room for one evaluation, and the results of all."""

    net: Packed
    permutations: Int64Array  # int64[I, cells]: the symmetries over which outputs are averaged
    inverses: Int64Array  # int64[I, cells]
    room: Float32Array  # see Packed.room
    obs: Int8Array  # int8[cells]
    image: Int8Array  # int8[cells]
    known: (
        Int8Array  # int8[N]: 1 where evaluated; N is 3 ** cells on boards up to MAX_SMALL_CELLS cells, and 1 on others
    )
    logits: Float64Array  # float64[N, cells], by the base-3 digits of boards with own stones first; or the last results
    values: Float64Array  # float64[N]


class NetEvaluator:
    """A net that evaluates positions by the mean over their symmetries.

    An evaluation does not depend on the rest of its batch: a sum of few float32 numbers in float64 is exact. For the
    same reason symmetric moves have equal logits. On a board of few cells, each position is evaluated at most once.

    Args:
        game: the game.
        net: the net; it must not change.
        which: the symmetries to average over.
    """

    def __init__(self, game: Game, net: Packed, which: Symmetries) -> None:
        self.game, self._net, self._permutations = game, net, symmetries(game, which)
        self._workspaces: list[_Workspace] = []  # those not in use: each thread has its own

    def means(self, boards: Boards) -> tuple[Float64Array, Float64Array]:
        """Return logits float64[B, cells] and values float64[B] from the mover's view."""
        obs = boards.own_first()
        logits, values = np.empty(obs.shape), np.empty(len(obs))
        with self._workspace() as work:
            _evaluate_rows(obs, work, logits, values)
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
        with self._workspace() as work:
            _run_simulations(considered_visit, params, tree, work)

    @contextmanager
    def _workspace(self) -> Iterator[_Workspace]:
        """Lend a workspace of this net."""
        try:
            work = self._workspaces.pop()
        except IndexError:  # other threads have them
            cells = self._permutations.shape[1]
            size = 3**cells if cells <= MAX_SMALL_CELLS else 1
            obs, image, known = (np.zeros(length, np.int8) for length in (cells, cells, size))
            results = np.empty((size, cells)), np.empty(size)
            inverses = inverse(self._permutations)
            work = _Workspace(self._net, self._permutations, inverses, self._net.room(), obs, image, known, *results)
        yield work
        self._workspaces.append(work)


@inlined
def _evaluate(obs: Int8Array, work: _Workspace) -> int:
    """Evaluate a board, own stones first, unless it is known; return the row of its logits and value."""
    has_cache = len(work.known) > 1
    row = int64(base_3(obs)) if has_cache else int64(0)
    if has_cache and work.known[row] == 1:
        return row
    cells, count, logits, value = len(obs), len(work.permutations), work.logits[row], 0.0
    for cell in range(cells):
        logits[cell] = 0.0
    for image in range(count):
        for cell in range(cells):
            work.image[cell] = obs[work.permutations[image, cell]]
        outputs = work.room[evaluate_net(work.image, work.net, work.room)]
        for cell in range(cells):
            logits[cell] += outputs[work.inverses[image, cell]]
        value += math.tanh(np.float64(outputs[cells]))
    for cell in range(cells):
        logits[cell] /= count
    work.values[row], work.known[row] = value / count, 1
    return row


@kernel(interpreted=False, nogil=True)
def _evaluate_rows(obs: Int8Array, work: _Workspace, logits: Float64Array, values: Float64Array) -> None:
    """Evaluate boards int8[B, cells] into ``logits`` float64[B, cells] and ``values`` float64[B]."""
    for b in range(len(obs)):
        row = _evaluate(obs[b], work)
        values[b] = work.values[row]
        for cell in range(obs.shape[1]):
            logits[b, cell] = work.logits[row, cell]


@kernel(interpreted=False, nogil=True)
def _run_simulations(considered_visit: Int64Array, params: SelectionParams, tree: Tree, work: _Workspace) -> None:
    """Run S simulations in all trees, tree by tree for cache locality."""
    for b in range(len(tree.cells)):
        for simulation in range(len(considered_visit)):
            for leaf in range(simulate(b, considered_visit[simulation, b], params, tree, int64(0))):
                own_first_row(tree.leaves[leaf], int64(tree.movers[leaf]), work.obs)
                row = _evaluate(work.obs, work)
                tree.values[leaf] = work.values[row]
                for cell in range(len(work.obs)):
                    tree.prior_logits[leaf, cell] = work.logits[row, cell]
            backup(b, tree, int64(0))
