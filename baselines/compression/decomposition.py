"""Decompositions of tables: one decomposition gives every rank of a table, computed or read from
disk.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from baselines.compression import singular_vectors
from baselines.compression.factors import Factors, Train, Tucker
from baselines.compression.grouping import Grouping, Method, make_grouping, tensor_grouping
from baselines.compression.ranks import MAX_TRUNCATED_RANK, TRUNCATED, check_rank, largest_rank
from baselines.compression.singular_vectors import iterate_hooi, leading_vectors, project
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
        factors: of each half.
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
        self.method, self.grouping, self.rank = method, grouping, rank
        self.factors, self.relative_error = list(factors), relative_error
        self.game, self.of_moves, self.halves = grouping.game, grouping.of_moves, len(factors)
        self._tensor_grouping = tensor_grouping(method, grouping)

    @property
    def stored_numbers(self) -> int:
        """Number of values in all factors of all halves."""
        return sum(array.size for factors in self.factors for array in factors.arrays)

    @property
    def compression_ratio(self) -> float:
        """Ratio to the number of values in the table (Eq. 13); it may be above 1."""
        return self.stored_numbers / (self.halves * math.prod(self.grouping.sizes))

    def table(self) -> Float64Array:
        """Return the approximated table, in the shape of the table."""
        halves = np.stack(
            [self._tensor_grouping.entries(factors.tensor()) for factors in self.factors]
        )
        shape = (3**self.game.cells, self.game.cells) if self.of_moves else (3**self.game.cells,)
        return halves.reshape((2, *shape) if self.halves == 2 else shape)

    def read(
        self, cells: Int8Array, actions: Int64Array | None = None, half: int = 0
    ) -> Float64Array:
        """Return single entries of a half, float64[B]."""
        places = self._tensor_grouping.places
        moves = 0 if actions is None or not self.of_moves else actions[:, None] * places[-1]
        index, factors = (
            cells.astype(np.int64) @ places[: self.game.cells] + moves,
            self.factors[half],
        )
        chunk = max(1, MAX_WORK // factors.work)
        parts = [
            factors.entries(index[start : start + chunk]) for start in range(0, len(index), chunk)
        ]
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
        self.method, self.grouping = method, grouping
        self.largest = largest_rank(method, grouping, max_vectors)
        *_, shapes = _shapes(method, grouping, max_vectors)
        borders = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        self._parts = [list(map(np.reshape, np.split(half, borders), shapes)) for half in parts]
        """for each half the results of :func:`project`"""

    def at(self, rank: int) -> Compressed:
        """Return the table at a rank, one number for all axes; a smaller axis is kept whole.

        At rank 0 all entries are 0. ``svd``, ``hosvd`` and ``hosvd2`` only truncate; ``tt``
        continues with SVDs of the rest after the first one, ``hooi`` iterates from ``hosvd``.

        Raises:
            ValueError: the rank is not in 0 to ``largest``.
        """
        check_rank(self.method, self.grouping, rank, self.largest)
        factors, missed = zip(
            *(_truncate(self.method, part, rank) for part in self._parts), strict=True
        )
        total = sum(float(part[-1][0]) for part in self._parts)
        error = math.sqrt(sum(missed) / total) if total > 0 else 0.0
        return Compressed(self.method, self.grouping, rank, factors, error)


def _truncate(method: Method, part: list[Float64Array], rank: int) -> tuple[Factors, float]:
    """Return the factors of a half at a rank, and their squared error."""
    *bases, core, missed = part
    leading = [basis[:, :rank] for basis in bases]
    lost = float(missed[min(rank, len(missed) - 1)])
    if method in ("svd", "tt"):  # SVDs from the left, of which the first is given
        cores, rest = [leading[0][None]], core[:rank]
        for size in core.shape[1:-1]:
            matrix = rest.reshape(rest.shape[0] * size, math.prod(rest.shape[1:]) // size)
            vectors, more = leading_vectors(matrix, rank)
            cores.append(vectors.reshape(rest.shape[0], size, vectors.shape[1]))
            lost += more
            rest = vectors.T @ matrix
        return Train([*cores, rest[:, :, None]]), lost
    if method == "hosvd2":
        return Train([leading[0][None], core[:rank, :, :rank], leading[1].T[:, :, None]]), lost
    if method == "hooi" and 0 < rank < max(core.shape):
        matrices, core, lost = iterate_hooi(core, rank)
        leading = [basis @ matrix for basis, matrix in zip(bases, matrices, strict=True)]
        lost += float(missed[-1])
    return Tucker(core[(slice(rank),) * core.ndim], leading), lost


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
    """Return the results of :func:`project` for the halves of a table, float64[halves, numbers]."""
    of_moves, halves = table_shape(grouping.game, values)
    if of_moves != grouping.of_moves:
        what = "a value for every move" if of_moves else "one value for every board"
        raise Refusal(f"the table has {what}, and the grouping {grouping} is for the other kind")
    grouping, axes, shapes = _shapes(method, grouping, max_vectors)
    out = np.empty((halves, sum(map(math.prod, shapes))))
    for half, entries in zip(out, values.reshape(halves, -1), strict=True):
        counts = [shape[1] for shape in shapes[: len(axes)]]
        np.concatenate(
            [array.reshape(-1) for array in project(grouping.tensor(entries), axes, counts)],
            out=half,
        )
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
    make_grouping(
        grouping.game, method, str(grouping), of_moves=grouping.of_moves
    )  # checks the number of groups
    return Decomposition(
        method, grouping, max_vectors, _project(method, grouping, max_vectors, values)
    )


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
        return decompose(
            method, source_values(game, source, terminal), grouping, max_vectors=max_vectors
        )
    tensor_groups, axes, _ = _shapes(method, grouping, max_vectors)
    content = {"format": FORMAT, "game": game.to_dict(), "source": source, "terminal": terminal}
    content |= {"groups": str(tensor_groups), "axes": axes, "most": max_vectors}
    parts = load_or_compute(
        f"{source}-factors-{game.slug}",
        content,
        lambda: _project(method, grouping, max_vectors, source_values(game, source, terminal)),
    )
    return Decomposition(method, grouping, max_vectors, parts)


def split_errors(
    values: Float64Array, game: Game, first: int
) -> tuple[list[Grouping], Float64Array]:
    """Return the errors of ``svd`` for every split of the cells into two groups, from singular
    values alone.

    Args:
        values: a table of positions.
        game: its game.
        first: number of cells in the first group; if both are equally large, the first has cell 0.

    Returns:
        The groupings, and float64[groupings, ranks + 1]: the relative errors at rank 0, 1, ...

    Raises:
        ValueError: the table is of moves or of another game, the size of the group is invalid, or
            the matrix is too large for so many SVDs.
    """
    of_moves, halves = table_shape(game, values)
    size = game.cells
    if of_moves or not 1 <= first < size or 3**size > singular_vectors.EXACT:
        raise Refusal(
            f"all splits into {first} and {size - first} cells cannot be tried on "
            f"{'moves of ' * of_moves}{game}: "
            f"take a table of positions of up to 12 cells, and 1 to {size - 1} cells in the first "
            "group"
        )
    groups = [
        group
        for group in itertools.combinations(range(size), first)
        if 2 * first != size or 0 in group
    ]
    groupings, squares = [], []
    for group in groups:
        grouping = Grouping(game, (group, tuple(cell for cell in range(size) if cell not in group)))
        matrices = np.stack([grouping.tensor(half) for half in values.reshape(halves, -1)])
        squares.append(np.square(np.linalg.svd(matrices, compute_uv=False)).sum(axis=0))
        groupings.append(grouping)
    missed = np.pad(np.cumsum(np.array(squares)[:, ::-1], axis=1)[:, ::-1], ((0, 0), (0, 1)))
    return groupings, np.sqrt(missed / np.maximum(missed[:, :1], np.finfo(float).tiny))
