"""Decompositions of tables: one decomposition gives every rank of a table, computed or read from
disk.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from baselines.compression import singular_vectors
from baselines.compression.factors import Factors, Train, Tucker
from baselines.compression.grouping import Grouping, Method, make_grouping, tensor_grouping
from baselines.compression.ranks import MAX_TRUNCATED_RANK, TRUNCATED, check_rank, largest_rank
from baselines.compression.singular_vectors import (
    Projection,
    iterate_hooi,
    leading_vectors,
    project,
)
from baselines.tables import (
    Evaluation,
    Table,
    Terminal,
    check_source,
    is_policy,
    source_values,
    table_shape,
)
from ttt_envs.core.array_cache import load_or_compute
from ttt_envs.core.checks import Refusal, check_range
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array
from ttt_envs.core.records import chunks
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game

FORMAT = 2
"""version of the storage format, and of the values"""
MAX_WORK = 1 << 24
"""Maximum number of values in an intermediate product."""
MAX_CELLS_OF_TABLE = 9
"""Maximum number of cells for play by the reconstructed table, which is faster than by the factors.
"""


class Compressed(Evaluation):
    """A table as factors, read without reconstructing it.

    Attributes:
        method: the method; grouping: the groups of cells; rank: the rank of the approximation.
        factors: of each side.
        relative_error: Frobenius norm of the difference to the table, relative to the table (Eq.
            16); 0 for all zeros.
    """

    def __init__(
        self,
        method: Method,
        grouping: Grouping,
        rank: int,
        factors: Sequence[Factors],
        relative_error: float,
    ) -> None:
        self.method = method
        self.grouping = grouping
        self.rank = rank
        self.factors = list(factors)
        self.relative_error = relative_error
        self.game = grouping.game
        self.of_moves = grouping.of_moves
        self.num_sides = len(factors)
        self._tensor_grouping = tensor_grouping(method, grouping)

    @property
    def stored_numbers(self) -> int:
        """Number of values in all factors of all sides."""
        return sum(array.size for factors in self.factors for array in factors.arrays)

    @property
    def compression_ratio(self) -> float:
        """Ratio to the number of values in the table (Eq. 13); it may be above 1."""
        return self.stored_numbers / (self.num_sides * math.prod(self.grouping.sizes))

    def table(self) -> Float64Array:
        """Return the approximated table, in the shape of the table."""
        sides = np.stack(
            [self._tensor_grouping.entries(factors.tensor()) for factors in self.factors]
        )
        shape = [3**self.game.cells]
        if self.of_moves:
            shape.append(self.game.cells)
        return sides.reshape([2, *shape] if self.num_sides == 2 else shape)

    def read(
        self, cells: Int8Array, actions: Int64Array | None = None, side: int = 0
    ) -> Float64Array:
        """Return single entries of a side, float64[B]."""
        places = self._tensor_grouping.places
        index = cells.astype(np.int64) @ places[: self.game.cells]
        if self.of_moves and actions is not None:
            index += actions[:, None] * places[-1]
        factors = self.factors[side]
        parts = map(factors.entries, chunks(index, max(1, MAX_WORK // factors.work)))
        return np.concatenate([np.zeros(0), *parts])

    def action_values(self, boards: Boards) -> Float64Array:
        """Return the values after the mover's moves, float64[B, cells]; on small boards by the
        whole table.
        """
        if self.game.cells <= MAX_CELLS_OF_TABLE:
            return self._whole.action_values(boards)
        return super().action_values(boards)

    @cached_property
    def _whole(self) -> Table:
        return Table(self.game, self.table())

    def __str__(self) -> str:
        return f"{self.method} of {self.grouping} at rank {self.rank}"


class Decomposition:
    """A decomposed table that gives every rank; made by :func:`decompose` or :func:`decomposition`.

    Attributes:
        method: the method; grouping: the groups of cells.
        largest: the largest rank.
    """

    def __init__(
        self, method: Method, grouping: Grouping, max_vectors: int, parts: Float64Array
    ) -> None:
        self.method = method
        self.grouping = grouping
        self.largest = largest_rank(method, grouping, max_vectors)
        *_, shapes = _shapes(method, grouping, max_vectors)
        borders = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        self._projections = [
            Projection.from_arrays(map(np.reshape, np.split(numbers, borders), shapes))
            for numbers in parts
        ]
        """of each side"""

    def at(self, rank: int) -> Compressed:
        """Return the table at a rank, one number for all axes; a smaller axis is kept whole.

        At rank 0 all entries are 0. ``svd``, ``hosvd`` and ``hosvd2`` only truncate; ``tt``
        continues with SVDs of the rest after the first one, ``hooi`` iterates from ``hosvd``.

        Raises:
            ValueError: the rank is not in 0 to ``largest``.
        """
        check_rank(self.method, self.grouping, rank, self.largest)
        factors = []
        error = 0.0
        total = 0.0
        for projection in self._projections:
            side_factors, side_error = _truncate(self.method, projection, rank)
            factors.append(side_factors)
            error += side_error
            total += float(projection.errors[0])
        relative_error = math.sqrt(error / total) if total > 0 else 0.0
        return Compressed(self.method, self.grouping, rank, factors, relative_error)


def _truncate(method: Method, projection: Projection, rank: int) -> tuple[Factors, float]:
    """Return the factors of a side at a rank, and their squared error."""
    core = projection.core
    bases = [basis[:, :rank] for basis in projection.bases]
    error = float(projection.errors[min(rank, len(projection.errors) - 1)])
    if method in ("svd", "tt"):
        return _make_train(bases[0], core[:rank], rank, error)
    if method == "hosvd2":
        return Train([bases[0][None], core[:rank, :, :rank], bases[1].T[:, :, None]]), error
    if method == "hooi" and 0 < rank < max(core.shape):
        matrices, core, error = iterate_hooi(core, rank)
        bases = [basis @ matrix for basis, matrix in zip(projection.bases, matrices, strict=True)]
        error += float(projection.errors[-1])
    return Tucker(core[(slice(rank),) * core.ndim], bases), error


def _make_train(
    basis: Float64Array, core: Float64Array, rank: int, error: float
) -> tuple[Train, float]:
    """Return a tensor train by SVDs from the left, and its squared error.

    The first SVD has the singular vectors ``basis``, the remainder ``core`` and this ``error``.
    """
    cores = [basis[None]]
    for size in core.shape[1:-1]:
        matrix = core.reshape(core.shape[0] * size, math.prod(core.shape[1:]) // size)
        vectors, more_error = leading_vectors(matrix, rank)
        cores.append(vectors.reshape(core.shape[0], size, vectors.shape[1]))
        error += more_error
        core = vectors.T @ matrix
    return Train([*cores, core[:, :, None]]), error


def _shapes(
    method: Method, grouping: Grouping, max_vectors: int
) -> tuple[Grouping, list[int], list[tuple[int, ...]]]:
    """Return the shapes of a method's projection.

    Returns:
        The groups of the tensor; the projected axes; the shapes of their singular vectors, of the
        core and of the squared errors, as in :func:`project`.
    """
    grouping = tensor_grouping(method, grouping)
    sizes = grouping.sizes
    axes = {"svd": [0], "tt": [0], "hosvd2": [0, 2]}.get(method, list(range(len(sizes))))
    counts = [min(sizes[axis], math.prod(sizes) // sizes[axis]) for axis in axes]
    counts = [count if count <= singular_vectors.GRAM else max_vectors for count in counts]
    core = list(sizes)
    for axis, count in zip(axes, counts, strict=True):
        core[axis] = count
    bases = [(sizes[axis], count) for axis, count in zip(axes, counts, strict=True)]
    return grouping, axes, [*bases, tuple(core), (max(counts) + 1,)]


def _project(
    method: Method, grouping: Grouping, max_vectors: int, values: Float64Array
) -> Float64Array:
    """Return the results of :func:`project` for the sides of a table, float64[sides, numbers]."""
    of_moves, num_sides = table_shape(grouping.game, values)
    if of_moves != grouping.of_moves:
        what = "a value for every move" if of_moves else "one value for every board"
        raise Refusal(f"the table has {what}, and the grouping {grouping} is for the other kind")
    grouping, axes, shapes = _shapes(method, grouping, max_vectors)
    counts = [columns for _, columns in shapes[: len(axes)]]
    out = np.empty((num_sides, sum(map(math.prod, shapes))))
    for row, entries in zip(out, values.reshape(num_sides, -1), strict=True):
        arrays = project(grouping.tensor(entries), axes, counts).arrays
        np.concatenate([array.reshape(-1) for array in arrays], out=row)
    return out


def decompose(
    method: Method, values: Float64Array, grouping: Grouping, *, max_vectors: int = TRUNCATED
) -> Decomposition:
    """Decompose a table.

    The factors of ``svd`` are U and Sigma V*; the paper's Q and S split Sigma evenly, with the same
    product and size. ``hooi`` is never worse than ``hosvd`` of the same rank.

    Args:
        method: ``"svd"``, ``"hosvd"``, ``"hosvd2"``, ``"hooi"`` or ``"tt"``.
        values: a table as of ``tables.source_values``, or any array of that shape.
        grouping: cells by axis; :func:`make_grouping` has defaults.
        max_vectors: number of singular vectors for groups with more than 3**7 contents, as halves
            of 4 x 4, 1 to 1024; these are computed by a truncated method.

    Raises:
        ValueError: the table is of another game or kind than the grouping, or ``max_vectors`` is
            out of range.
    """
    check_range(
        "max_vectors", max_vectors, 1, MAX_TRUNCATED_RANK, "singular vectors cannot be computed"
    )
    # checks the number of groups
    make_grouping(grouping.game, method, str(grouping), of_moves=grouping.of_moves)
    parts = _project(method, grouping, max_vectors, values)
    return Decomposition(method, grouping, max_vectors, parts)


def decomposition(
    game: Game,
    method: Method,
    *,
    split: str | None = None,
    terminal: Terminal = "equation",
    source: str = "random",
    max_vectors: int = TRUNCATED,
) -> Decomposition:
    """Return the decomposed table of a game, as used by the policies ``svd``, ``hosvd``, ...

    A large one is cached on disk like a table.

    Args:
        game: up to 16 cells.
        method: ``"svd"``, ``"hosvd"``, ``"hosvd2"``, ``"hooi"`` or ``"tt"``.
        split: groups of cells, see :meth:`Grouping.parse`; the default is that of
            :func:`make_grouping`.
        terminal: see ``tables.random_play_values``.
        source: see ``tables.source_values``.
        max_vectors: see :func:`decompose`.

    Raises:
        ValueError: the board is too large, or the groups, the source or the terminal are invalid.
    """
    check_source(game, source, terminal)
    grouping = make_grouping(game, method, split, of_moves=is_policy(source))
    if is_policy(source):  # not cached, because its files may change
        values = source_values(game, source, terminal)
        return decompose(method, values, grouping, max_vectors=max_vectors)
    tensor_groups, axes, _ = _shapes(method, grouping, max_vectors)
    content = {"format": FORMAT, "game": game.to_dict(), "source": source, "terminal": terminal}
    content |= {"groups": str(tensor_groups), "axes": axes, "most": max_vectors}
    parts = load_or_compute(
        f"{source}-factors-{game.slug}",
        content,
        lambda: _project(method, grouping, max_vectors, source_values(game, source, terminal)),
    )
    return Decomposition(method, grouping, max_vectors, parts)
