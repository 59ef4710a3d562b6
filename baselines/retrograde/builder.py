"""Builds the layers of a game, in memory or in a folder, and opens finished ones."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from baselines.retrograde import layers as layers_module
from baselines.retrograde import ranks, sweep
from baselines.retrograde.folder import Folder, open_folder
from baselines.retrograde.layers import Layers, check_memory, make_layers
from baselines.retrograde.sweep import Part, Values, afterstates, best_values
from baselines.retrograde.tablebase import LayeredTable
from ttt_envs.core.array_cache import hash_of_sources
from ttt_envs.game import bits, rules
from ttt_envs.game.rules import Game

MADE_BY = hash_of_sources(bits, rules, ranks, sweep, layers_module, sys.modules[__name__])
CHUNK_SIZE = 1 << 22
"""Maximum number of entries computed between two calls of ``progress``, where interrupts are handled."""

Progress = Callable[[float], None]
"""called with the fraction of work done, 0 to 1"""


def build(
    game: Game,
    folder: Path | None = None,
    *,
    stones: int = 0,
    memory: int | None = None,
    progress: Progress | None = None,
) -> LayeredTable:
    """Compute the values of all positions with ``stones`` stones or more, layer by layer from the full board on.

    With a folder, every finished layer is a file there. An interrupted build is resumed; missing or damaged layers are
    recomputed. A complete folder is only read and checked; one that begins at more stones is extended to fewer.

    Args:
        game: up to 21 cells, with any skip chance; up to 25 with ``stones`` above 0.
        folder: for the layers, created if missing. Without one they are kept in memory.
        stones: number of stones of the first layer, which is computed last; 0 for the whole game.
        memory: maximum memory in bytes; None for all free memory.
        progress: called with the fraction done.

    Raises:
        FolderLockedError: another process builds in the folder.
        ValueError: the board is larger, memory is too small, the disk is full (no finished layer is lost), or the
            folder holds something else.
    """
    layers = make_layers(game, stones, folder is not None)
    found = None if folder is None else Folder(folder, layers)
    done: dict[int, Values] = {}
    if found is not None:
        done = found.read_all()
        if len(done) == len(layers.build_order()) and found.begins_at(layers.stones):
            if progress is not None:
                progress(1.0)
            return LayeredTable(layers, done.__getitem__)
    check_memory(game, stones=stones, folder=found is not None, memory=memory)
    with nullcontext() if found is None else found.writing():
        if found is not None:
            if found.has_changed():  # another process has written to it meanwhile
                done = found.read_all()
            found.check_free_space(layers.estimate().disk - sum(array.nbytes for array in done.values()))
            found.write_manifest()
        _sweep(layers, found, done, progress)
    return LayeredTable(layers, done.__getitem__)


def is_finished(game: Game, folder: Path) -> bool:
    """Return whether a folder has all layers of a game, by its manifest."""
    try:
        found = open_folder(folder)
    except ValueError:
        return False
    return found.layers.game == game and not found.missing() and found.layers.stones == 0


def _sweep(layers: Layers, folder: Folder | None, done: dict[int, Values], progress: Progress | None) -> None:
    """Compute all missing layers into ``done``."""
    total, finished = sum(map(layers.size, layers.build_order())), 0
    for stones in layers.build_order():
        if stones not in done:
            layer = np.empty(layers.size(stones), layers.dtype)
            so_far = finished
            for own in layers.own_counts(stones):
                _compute_part(layers, stones, own, done, layers.part(stones, own, layer))
                so_far += math.prod(layers.shape(stones, own))
                if progress is not None and own != layers.own_counts(stones)[-1]:
                    progress(so_far / total)
            layer.flags.writeable = False
            if folder is not None:
                folder.write_layer(stones, layer)
            done[stones] = layer
            del layer
        finished += layers.size(stones)
        if progress is not None:
            progress(finished / total)
        if folder is not None and stones < layers.game.cells:  # keep only two layers in memory
            done[stones + 1] = folder.mapped(stones + 1)
    if folder is not None:
        done[layers.stones] = folder.mapped(layers.stones)


def _compute_part(layers: Layers, stones: int, own: int, done: dict[int, Values], out: Values) -> None:
    """Compute one part from those of the next layer."""
    other, parameters = stones - own, layers.game.parameters
    if stones == layers.game.cells:
        classes = layers.classes
        mine = classes.leaders[classes.starts[own] : classes.starts[own + 1]].astype(np.int64)
        out[:, 0] = np.where(classes.places[((1 << stones) - 1) & ~mine] < 0, layers.lost, 0)
        return
    after = np.empty(layers.shape(stones + 1, own + 1), layers.dtype)
    above = done[stones + 1]
    turned = layers.part(stones + 1, other, above)
    same = layers.part(stones + 1, own + 1, above) if layers.game.skip_chance > 0 else turned  # not read
    for start, stop in _split_rows(after):
        part = Part(start, stop, own + 1, other)
        afterstates(part, layers.ranks, layers.classes, parameters, same, turned, after)
    for start, stop in _split_rows(out):
        part, results = Part(start, stop, own, other), (layers.won, layers.lost)
        best_values(part, layers.ranks, layers.classes, parameters, results, after, out)


def _split_rows(array: Values) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows to compute at once."""
    rows = max(1, CHUNK_SIZE // max(1, array.shape[1]))
    return ((start, min(start + rows, len(array))) for start in range(0, len(array), rows))
