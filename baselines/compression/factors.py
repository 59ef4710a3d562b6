"""Factors of one half of a table, a tensor train or a core with matrices, and access to its entries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from ttt_envs.core.jit import BoolArray, Float64Array, Function, Int8Array, Int64Array, inlined, int64, kernel


def reassociating_kernel(function: Function) -> Function:
    """Decorate a kernel that makes arrays, with sums in any order so that they are vectorised."""
    return kernel(function, _nrt=True, fastmath={"reassoc", "contract"})


class Factors(ABC):
    """Factors of one half of a table, with access to its entries.

    Args:
        arrays: the stored arrays.
        flat: the arrays in the form that the kernels read.
        layout: int64[2, groups + 1]: the offsets of the groups in the last flat array; the ranks.
    """

    _read: ClassVar[Callable[..., None]]
    _children: ClassVar[Callable[..., None]]

    def __init__(self, arrays: list[Float64Array], flat: tuple[Float64Array, ...], layout: Int64Array) -> None:
        self.arrays, self._flat, self._layout = arrays, flat, layout

    @abstractmethod
    def tensor(self) -> Float64Array:
        """Return all entries."""

    def read(self, cells: Int8Array, actions: Int64Array, axes: Int64Array, out: Float64Array) -> None:
        """Write entries of boards int8[B, cells] and actions int64[B] into ``out`` float64[B]."""
        type(self)._read(cells, actions, axes, *self._flat, self._layout, out)

    def children(
        self, cells: Int8Array, mover: Int8Array, legal: BoolArray, axes: Int64Array, out: Float64Array
    ) -> None:
        """Write entries after every move into ``out`` float64[B, cells], NaN where a cell is taken."""
        type(self)._children(cells, mover, legal, axes, *self._flat, self._layout, out)


@inlined
def _locate(cells: Int8Array, axes: Int64Array, index: Int64Array) -> None:
    """Write the contents of every group of a board, before the move, into ``index``."""
    index[:] = 0
    for cell in range(len(cells)):
        index[axes[0, cell]] += int64(cells[cell]) * axes[1, cell]


@inlined
def _moved(cell: int, player: int, axes: Int64Array, size: int, index: Int64Array) -> tuple[int, int]:
    """Return the group that a move changes, and its new contents; in a table of moves, the group of the move."""
    if axes.shape[1] > size:
        group = axes[0, size]
        return group, index[group] + cell * axes[1, size]
    group = axes[0, cell]
    return group, index[group] + (player + 1) * axes[1, cell]


@inlined
def _times_matrix(row: Float64Array, matrix: Float64Array, out: Float64Array) -> None:
    """Compute out[k] = sum over j of row[j] matrix[j, k], with a flat matrix."""
    width = len(out)
    out[:] = 0.0
    for j in range(len(row)):
        for k in range(width):
            out[k] += row[j] * matrix[j * width + k]


@reassociating_kernel
def _train_read(
    cells: Int8Array,
    actions: Int64Array,
    axes: Int64Array,
    cores: Float64Array,
    layout: Int64Array,
    out: Float64Array,
) -> None:
    offsets, ranks = layout[0], layout[1]
    groups = len(ranks) - 1
    size = cells.shape[1]
    index = np.empty(groups, np.int64)
    left, right = np.empty(ranks.max()), np.empty(ranks.max())
    for b in range(len(out)):
        _locate(cells[b], axes, index)
        if axes.shape[1] > size:
            index[axes[0, size]] += actions[b] * axes[1, size]
        left[0] = 1.0
        for g in range(groups):
            block = ranks[g] * ranks[g + 1]
            start = offsets[g] + index[g] * block
            _times_matrix(left[: ranks[g]], cores[start : start + block], right[: ranks[g + 1]])
            left, right = right, left
        out[b] = left[0]


@reassociating_kernel
def _train_children(
    cells: Int8Array,
    mover: Int8Array,
    legal: BoolArray,
    axes: Int64Array,
    cores: Float64Array,
    layout: Int64Array,
    out: Float64Array,
) -> None:
    """Share the products left and right of each group between all moves in the group."""
    offsets, ranks = layout[0], layout[1]
    groups = len(ranks) - 1
    size = cells.shape[1]
    index = np.empty(groups, np.int64)
    left, right = np.empty((groups, ranks.max())), np.empty((groups, ranks.max()))
    left[0, 0] = 1.0
    right[groups - 1, 0] = 1.0
    for b in range(len(cells)):
        _locate(cells[b], axes, index)
        for g in range(groups - 1):
            block = ranks[g] * ranks[g + 1]
            start = offsets[g] + index[g] * block
            _times_matrix(left[g, : ranks[g]], cores[start : start + block], left[g + 1, : ranks[g + 1]])
        for g in range(groups - 1, 0, -1):
            at = offsets[g] + index[g] * ranks[g] * ranks[g + 1]
            for j in range(ranks[g]):
                total = 0.0
                for k in range(ranks[g + 1]):
                    total += cores[at + k] * right[g, k]
                right[g - 1, j] = total
                at += ranks[g + 1]
        for cell in range(size):
            if not legal[b, cell]:
                out[b, cell] = np.nan
                continue
            g, contents = _moved(cell, int64(mover[b]), axes, size, index)
            at = offsets[g] + contents * ranks[g] * ranks[g + 1]
            total = 0.0
            for j in range(ranks[g]):
                inner = 0.0
                for k in range(ranks[g + 1]):
                    inner += cores[at + k] * right[g, k]
                total += left[g, j] * inner
                at += ranks[g + 1]
            out[b, cell] = total


@reassociating_kernel
def _contract_first(tensor: Float64Array, vector: Float64Array, out: Float64Array) -> None:
    """Compute out[p] = sum over i of vector[i] tensor[i, p], all flat; ``out`` may alias the start of the tensor."""
    rest = len(out)
    for p in range(rest):
        out[p] = vector[0] * tensor[p]
    i = 1
    while (len(vector) - i) % 4 != 0:
        for p in range(rest):
            out[p] += vector[i] * tensor[i * rest + p]
        i += 1
    while i < len(vector):  # four at a time, to reduce reads and writes of ``out``
        a, b, c, d = vector[i], vector[i + 1], vector[i + 2], vector[i + 3]
        four = tensor[i * rest : (i + 4) * rest]
        for p in range(rest):
            out[p] += a * four[p] + b * four[rest + p] + c * four[2 * rest + p] + d * four[3 * rest + p]
        i += 4


@reassociating_kernel
def _tucker_read(
    cells: Int8Array,
    actions: Int64Array,
    axes: Int64Array,
    core: Float64Array,
    matrices: Float64Array,
    layout: Int64Array,
    out: Float64Array,
) -> None:
    groups = layout.shape[1] - 1
    offsets, ranks = layout[0], layout[1, :groups]
    size = cells.shape[1]
    index = np.empty(groups, np.int64)
    work = np.empty(len(core) // max(1, ranks[0]))
    for b in range(len(out)):
        out[b] = 0.0
        if len(core) == 0:
            continue
        _locate(cells[b], axes, index)
        if axes.shape[1] > size:
            index[axes[0, size]] += actions[b] * axes[1, size]
        rest = len(core)
        for g in range(groups):
            at = offsets[g] + index[g] * ranks[g]
            source = core if g == 0 else work[:rest]
            rest //= ranks[g]
            _contract_first(source, matrices[at : at + ranks[g]], work[:rest])
        out[b] = work[0]


@reassociating_kernel
def _tucker_children(
    cells: Int8Array,
    mover: Int8Array,
    legal: BoolArray,
    axes: Int64Array,
    core: Float64Array,
    matrices: Float64Array,
    layout: Int64Array,
    out: Float64Array,
) -> None:
    """Share the core contracted along all other groups between all moves in a group."""
    groups = layout.shape[1] - 1
    offsets, ranks = layout[0], layout[1, :groups]
    size = cells.shape[1]
    index = np.empty(groups, np.int64)
    seen = np.zeros((groups, max(1, ranks.max())))  # the core contracted along all other groups
    before = np.empty(len(core) // max(1, ranks[groups - 1]))
    work = np.empty(len(core) // max(1, ranks[0]))
    for b in range(len(cells)):
        _locate(cells[b], axes, index)
        length = len(core)  # size after contraction of the groups after g: of `core` at first, then of `before`
        for g in range(groups - 1, -1, -1):
            if length == 0:
                break
            behind = core if g == groups - 1 else before[:length]
            rest = length
            source = behind
            for other in range(g):
                at = offsets[other] + index[other] * ranks[other]
                rest //= ranks[other]
                _contract_first(source, matrices[at : at + ranks[other]], work[:rest])
                source = work[:rest]
            seen[g, : ranks[g]] = source
            at = offsets[g] + index[g] * ranks[g]
            length //= ranks[g]
            if g > 0:
                for p in range(length):
                    total = 0.0
                    for k in range(ranks[g]):
                        total += behind[p * ranks[g] + k] * matrices[at + k]
                    before[p] = total
        for cell in range(size):
            if not legal[b, cell]:
                out[b, cell] = np.nan
                continue
            g, contents = _moved(cell, int64(mover[b]), axes, size, index)
            at = offsets[g] + contents * ranks[g]
            total = 0.0
            for k in range(ranks[g]):
                total += matrices[at + k] * seen[g, k]
            out[b, cell] = total


# ---------------------------------------------------------------------------------------------------------------------
# Kinds of factors


class Train(Factors):
    """A tensor train: a product of matrices, one from each core, selected by the contents of the core's group.

    Args:
        cores: float64[r_k-1, d_k, r_k]; the first and the last r are 1.
    """

    _read, _children = _train_read, _train_children

    def __init__(self, cores: Sequence[Float64Array]) -> None:
        layout = np.stack([np.cumsum([0, *(core.size for core in cores)]), [1, *(core.shape[2] for core in cores)]])
        flat = np.concatenate([core.transpose(1, 0, 2).ravel() for core in cores])
        super().__init__(list(cores), (flat,), layout)

    def tensor(self) -> Float64Array:
        """Return all entries."""
        out = self.arrays[0]
        for core in self.arrays[1:]:
            out = np.tensordot(out, core, (-1, 0))
        return out[0, ..., 0]


class Tucker(Factors):
    """A Tucker tensor: a core multiplied along each axis by a matrix row, selected by the contents of the axis' group.

    Args:
        core: float64[r_1, ..., r_n].
        matrices: float64[d_k, r_k].
    """

    _read, _children = _tucker_read, _tucker_children

    def __init__(self, core: Float64Array, matrices: Sequence[Float64Array]) -> None:
        core = np.ascontiguousarray(core)
        layout = np.stack([np.cumsum([0, *(matrix.size for matrix in matrices)]), [*core.shape, 0]])
        flat = core.reshape(-1), np.concatenate([matrix.ravel() for matrix in matrices])
        super().__init__([core, *matrices], flat, layout)

    def tensor(self) -> Float64Array:
        """Return all entries."""
        out, *matrices = self.arrays
        for matrix in matrices:  # each step moves the first axis to the end
            out = np.tensordot(out, matrix, (0, 1))
        return out
