"""Builds the layers of a game, in memory or in a folder, and opens finished ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np

from baselines.retrograde import columns, ranks, sweep
from baselines.retrograde import layers as layers_module
from baselines.retrograde.folder import Folder, open_folder
from baselines.retrograde.layers import MAX_CELLS_IN_DOUBLE, Layers, check_memory, free_memory, make_layers
from baselines.retrograde.sweep import Values
from baselines.retrograde.tablebase import LayeredTable
from ttt_envs.core.array_cache import hash_of_sources
from ttt_envs.core.threads import Threads, count_threads
from ttt_envs.game import bits, rules
from ttt_envs.game.rules import Game

MADE_BY = hash_of_sources(bits, rules, ranks, sweep, columns, layers_module, sys.modules[__name__])

Progress = Callable[[float], None]
"""called with the fraction of work done, 0 to 1"""


def build(
    game: Game,
    folder: Path | None = None,
    *,
    stones: int = 0,
    memory: int | None = None,
    progress: Progress | None = None,
    threads: Threads = 1,
    layers: Layers | None = None,
) -> LayeredTable:
    """Compute the values of all positions with ``stones`` stones or more, layer by layer from the full board on.

    With a folder, every finished layer is a file there. An interrupted build is resumed; missing or damaged layers are
    recomputed. A complete folder is only read and checked; one that begins at more stones is extended to fewer.

    Args:
        game: up to 21 cells, with any skip chance; up to 25 with ``stones`` above 0. With gravity as many positions
            as :class:`.layers.ColumnLayers` numbers, as on 6 x 5.
        folder: for the layers, created if missing. Without one they are kept in memory.
        stones: number of stones of the first layer, which is computed last; 0 for the whole game.
        memory: maximum memory in bytes; None for all free memory.
        progress: called with the fraction done.
        threads: number of threads, see :mod:`ttt_envs.core.threads`; the values do not depend on it.
        layers: those of the game, from ``stones`` on, if they have been made; their positions are numbered once.

    Raises:
        FolderLockedError: another process builds in the folder.
        MemoryError: memory is too small.
        ValueError: the board is larger, the disk is full (no finished layer is lost), or the folder holds something
            else.
    """
    num_threads = count_threads(threads)
    if layers is None:
        double = folder is None and game.cells <= MAX_CELLS_IN_DOUBLE
        layers = make_layers(game, stones, double=double, threads=num_threads)
    found = None if folder is None else Folder(folder, layers)
    done: dict[int, Values] = {}
    if found is not None:
        done = found.read_all()
        if len(done) == len(layers.build_order()) and found.begins_at(layers.stones):
            if progress is not None:
                progress(1.0)
            return LayeredTable(layers, done.__getitem__)
    check_memory(layers, folder=found is not None, memory=memory)
    with nullcontext() if found is None else found.writing():
        if found is not None:
            if found.has_changed():  # another process has written to it meanwhile
                done = found.read_all()
            found.check_free_space(layers.estimate().disk - sum(array.nbytes for array in done.values()))
            found.write_manifest()
        _sweep(layers, found, done, progress, num_threads, keeps=True)
    return LayeredTable(layers, done.__getitem__)


def start_value(
    game: Game, *, memory: int | None = None, progress: Progress | None = None, threads: Threads = 1
) -> float:
    """Return the value of the empty board for the player who moves first.

    Values are float64, and only two layers are in memory.

    Args:
        game: as for :func:`build`.
        memory, progress, threads: as for :func:`build`.

    Raises:
        MemoryError: two layers take more than ``memory``.
        ValueError: the board is larger.
    """
    num_threads = count_threads(threads)
    layers = make_layers(game, double=True, threads=num_threads)
    needed, free = layers.estimate().memory, free_memory(memory)
    if needed > free:
        raise MemoryError(f"the layers of {game} take {needed:,} bytes of memory, and {free:,} may be used")
    done: dict[int, Values] = {}
    _sweep(layers, None, done, progress, num_threads, keeps=False)
    value = done[0][0]
    return float(np.sign(value) if game.skip_chance == 0 else value) + 0.0  # no -0.0


def is_finished(game: Game, folder: Path) -> bool:
    """Return whether a folder has all layers of a game, by its manifest."""
    try:
        found = open_folder(folder)
    except ValueError:
        return False
    return found.layers.game == game and not found.missing() and found.layers.stones == 0


def _sweep(
    layers: Layers, folder: Folder | None, done: dict[int, Values], progress: Progress | None, threads: int, keeps: bool
) -> None:
    """Compute all missing layers into ``done``; without ``keeps`` only the last one stays there."""
    total, finished = sum(map(layers.size, layers.build_order())), 0
    for stones in layers.build_order():
        if stones not in done:
            layer = np.empty(layers.size(stones), layers.dtype)
            report = None if progress is None else partial(_report, progress, finished / total, len(layer) / total)
            layers.compute(stones, done.get(stones + 1), layer, threads=threads, progress=report)
            layer.flags.writeable = False
            if folder is not None:
                folder.write_layer(stones, layer)
            done[stones] = layer
            del layer
        if not keeps:
            done.pop(stones + 1, None)
        finished += layers.size(stones)
        if progress is not None:
            progress(finished / total)
        if folder is not None and stones < layers.game.cells:  # keep only two layers in memory
            done[stones + 1] = folder.mapped(stones + 1)
    if folder is not None:
        done[layers.stones] = folder.mapped(layers.stones)


def _report(progress: Progress, start: float, share: float, done: float) -> None:
    progress(start + share * done)
