"""Tables as products of smaller arrays, and the softmax policies that play by these (Fujita and Watanabe).

The cells of the board are put into groups, and a table over boards becomes a tensor with one axis for each group. Its
entries are approximated by

* ``svd``: two groups, Q S of the leading singular vectors (Eqs. 4 to 7 of the paper);
* ``hosvd``: a core times one matrix for each group, whose columns are the leading singular vectors of the tensor
  unfolded along that axis (Eqs. 8 to 12; De Lathauwer, De Moor and Vandewalle, 2000a);
* ``hosvd2``: the same for the first and the last group only (Eqs. 8 to 11 of the paper's older version);
* ``hooi``: ``hosvd``, its matrices then improved in turn until the error falls no more (the same authors, 2000b);
* ``tt``: a tensor train, by one SVD after another (Oseledets, 2011); with two groups it is ``svd``.

All begin alike: the tensor is projected onto the singular vectors of some of its axes, the leading ones first, which
loses nothing as long as all are kept. So one decomposition serves all ranks. Positions are read from the factors; the
table is never made again for that. With skips each mover's half is decomposed by itself, at the same rank.

Singular vectors are unique up to their signs or, where singular values are equal, up to a rotation. They are turned to
one choice here: a rank that cuts through equal values, where several approximations are equally good, gives the same
one whatever the linear algebra underneath.
"""

from __future__ import annotations

import itertools
import math
import sys
import typing
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal
from weakref import WeakValueDictionary

import numpy as np

from baselines import solver, tables
from baselines.solver import kept_or_made
from baselines.tables import (
    Evaluation,
    NamedSoftmax,
    Terminal,
    actions_of,
    check_source,
    check_weight,
    is_policy,
    shape_of,
    values_of,
)
from ttt_envs import bits, rules
from ttt_envs.compiling import Cells, Function, Integers, Reals, inlined, kernel, wide
from ttt_envs.kept import Kept, source_of
from ttt_envs.policy import nearest
from ttt_envs.rules import Game

Method = Literal["svd", "hosvd", "hosvd2", "hooi", "tt"]

FORMAT = 1
"""version of a stored decomposition"""
MADE_BY = source_of(bits, rules, solver, tables, sys.modules[__name__])
EXACT = 3**12
"""entries up to which a matrix is decomposed as it is; for a larger one its Gram matrix is"""
GRAM = 3**7
"""rows or columns up to which that is done whole; of a larger matrix only the leading singular vectors are computed"""
TRUNCATED, MOST_TRUNCATED = 128, 1024
"""how many of these, unless a caller says otherwise, and at most"""
SPARE = 8
"""singular vectors computed beyond them, so that equal singular values at the end are seen"""
TIE = 1e-9
"""singular values that differ by no more than this share of the largest are equal"""
CONVERGED = 1e-10
"""HOOI ends with a round that captures no more than this share of the squared norm in addition"""
MOST_ROUNDS = 1000
"""rounds of HOOI at most"""
KEEPS, LARGEST_DEFAULT = 0.3, 32
"""without a rank a policy keeps this share of the numbers, as the paper's svd of rank 18 does, up to this rank"""

LETTERS = "0123456789abcdef"
"""cells in the text of a grouping"""
MOVE = "m"
"""the move in the text of a grouping, where a table has a value for every move"""


# ---------------------------------------------------------------------------------------------------------------------
# Groups of cells


@dataclass(frozen=True)
class Grouping:
    """Which cells form the axes of a tensor.

    Args:
        game: the game.
        groups: cells, 0 to ``game.cells - 1``, each in one group; ``game.cells`` stands for the move.
        of_moves: the table has a value for every move of a board, so that the move is in one of the groups.

    Raises:
        ValueError: groups that miss, repeat or invent a cell.
    """

    game: Game
    groups: tuple[tuple[int, ...], ...]
    of_moves: bool = False

    def __post_init__(self) -> None:
        size = self.game.cells
        named = [axis for group in self.groups for axis in group]
        wanted = range(size + self.of_moves)
        letters = LETTERS[:size] + MOVE
        faults = (
            ("has no place for", [letters[axis] for axis in wanted if axis not in named]),
            (
                "names more than once",
                sorted({letters[axis] for axis in named if axis in wanted and named.count(axis) > 1}),
            ),
            ("names what is no cell here,", sorted({str(axis) for axis in named if axis not in wanted})),
        )
        for fault, found in faults:
            if found:
                raise ValueError(
                    f"the grouping {self} {fault} {', '.join(found)}: {_how_to_group(self.game, self.of_moves)}"
                )

    @classmethod
    def parse(cls, game: Game, split: str, *, of_moves: bool = False) -> Grouping:
        """Read a grouping.

        Args:
            game: the game, up to 16 cells.
            split: cells 0 to 9 and a to f, groups joined by "/" like the rows of a position, as in ``"012/345/678"``;
                or a number, the cells in the first of two groups; or ``"rows"``, ``"columns"``, ``"cells"``.
            of_moves: the table has a value for every move of a board. The move is written ``m``; where it is not, it
                stands with the rest of the cells after a number, and else in a group of its own.

        Raises:
            ValueError: text that is none, or groups that miss, repeat or invent a cell.
        """
        size = game.cells
        board = np.arange(size).reshape(game.rows, game.columns)
        named = {"rows": board, "columns": board.T, "cells": board.reshape(-1, 1)}
        if split in named:
            groups = [tuple(map(int, group)) for group in named[split]]
            return cls(game, (*groups, (size,)) if of_moves else tuple(groups), of_moves)
        if split.isdecimal() and 1 <= int(split) < size + of_moves:
            axes = tuple(range(size + of_moves))
            return cls(game, (axes[: int(split)], axes[int(split) :]), of_moves)
        places = {letter: axis for axis, letter in enumerate(LETTERS[:size])} | ({MOVE: size} if of_moves else {})
        parts = split.split("/")
        if len(parts) < 2 or not all(parts) or any(letter not in places for letter in "".join(parts)):
            raise ValueError(f"split={split!r} is no grouping: {_how_to_group(game, of_moves)}")
        return cls(game, tuple(tuple(places[letter] for letter in part) for part in parts), of_moves)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How long the axes of the tensor are."""
        return tuple(math.prod(self._contents(axis) for axis in group) for group in self.groups)

    @property
    def axes(self) -> Integers:
        """int64[2, cells (+ 1)]: in which group a cell (at the end the move) is, and what it counts there."""
        found = np.empty((2, self.game.cells + self.of_moves), np.int64)
        for number, group in enumerate(self.groups):
            place = 1
            for axis in group:
                found[:, axis] = number, place
                place *= self._contents(axis)
        return found

    def tensor(self, entries: Reals) -> Reals:
        """A half of a table, by keys (and moves), as a tensor with one axis for each group."""
        return np.ascontiguousarray(entries.reshape(self._shape).transpose(self._order).reshape(self.sizes))

    def entries(self, tensor: Reals) -> Reals:
        """The way back, float64[3**cells, 1 or cells]."""
        shape = [self._shape[axis] for axis in self._order]
        return tensor.reshape(shape).transpose(np.argsort(self._order)).reshape(3**self.game.cells, -1)

    def merged(self) -> Grouping:
        """The first group, all between as one (perhaps an empty one), and the last."""
        first, *between, last = self.groups
        return Grouping(self.game, (first, tuple(itertools.chain(*between)), last), self.of_moves)

    def _contents(self, axis: int) -> int:
        return 3 if axis < self.game.cells else self.game.cells

    @property
    def _shape(self) -> tuple[int, ...]:
        """Of a half with one axis for each cell, the first cell last because its digit counts least, then the move."""
        return (3,) * self.game.cells + (self.game.cells,) * self.of_moves

    @property
    def _order(self) -> list[int]:
        """The axes of :attr:`_shape` as the groups have them; within a group the first cell counts least, too."""
        size = self.game.cells
        return [size - 1 - axis if axis < size else size for group in self.groups for axis in reversed(group)]

    def __str__(self) -> str:
        letters = dict(enumerate(LETTERS[: self.game.cells])) | {self.game.cells: MOVE}
        return "/".join("".join(letters.get(axis, f"({axis})") for axis in group) for group in self.groups)


def _how_to_group(game: Game, of_moves: bool) -> str:
    """The end of every sentence about a bad grouping."""
    cells = LETTERS[: game.cells]
    half = max(1, game.cells // 2)
    example = f"{cells[:half]}/{cells[half:]}{MOVE}" if of_moves else f"{cells[:half]}/{cells[half:]}"
    move = " and the move m" if of_moves else ""
    return (
        f"write groups that name each of the cells {cells[0]} to {cells[-1]}{move} once, as in split={example}, "
        f"the cells of the first group as a number, as in split={half}, or split=rows, columns or cells"
    )


def grouping_of(game: Game, method: Method, split: str | None = None, *, of_moves: bool = False) -> Grouping:
    """The grouping of a method, by default two halves of the board for ``svd`` and rows for the others.

    A board of one row is grouped by cells. A table of moves has the move in a group of its own, which is the second of
    ``svd``: (board x action).

    Raises:
        ValueError: another method; too few groups, for ``svd`` more than two; text that is no grouping.
    """
    if method not in typing.get_args(Method):
        raise ValueError(f"method={method!r} is not known: {nearest(method, typing.get_args(Method))}")
    if split is None and method == "svd":
        split = str(game.cells if of_moves else max(1, game.cells // 2))
    elif split is None:
        split = "rows" if game.rows > 1 else "cells"
    if game.cells + of_moves < 2:
        raise ValueError(f"{method} needs two groups of cells, and a board of 1 x 1 has one cell")
    found = Grouping.parse(game, split, of_moves=of_moves)
    if len(found.groups) < 2 or (method == "svd" and len(found.groups) > 2):
        wanted = "exactly two groups" if method == "svd" else "two groups or more"
        raise ValueError(
            f"{method} needs {wanted}, and split={split} makes {len(found.groups)}: {_how_to_group(game, of_moves)}"
        )
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Ranks and numbers


def _unfoldings(method: Method, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Rows and columns of the matrices whose ranks a method cuts."""
    every = math.prod(sizes)
    if method in ("svd", "tt"):
        return [(math.prod(sizes[:cut]), math.prod(sizes[cut:])) for cut in range(1, len(sizes))]
    cut_sizes = (sizes[0], sizes[-1]) if method == "hosvd2" else sizes
    return [(size, every // size) for size in cut_sizes]


def _ranks(method: Method, sizes: Sequence[int], rank: int) -> list[int]:
    """The rank of each of :func:`_unfoldings` where ``rank`` is asked for: none has more than rows or columns."""
    return [min(rank, rows, columns) for rows, columns in _unfoldings(method, sizes)]


def largest_rank(method: Method, grouping: Grouping, most: int = MOST_TRUNCATED) -> int:
    """The largest rank that cuts anything; of groups with more than 3**7 contents ``most``."""
    smaller = [min(unfolding) for unfolding in _unfoldings(method, grouping.sizes)]
    return max(size if size <= GRAM else most for size in smaller)


def stored_numbers(method: Method, grouping: Grouping, rank: int) -> int:
    """The numbers in all factors of one half.

    With groups of d contents: r (d_1 + d_2) for ``svd`` (Eq. 13), the sum of r d_k and the product of the r for
    ``hosvd`` and ``hooi`` (Eq. 15), r (d_first + r d_between + d_last) for ``hosvd2`` (the older version's Eq. 14), the
    sum of r_k-1 d_k r_k for ``tt``; where an axis, or what is left of the tensor without it, is smaller than r, r is as
    small.
    """
    sizes = _of_tensor(method, grouping).sizes
    ranks = _ranks(method, sizes, rank)
    if method in ("hosvd", "hooi"):
        return sum(size * r for size, r in zip(sizes, ranks, strict=True)) + math.prod(ranks)
    bonds = [1, *ranks, 1]
    return sum(bonds[i] * size * bonds[i + 1] for i, size in enumerate(sizes))


def default_rank(method: Method, grouping: Grouping) -> int:
    """The largest rank that keeps at most 30% of the numbers, as ``svd`` at rank 18 on 3 x 3 does; 1 to 32."""
    most = KEEPS * math.prod(grouping.sizes)
    ranks = range(1, min(largest_rank(method, grouping), LARGEST_DEFAULT) + 1)
    return max((rank for rank in ranks if stored_numbers(method, grouping, rank) <= most), default=1)


def _check_rank(method: Method, grouping: Grouping, rank: int, largest: int) -> None:
    if not 0 <= rank <= largest:
        sizes = " x ".join(map(str, grouping.sizes))
        raise ValueError(
            f"rank={rank} is no rank of {method} on a tensor of {sizes} ({grouping}): choose 0 to {largest}"
        )


# ---------------------------------------------------------------------------------------------------------------------
# Linear algebra


def _leading(matrix: Reals, most: int) -> tuple[Reals, float]:
    """The leading left singular vectors of a matrix.

    Args:
        matrix: float64[rows, columns].
        most: how many, if there are as many.

    Returns:
        float64[rows, up to most], turned to a fixed choice; and the squared norm of what they leave out.
    """
    smaller = min(matrix.shape)
    if min(smaller, most) == 0:
        return np.zeros((len(matrix), 0)), _squared(matrix)
    if matrix.size <= EXACT:
        u, s, _ = np.linalg.svd(matrix, full_matrices=False)
    elif smaller <= GRAM:
        by_rows = matrix.shape[0] <= matrix.shape[1]
        squares, vectors = np.linalg.eigh(matrix @ matrix.T if by_rows else matrix.T @ matrix)
        s, vectors = np.sqrt(np.maximum(squares[::-1], 0)), vectors[:, ::-1]
        u = vectors if by_rows else np.linalg.qr(matrix @ vectors)[0]
    else:
        u, s = _lanczos(matrix, min(most + SPARE, smaller - 1))
    u = _turned(u, s)[:, :most]
    missed = np.square(s[most:]).sum() if len(s) == smaller else _squared(matrix) - np.square(s[:most]).sum()
    return np.ascontiguousarray(u), max(0.0, float(missed))


def _lanczos(matrix: Reals, count: int) -> tuple[Reals, Reals]:
    """So many singular vectors and values, the largest first, by ARPACK from a fixed start."""
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import svds

    start = np.random.default_rng(0).standard_normal(min(matrix.shape))
    mostly_zero = np.count_nonzero(matrix) < matrix.size / 4  # as on large boards without skips
    operator = csr_array(matrix) if mostly_zero else matrix
    u, s, _ = svds(operator, count, v0=start, return_singular_vectors="u")
    order = np.argsort(-s)
    return u[:, order], s[order]


def _turned(u: Reals, s: Reals) -> Reals:
    """Singular vectors, with signs, and rotations among those with equal values, that do not depend on how they came.

    The choice is what the QR decomposition of a fixed matrix, seen from the space they span, says.
    """
    borders = [0, *(np.flatnonzero(s[:-1] - s[1:] > TIE * s[0]) + 1).tolist(), len(s)]
    widths = np.diff(borders)
    fixed = np.random.default_rng(0).standard_normal((int(widths.max()), len(u)))
    u = u * np.where(fixed[0] @ u < 0, -1.0, 1.0)
    for at in np.flatnonzero(widths > 1):
        same = u[:, borders[at] : borders[at + 1]]
        q, r = np.linalg.qr((fixed[: widths[at]] @ same).T)
        u[:, borders[at] : borders[at + 1]] = same @ (q * np.where(np.diag(r) < 0, -1.0, 1.0))
    return u


def _squared(array: Reals) -> float:
    """The squared Frobenius norm."""
    flat = array.reshape(-1)
    return float(flat @ flat)


def _unfolded(tensor: Reals, axis: int) -> Reals:
    """A tensor as a matrix, with an axis as its rows."""
    return np.moveaxis(tensor, axis, 0).reshape(tensor.shape[axis], -1)


def _along(tensor: Reals, matrix: Reals, axis: int) -> Reals:
    """A tensor whose axis, of d, is multiplied by a matrix float64[d, k], and is then of k."""
    return np.moveaxis(np.tensordot(tensor, matrix, (axis, 0)), -1, axis)


def _projected(tensor: Reals, axes: Sequence[int], counts: Sequence[int]) -> tuple[list[Reals], Reals, Reals]:
    """A tensor seen from the singular vectors of its unfoldings along some axes: what all methods begin with.

    Args:
        tensor: the tensor.
        axes: along which it is unfolded.
        counts: how many singular vectors of each, if there are as many.

    Returns:
        The singular vectors, float64[d, k] for each of ``axes``. The core: the tensor multiplied by them. And, with n
        the largest k, float64[n + 1]: the squared norm missed where only the leading 0, 1, ..., n of each are kept.
    """
    bases = [_leading(_unfolded(tensor, axis), count)[0] for axis, count in zip(axes, counts, strict=True)]
    core = tensor
    for axis in range(tensor.ndim):  # each step puts the first axis last: in the end all stand as they did
        core = np.tensordot(core, bases[axes.index(axis)], (0, 0)) if axis in axes else np.moveaxis(core, 0, -1)
    core = np.ascontiguousarray(core)
    shells = np.zeros(max(core.shape[axis] for axis in axes))
    for rank in range(len(shells)):  # the entries that rank + 1 has and rank has not
        for i, axis in enumerate(axes):
            if rank < core.shape[axis]:
                chosen: list[slice | int] = [slice(None)] * core.ndim
                for j, other in enumerate(axes):
                    chosen[other] = slice(rank if j < i else rank + 1)
                chosen[axis] = rank
                shells[rank] += np.square(core[tuple(chosen)]).sum()
    complete = all(basis.shape[1] == min(len(basis), tensor.size // len(basis)) for basis in bases)
    beyond = 0.0 if complete else max(0.0, _squared(tensor) - float(shells.sum()))
    missed = beyond + np.append(np.cumsum(shells[::-1])[::-1], 0.0)
    return bases, core, missed


def _improved(core: Reals, rank: int) -> tuple[list[Reals], Reals, float]:
    """HOOI from the leading entries of a core.

    Returns:
        Matrices with orthonormal columns for the axes, the core seen from them, and the squared norm that is missed.
    """
    ranks = [min(rank, size) for size in core.shape]
    matrices = [np.eye(size, r) for size, r in zip(core.shape, ranks, strict=True)]
    total, before = _squared(core), -1.0
    for _ in range(MOST_ROUNDS):
        captured = 0.0
        for axis, r in enumerate(ranks):
            seen = core
            for other, matrix in enumerate(matrices):
                if other != axis:
                    seen = _along(seen, matrix, other)
            matrices[axis], missed = _leading(_unfolded(seen, axis), r)
            captured = _squared(np.ascontiguousarray(seen)) - missed
        if captured - before <= CONVERGED * total:
            break
        before = captured
    missed = 0.0
    for axis, r in enumerate(ranks):  # what is cut off, piece by piece: a difference of norms would lose its digits
        turned = np.linalg.qr(matrices[axis], mode="complete")[0]
        seen = np.moveaxis(_along(core, turned, axis), axis, 0)
        missed += _squared(np.ascontiguousarray(seen[r:]))
        core = np.moveaxis(seen[:r], 0, axis)
        matrices[axis] = turned[:, :r]
    return matrices, core, missed


# ---------------------------------------------------------------------------------------------------------------------
# Factors


def summing(function: Function) -> Function:
    """Compile a kernel whose sums may be taken in any order, several terms at once."""
    return kernel(function, fastmath={"reassoc", "contract"})


class Factors(ABC):
    """One half of a table as factors; entries are read from them."""

    @property
    @abstractmethod
    def arrays(self) -> list[Reals]:
        """What is stored."""

    @abstractmethod
    def tensor(self) -> Reals:
        """All entries."""

    @abstractmethod
    def read(self, cells: Cells, actions: Integers, axes: Integers, out: Reals) -> None:
        """Entries of boards int8[B, cells] and actions int64[B] into ``out`` float64[B]."""

    @abstractmethod
    def children(self, cells: Cells, mover: Cells, axes: Integers, out: Reals) -> None:
        """Entries after every move into ``out`` float64[B, cells], NaN where a cell is taken."""


class Train(Factors):
    """A product of matrices, one of each core, chosen by the contents of the core's group.

    Args:
        cores: float64[r_k-1, d_k, r_k]; the first and the last r are 1.
    """

    def __init__(self, cores: Sequence[Reals]) -> None:
        self.cores = list(cores)
        self._ranks = np.array([1, *(core.shape[2] for core in cores)])
        self._offsets = np.cumsum([0, *(core.size for core in cores)])
        self._flat = np.concatenate([core.transpose(1, 0, 2).ravel() for core in cores])

    @property
    def arrays(self) -> list[Reals]:
        """The cores."""
        return self.cores

    def tensor(self) -> Reals:
        """All entries."""
        out = self.cores[0]
        for core in self.cores[1:]:
            out = np.tensordot(out, core, (-1, 0))
        return out[0, ..., 0]

    def read(self, cells: Cells, actions: Integers, axes: Integers, out: Reals) -> None:
        """See :class:`Factors`."""
        _train_read(cells, actions, axes, self._flat, self._offsets, self._ranks, out)

    def children(self, cells: Cells, mover: Cells, axes: Integers, out: Reals) -> None:
        """See :class:`Factors`."""
        _train_children(cells, mover, axes, self._flat, self._offsets, self._ranks, out)


class Tucker(Factors):
    """A core, multiplied along each axis by the row of a matrix that the contents of the axis' group choose.

    Args:
        core: float64[r_1, ..., r_n].
        matrices: float64[d_k, r_k].
    """

    def __init__(self, core: Reals, matrices: Sequence[Reals]) -> None:
        self.core = np.ascontiguousarray(core)
        self.matrices = list(matrices)
        self._ranks = np.array(core.shape)
        self._offsets = np.cumsum([0, *(matrix.size for matrix in matrices)])
        self._flat = np.concatenate([matrix.ravel() for matrix in matrices])

    @property
    def arrays(self) -> list[Reals]:
        """The core and the matrices."""
        return [self.core, *self.matrices]

    def tensor(self) -> Reals:
        """All entries."""
        out = self.core
        for matrix in self.matrices:  # each step puts the first axis last
            out = np.tensordot(out, matrix, (0, 1))
        return out

    def read(self, cells: Cells, actions: Integers, axes: Integers, out: Reals) -> None:
        """See :class:`Factors`."""
        _tucker_read(cells, actions, axes, self.core.reshape(-1), self._flat, self._offsets, self._ranks, out)

    def children(self, cells: Cells, mover: Cells, axes: Integers, out: Reals) -> None:
        """See :class:`Factors`."""
        _tucker_children(cells, mover, axes, self.core.reshape(-1), self._flat, self._offsets, self._ranks, out)


@inlined
def _locate(cells: Cells, axes: Integers, index: Integers) -> None:
    """The contents of every group of a board, without the move, into ``index``."""
    index[:] = 0
    for cell in range(len(cells)):
        index[axes[0, cell]] += wide(cells[cell]) * axes[1, cell]


@inlined
def _moved(cell: int, player: int, axes: Integers, size: int, index: Integers) -> tuple[int, int]:
    """The group that a stone, or in a table of moves the move, changes, and its contents then."""
    if axes.shape[1] > size:
        group = axes[0, size]
        return group, index[group] + cell * axes[1, size]
    group = axes[0, cell]
    return group, index[group] + (player + 1) * axes[1, cell]


@inlined
def _times_matrix(row: Reals, matrix: Reals, out: Reals) -> None:
    """out[k] = sum over j of row[j] matrix[j, k], the matrix given flat."""
    width = len(out)
    out[:] = 0.0
    for j in range(len(row)):
        for k in range(width):
            out[k] += row[j] * matrix[j * width + k]


@summing
def _train_read(
    cells: Cells, actions: Integers, axes: Integers, cores: Reals, offsets: Integers, ranks: Integers, out: Reals
) -> None:
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


@summing
def _train_children(
    cells: Cells, mover: Cells, axes: Integers, cores: Reals, offsets: Integers, ranks: Integers, out: Reals
) -> None:
    """The product of what stands left of each group, and of what stands right of it, serves all moves in the group."""
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
            if cells[b, cell] != 0:
                out[b, cell] = np.nan
                continue
            g, contents = _moved(cell, wide(mover[b]), axes, size, index)
            at = offsets[g] + contents * ranks[g] * ranks[g + 1]
            total = 0.0
            for j in range(ranks[g]):
                inner = 0.0
                for k in range(ranks[g + 1]):
                    inner += cores[at + k] * right[g, k]
                total += left[g, j] * inner
                at += ranks[g + 1]
            out[b, cell] = total


@summing
def _contract_first(tensor: Reals, vector: Reals, out: Reals) -> None:
    """out[p] = sum over i of vector[i] tensor[i, p], all flat; ``out`` may be where the tensor is."""
    rest = len(out)
    for p in range(rest):
        out[p] = vector[0] * tensor[p]
    i = 1
    while (len(vector) - i) % 4 != 0:
        for p in range(rest):
            out[p] += vector[i] * tensor[i * rest + p]
        i += 1
    while i < len(vector):  # four at a time, so that ``out`` is read and written less often
        a, b, c, d = vector[i], vector[i + 1], vector[i + 2], vector[i + 3]
        four = tensor[i * rest : (i + 4) * rest]
        for p in range(rest):
            out[p] += a * four[p] + b * four[rest + p] + c * four[2 * rest + p] + d * four[3 * rest + p]
        i += 4


@summing
def _tucker_read(
    cells: Cells,
    actions: Integers,
    axes: Integers,
    core: Reals,
    matrices: Reals,
    offsets: Integers,
    ranks: Integers,
    out: Reals,
) -> None:
    groups = len(ranks)
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


@summing
def _tucker_children(
    cells: Cells,
    mover: Cells,
    axes: Integers,
    core: Reals,
    matrices: Reals,
    offsets: Integers,
    ranks: Integers,
    out: Reals,
) -> None:
    """The core contracted along all groups but one serves all moves in that group."""
    groups = len(ranks)
    size = cells.shape[1]
    index = np.empty(groups, np.int64)
    seen = np.zeros((groups, max(1, ranks.max())))  # the core from each group
    before = np.empty(len(core) // max(1, ranks[groups - 1]))
    work = np.empty(len(core) // max(1, ranks[0]))
    for b in range(len(cells)):
        _locate(cells[b], axes, index)
        length = len(core)  # of what is left where the groups behind g are contracted: `core` at first, then `before`
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
            if cells[b, cell] != 0:
                out[b, cell] = np.nan
                continue
            g, contents = _moved(cell, wide(mover[b]), axes, size, index)
            at = offsets[g] + contents * ranks[g]
            total = 0.0
            for k in range(ranks[g]):
                total += matrices[at + k] * seen[g, k]
            out[b, cell] = total


# ---------------------------------------------------------------------------------------------------------------------
# Compressed tables


class Compressed(Evaluation):
    """A table as factors, read without making it again.

    Attributes:
        method: how it was decomposed; grouping: with which groups of cells; rank: cut at which rank.
        factors: of each half.
        relative_error: the Frobenius norm of the difference to the table, over that of the table (Eq. 16); 0 of zeros.
    """

    def __init__(
        self, method: Method, grouping: Grouping, rank: int, factors: Sequence[Factors], relative_error: float
    ) -> None:
        self.method = method
        self.grouping = grouping
        self.rank = rank
        self.factors = list(factors)
        self.relative_error = relative_error
        self.game = grouping.game
        self.of_moves = grouping.of_moves
        self.halves = len(factors)
        self._of_tensor = _of_tensor(method, grouping)
        self._axes = self._of_tensor.axes

    @property
    def stored_numbers(self) -> int:
        """The numbers in all factors of all halves."""
        return sum(array.size for factors in self.factors for array in factors.arrays)

    @property
    def compression_ratio(self) -> float:
        """Over the numbers in the table (Eq. 13); it may be above 1."""
        return self.stored_numbers / (self.halves * math.prod(self.grouping.sizes))

    def table(self) -> Reals:
        """The approximated table, in the shape of the table."""
        halves = np.stack([self._of_tensor.entries(factors.tensor()) for factors in self.factors])
        shape = (3**self.game.cells, self.game.cells) if self.of_moves else (3**self.game.cells,)
        return halves.reshape((2, *shape) if self.halves == 2 else shape)

    def read(self, cells: Cells, actions: Integers | None = None, half: int = 0) -> Reals:
        """Single entries of a half, float64[B]."""
        out = np.empty(len(cells))
        self.factors[half].read(np.ascontiguousarray(cells), actions_of(cells, actions), self._axes, out)
        return out

    def _children(self, half: int, cells: Cells, mover: Cells) -> Reals:
        out = np.empty(cells.shape)
        self.factors[half].children(cells, mover, self._axes, out)
        return out

    def __str__(self) -> str:
        return f"{self.method} of {self.grouping} at rank {self.rank}"


class Decomposition:
    """A decomposed table, from which it is had at every rank; made by :func:`decompose` or :func:`decomposition`.

    Attributes:
        method: how; grouping: with which groups of cells.
        largest: the largest rank.
    """

    def __init__(self, method: Method, grouping: Grouping, most: int, parts: Reals) -> None:
        self.method = method
        self.grouping = grouping
        self.largest = largest_rank(method, grouping, most)
        self._parts = [_unpacked(method, grouping, most, half) for half in parts]

    def at(self, rank: int) -> Compressed:
        """The table at a rank: one number for all axes, of which a smaller axis takes as much as it has.

        At rank 0 all is 0. ``svd``, ``hosvd`` and ``hosvd2`` only take the leading parts of what is there, ``tt`` goes
        on with SVDs of what the first one left, ``hooi`` iterates from ``hosvd``.

        Raises:
            ValueError: another rank than 0 to ``largest``.
        """
        _check_rank(self.method, self.grouping, rank, self.largest)
        cut = {"svd": _cut_train, "tt": _cut_train, "hosvd": _cut_tucker, "hooi": _cut_hooi, "hosvd2": _cut_hosvd2}
        found = [cut[self.method](*part, rank) for part in self._parts]
        factors, missed = zip(*found, strict=True)
        total = sum(float(part[2][0]) for part in self._parts)
        error = math.sqrt(sum(missed) / total) if total > 0 else 0.0
        return Compressed(self.method, self.grouping, rank, factors, error)

    def __iter__(self) -> Iterator[Compressed]:
        """The table at every rank, from 0."""
        return map(self.at, range(self.largest + 1))


def _cut_train(bases: list[Reals], core: Reals, missed: Reals, rank: int) -> tuple[Factors, float]:
    """SVD after SVD from the left; the first one is there."""
    first = bases[0][:, :rank]
    cores = [first[None]]
    lost = float(missed[min(rank, len(missed) - 1)])
    rest = core[:rank]
    for size in core.shape[1:-1]:
        matrix = rest.reshape(rest.shape[0] * size, math.prod(rest.shape[1:]) // size)
        vectors, more = _leading(matrix, rank)
        cores.append(vectors.reshape(rest.shape[0], size, vectors.shape[1]))
        lost += more
        rest = vectors.T @ matrix
    return Train([*cores, rest[:, :, None]]), lost


def _cut_tucker(bases: list[Reals], core: Reals, missed: Reals, rank: int) -> tuple[Factors, float]:
    leading = core[(slice(rank),) * core.ndim]
    return Tucker(leading, [basis[:, :rank] for basis in bases]), float(missed[min(rank, len(missed) - 1)])


def _cut_hosvd2(bases: list[Reals], core: Reals, missed: Reals, rank: int) -> tuple[Factors, float]:
    first, last = (basis[:, :rank] for basis in bases)
    return Train([first[None], core[:rank, :, :rank], last.T[:, :, None]]), float(missed[min(rank, len(missed) - 1)])


def _cut_hooi(bases: list[Reals], core: Reals, missed: Reals, rank: int) -> tuple[Factors, float]:
    if rank == 0 or rank >= max(core.shape):
        return _cut_tucker(bases, core, missed, rank)
    matrices, leading, lost = _improved(core, rank)
    turned = [basis @ matrix for basis, matrix in zip(bases, matrices, strict=True)]
    return Tucker(leading, turned), lost + float(missed[-1])


def _of_tensor(method: Method, grouping: Grouping) -> Grouping:
    """The groups of the tensor that is decomposed: ``hosvd2`` takes all between the first and the last as one."""
    return grouping.merged() if method == "hosvd2" else grouping


def _shapes(method: Method, grouping: Grouping, most: int) -> tuple[Grouping, list[int], list[tuple[int, ...]]]:
    """What a method projects.

    Returns:
        The groups of the tensor; the axes that are projected; the shapes of their singular vectors, of the core and of
        what is missed, as of :func:`_projected`.
    """
    grouping = _of_tensor(method, grouping)
    sizes = grouping.sizes
    axes = {"svd": [0], "tt": [0], "hosvd2": [0, 2]}.get(method, list(range(len(sizes))))
    counts = [min(sizes[axis], math.prod(sizes) // sizes[axis]) for axis in axes]
    counts = [count if count <= GRAM else most for count in counts]
    core = list(sizes)
    for axis, count in zip(axes, counts, strict=True):
        core[axis] = count
    bases = [(sizes[axis], count) for axis, count in zip(axes, counts, strict=True)]
    return grouping, axes, [*bases, tuple(core), (max(counts) + 1,)]


def _packed(method: Method, grouping: Grouping, most: int, values: Reals) -> Reals:
    """All that :func:`_projected` finds of the halves of a table, float64[halves, numbers]."""
    of_moves, halves = shape_of(grouping.game, values)
    if of_moves != grouping.of_moves:
        what = "a value for every move" if of_moves else "one value for every board"
        raise ValueError(f"the table has {what}, and the grouping {grouping} is for the other kind")
    grouping, axes, shapes = _shapes(method, grouping, most)
    out = np.empty((halves, sum(map(math.prod, shapes))))
    for half, entries in zip(out, values.reshape(halves, -1), strict=True):
        counts = [shape[1] for shape in shapes[: len(axes)]]
        bases, core, missed = _projected(grouping.tensor(entries), axes, counts)
        np.concatenate([array.reshape(-1) for array in (*bases, core, missed)], out=half)
    return out


def _unpacked(method: Method, grouping: Grouping, most: int, half: Reals) -> tuple[list[Reals], Reals, Reals]:
    """One half of :func:`_packed` as :func:`_projected` had it."""
    _, _, shapes = _shapes(method, grouping, most)
    borders = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    *bases, core, missed = (part.reshape(shape) for part, shape in zip(np.split(half, borders), shapes, strict=True))
    return bases, core, missed


def decompose(method: Method, values: Reals, grouping: Grouping, *, most: int = TRUNCATED) -> Decomposition:
    """Decompose a table.

    Args:
        method: ``"svd"``, ``"hosvd"``, ``"hosvd2"``, ``"hooi"`` or ``"tt"``.
        values: a table as of ``tables.values_of``, or any array of that shape.
        grouping: cells by axis; :func:`grouping_of` has the usual ones.
        most: of groups with more than 3**7 contents, as the halves of 4 x 4, so many singular vectors are computed, 1
            to 1,024, by a truncated method.

    Raises:
        ValueError: a table of another game or kind than the grouping, another ``most``.
    """
    if not 1 <= most <= MOST_TRUNCATED:
        raise ValueError(f"most={most} singular vectors cannot be computed: choose 1 to {MOST_TRUNCATED}")
    grouping_of(grouping.game, method, str(grouping), of_moves=grouping.of_moves)  # has it as many groups as it must?
    return Decomposition(method, grouping, most, _packed(method, grouping, most, values))


def svd(values: Reals, grouping: Grouping, *, most: int = TRUNCATED) -> Decomposition:
    """:func:`decompose` by the SVD of a matrix, two groups of cells.

    The factors are U and Sigma V*; the paper's Q and S share Sigma out evenly, with the same product and numbers.
    """
    return decompose("svd", values, grouping, most=most)


def hosvd(values: Reals, grouping: Grouping, *, most: int = TRUNCATED) -> Decomposition:
    """:func:`decompose` by higher-order SVD, the newer version of the paper's."""
    return decompose("hosvd", values, grouping, most=most)


def hosvd2(values: Reals, grouping: Grouping, *, most: int = TRUNCATED) -> Decomposition:
    """:func:`decompose` by the two-sided higher-order SVD of the paper's older version."""
    return decompose("hosvd2", values, grouping, most=most)


def hooi(values: Reals, grouping: Grouping, *, most: int = TRUNCATED) -> Decomposition:
    """:func:`decompose` by higher-order orthogonal iteration: never worse than :func:`hosvd` of the same rank."""
    return decompose("hooi", values, grouping, most=most)


def tt(values: Reals, grouping: Grouping, *, most: int = TRUNCATED) -> Decomposition:
    """:func:`decompose` into a tensor train."""
    return decompose("tt", values, grouping, most=most)


_alive: WeakValueDictionary[tuple[Game, Method, str, str, str, int], Decomposition] = WeakValueDictionary()


def decomposition(
    game: Game,
    method: Method,
    *,
    split: str | None = None,
    terminal: Terminal = "equation",
    source: str = "random",
    most: int = TRUNCATED,
) -> Decomposition:
    """The decomposed table of a game: what the policies named ``svd``, ``hosvd``, ... take theirs from.

    As long as somebody holds it, it is not made again. A large one is kept on disk like a table.

    Args:
        game: up to 16 cells.
        method: ``"svd"``, ``"hosvd"``, ``"hosvd2"``, ``"hooi"`` or ``"tt"``.
        split: groups of cells, see :meth:`Grouping.parse`; by default as :func:`grouping_of`.
        terminal: see ``tables.random_play_values``.
        source: see ``tables.values_of``.
        most: see :func:`decompose`.

    Raises:
        ValueError: a board too large, groups, a source or a terminal that are none.
    """
    check_source(game, source, terminal)
    grouping = grouping_of(game, method, split, of_moves=is_policy(source))
    if is_policy(source):  # its files may change
        return decompose(method, values_of(game, source, terminal), grouping, most=most)
    key = (game, method, str(grouping), terminal, source, most)
    found = _alive.get(key)
    if found is None:
        of_tensor, axes, shapes = _shapes(method, grouping, most)
        content = {
            "format": FORMAT,
            "game": game.to_dict(),
            "source": source,
            "terminal": terminal,
            "groups": str(of_tensor),
            "axes": axes,
            "most": most,
        }
        name = f"{source}-factors-{game.rows}x{game.columns}-{game.win_length}-skip{game.skip_chance:g}"
        parts = kept_or_made(
            Kept(name, content, MADE_BY),
            (2 if game.skip_chance > 0 else 1, sum(map(math.prod, shapes))),
            lambda: _packed(method, grouping, most, values_of(game, source, terminal)),
        )
        found = _alive[key] = Decomposition(method, grouping, most, parts)
    return found


def split_errors(values: Reals, game: Game, first: int) -> tuple[list[Grouping], Reals]:
    """How well ``svd`` does with every split of the cells into two groups, from singular values alone.

    Args:
        values: a table of positions.
        game: its game.
        first: cells in the first group; where both are as large, the first has cell 0.

    Returns:
        The groupings, and float64[groupings, ranks + 1]: the relative errors at rank 0, 1, ...

    Raises:
        ValueError: a table of moves or of another game; no group of so many cells; a matrix too large for so many SVDs.
    """
    of_moves, halves = shape_of(game, values)
    size = game.cells
    if of_moves or not 1 <= first < size or 3**size > EXACT:
        raise ValueError(
            f"all splits into {first} and {size - first} cells cannot be tried on {'moves of ' * of_moves}{game}: "
            f"take a table of positions of up to 12 cells, and 1 to {size - 1} cells in the first group"
        )
    groups = [group for group in itertools.combinations(range(size), first) if 2 * first != size or 0 in group]
    groupings, squares = [], []
    for group in groups:
        grouping = Grouping(game, (group, tuple(cell for cell in range(size) if cell not in group)))
        matrices = np.stack([grouping.tensor(half) for half in values.reshape(halves, -1)])
        squares.append(np.square(np.linalg.svd(matrices, compute_uv=False)).sum(axis=0))
        groupings.append(grouping)
    missed = np.pad(np.cumsum(np.array(squares)[:, ::-1], axis=1)[:, ::-1], ((0, 0), (0, 1)))
    return groupings, np.sqrt(missed / np.maximum(missed[:, :1], np.finfo(float).tiny))


# ---------------------------------------------------------------------------------------------------------------------
# Policies


@dataclass(frozen=True)
class CompressedPolicy(NamedSoftmax):
    """For the policies by name.

    Raises:
        ValueError: a board too large for a table; a rank, groups, a weight or a terminal that are none.
    """

    name: ClassVar[Method]

    game: Game
    rank: int | None = None
    """of the approximation, from 0; None: the largest that keeps at most 30% of the numbers, and at most 32"""
    w: float = 10.0
    """how much the table weighs: exp(w f) after each move"""
    split: str | None = None
    """groups of cells, as in 012/345/678, 4, rows or columns"""
    terminal: Terminal = "equation"
    """what won boards hold: their result, or 0 as in the paper's program"""
    source: str = "random"
    """random, optimal, or the spec string of a policy that thinks in values, as in (run:PATH)"""

    def __post_init__(self) -> None:
        check_source(self.game, self.source, self.terminal)
        check_weight(self.w)
        grouping = self._grouping
        if self.rank is not None:
            _check_rank(self.name, grouping, self.rank, largest_rank(self.name, grouping))

    @property
    def _grouping(self) -> Grouping:
        return grouping_of(self.game, self.name, self.split, of_moves=is_policy(self.source))

    def _made(self) -> Compressed:
        rank = default_rank(self.name, self._grouping) if self.rank is None else self.rank
        most = TRUNCATED
        while most < rank and most < MOST_TRUNCATED:  # few steps, so that one decomposition serves many ranks
            most *= 2
        return decomposition(
            self.game, self.name, split=self.split, terminal=self.terminal, source=self.source, most=most
        ).at(rank)


@dataclass(frozen=True)
class SVD(CompressedPolicy):
    """Softmax of a table compressed by the singular value decomposition of two groups of cells."""

    name: ClassVar[Method] = "svd"


@dataclass(frozen=True)
class HOSVD(CompressedPolicy):
    """Softmax of a table compressed by higher-order singular value decomposition, rows of cells by default."""

    name: ClassVar[Method] = "hosvd"


@dataclass(frozen=True)
class HOSVD2(CompressedPolicy):
    """The same along the first and the last group of cells only, as in the paper's older version."""

    name: ClassVar[Method] = "hosvd2"


@dataclass(frozen=True)
class HOOI(CompressedPolicy):
    """Softmax of a table compressed by higher-order orthogonal iteration: the error of hosvd, lowered."""

    name: ClassVar[Method] = "hooi"


@dataclass(frozen=True)
class TT(CompressedPolicy):
    """Softmax of a table compressed into a tensor train."""

    name: ClassVar[Method] = "tt"
