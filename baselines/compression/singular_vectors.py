"""Singular vectors of matrices and of tensor unfoldings: the linear algebra of all methods.

Singular vectors are unique up to their signs or, for equal singular values, up to a rotation. They
are normalised to a fixed choice here. So a rank that cuts through equal values, where several
approximations are equally good, gives the same approximation with every linear algebra library.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ttt_envs.core.jit import Float64Array

EXACT = 3**12
"""Maximum number of entries of a matrix decomposed directly; larger ones are decomposed by their
Gram matrix.
"""
GRAM = 3**7
"""Maximum rows or columns for a full Gram decomposition; of larger matrices only leading vectors
are computed.
"""
SPARE = 8
"""Number of extra singular vectors, computed to detect equal singular values at the end."""
TIE_TOLERANCE = 1e-9
"""Maximum difference of equal singular values, relative to the largest."""
CONVERGENCE_TOLERANCE = 1e-10
"""HOOI stops after a round that captures at most this additional share of the squared norm."""
MAX_ITERATIONS = 1000
"""Maximum number of rounds of HOOI."""


def leading_vectors(matrix: Float64Array, max_vectors: int) -> tuple[Float64Array, float]:
    """Return the leading left singular vectors of a matrix.

    Args:
        matrix: float64[rows, columns].
        max_vectors: maximum number of vectors.

    Returns:
        float64[rows, up to max_vectors], normalised to a fixed choice; and the squared norm of the
        remainder.
    """
    size = min(matrix.shape)
    if min(size, max_vectors) == 0:
        return np.zeros((len(matrix), 0)), float(np.vdot(matrix, matrix))
    if matrix.size <= EXACT:
        u, s, _ = np.linalg.svd(matrix, full_matrices=False)
    elif size <= GRAM:
        by_rows = matrix.shape[0] <= matrix.shape[1]
        squares, vectors = np.linalg.eigh(matrix @ matrix.T if by_rows else matrix.T @ matrix)
        s = np.sqrt(np.maximum(squares[::-1], 0))
        vectors = vectors[:, ::-1]
        u = vectors if by_rows else np.linalg.qr(matrix @ vectors)[0]
    else:
        u, s = _lanczos(matrix, min(max_vectors + SPARE, size - 1))
    u = _fix_rotation(u, s)[:, :max_vectors]
    if len(s) == size:
        error = np.square(s[max_vectors:]).sum()
    else:
        error = float(np.vdot(matrix, matrix)) - np.square(s[:max_vectors]).sum()
    return np.ascontiguousarray(u), max(0.0, float(error))


def _lanczos(matrix: Float64Array, count: int) -> tuple[Float64Array, Float64Array]:
    """Return ``count`` singular vectors and values, the largest first, by ARPACK from a fixed
    start.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import svds

    start = np.random.default_rng(0).standard_normal(min(matrix.shape))
    # tables of large boards without skips are mostly zero
    operator = csr_array(matrix) if np.count_nonzero(matrix) < matrix.size / 4 else matrix
    u, s, _ = svds(operator, count, v0=start, return_singular_vectors="u")
    order = np.argsort(-s)
    return u[:, order], s[order]


def _fix_rotation(u: Float64Array, s: Float64Array) -> Float64Array:
    """Normalise the signs of singular vectors, and rotations among those with equal values.

    The choice is given by the QR decomposition of a fixed matrix, projected onto the space that
    they span.
    """
    borders = [0, *(np.flatnonzero(s[:-1] - s[1:] > TIE_TOLERANCE * s[0]) + 1).tolist(), len(s)]
    widths = np.diff(borders)
    directions = np.random.default_rng(0).standard_normal((int(widths.max()), len(u)))
    u = u * np.where(directions[0] @ u < 0, -1.0, 1.0)
    for index in np.flatnonzero(widths > 1):
        columns = slice(borders[index], borders[index + 1])
        q, r = np.linalg.qr((directions[: widths[index]] @ u[:, columns]).T)
        u[:, columns] = u[:, columns] @ (q * np.where(np.diag(r) < 0, -1.0, 1.0))
    return u


def _unfolded(tensor: Float64Array, axis: int) -> Float64Array:
    """Return a tensor as a matrix, with an axis as its rows."""
    return np.moveaxis(tensor, axis, 0).reshape(tensor.shape[axis], -1)


def _multiply_axis(tensor: Float64Array, matrix: Float64Array, axis: int) -> Float64Array:
    """Multiply an axis of a tensor, of length d, by a matrix float64[d, k]."""
    return np.moveaxis(np.tensordot(tensor, matrix, (axis, 0)), -1, axis)


class Projection(NamedTuple):
    """A tensor, projected onto the singular vectors of its unfoldings along some axes."""

    bases: list[Float64Array]
    """float64[d, k] for each of the axes: its singular vectors"""
    core: Float64Array
    """the tensor multiplied by them"""
    errors: Float64Array
    """float64[n + 1], n the largest k: the squared error if only the leading 0, 1, ..., n of each
    are kept
    """

    @property
    def arrays(self) -> list[Float64Array]:
        """All arrays in order."""
        return [*self.bases, self.core, self.errors]

    @classmethod
    def from_arrays(cls, arrays: Iterable[Float64Array]) -> Projection:
        """Return the projection with these :attr:`arrays`."""
        *bases, core, errors = arrays
        return cls(bases, core, errors)


def project(tensor: Float64Array, axes: Sequence[int], counts: Sequence[int]) -> Projection:
    """Project a tensor onto the singular vectors of its unfoldings along some axes: the first step
    of all methods.

    Args:
        tensor: the tensor.
        axes: axes to unfold along.
        counts: maximum number of singular vectors of each.
    """
    bases = [
        leading_vectors(_unfolded(tensor, axis), count)[0]
        for axis, count in zip(axes, counts, strict=True)
    ]
    core = tensor
    # each step moves the first axis to the end, so the final order is the original
    for axis in range(tensor.ndim):
        if axis in axes:
            core = np.tensordot(core, bases[axes.index(axis)], (0, 0))
        else:
            core = np.moveaxis(core, 0, -1)
    core = np.ascontiguousarray(core)
    shells = _shell_norms(core, axes)
    complete = all(basis.shape[1] == min(len(basis), tensor.size // len(basis)) for basis in bases)
    beyond = 0.0
    if not complete:
        beyond = max(0.0, float(np.vdot(tensor, tensor)) - float(shells.sum()))
    errors = beyond + np.append(np.cumsum(shells[::-1])[::-1], 0.0)
    return Projection(bases, core, errors)


def _shell_norms(core: Float64Array, axes: Sequence[int]) -> Float64Array:
    """Return the squared norms of the entries that each rank adds to the one before, float64[n]."""
    shells = np.zeros(max(core.shape[axis] for axis in axes))
    for rank in range(len(shells)):
        for number, axis in enumerate(axes):
            # of the entries that rank + 1 adds to rank, those that are the last on this axis
            box = [slice(None)] * core.ndim
            for other_number, other_axis in enumerate(axes):
                box[other_axis] = slice(rank if other_number < number else rank + 1)
            box[axis] = slice(rank, rank + 1)
            shells[rank] += np.square(core[tuple(box)]).sum()
    return shells


def iterate_hooi(core: Float64Array, rank: int) -> tuple[list[Float64Array], Float64Array, float]:
    """Run HOOI from the leading entries of a core.

    Returns:
        Matrices with orthonormal columns for the axes, the core projected onto them, and the
        squared error.
    """
    ranks = [min(rank, size) for size in core.shape]
    matrices = [np.eye(size, r) for size, r in zip(core.shape, ranks, strict=True)]
    total = float(np.vdot(core, core))
    previous = -1.0
    for _ in range(MAX_ITERATIONS):
        explained = 0.0
        for axis, r in enumerate(ranks):
            projected = core
            for other_axis, matrix in enumerate(matrices):
                if other_axis != axis:
                    projected = _multiply_axis(projected, matrix, other_axis)
            matrices[axis], error = leading_vectors(_unfolded(projected, axis), r)
            explained = float(np.vdot(projected, projected)) - error
        if explained - previous <= CONVERGENCE_TOLERANCE * total:
            break
        previous = explained
    error = 0.0
    # sum up the truncated parts: a difference of norms would lose precision
    for axis, r in enumerate(ranks):
        rotation = np.linalg.qr(matrices[axis], mode="complete")[0]
        projected = np.moveaxis(_multiply_axis(core, rotation, axis), axis, 0)
        error += float(np.vdot(projected[r:], projected[r:]))
        core = np.moveaxis(projected[:r], 0, axis)
        matrices[axis] = rotation[:, :r]
    return matrices, core, error
