"""The layers of a game, in memory or in a folder: made, kept, checked and read."""

from __future__ import annotations

import hashlib
import math
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from numpy.typing import NDArray

from baselines.layered import ranks as ranks_module
from baselines.layered import sweep
from baselines.layered.ranks import IMAGES, Classes, Ranks, classes_of, rank_beside, ranks_of
from baselines.layered.sweep import Values, afterstates, best
from ttt_envs import bits, rules
from ttt_envs.bits import count_bits
from ttt_envs.boards import Boards
from ttt_envs.compiling import Flags, Integers, Reals, compiled, wide
from ttt_envs.files import held, open_to_read, read_json, tidy, write_json, write_whole
from ttt_envs.kept import mapped, source_of
from ttt_envs.rules import Game

LARGEST = 21
"""cells up to which a game is solved by layers"""
LARGEST_IN_DOUBLE = 16
"""cells up to which values are float64; above they are float32"""
FORMAT = 1
"""version of a folder"""
MADE_BY = source_of(bits, rules, ranks_module, sweep, sys.modules[__name__])
MANIFEST = "manifest.json"
AT_ONCE = 1 << 22
"""entries that are computed between two calls of ``progress``, where an interrupt is heard"""
_HEADER = 1 << 12
"""bytes allowed for the header of a file"""

Progress = Callable[[float], None]
"""called with the share of the work that is done, 0 to 1"""
Part = tuple[int, int]
"""stones on the board, and how many of them are the mover's"""


class InUse(ValueError):  # noqa: N818  # nothing is wrong
    """Another process builds in the folder."""


class Estimate(NamedTuple):
    """What it takes to solve a game by layers."""

    by_stones: tuple[int, ...]
    """values in the layer of 0, 1, ... stones"""
    disk: int
    """bytes of all layers: in a folder, and what a table without one keeps in memory"""
    memory: int
    """bytes of memory that are needed at once where the layers go to a folder"""
    memory_alone: int
    """the same where they do not"""


def tables_of(game: Game) -> tuple[Ranks, Classes]:
    """What games of a board and a win length share: about 20 bytes for every set of cells."""
    return _tables(game.rows, game.columns, game.win_length)


@lru_cache(maxsize=2)
def _tables(rows: int, columns: int, win_length: int) -> tuple[Ranks, Classes]:
    game = Game(rows, columns, win_length)
    ranks = ranks_of(game.cells)
    return ranks, classes_of(game, ranks)


class _Layers:
    """Which parts a game has, and their sizes."""

    def __init__(self, game: Game) -> None:
        if game.cells > LARGEST:
            raise ValueError(
                f"a board of {game.rows} x {game.columns} is too large to solve by layers: "
                f"choose one of up to {LARGEST} cells, or see who wins without skips by evaluate.py prove"
            )
        self.game = game
        self.dtype = np.dtype(np.float64 if game.cells <= LARGEST_IN_DOUBLE else np.float32)
        self.ranks, self.classes = tables_of(game)

    def owns(self, stones: int) -> range:
        """How many of the stones may be the mover's: any number with skips, by turns half of them, rounded down."""
        return range(stones + 1) if self.game.skip_chance > 0 else range(stones // 2, stones // 2 + 1)

    def of(self, stones: int) -> list[Part]:
        """The parts of a layer."""
        return [(stones, own) for own in self.owns(stones)]

    def parts(self) -> list[Part]:
        """All parts, in the order in which they are made."""
        return [part for stones in range(self.game.cells, -1, -1) for part in self.of(stones)]

    def shape(self, part: Part) -> tuple[int, int]:
        """Classes of own sets x ranks of the other's sets."""
        stones, own = part
        cells = self.game.cells
        return int(self.classes.starts[own + 1] - self.classes.starts[own]), math.comb(cells - own, stones - own)

    def size(self, part: Part) -> int:
        return math.prod(self.shape(part))

    def estimate(self) -> Estimate:
        cells, item = self.game.cells, self.dtype.itemsize
        by_stones = tuple(sum(map(self.size, self.of(stones))) for stones in range(cells + 1))
        shared = sum(array.nbytes for array in (*self.ranks[1:], *self.classes))
        # of the position that has just been made, one part at a time
        made = max(
            (self.size((stones + 1, own + 1)) for stones in range(cells) for own in self.owns(stones)), default=0
        )
        made = max(made, 1)
        two = max(above + below for above, below in zip(by_stones, (*by_stones[1:], 0), strict=True))
        return Estimate(
            by_stones, item * sum(by_stones), shared + item * (two + made), shared + item * (sum(by_stones) + made)
        )


def estimate(game: Game) -> Estimate:
    """How many values each layer has, and how many bytes it takes to solve a game.

    Raises:
        ValueError: a board of more than 21 cells.
    """
    return _Layers(game).estimate()


class LayeredTable:
    """The values of all positions of a game, made by :func:`build` or read by :func:`open_table`.

    Without skips it has the positions of alternate play only: the mover has as many stones as the other, or one fewer.
    """

    def __init__(self, layers: _Layers, discount: float, read: Callable[[Part], Values]) -> None:
        self.game = layers.game
        self.discount = discount
        """what a result is multiplied by with every ply"""
        self.dtype = layers.dtype
        """float64 up to 16 cells, float32 above"""
        self.error = 0.0 if layers.dtype == np.float64 else (self.game.cells + 1) * 2.0**-25
        """how far a value may be from the exact one, apart from rounding in float64: every layer rounds once"""
        self._layers = layers
        self._read = read

    def part(self, stones: int, own: int) -> Values:
        """V of the positions with so many stones, ``own`` of them the mover's, read-only: [classes, ranks].

        Raises:
            ValueError: its file is damaged.
        """
        return self._read((stones, own))

    def values(self, boards: Boards) -> Reals:
        """The expected result of best play by both, to the mover: float64[B] from -1 to 1.

        A finished board has the result that stands on it.

        Raises:
            ValueError: without skips, a position that no alternate play leads to.
        """
        own, other, goes_on = self._sets(boards)
        places = self._layers.classes.places
        out = 1.0 * (places[own] < 0) - 1.0 * (places[other] < 0)
        out[goes_on] = self._look_up(own[goes_on], other[goes_on])
        return out

    def action_values(self, boards: Boards) -> Reals:
        """What each move is worth to the mover: float64[B, rows * columns], NaN where illegal.

        Raises:
            ValueError: as :meth:`values`.
        """
        own, other, goes_on = self._sets(boards)
        places, skip = self._layers.classes.places, self.game.skip_chance
        legal = boards.legal(self.game) & goes_on[:, None]
        out = np.full(legal.shape, np.nan)
        row, cell = np.nonzero(legal)
        made, theirs = own[row] | np.left_shift(1, cell), other[row]
        worth = -(1 - skip) * self._look_up(theirs, made)
        if skip > 0:
            worth += skip * self._look_up(made, theirs)
        worth *= self.discount
        worth[places[made] < 0] = 1.0
        out[row, cell] = worth + 0.0  # no -0.0
        return out

    def _sets(self, boards: Boards) -> tuple[Integers, Integers, Flags]:
        """The mover's stones and the other's, int64[B] each, and where the game goes on, bool[B]."""
        places, cells = self._layers.classes.places, self.game.cells
        seen = boards.own_first()
        powers = np.left_shift(1, np.arange(cells))
        own, other = (seen == 1) @ powers, (seen == 2) @ powers
        goes_on: Flags = (places[own] >= 0) & (places[other] >= 0) & ((own | other) != (1 << cells) - 1)
        if self.game.skip_chance == 0:
            ahead = (seen == 1).sum(axis=1) - (seen == 2).sum(axis=1)
            wrong = ahead[goes_on & ((ahead > 0) | (ahead < -1))]
            if len(wrong):
                raise ValueError(
                    f"a position in which the mover has {abs(wrong[0])} stones {'more' if wrong[0] > 0 else 'less'} "
                    f"than the other player comes from no game without skips: choose one of alternate play, or solve "
                    f"the game with a skip_chance above 0"
                )
        return own, other, goes_on

    def _look_up(self, own: Integers, other: Integers) -> Reals:
        """V of pairs of sets, int64[K] each."""
        kinds = np.empty(len(own), np.int64)
        entries = np.empty(len(own), np.int64)
        _find(own, other, self._layers.ranks, self._layers.classes, kinds, entries)
        out = np.ones(len(own))
        for kind in np.unique(kinds[kinds >= 0]).tolist():
            rows = kinds == kind
            out[rows] = self.part(*divmod(kind, 64)).reshape(-1)[entries[rows]]
        return out

    def __repr__(self) -> str:
        return f"LayeredTable({self.game})"


@compiled
def _find(own: Integers, other: Integers, ranks: Ranks, classes: Classes, kinds: Integers, entries: Integers) -> None:
    """Where V(A, B) stands: the part, as stones * 64 + own stones, and the entry; -1 where A has a line."""
    low, _, first, low_rank, high_rank, thirds, squeezed = ranks
    places, _, _, low_images, high_images = classes
    cells = len(first) - 2
    ones = (wide(1) << low) - 1
    for i in range(len(own)):
        place = wide(places[own[i]])
        entries[i] = -1
        kinds[i] = -1
        if place >= 0:
            mine, theirs = count_bits(own[i]), count_bits(other[i])
            symmetry = place & (IMAGES - 1)
            leader = wide(low_images[symmetry, own[i] & ones]) | wide(high_images[symmetry, own[i] >> low])
            beside = wide(low_images[symmetry, other[i] & ones]) | wide(high_images[symmetry, other[i] >> low])
            rank = rank_beside(beside, leader, theirs, low, low_rank, high_rank, thirds, squeezed)
            width = wide(1)  # C(cells - mine, theirs)
            for j in range(theirs):
                width = width * (cells - mine - j) // (j + 1)
            kinds[i] = (mine + theirs) * 64 + mine
            entries[i] = (place // IMAGES) * width + rank


# ---------------------------------------------------------------------------------------------------------------------
# Making it


def build(
    game: Game,
    folder: Path | None = None,
    *,
    memory: int | None = None,
    discount: float = 1.0,
    progress: Progress | None = None,
) -> LayeredTable:
    """The values of all positions, layer by layer from the full board to the empty one.

    With a folder every finished part is a file there; what a build that was stopped has left, and a damaged part, is
    all that is made anew. A folder that is complete is only read and checked.

    Args:
        game: up to 21 cells, with any skip chance.
        folder: where the layers are kept; it is made where there is none. Without one they are kept in memory.
        memory: bytes that may be used; None for what the machine has free.
        discount: what a result is multiplied by with every ply.
        progress: called with the share that is done.

    Raises:
        InUse: another process builds in the folder.
        ValueError: a larger board; too little memory; a full disk, which loses no finished part; a folder with
            something else in it.
    """
    layers = _Layers(game)
    found = None if folder is None else _Folder(folder, layers, discount)
    done: dict[Part, Values] = {}
    if found is not None:
        done = found.read_all()
        if len(done) == len(layers.parts()):
            if progress is not None:
                progress(1.0)
            return LayeredTable(layers, discount, done.__getitem__)
    needed = layers.estimate()
    bytes_needed = needed.memory if found is not None else needed.memory_alone
    free = int(psutil.virtual_memory().available) if memory is None else memory
    if bytes_needed > free:
        way_out = "give it more memory" + ("" if found is not None else f", or a folder for {needed.disk:,} bytes")
        raise ValueError(
            f"solving {game} by layers takes {bytes_needed:,} bytes of memory, and {free:,} may be used: {way_out}"
        )
    with nullcontext() if found is None else found.writing():
        if found is not None:
            if found.has_changed():  # another process has worked on it meanwhile
                done = found.read_all()
            found.check_room(needed.disk - sum(array.nbytes for array in done.values()))
        _sweep(layers, discount, found, done, progress)
    return LayeredTable(layers, discount, done.__getitem__)


def open_table(game: Game, folder: Path, *, discount: float = 1.0) -> LayeredTable:
    """A table that :func:`build` has finished, memory-mapped; each part is checked by its hash when first read.

    Raises:
        ValueError: there is none of this game, or it is not finished.
    """
    layers = _Layers(game)
    found = _Folder(folder, layers, discount)
    if not all(layers.size(part) == 0 or _name(part) in found.kept for part in layers.parts()):
        raise ValueError(f"{folder} has no finished table of {game}: build it there, which goes on with what is kept")
    read: dict[Part, Values] = {}

    def part_of(part: Part) -> Values:
        if part not in read:
            array = found.read(part)
            if array is None:
                raise ValueError(
                    f"{folder / _name(part)} is damaged: build the table again, which makes only this anew"
                )
            read[part] = array
        return read[part]

    return LayeredTable(layers, discount, part_of)


def _sweep(
    layers: _Layers, discount: float, folder: _Folder | None, done: dict[Part, Values], progress: Progress | None
) -> None:
    """Make all parts that are not there yet, into ``done``."""
    cells = layers.game.cells
    counts = layers.estimate().by_stones
    total, finished = sum(counts), 0
    for stones in range(cells, -1, -1):
        for part in layers.of(stones):
            finished += layers.size(part)
            if part in done:
                continue
            values = _part(layers, discount, part, done)
            values.flags.writeable = False
            if folder is not None:
                folder.keep(part, values)
            done[part] = values
            if progress is not None:
                progress(finished / total)
        if folder is not None and stones < cells:  # memory is needed for two layers only
            for part in layers.of(stones + 1):
                done[part] = folder.mapped(part)
    if folder is not None:
        done[0, 0] = folder.mapped((0, 0))


def _part(layers: _Layers, discount: float, part: Part, done: Mapping[Part, Values]) -> Values:
    """One part, from those of the next layer."""
    (stones, own), parameters = part, layers.game.parameters
    other = stones - own
    out = np.empty(layers.shape(part), layers.dtype)
    if stones == layers.game.cells:
        classes = layers.classes
        mine = classes.leaders[classes.starts[own] : classes.starts[own + 1]].astype(np.int64)
        out[:, 0] = np.where(classes.places[((1 << stones) - 1) & ~mine] < 0, -1.0, 0.0)
        return out
    after = np.empty(layers.shape((stones + 1, own + 1)), layers.dtype)
    turned = done[stones + 1, other]
    same = done[stones + 1, own + 1] if layers.game.skip_chance > 0 else turned  # not read
    for start, stop in _stretches(after):
        afterstates(
            start, stop, own + 1, other, discount, layers.ranks, layers.classes, parameters, same, turned, after
        )
    for start, stop in _stretches(out):
        best(start, stop, own, other, layers.ranks, layers.classes, parameters, after, out)
    return out


def _stretches(array: Values) -> Iterator[tuple[int, int]]:
    """Rows to compute at once."""
    rows = max(1, AT_ONCE // max(1, array.shape[1]))
    return ((start, min(start + rows, len(array))) for start in range(0, len(array), rows))


# ---------------------------------------------------------------------------------------------------------------------
# On disk


def _name(part: Part) -> str:
    return f"{part[0]:02d}-{part[1]:02d}.npy"


class _Folder:
    """One file for each part, and a manifest that says whose they are and holds their hashes."""

    def __init__(self, path: Path, layers: _Layers, discount: float) -> None:
        self.path = path
        self.layers = layers
        self.said: dict[str, Any] = {
            "format": FORMAT,
            "game": layers.game.to_dict(),
            "discount": discount,
            "dtype": layers.dtype.str,
            "made_by": MADE_BY,
        }
        self.kept = self._read_manifest()
        """hashes of the files, by their names"""

    def _read_manifest(self) -> dict[str, str]:
        """The hashes; none where there is no manifest yet.

        Raises:
            ValueError: it is a manifest of something else.
        """
        try:
            data = read_json(self.path / MANIFEST, 1 << 20)
        except FileNotFoundError:
            return {}
        except OSError as problem:
            raise ValueError(f"{self.path} cannot be read: {problem.strerror}: choose another folder") from None
        if not isinstance(data, dict) or not isinstance(data.get("parts"), dict):
            raise ValueError(f"{self.path / MANIFEST} is no manifest of a table in layers: choose another folder")
        for name, value in self.said.items():
            if data.get(name) != value:
                raise ValueError(
                    f"{self.path} holds a table with {name}={data.get(name)!r}, not {value!r}: choose another folder"
                )
        return {str(name): str(digest) for name, digest in data["parts"].items()}

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the folder, which is made where there is none.

        Raises:
            InUse: another process holds it.
        """
        with ExitStack() as stack:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(held(self.path))
            except OSError as problem:
                raise ValueError(f"{self.path} cannot be used: {problem.strerror}: choose another folder") from None
            except ValueError as problem:
                raise InUse(str(problem)) from None
            yield

    def has_changed(self) -> bool:
        """Whether the manifest says something else than when it was last read."""
        return self._read_manifest() != self.kept

    def read_all(self) -> dict[Part, Values]:
        """All parts that are there and whole."""
        self.kept = self._read_manifest()
        found = {part: self.read(part) for part in self.layers.parts()}
        return {part: array for part, array in found.items() if array is not None}

    def read(self, part: Part) -> Values | None:
        """A part, memory-mapped; None where its file is not there or damaged."""
        if self.layers.size(part) == 0:
            return self._nothing(part)
        try:
            with open_to_read(self.path / _name(part), self._most(part)) as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != self.kept[_name(part)]:
                    return None
                file.seek(0)
                return self._checked(part, mapped(file))
        except (OSError, ValueError, KeyError):
            return None

    def mapped(self, part: Part) -> Values:
        """A part that this process has just written."""
        if self.layers.size(part) == 0:
            return self._nothing(part)
        with open_to_read(self.path / _name(part), self._most(part)) as file:
            return self._checked(part, mapped(file))

    def _nothing(self, part: Part) -> Values:
        """A part in which all own sets have lines: it has no file."""
        array = np.empty(self.layers.shape(part), self.layers.dtype)
        array.flags.writeable = False  # as all others, so that kernels are compiled once
        return array

    def _checked(self, part: Part, array: NDArray[Any]) -> Values:
        if array.shape != self.layers.shape(part) or array.dtype != self.layers.dtype:
            raise ValueError(f"{self.path / _name(part)} has another shape or kind of number")
        return array

    def _most(self, part: Part) -> int:
        return self.layers.size(part) * self.layers.dtype.itemsize + _HEADER

    def check_room(self, needed: int) -> None:
        """Raise ValueError where the disk has less than ``needed`` bytes."""
        tidy(self.path, [MANIFEST, *map(_name, self.layers.parts())])
        free = shutil.disk_usage(self.path).free
        if needed > free:
            raise ValueError(
                f"the layers of {self.layers.game} need {needed:,} bytes more in {self.path}, and {free:,} are free: "
                f"make room, or choose another folder"
            )

    def keep(self, part: Part, values: Values) -> None:
        """Write a part, then its hash."""
        if values.size == 0:
            return
        path = self.path / _name(part)
        try:
            write_whole(path, lambda file: np.lib.format.write_array(file, values, allow_pickle=False))
            with path.open("rb") as file:
                self.kept[_name(part)] = hashlib.file_digest(file, "sha256").hexdigest()
            write_json(self.path / MANIFEST, {**self.said, "parts": self.kept})
        except OSError as problem:
            raise ValueError(
                f"{path} cannot be written: {problem.strerror}. What is finished is kept: make room and build again"
            ) from None
