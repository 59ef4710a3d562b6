"""Computes the layers of a game, in memory or in a folder, within limits of size and memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from baselines.exact.folder import Folder, dtype_of, layer_name
from baselines.exact.solution import LayeredSolution
from ttt_envs.core.threads import count_threads
from ttt_envs.core.work import DEFAULT_WORK, Progress, Work
from ttt_envs.game.game import Game
from ttt_envs.graph.numbering import MAX_CODED_CELLS, Numbering, Values

MAX_SOLVER_CELLS = MAX_CODED_CELLS
"""Maximum number of cells of a game that is solved in memory in a second, in float64."""
MAX_LAYERED_CELLS = 21
"""Maximum number of cells for which all layers are built."""
MAX_CELLS_LAST_LAYERS = 25
"""Maximum number of cells for which the last layers are built."""
MAX_CELLS_WITH_GRAVITY = 31
"""Maximum number of cells with gravity: a set of cells and its patterns are counted in 32 bits."""
MAX_COLOURINGS = 1 << 35
"""Maximum number of colourings of the columns with gravity, of all layers of a table; 6 x 5 has half as many."""
NS_PER_VALUE = 60
"""Approximate nanoseconds per value, on one core of an AMD EPYC (family 23, model 1)."""


class Estimate(NamedTuple):
    """Resources needed to solve a game by layers; above a million positions estimated by samples."""

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


def is_layered(game: Game) -> bool:
    """Return whether all layers of a game can be built."""
    if game.gravity and game.cells > MAX_SOLVER_CELLS:
        return game.cells <= MAX_CELLS_WITH_GRAVITY and bound_colourings(game) <= MAX_COLOURINGS
    return game.cells <= MAX_LAYERED_CELLS


def check_size(game: Game, stones: int = 0) -> None:
    """Raise ValueError for a board too large for layers from ``stones`` stones on, or another number of stones."""
    if not 0 <= stones <= game.cells:
        raise ValueError(f"stones={stones} are not on a board of {game.cells} cells: choose 0 to {game.cells}")
    if is_layered(game):
        return
    if game.gravity:
        if game.cells > MAX_CELLS_WITH_GRAVITY or bound_colourings(game, stones) > MAX_COLOURINGS:
            raise ValueError(
                f"a board of {game.rows} x {game.columns} with gravity is too large to solve by layers: its columns "
                f"can be coloured in some {bound_colourings(game, stones):.1e} ways, and up to {MAX_COLOURINGS:.1e} "
                f"are numbered, as on 6 x 5. Without skips, evaluate.py solve finds the value of a position"
            )
    elif game.cells > MAX_CELLS_LAST_LAYERS or stones == 0:
        raise ValueError(
            f"a board of {game.rows} x {game.columns} is too large to solve by layers: choose one of up to "
            f"{MAX_LAYERED_CELLS} cells, or the last layers of one of up to {MAX_CELLS_LAST_LAYERS}, by stones above "
            f"0; without skips, evaluate.py solve may prove the winner"
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
    cells, item = numbering.game.cells, dtype.itemsize
    by_stones, index = zip(*(numbering.estimate(n) if n >= stones else (0, 0) for n in range(cells + 1)), strict=True)
    pairs = list(zip(range(cells), range(1, cells + 1), strict=True))
    two = max((index[a] + index[b] + item * (by_stones[a] + by_stones[b]) for a, b in pairs), default=item)
    largest_pair = max((index[a] + index[b] for a, b in pairs), default=0)
    return Estimate(
        by_stones,
        disk=item * sum(by_stones),
        memory=two,
        memory_alone=largest_pair + max(index) + item * sum(by_stones),
        seconds=sum(by_stones) * NS_PER_VALUE / 1e9,
    )


def check_memory(needed: Estimate, game: Game, *, folder: bool = True, memory: int | None = None) -> None:
    """Raise MemoryError if :func:`build` needs more memory than ``memory`` bytes, or than is free."""
    size = needed.memory if folder else needed.memory_alone
    free = int(psutil.virtual_memory().available) if memory is None else memory
    if size > free:
        way_out = "" if folder else ", or give it a folder"
        raise MemoryError(
            f"solving {game} by layers takes {size:,} bytes of memory, and {free:,} may be used: allow more with "
            f"memory={way_out}"
        )


def build(game: Game, folder: Path | None = None, *, stones: int = 0, work: Work = DEFAULT_WORK) -> LayeredSolution:
    """Compute the values of all positions with ``stones`` stones or more, layer by layer from the full board on.

    With a folder, every finished layer is a file there. An interrupted build is resumed; missing or damaged layers are
    recomputed. A complete folder is only read and checked; one that begins at more stones is extended to fewer.

    Args:
        game: up to 21 cells, with any skip chance; up to 25 with ``stones`` above 0. With gravity up to 6 x 5 or 5 x 6.
        folder: for the layers, created if missing. Without one they are kept in memory.
        stones: number of stones of the first layer, which is computed last; 0 for the whole game.
        work: threads, memory, progress.

    Raises:
        FolderLockedError: another process builds in the folder.
        MemoryError: memory is too small.
        ValueError: the board is larger, the disk is full (no finished layer is lost), or the folder holds something
            else.
    """
    check_size(game, stones)
    numbering, dtype = Numbering(game), dtype_of(game, stored=folder is not None)
    store = None if folder is None else Folder(folder, game, stones)
    order = range(game.cells, stones - 1, -1)
    done = {} if store is None or store.missing() else _read_all(store, numbering, order)
    with ExitStack() as stack:
        if len(done) < len(order):
            needed = _estimate(numbering, stones, dtype)
            check_memory(needed, game, folder=store is not None, memory=work.memory)
            if store is not None:
                stack.enter_context(store.writing())
                done = _read_all(store, numbering, order)
                store.check_free_space(needed.disk - sum(values.nbytes for values in done.values()))
            for number, values in _sweep(numbering, needed, order, done, dtype, work):
                if store is not None and number not in done:
                    store.write_layer(number, values)
                done[number] = values if store is None else store.mapped(number)
        elif work.progress is not None:
            work.progress(1.0)
    return LayeredSolution(numbering, stones, dtype, done.__getitem__)


def _read_all(store: Folder, numbering: Numbering, order: range) -> dict[int, Values]:
    """Return the layers of a folder that are present and intact."""
    layers = {n: store.read(n, numbering.size(n)) for n in order if n not in store.missing()}
    return {n: values for n, values in layers.items() if values is not None}


def _sweep(
    numbering: Numbering,
    needed: Estimate,
    order: range,
    done: dict[int, Values],
    dtype: np.dtype,
    work: Work,
) -> Iterator[tuple[int, Values]]:
    """Yield the layers of ``order``: those of ``done``, others as they are computed from the one before."""
    above, finished, total = None, 0, max(1, sum(needed.by_stones))
    threads, progress = count_threads(work.threads), work.progress
    for stones in order:
        share = needed.by_stones[stones]
        values = done.get(stones)
        if values is None:
            report = None if progress is None else partial(_report, progress, finished / total, share / total)
            values = np.empty(numbering.size(stones), dtype)
            numbering.compute(stones, above, values, threads=threads, progress=report)
            values.flags.writeable = False
        finished += share
        if progress is not None:
            progress(finished / total)
        yield stones, values
        above = values


def _report(progress: Progress, start: float, share: float, done: float) -> None:
    progress(start + share * done)


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
    ((_, last),) = deque(_sweep(numbering, needed, range(game.cells, 0, -1), {}, dtype, work), maxlen=1)
    return LayeredSolution(numbering, 1, dtype, lambda _: last).value


def open_layers(game: Game | None, folder: Path) -> LayeredSolution:
    """Return the finished layers of a folder, memory-mapped; each layer's hash is checked on first read.

    Args:
        game: the expected game; None for any.
        folder: of :func:`build`.

    Raises:
        ValueError: there are no layers, or they are of another game or unfinished.
    """
    store = Folder.open(folder)
    if game is not None and store.game != game:
        raise ValueError(f"{folder} holds the layers of {store.game}, not of {game}: choose another folder")
    missing = store.missing()
    if missing:
        numbers = str(missing[0]) if len(missing) == 1 else f"{missing[-1]} to {missing[0]}"
        raise ValueError(
            f"{folder} has no finished table of {store.game}: its layers of {numbers} stones are missing. Build it "
            f"there again: finished layers are reused"
        )
    numbering = Numbering(store.game)

    @cache
    def read(stones: int) -> Values:
        values = store.read(stones, numbering.size(stones))
        if values is None:
            raise ValueError(
                f"{folder / layer_name(stones)} is damaged: build the table again, which rebuilds only this file"
            )
        return values

    return LayeredSolution(numbering, store.stones, dtype_of(store.game, stored=True), read)


def is_finished(game: Game, folder: Path) -> bool:
    """Return whether a folder has all layers of a game, by its manifest."""
    try:
        store = Folder.open(folder)
    except ValueError:
        return False
    return store.game == game and not store.missing() and store.stones == 0
