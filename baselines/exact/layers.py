"""Computes the layers of a game, in memory or in a folder, within limits of size and memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from baselines.exact.folder import Folder, dtype_of
from baselines.exact.solution import LayeredSolution
from ttt_envs.core.checks import Refusal, check_range
from ttt_envs.core.work import DEFAULT_WORK, Work, count_threads, usable_memory
from ttt_envs.game.game import Game
from ttt_envs.graph.numbering import MAX_UNPAIRED_CELLS, Numbering, Values

MAX_SOLVER_CELLS = MAX_UNPAIRED_CELLS
"""Maximum number of cells of a game that is solved in memory in a second, in float64."""
MAX_LAYERED_CELLS = 21
"""Maximum number of cells for which all layers are built."""
MAX_CELLS_LAST_LAYERS = 25
"""Maximum number of cells for which the last layers are built."""
MAX_CELLS_WITH_GRAVITY = 31
"""Maximum number of cells with gravity: a set of cells and its patterns are counted in 32 bits."""
MAX_COLOURINGS = 1 << 35
"""Maximum number of colourings of the columns with gravity, of all layers of a table; 6 x 5 has
half as many.
"""
NS_PER_VALUE = 60
"""Approximate nanoseconds per value, on one core of an AMD EPYC (family 23, model 1)."""


class Estimate(NamedTuple):
    """Resources needed to solve a game by layers; above a million positions estimated by
    samples.
    """

    by_stones: tuple[int, ...]
    """number of values in the layer of 0, 1, ... stones; 0 if it is not built"""
    disk: int
    """total bytes of all layers, in a folder or in memory"""
    memory: int
    """peak memory in bytes if the layers go to a folder"""
    memory_alone: int
    """peak memory in bytes if they do not"""
    seconds: float
    """approximate duration in seconds"""


def bound_colourings(game: Game, stones: int = 0) -> float:
    """Return a bound on the number of positions with gravity and with ``stones`` stones or more."""
    column = 2.0 ** np.arange(game.rows + 1)
    by_stones = np.ones(1)
    for _ in range(game.columns):
        by_stones = np.convolve(by_stones, column)
    return float(by_stones[max(stones, 0) :].sum()) / 2


def is_layered(game: Game, stones: int = 0) -> bool:
    """Return whether the layers of a game from ``stones`` stones on can be built."""
    if game.gravity:
        has_few_colourings = bound_colourings(game, stones) <= MAX_COLOURINGS
        return game.cells <= MAX_CELLS_WITH_GRAVITY and has_few_colourings
    return game.cells <= (MAX_CELLS_LAST_LAYERS if stones else MAX_LAYERED_CELLS)


def check_size(game: Game, stones: int = 0) -> None:
    """Raise ValueError for a board too large for layers from ``stones`` stones on, or another
    number of stones.
    """
    check_range("stones", stones, 0, game.cells, f"are not on a board of {game.cells} cells")
    if not is_layered(game, stones):
        raise Refusal(
            f"a board of {game.rows} x {game.columns} is too large to solve by layers: choose up "
            f"to {MAX_LAYERED_CELLS} cells, with gravity up to 6 x 5, or the last layers of "
            f"{MAX_CELLS_LAST_LAYERS} cells. Without skips, evaluate.py solve may find the winner "
            "on a larger board"
        )


class Plan:
    """The layers of a game to build, what that takes, and their computation.

    Args:
        game: up to 21 cells, with any skip chance; up to 25 with ``stones`` above 0. With gravity
            up to 6 x 5 or 5 x 6.
        stones: number of stones of the first layer; 0 for the whole game.
        dtype: of the values; None for that of layers in memory.

    Raises:
        ValueError: the board is larger, or the number of stones is invalid.
    """

    def __init__(self, game: Game, stones: int = 0, dtype: np.dtype | None = None) -> None:
        check_size(game, stones)
        self.game = game
        self.stones = stones
        self.dtype = dtype_of(game, stored=False) if dtype is None else dtype
        self.numbering = Numbering(game)

    @cached_property
    def estimate(self) -> Estimate:
        """Number of values per layer and the bytes needed, computed on first access."""
        by_stones = []
        index_sizes = []
        for number in range(self.game.cells + 1):
            count, index_size = self.numbering.estimate(number) if number >= self.stones else (0, 0)
            by_stones.append(count)
            index_sizes.append(index_size)
        size = self.dtype.itemsize
        disk = size * sum(by_stones)
        sizes = [
            size * count + index_size
            for count, index_size in zip(by_stones, index_sizes, strict=True)
        ]
        indexes = max(a + b for a, b in pairwise(index_sizes)) + max(index_sizes)
        return Estimate(
            by_stones=tuple(by_stones),
            disk=disk,
            memory=max(a + b for a, b in pairwise(sizes)),
            memory_alone=indexes + disk,
            seconds=sum(by_stones) * NS_PER_VALUE / 1e9,
        )

    def check_memory(self, memory: int | None, *, folder: bool = True) -> None:
        """Raise MemoryError if the layers need more than ``memory`` bytes, or than is free.

        Args:
            memory: the limit; None for the free memory.
            folder: whether the layers go to a folder.
        """
        size = self.estimate.memory if folder else self.estimate.memory_alone
        limit = usable_memory(memory)
        if size > limit:
            raise MemoryError(
                f"solving {self.game} by layers takes {size:,} bytes of memory, and {limit:,} may "
                f"be used: allow more with memory={'' if folder else ', or give it a folder'}"
            )

    def build(self, folder: Path | None, work: Work) -> LayeredSolution:
        """Compute the layers: see :func:`build`."""
        store = None if folder is None else Folder(folder, self.game, self.stones)
        layers: dict[int, Values] = {}
        if store is not None and not store.missing():
            layers = store.read_all(self.numbering)
        with ExitStack() as stack:
            if len(layers) < self.game.cells + 1 - self.stones:
                self.check_memory(work.memory, folder=store is not None)
                if store is not None:
                    stack.enter_context(store.writing())
                    layers = store.read_all(self.numbering)
            for number, values in self.sweep(layers, work):
                if store is not None and number not in layers:
                    store.write_layer(number, values)
                layers[number] = values if store is None else store.mapped(number)
        return LayeredSolution(self.numbering, self.stones, self.dtype, layers.__getitem__)

    def sweep(self, layers: Mapping[int, Values], work: Work) -> Iterator[tuple[int, Values]]:
        """Yield the layers from the last one to the first: those of ``layers``, others from the one
        before.
        """
        next_values = None
        num_values = 0
        total = max(1, sum(self.estimate.by_stones))
        threads = count_threads(work.threads)
        for number in range(self.game.cells, self.stones - 1, -1):
            values = layers.get(number)
            if values is None:
                values = np.empty(self.numbering.size(number), self.dtype)
                self.numbering.compute(number, next_values, values, threads=threads)
                values.flags.writeable = False
            num_values += self.estimate.by_stones[number]
            if work.progress is not None:
                work.progress(num_values / total)
            yield number, values
            next_values = values


def estimate(game: Game, *, stones: int = 0, folder: bool = True) -> Estimate:
    """Return the number of values per layer and the bytes needed to solve a game.

    Args:
        game, stones: as for :class:`Plan`.
        folder: whether the layers go to a folder.

    Raises:
        ValueError: the board is larger, or the number of stones is invalid.
    """
    return Plan(game, stones, dtype_of(game, stored=folder)).estimate


def build(
    game: Game, folder: Path | None = None, *, stones: int = 0, work: Work = DEFAULT_WORK
) -> LayeredSolution:
    """Compute the values of all positions with ``stones`` stones or more, layer by layer from the
    full board on.

    With a folder, every finished layer is a file there. An interrupted build is resumed; missing or
    damaged layers are recomputed. A complete folder is only read and checked; one that begins at
    more stones is extended to fewer.

    Args:
        game, stones: as for :class:`Plan`.
        folder: for the layers, created if missing. Without one they are kept in memory.
        work: threads, memory, progress.

    Raises:
        FolderLockedError: another process builds in the folder.
        MemoryError: memory is too small.
        ValueError: the board is larger, or the folder holds something else.
        OSError: the disk is full; no finished layer is lost.
    """
    return Plan(game, stones, dtype_of(game, stored=folder is not None)).build(folder, work)


def start_value(game: Game, *, work: Work = DEFAULT_WORK) -> float:
    """Return the value of the empty board for the player who moves first, for all rules.

    Values are float64, and only two layers are in memory.

    Args:
        game: as for :func:`build`.
        work: threads, memory, progress.

    Raises:
        MemoryError: memory is too small.
        ValueError: the board is larger.
    """
    plan = Plan(game, 1, np.dtype(np.int8 if game.skip_chance == 0 else np.float64))
    plan.check_memory(work.memory)
    for _, values in plan.sweep({}, work):
        first_moves = values  # no other layer is kept
    return LayeredSolution(plan.numbering, 1, plan.dtype, lambda _: first_moves).value


def open_layers(game: Game | None, folder: Path) -> LayeredSolution:
    """Return the finished layers of a folder, memory-mapped; each layer's hash is checked on first
    read.

    Args:
        game: the expected game; None for any.
        folder: of :func:`build`.

    Raises:
        ValueError: there are no layers, or they are of another game or unfinished.
    """
    store = Folder.open(folder)
    if game is not None and store.game != game:
        raise Refusal(
            f"{folder} holds the layers of {store.game}, not of {game}: choose another folder"
        )
    check_size(store.game, store.stones)
    missing = ", ".join(map(str, store.missing()))
    if missing:
        raise Refusal(
            f"{folder} has no finished table of {store.game}: its layers of {missing} stones are "
            "missing. Build it there again: finished layers are reused"
        )
    numbering = Numbering(store.game)

    @cache
    def read(stones: int) -> Values:
        values = store.read(stones, numbering.size(stones))
        if values is None:
            raise Refusal(
                f"{store.file(stones)} is damaged: build again, which rebuilds only this file"
            )
        return values

    return LayeredSolution(numbering, store.stones, store.dtype, read)
