"""Net evaluation kernels: one for batches of positions, and one fused with the search."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from baselines.mcts import Forest, Rule, go_back, go_down
from learners.alpha_zero.config import FEW_CELLS
from learners.dense import Floats, Packed, outputs_of
from ttt_envs.boards import Boards, base_3, own_first_row
from ttt_envs.jit import Cells, Integers, Reals, compiled_at_once, compiled_nogil, inlined, wide

AT_ONCE = 4_096
"""Maximum number of simulations per call, a fraction of a second, so that other threads and Ctrl-C can run between
calls."""


class Images(NamedTuple):
    """The symmetries of a board over which a net's outputs are averaged."""

    permutations: Integers
    """int64[I, cells]"""
    inverses: Integers
    """int64[I, cells]"""


class _Desk(NamedTuple):
    """Workspace of the kernels."""

    room: Floats
    """See :meth:`~learners.dense.Packed.room`."""
    seen: Cells
    """int8[cells]"""
    image: Cells
    """int8[cells]"""
    means: Reals
    """float64[cells]"""
    leaves: Cells
    """int8[2, cells]"""
    movers: Cells
    """int8[2]"""
    logits: Floats
    """float32[2, cells]"""
    values: Reals
    """float64[2]"""

    @classmethod
    def of(cls, net: Packed, cells: int) -> _Desk:
        """Allocate a workspace for a board of ``cells`` cells."""
        return cls(
            room=net.room(),
            seen=np.zeros(cells, np.int8),
            image=np.zeros(cells, np.int8),
            means=np.zeros(cells),
            leaves=np.zeros((2, cells), np.int8),
            movers=np.zeros(2, np.int8),
            logits=np.zeros((2, cells), np.float32),
            values=np.zeros(2),
        )


class Memory(NamedTuple):
    """Cache of a net's evaluations, indexed by the base-3 digits of boards with own stones first."""

    known: Cells
    """int8[N]: 1 where cached; N is 3 ** cells on boards up to ``FEW_CELLS`` cells, and 0 on others"""
    logits: Floats
    """float32[N, cells]"""
    values: Reals
    """float64[N]"""

    @classmethod
    def of(cls, cells: int) -> Memory:
        """Return an empty cache."""
        size = 3**cells if cells <= FEW_CELLS else 0
        return cls(np.zeros(size, np.int8), np.empty((size, cells), np.float32), np.empty(size))


class NetJudge:
    """A net that evaluates positions by the mean over their symmetries.

    An evaluation does not depend on the rest of its batch: a sum of few float32 numbers in float64 is exact. For the
    same reason symmetric moves have equal logits. On a board of few cells, searches evaluate each position at most
    once.

    Args:
        net: the net; it must not change.
        images: the symmetries to average over.

    Attributes:
        memory: cache of the evaluations made by searches.
    """

    def __init__(self, net: Packed, images: Images) -> None:
        self._net, self._images = net, images
        self.memory = Memory.of(images.permutations.shape[1])

    def means(self, boards: Boards) -> tuple[Reals, Reals]:
        """Return logits float64[B, cells] and values float64[B] from the mover's view."""
        seen = boards.own_first()
        logits, values = np.empty(seen.shape), np.empty(len(seen))
        _judge_rows(seen, self._net, self._images, _Desk.of(self._net, seen.shape[1]), logits, values)
        return logits, values

    def judge(self, boards: Boards) -> tuple[Floats, Reals]:
        """See :class:`~ttt_envs.policy.Judge`."""
        logits, values = self.means(boards)
        return logits.astype(np.float32), values

    def think(self, wanted: Integers, rule: Rule, forest: Forest) -> None:
        """See :class:`~ttt_envs.policy.Thinker`."""
        simulations, count = wanted.shape
        fixed = self._net, self._images, _Desk.of(self._net, forest.cells.shape[1]), self.memory
        trees = max(1, AT_ONCE // max(1, simulations))
        for first in range(0, count, trees):
            last = min(count, first + trees)
            for done in range(0, simulations, AT_ONCE):
                _think(first, last, wanted[done : done + AT_ONCE], rule, forest, *fixed)


@inlined
def _judge(seen: Cells, net: Packed, images: Images, desk: _Desk) -> float:
    """Return the value of a board, own stones first, and leave its logits in ``desk.means``."""
    cells, count = len(seen), len(images.permutations)
    value = 0.0
    for cell in range(cells):
        desk.means[cell] = 0.0
    for image in range(count):
        for cell in range(cells):
            desk.image[cell] = seen[images.permutations[image, cell]]
        said = desk.room[outputs_of(desk.image, net, desk.room)]
        for cell in range(cells):
            desk.means[cell] += said[images.inverses[image, cell]]
        value += math.tanh(np.float64(said[cells]))
    for cell in range(cells):
        desk.means[cell] /= count
    return value / count


@compiled_nogil
def _judge_rows(seen: Cells, net: Packed, images: Images, desk: _Desk, logits: Reals, values: Reals) -> None:
    """Evaluate boards int8[B, cells] into ``logits`` float64[B, cells] and ``values`` float64[B]."""
    for b in range(len(seen)):
        values[b] = _judge(seen[b], net, images, desk)
        for cell in range(seen.shape[1]):
            logits[b, cell] = desk.means[cell]


@inlined
def _recall(leaf: int, net: Packed, images: Images, desk: _Desk, memory: Memory) -> None:
    """Write the logits and the value of a leaf into the workspace, from the cache if possible."""
    seen, logits = desk.seen, desk.logits[leaf]
    own_first_row(desk.leaves[leaf], wide(desk.movers[leaf]), seen)
    remembers = len(memory.known) > 0
    key = wide(0)
    if remembers:
        key = wide(base_3(seen))
        if memory.known[key] == 1:
            desk.values[leaf] = memory.values[key]
            for cell in range(len(seen)):
                logits[cell] = memory.logits[key, cell]
            return
    desk.values[leaf] = _judge(seen, net, images, desk)
    for cell in range(len(seen)):
        logits[cell] = desk.means[cell]
    if remembers:
        memory.known[key] = 1
        memory.values[key] = desk.values[leaf]
        for cell in range(len(seen)):
            memory.logits[key, cell] = logits[cell]


@compiled_at_once  # keeps the GIL: concurrent calls would share the cache
def _think(
    first: int,
    last: int,
    wanted: Integers,
    rule: Rule,
    forest: Forest,
    net: Packed,
    images: Images,
    desk: _Desk,
    memory: Memory,
) -> None:
    """Run simulations ``wanted`` int64[S, B] of trees ``first`` to ``last`` - 1, each in turn for cache locality."""
    for b in range(first, last):
        for simulation in range(len(wanted)):
            asked = go_down(b, wanted[simulation, b], rule, forest, desk.leaves, desk.movers, wide(0))
            for leaf in range(asked):
                _recall(leaf, net, images, desk, memory)
            go_back(b, forest, desk.movers, desk.logits, desk.values, wide(0))
