"""Singular vectors of matrices and of tensor unfoldings: the linear algebra of all methods.

Singular vectors are unique up to their signs or, for equal singular values, up to a rotation. They
are normalised to a fixed choice here. So a rank that cuts through equal values, where several
approximations are equally good, gives the same approximation with every linear algebra library.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

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
    smaller = min(matrix.shape)
    if min(smaller, max_vectors) == 0:
        return np.zeros((len(matrix), 0)), float(np.vdot(matrix, matrix))
    if matrix.size <= EXACT:
        u, s, _ = np.linalg.svd(matrix, full_matrices=False)
    elif smaller <= GRAM:
        by_rows = matrix.shape[0] <= matrix.shape[1]
        squares, vectors = np.linalg.eigh(matrix @ matrix.T if by_rows else matrix.T @ matrix)
        s, vectors = np.sqrt(np.maximum(squares[::-1], 0)), vectors[:, ::-1]
        u = vectors if by_rows else np.linalg.qr(matrix @ vectors)[0]
    else:
        u, s = _lanczos(matrix, min(max_vectors + SPARE, smaller - 1))
    u = _fix_rotation(u, s)[:, :max_vectors]
    missed = (
        np.square(s[max_vectors:]).sum()
        if len(s) == smaller
        else float(np.vdot(matrix, matrix)) - np.square(s[:max_vectors]).sum()
    )
    return np.ascontiguousarray(u), max(0.0, float(missed))


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
    fixed = np.random.default_rng(0).standard_normal((int(widths.max()), len(u)))
    u = u * np.where(fixed[0] @ u < 0, -1.0, 1.0)
    for at in np.flatnonzero(widths > 1):
        same = u[:, borders[at] : borders[at + 1]]
        q, r = np.linalg.qr((fixed[: widths[at]] @ same).T)
        u[:, borders[at] : borders[at + 1]] = same @ (q * np.where(np.diag(r) < 0, -1.0, 1.0))
    return u


def _unfolded(tensor: Float64Array, axis: int) -> Float64Array:
    """Return a tensor as a matrix, with an axis as its rows."""
    return np.moveaxis(tensor, axis, 0).reshape(tensor.shape[axis], -1)


def _multiply_axis(tensor: Float64Array, matrix: Float64Array, axis: int) -> Float64Array:
    """Multiply an axis of a tensor, of length d, by a matrix float64[d, k]."""
    return np.moveaxis(np.tensordot(tensor, matrix, (axis, 0)), -1, axis)


def project(tensor: Float64Array, axes: Sequence[int], counts: Sequence[int]) -> list[Float64Array]:
    """Project a tensor onto the singular vectors of its unfoldings along some axes: the first step
    of all methods.

    Args:
        tensor: the tensor.
        axes: axes to unfold along.
        counts: maximum number of singular vectors of each.

    Returns:
        The singular vectors, float64[d, k] for each of ``axes``. Then the core: the tensor
        multiplied by them. Last, with n the largest k, float64[n + 1]: the squared error if only
        the leading 0, 1, ..., n of each are kept.
    """
    bases = [
        leading_vectors(_unfolded(tensor, axis), count)[0]
        for axis, count in zip(axes, counts, strict=True)
    ]
    core = tensor
    for axis in range(
        tensor.ndim
    ):  # each step moves the first axis to the end, so the final order is the original
        core = (
            np.tensordot(core, bases[axes.index(axis)], (0, 0))
            if axis in axes
            else np.moveaxis(core, 0, -1)
        )
    core = np.ascontiguousarray(core)
    shells = np.zeros(max(core.shape[axis] for axis in axes))
    for rank, (number, axis) in itertools.product(range(len(shells)), enumerate(axes)):
        box = [
            slice(None)
        ] * core.ndim  # the entries that rank + 1 adds to rank: of them those last on this axis
        for other_number, other in enumerate(axes):
            box[other] = slice(rank if other_number < number else rank + 1)
        box[axis] = slice(rank, rank + 1)
        shells[rank] += np.square(core[tuple(box)]).sum()
    complete = all(basis.shape[1] == min(len(basis), tensor.size // len(basis)) for basis in bases)
    beyond = 0.0 if complete else max(0.0, float(np.vdot(tensor, tensor)) - float(shells.sum()))
    missed = beyond + np.append(np.cumsum(shells[::-1])[::-1], 0.0)
    return [*bases, core, missed]


def iterate_hooi(core: Float64Array, rank: int) -> tuple[list[Float64Array], Float64Array, float]:
    """Run HOOI from the leading entries of a core.

    Returns:
        Matrices with orthonormal columns for the axes, the core projected onto them, and the
        squared error.
    """
    ranks = [min(rank, size) for size in core.shape]
    matrices = [np.eye(size, r) for size, r in zip(core.shape, ranks, strict=True)]
    total, before = float(np.vdot(core, core)), -1.0
    for _ in range(MAX_ITERATIONS):
        captured = 0.0
        for axis, r in enumerate(ranks):
            projected = core
            for other, matrix in enumerate(matrices):
                if other != axis:
                    projected = _multiply_axis(projected, matrix, other)
            matrices[axis], missed = leading_vectors(_unfolded(projected, axis), r)
            captured = float(np.vdot(projected, projected)) - missed
        if captured - before <= CONVERGENCE_TOLERANCE * total:
            break
        before = captured
    missed = 0.0
    for axis, r in enumerate(
        ranks
    ):  # sum up the truncated parts: a difference of norms would lose precision
        turned = np.linalg.qr(matrices[axis], mode="complete")[0]
        projected = np.moveaxis(_multiply_axis(core, turned, axis), axis, 0)
        missed += float(np.vdot(projected[r:], projected[r:]))
        core = np.moveaxis(projected[:r], 0, axis)
        matrices[axis] = turned[:, :r]
    return matrices, core, missed
