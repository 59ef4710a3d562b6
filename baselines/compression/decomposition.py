"""Decompositions of tables: one decomposition gives every rank of a table, computed or read from disk."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from weakref import WeakValueDictionary

import numpy as np

from baselines.compression import singular_vectors
from baselines.compression.factors import Factors, Train, Tucker
from baselines.compression.grouping import Grouping, Method, make_grouping, tensor_grouping
from baselines.compression.ranks import MAX_TRUNCATED_RANK, TRUNCATED, check_rank, largest_rank
from baselines.compression.singular_vectors import Projection, iterate_hooi, leading_vectors, project
from baselines.tables import Evaluation, Terminal, actions_or_zeros, check_source, is_policy, source_values, table_shape
from ttt_envs.core.array_cache import CachedArray, load_or_compute
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array
from ttt_envs.game.game import Game

FORMAT = 2
"""version of the storage format, and of the values"""


class Compressed(Evaluation):
    """A table as factors, read without reconstructing it.

    Attributes:
        method: the method; grouping: the groups of cells; rank: the rank of the approximation.
        factors: of each half.
        relative_error: Frobenius norm of the difference to the table, relative to the table (Eq. 16); 0 for all zeros.
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
        self._tensor_grouping = tensor_grouping(method, grouping)
        self._axes = self._tensor_grouping.axes

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
        halves = np.stack([self._tensor_grouping.entries(factors.tensor()) for factors in self.factors])
        shape = (3**self.game.cells, self.game.cells) if self.of_moves else (3**self.game.cells,)
        return halves.reshape((2, *shape) if self.halves == 2 else shape)

    def read(self, cells: Int8Array, actions: Int64Array | None = None, half: int = 0) -> Float64Array:
        """Return single entries of a half, float64[B]."""
        out = np.empty(len(cells))
        self.factors[half].read(np.ascontiguousarray(cells), actions_or_zeros(cells, actions), self._axes, out)
        return out

    def _children(self, half: int, cells: Int8Array, mover: Int8Array, legal: BoolArray) -> Float64Array:
        out = np.empty(cells.shape)
        self.factors[half].children(cells, mover, legal, self._axes, out)
        return out

    def __str__(self) -> str:
        return f"{self.method} of {self.grouping} at rank {self.rank}"


class Decomposition:
    """A decomposed table that gives every rank; made by :func:`decompose` or :func:`decomposition`.

    Attributes:
        method: the method; grouping: the groups of cells.
        largest: the largest rank.
    """

    def __init__(self, method: Method, grouping: Grouping, most: int, parts: Float64Array) -> None:
        self.method = method
        self.grouping = grouping
        self.largest = largest_rank(method, grouping, most)
        self._parts = [_unpack(method, grouping, most, half) for half in parts]

    def at(self, rank: int) -> Compressed:
        """Return the table at a rank, one number for all axes; a smaller axis is kept whole.

        At rank 0 all entries are 0. ``svd``, ``hosvd`` and ``hosvd2`` only truncate; ``tt`` continues with SVDs of the
        rest after the first one, ``hooi`` iterates from ``hosvd``.

        Raises:
            ValueError: the rank is not in 0 to ``largest``.
        """
        check_rank(self.method, self.grouping, rank, self.largest)
        truncated = [_TRUNCATE[self.method](part, rank) for part in self._parts]
        factors, missed = zip(*truncated, strict=True)
        total = sum(float(part[2][0]) for part in self._parts)
        error = math.sqrt(sum(missed) / total) if total > 0 else 0.0
        return Compressed(self.method, self.grouping, rank, factors, error)

    def __iter__(self) -> Iterator[Compressed]:
        """Yield the table at every rank, from 0."""
        return map(self.at, range(self.largest + 1))


def _truncate_train(part: Projection, rank: int) -> tuple[Factors, float]:
    """Truncate a train: SVDs from the left, of which the first is given."""
    bases, core, missed = part
    first = bases[0][:, :rank]
    cores = [first[None]]
    lost = float(missed[min(rank, len(missed) - 1)])
    rest = core[:rank]
    for size in core.shape[1:-1]:
        matrix = rest.reshape(rest.shape[0] * size, math.prod(rest.shape[1:]) // size)
        vectors, more = leading_vectors(matrix, rank)
        cores.append(vectors.reshape(rest.shape[0], size, vectors.shape[1]))
        lost += more
        rest = vectors.T @ matrix
    return Train([*cores, rest[:, :, None]]), lost


def _truncate_tucker(part: Projection, rank: int) -> tuple[Factors, float]:
    bases, core, missed = part
    leading = core[(slice(rank),) * core.ndim]
    return Tucker(leading, [basis[:, :rank] for basis in bases]), float(missed[min(rank, len(missed) - 1)])


def _truncate_hosvd2(part: Projection, rank: int) -> tuple[Factors, float]:
    bases, core, missed = part
    first, last = (basis[:, :rank] for basis in bases)
    return Train([first[None], core[:rank, :, :rank], last.T[:, :, None]]), float(missed[min(rank, len(missed) - 1)])


def _truncate_hooi(part: Projection, rank: int) -> tuple[Factors, float]:
    bases, core, missed = part
    if rank == 0 or rank >= max(core.shape):
        return _truncate_tucker(part, rank)
    matrices, leading, lost = iterate_hooi(core, rank)
    turned = [basis @ matrix for basis, matrix in zip(bases, matrices, strict=True)]
    return Tucker(leading, turned), lost + float(missed[-1])


_TRUNCATE: dict[Method, Callable[[Projection, int], tuple[Factors, float]]] = {
    "svd": _truncate_train,
    "tt": _truncate_train,
    "hosvd": _truncate_tucker,
    "hooi": _truncate_hooi,
    "hosvd2": _truncate_hosvd2,
}


def _shapes(method: Method, grouping: Grouping, most: int) -> tuple[Grouping, list[int], list[tuple[int, ...]]]:
    """Return the shapes of a method's projection.

    Returns:
        The groups of the tensor; the projected axes; the shapes of their singular vectors, of the core and of the
        squared errors, as in :func:`project`.
    """
    grouping = tensor_grouping(method, grouping)
    sizes = grouping.sizes
    axes = {"svd": [0], "tt": [0], "hosvd2": [0, 2]}.get(method, list(range(len(sizes))))
    counts = [min(sizes[axis], math.prod(sizes) // sizes[axis]) for axis in axes]
    counts = [count if count <= singular_vectors.GRAM else most for count in counts]
    core = list(sizes)
    for axis, count in zip(axes, counts, strict=True):
        core[axis] = count
    bases = [(sizes[axis], count) for axis, count in zip(axes, counts, strict=True)]
    return grouping, axes, [*bases, tuple(core), (max(counts) + 1,)]


def _project(method: Method, grouping: Grouping, most: int, values: Float64Array) -> Float64Array:
    """Return the results of :func:`project` for the halves of a table, float64[halves, numbers]."""
    of_moves, halves = table_shape(grouping.game, values)
    if of_moves != grouping.of_moves:
        what = "a value for every move" if of_moves else "one value for every board"
        raise ValueError(f"the table has {what}, and the grouping {grouping} is for the other kind")
    grouping, axes, shapes = _shapes(method, grouping, most)
    out = np.empty((halves, sum(map(math.prod, shapes))))
    for half, entries in zip(out, values.reshape(halves, -1), strict=True):
        counts = [shape[1] for shape in shapes[: len(axes)]]
        bases, core, missed = project(grouping.tensor(entries), axes, counts)
        np.concatenate([array.reshape(-1) for array in (*bases, core, missed)], out=half)
    return out


def _unpack(method: Method, grouping: Grouping, most: int, half: Float64Array) -> Projection:
    """Return one half of :func:`_project` in the form of :func:`project`."""
    _, _, shapes = _shapes(method, grouping, most)
    borders = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    *bases, core, missed = (part.reshape(shape) for part, shape in zip(np.split(half, borders), shapes, strict=True))
    return bases, core, missed


def decompose(method: Method, values: Float64Array, grouping: Grouping, *, most: int = TRUNCATED) -> Decomposition:
    """Decompose a table.

    The factors of ``svd`` are U and Sigma V*; the paper's Q and S split Sigma evenly, with the same product and size.
    ``hooi`` is never worse than ``hosvd`` of the same rank.

    Args:
        method: ``"svd"``, ``"hosvd"``, ``"hosvd2"``, ``"hooi"`` or ``"tt"``.
        values: a table as of ``tables.source_values``, or any array of that shape.
        grouping: cells by axis; :func:`make_grouping` has defaults.
        most: number of singular vectors for groups with more than 3**7 contents, as the halves of 4 x 4, 1 to 1,024;
            these are computed by a truncated method.

    Raises:
        ValueError: the table is of another game or kind than the grouping, or ``most`` is out of range.
    """
    if not 1 <= most <= MAX_TRUNCATED_RANK:
        raise ValueError(f"most={most} singular vectors cannot be computed: choose 1 to {MAX_TRUNCATED_RANK}")
    make_grouping(grouping.game, method, str(grouping), of_moves=grouping.of_moves)  # checks the number of groups
    return Decomposition(method, grouping, most, _project(method, grouping, most, values))


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
    """Return the decomposed table of a game, as used by the policies ``svd``, ``hosvd``, ...

    It is shared while it is referenced. A large one is cached on disk like a table.

    Args:
        game: up to 16 cells.
        method: ``"svd"``, ``"hosvd"``, ``"hosvd2"``, ``"hooi"`` or ``"tt"``.
        split: groups of cells, see :meth:`Grouping.parse`; the default is that of :func:`make_grouping`.
        terminal: see ``tables.random_play_values``.
        source: see ``tables.source_values``.
        most: see :func:`decompose`.

    Raises:
        ValueError: the board is too large, or the groups, the source or the terminal are invalid.
    """
    check_source(game, source, terminal)
    grouping = make_grouping(game, method, split, of_moves=is_policy(source))
    if is_policy(source):  # not cached, because its files may change
        return decompose(method, source_values(game, source, terminal), grouping, most=most)
    key = (game, method, str(grouping), terminal, source, most)
    found = _alive.get(key)
    if found is None:
        tensor_groups, axes, shapes = _shapes(method, grouping, most)
        content = {
            "format": FORMAT,
            "game": game.to_dict(),
            "source": source,
            "terminal": terminal,
            "groups": str(tensor_groups),
            "axes": axes,
            "most": most,
        }
        name = f"{source}-factors-{game.rows}x{game.columns}-{game.win_length}-skip{game.skip_chance:g}"
        parts = load_or_compute(
            CachedArray(name, content),
            (2 if game.skip_chance > 0 else 1, sum(map(math.prod, shapes))),
            lambda: _project(method, grouping, most, source_values(game, source, terminal)),
        )
        found = _alive[key] = Decomposition(method, grouping, most, parts)
    return found


def split_errors(values: Float64Array, game: Game, first: int) -> tuple[list[Grouping], Float64Array]:
    """Return the errors of ``svd`` for every split of the cells into two groups, from singular values alone.

    Args:
        values: a table of positions.
        game: its game.
        first: number of cells in the first group; if both are equally large, the first has cell 0.

    Returns:
        The groupings, and float64[groupings, ranks + 1]: the relative errors at rank 0, 1, ...

    Raises:
        ValueError: the table is of moves or of another game, the size of the group is invalid, or the matrix is too
            large for so many SVDs.
    """
    of_moves, halves = table_shape(game, values)
    size = game.cells
    if of_moves or not 1 <= first < size or 3**size > singular_vectors.EXACT:
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
