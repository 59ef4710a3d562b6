"""Computes the layers of a game, in memory or in a folder, within limits of size and memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from baselines.exact.folder import Folder, dtype_of
from baselines.exact.solution import LayeredSolution
from ttt_envs.core.checks import Refusal, check_range
from ttt_envs.core.work import DEFAULT_WORK, Work, count_threads
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
    column, by_stones = 2.0 ** np.arange(game.rows + 1), np.ones(1)
    for _ in range(game.columns):
        by_stones = np.convolve(by_stones, column)
    return float(by_stones[max(stones, 0) :].sum()) / 2


def is_layered(game: Game, stones: int = 0) -> bool:
    """Return whether the layers of a game from ``stones`` stones on can be built."""
    if game.gravity:
        return (
            game.cells <= MAX_CELLS_WITH_GRAVITY
            and bound_colourings(game, stones) <= MAX_COLOURINGS
        )
    return game.cells <= (MAX_CELLS_LAST_LAYERS if stones else MAX_LAYERED_CELLS)


def check_size(game: Game, stones: int = 0) -> None:
    """Raise ValueError for a board too large for layers from ``stones`` stones on, or another
    number of stones.
    """
    check_range("stones", stones, 0, game.cells, f"are not on a board of {game.cells} cells")
    if not is_layered(game, stones):
        raise Refusal(
            f"a board of {game.rows} x {game.columns} is too large to solve by layers: choose up "
            "to "
            f"{MAX_LAYERED_CELLS} cells, with gravity up to 6 x 5, or the last layers of "
            f"{MAX_CELLS_LAST_LAYERS} cells."
            f" Without skips, evaluate.py solve may find the winner on a larger board"
        )


def estimate(game: Game, *, stones: int = 0, folder: bool = True) -> Estimate:
    """Return the number of values per layer and the bytes needed to solve a game.

    Args:
        game: as for :func:`build`.
        stones: as for :func:`build`.
        folder: whether the layers go to a folder.

    Raises:
        ValueError: the board is larger, or the number of stones is invalid.
    """
    check_size(game, stones)
    return _estimate(Numbering(game), stones, dtype_of(game, stored=folder))


def _estimate(numbering: Numbering, stones: int, dtype: np.dtype) -> Estimate:
    order = range(numbering.game.cells + 1)
    by_stones, index = zip(
        *(numbering.estimate(n) if n >= stones else (0, 0) for n in order), strict=True
    )
    disk = dtype.itemsize * sum(by_stones)
    sizes = [dtype.itemsize * count + size for count, size in zip(by_stones, index, strict=True)]
    memory = max(a + b for a, b in pairwise(sizes))
    alone = max(a + b for a, b in pairwise(index)) + max(index) + disk
    return Estimate(by_stones, disk, memory, alone, sum(by_stones) * NS_PER_VALUE / 1e9)


def check_memory(
    needed: Estimate, game: Game, *, folder: bool = True, memory: int | None = None
) -> None:
    """Raise MemoryError if :func:`build` needs more memory than ``memory`` bytes, or than is
    free.
    """
    size = needed.memory if folder else needed.memory_alone
    free = int(psutil.virtual_memory().available) if memory is None else memory
    if size > free:
        raise MemoryError(
            f"solving {game} by layers takes {size:,} bytes of memory, and {free:,} may be used: "
            "allow more with "
            f"memory={'' if folder else ', or give it a folder'}"
        )


def build(
    game: Game, folder: Path | None = None, *, stones: int = 0, work: Work = DEFAULT_WORK
) -> LayeredSolution:
    """Compute the values of all positions with ``stones`` stones or more, layer by layer from the
    full board on.

    With a folder, every finished layer is a file there. An interrupted build is resumed; missing or
    damaged layers are recomputed. A complete folder is only read and checked; one that begins at
    more stones is extended to fewer.

    Args:
        game: up to 21 cells, with any skip chance; up to 25 with ``stones`` above 0. With gravity
            up to 6 x 5 or 5 x 6.
        folder: for the layers, created if missing. Without one they are kept in memory.
        stones: number of stones of the first layer, which is computed last; 0 for the whole game.
        work: threads, memory, progress.

    Raises:
        FolderLockedError: another process builds in the folder.
        MemoryError: memory is too small.
        ValueError: the board is larger, or the folder holds something else.
        OSError: the disk is full; no finished layer is lost.
    """
    check_size(game, stones)
    numbering, dtype = Numbering(game), dtype_of(game, stored=folder is not None)
    store = None if folder is None else Folder(folder, game, stones)
    done = {} if store is None or store.missing() else _read_all(store, numbering)
    needed = _estimate(numbering, stones, dtype)
    with ExitStack() as stack:
        if len(done) < game.cells + 1 - stones:
            check_memory(needed, game, folder=store is not None, memory=work.memory)
            if store is not None:
                stack.enter_context(store.writing())
                done = _read_all(store, numbering)
        for number, values in _sweep(numbering, needed, stones, done, dtype, work):
            if store is not None and number not in done:
                store.write_layer(number, values)
            done[number] = values if store is None else store.mapped(number)
    return LayeredSolution(numbering, stones, dtype, done.__getitem__)


def _read_all(store: Folder, numbering: Numbering) -> dict[int, Values]:
    """Return the layers of a folder that are present and intact."""
    missing = store.missing()
    layers = {n: store.read(n, numbering.size(n)) for n in store.layers if n not in missing}
    return {n: values for n, values in layers.items() if values is not None}


def _sweep(
    numbering: Numbering,
    needed: Estimate,
    stones: int,
    done: Mapping[int, Values],
    dtype: np.dtype,
    work: Work,
) -> Iterator[tuple[int, Values]]:
    """Yield the layers from the last one to that of ``stones``: those of ``done``, others from the
    one before.
    """
    above, finished, total = None, 0, max(1, sum(needed.by_stones))
    threads, progress = count_threads(work.threads), work.progress or (lambda share: None)
    for number in range(numbering.game.cells, stones - 1, -1):
        share, values = needed.by_stones[number], done.get(number)
        if values is None:
            values = np.empty(numbering.size(number), dtype)
            numbering.compute(number, above, values, threads=threads)
            values.flags.writeable = False
        finished += share
        progress(finished / total)
        yield number, values
        above = values


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
    check_size(game)
    numbering, dtype = Numbering(game), np.dtype(np.int8 if game.skip_chance == 0 else np.float64)
    needed = _estimate(numbering, 1, dtype)
    check_memory(needed, game, memory=work.memory)
    ((_, first_moves),) = deque(
        _sweep(numbering, needed, 1, {}, dtype, work), maxlen=1
    )  # keeps no other layer
    return LayeredSolution(numbering, 1, dtype, lambda _: first_moves).value


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
    if missing := store.missing():
        raise Refusal(
            f"{folder} has no finished table of {store.game}: its layers of "
            f"{', '.join(map(str, missing))} stones are "
            f"missing. Build it there again: finished layers are reused"
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


def is_finished(game: Game, folder: Path) -> bool:
    """Return whether a folder has all layers of a game, by its manifest."""
    try:
        return not Folder(folder, game, 0).missing()
    except ValueError:
        return False
