"""Factors of one side of a table: a tensor train, or a core with matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ttt_envs.core.jit import Float64Array, Int64Array


class Train:
    """A tensor train: a product of matrices, one from each core, selected by the contents of the
    core's group.

    Args:
        cores: float64[r_k-1, d_k, r_k]; the first and the last r are 1.

    Attributes:
        arrays: the stored arrays.
        work: number of values held at once to compute one entry.
    """

    def __init__(self, cores: Sequence[Float64Array]) -> None:
        self.arrays = list(cores)
        self.work = max(1, *(core.shape[0] * core.shape[2] for core in cores))

    def tensor(self) -> Float64Array:
        """Return all entries."""
        out = self.arrays[0]
        for core in self.arrays[1:]:
            out = np.tensordot(out, core, (-1, 0))
        return out[0, ..., 0]

    def entries(self, index: Int64Array) -> Float64Array:
        """Return the entries float64[B] at the contents int64[B, groups]."""
        out = np.ones((len(index), 1))
        for core, contents in zip(self.arrays, index.T, strict=True):
            out = np.einsum("bi,ibj->bj", out, core[:, contents])
        return out[:, 0]


class Tucker:
    """A Tucker tensor: a core multiplied along each axis by a matrix row, selected by the contents
    of the axis' group.

    Args:
        core: float64[r_1, ..., r_n].
        matrices: float64[d_k, r_k].

    Attributes:
        arrays, work: as of :class:`Train`.
    """

    def __init__(self, core: Float64Array, matrices: Sequence[Float64Array]) -> None:
        self.arrays = [np.ascontiguousarray(core), *matrices]
        self.work = max(1, core.size // max(1, len(core)))

    def tensor(self) -> Float64Array:
        """Return all entries."""
        out, *matrices = self.arrays
        for matrix in matrices:  # each step moves the first axis to the end
            out = np.tensordot(out, matrix, (0, 1))
        return out

    def entries(self, index: Int64Array) -> Float64Array:
        """Return the entries float64[B] at the contents int64[B, groups]."""
        core, *matrices = self.arrays
        if not core.size:
            return np.zeros(len(index))
        out = core[None]
        for matrix, contents in zip(matrices, index.T, strict=True):
            out = matrix[contents, None] @ out.reshape(len(out), matrix.shape[1], -1)
        return out[:, 0, 0]


Factors = Train | Tucker
