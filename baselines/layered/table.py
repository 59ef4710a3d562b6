"""The layers of a game, in memory or in a folder: made, kept, checked and read."""

from __future__ import annotations

import hashlib
import math
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from numpy.typing import NDArray

from baselines.layered import ranks as ranks_module
from baselines.layered import sweep
from baselines.layered.ranks import Classes, Ranks, classes_of, entry_of, ranks_of
from baselines.layered.sweep import BYTES, WON, Values, afterstates, best
from ttt_envs import bits, rules
from ttt_envs.boards import Boards
from ttt_envs.compiling import Flags, Integers, Reals, compiled
from ttt_envs.files import held, open_to_read, read_json, tidy, write_json, write_whole
from ttt_envs.kept import mapped, source_of
from ttt_envs.rules import Game

LARGEST = 21
"""cells up to which all layers are made"""
LARGEST_OF_ALL = 25
"""cells up to which the last layers are made"""
LARGEST_IN_DOUBLE = 16
"""cells up to which values in memory are float64"""
FORMAT = 2
"""version of a folder"""
MADE_BY = source_of(bits, rules, ranks_module, sweep, sys.modules[__name__])
MANIFEST = "manifest.json"
AT_ONCE = 1 << 22
"""entries that are computed between two calls of ``progress``, where an interrupt is heard"""
NS_A_VALUE = 60
"""nanoseconds that a value takes about, on one core of an AMD EPYC (family 25, model 17)"""
_HEADER = 1 << 12
"""bytes allowed for the header of a file"""

Progress = Callable[[float], None]
"""called with the share of the work that is done, 0 to 1"""


class InUse(ValueError):  # noqa: N818  # nothing is wrong
    """Another process builds in the folder."""


class Estimate(NamedTuple):
    """What it takes to solve a game by layers."""

    by_stones: tuple[int, ...]
    """values in the layer of 0, 1, ... stones; 0 where it is not made"""
    disk: int
    """bytes of all layers: in a folder, and what a table without one keeps in memory"""
    memory: int
    """bytes of memory that are needed at once where the layers go to a folder"""
    memory_alone: int
    """the same where they do not"""

    @property
    def seconds(self) -> float:
        """How long it takes, about."""
        return sum(self.by_stones) * NS_A_VALUE / 1e9


def tables_of(game: Game) -> tuple[Ranks, Classes]:
    """What games of a board and a win length share: about 20 bytes for every set of cells."""
    return _tables(game.rows, game.columns, game.win_length)


@lru_cache(maxsize=2)
def _tables(rows: int, columns: int, win_length: int) -> tuple[Ranks, Classes]:
    game = Game(rows, columns, win_length)
    ranks = ranks_of(game.cells)
    return ranks, classes_of(game, ranks)


class Layers:
    """Which layers a game has from a number of stones on, which parts they have, and where those begin.

    Args:
        game: up to 21 cells, or 25 where the first layers are left out.
        stones: of the first layer that is wanted, the last to be made.
        double: float64 instead of float32, where there are skips.

    Raises:
        ValueError: a larger board, a number of stones that does not fit on it.
    """

    def __init__(self, game: Game, stones: int = 0, *, double: bool = False) -> None:
        if game.cells > LARGEST_OF_ALL or (game.cells > LARGEST and stones <= 0):
            raise ValueError(
                f"a board of {game.rows} x {game.columns} is too large to solve by layers: choose one of up to "
                f"{LARGEST} cells, or of up to {LARGEST_OF_ALL} its last layers, by stones above 0; who wins without "
                f"skips evaluate.py prove may tell"
            )
        if not 0 <= stones <= game.cells:
            raise ValueError(f"stones={stones} are not on a board of {game.cells} cells: choose 0 to {game.cells}")
        self.game = game
        self.stones = stones
        self.dtype = np.dtype(np.int8 if game.skip_chance == 0 else np.float64 if double else np.float32)
        self.won = self.dtype.type(WON if game.skip_chance == 0 else 1)
        self.lost = self.dtype.type(-BYTES if game.skip_chance == 0 else -1)
        self.rounding = {"float32": 2.0**-24, "float64": 2.0**-50}.get(self.dtype.name, 0.0)
        """how far a value may be from what those after it say: it was rounded in between"""
        self.ranks, self.classes = tables_of(game)
        self.widths: Integers = np.zeros((game.cells + 1, game.cells + 1), np.int64)
        """int64[stones, own stones]: ranks in a part"""
        self.starts: Integers = np.zeros((game.cells + 1, game.cells + 2), np.int64)
        """int64[stones, own stones]: where a part begins in its layer; then how long the layer is"""
        for n in range(game.cells + 1):
            for own in self.owns(n):
                classes, self.widths[n, own] = self.shape(n, own)
                self.starts[n, own + 1 :] += classes * self.widths[n, own]

    def owns(self, stones: int) -> range:
        """How many of the stones may be the mover's: any number with skips, by turns half of them, rounded down."""
        return range(stones + 1) if self.game.skip_chance > 0 else range(stones // 2, stones // 2 + 1)

    def all(self) -> range:
        """The layers, in the order in which they are made."""
        return range(self.game.cells, self.stones - 1, -1)

    def shape(self, stones: int, own: int) -> tuple[int, int]:
        """Of a part: classes of own sets x ranks of the other's sets."""
        cells = self.game.cells
        return int(self.classes.starts[own + 1] - self.classes.starts[own]), math.comb(cells - own, stones - own)

    def size(self, stones: int) -> int:
        """Entries of a layer."""
        return int(self.starts[stones, -1])

    def part(self, stones: int, own: int, layer: Values) -> Values:
        """A part of a layer, [classes, ranks]."""
        start, stop = self.starts[stones, own : own + 2]
        return layer[start:stop].reshape(self.shape(stones, own))

    def estimate(self) -> Estimate:
        """See :func:`estimate`."""
        cells, item = self.game.cells, self.dtype.itemsize
        by_stones = tuple(self.size(n) if n >= self.stones else 0 for n in range(cells + 1))
        shared = sum(array.nbytes for array in (*self.ranks[1:], *self.classes))
        # of the position that has just been made, one part at a time
        made = max(
            (math.prod(self.shape(n + 1, own + 1)) for n in range(self.stones, cells) for own in self.owns(n)),
            default=0,
        )
        made = max(made, 1)
        two = max(above + below for above, below in zip(by_stones, (*by_stones[1:], 0), strict=True))
        return Estimate(
            by_stones, item * sum(by_stones), shared + item * (two + made), shared + item * (sum(by_stones) + made)
        )


def estimate(game: Game, *, stones: int = 0, folder: bool = True) -> Estimate:
    """How many values each layer has, and how many bytes it takes to solve a game.

    Args:
        game: as of :func:`build`.
        stones: as of :func:`build`.
        folder: the layers go to a folder.

    Raises:
        ValueError: a larger board, no such number of stones.
    """
    return _layers(game, stones, folder).estimate()


def _layers(game: Game, stones: int, folder: bool) -> Layers:
    return Layers(game, stones, double=not folder and game.cells <= LARGEST_IN_DOUBLE)


def check_memory(game: Game, *, stones: int = 0, folder: bool = True, memory: int | None = None) -> None:
    """Raise ValueError where :func:`build` takes more memory than ``memory`` bytes, or than is free."""
    needed = estimate(game, stones=stones, folder=folder)
    wanted = needed.memory if folder else needed.memory_alone
    free = int(psutil.virtual_memory().available) if memory is None else memory
    if wanted > free:
        way_out = "give it more memory" + (
            "" if folder else f", or a folder for {estimate(game, stones=stones).disk:,} bytes"
        )
        raise ValueError(
            f"solving {game} by layers takes {wanted:,} bytes of memory, and {free:,} may be used: {way_out}"
        )


class LayeredTable:
    """The values of all positions of a game from a number of stones on, made by :func:`build` or read from a folder.

    Without skips it has the positions of alternate play only: the mover has as many stones as the other, or one fewer.
    """

    def __init__(self, layers: Layers, read: Callable[[int], Values]) -> None:
        self.game = layers.game
        self.stones = layers.stones
        """of the first layer that it has"""
        self.dtype = layers.dtype
        """int8 without skips, else float32, or float64 in memory up to 16 cells"""
        self.error = (self.game.cells + 1) * 2.0**-25 if layers.dtype == np.float32 else 0.0
        """how far a value may be from the exact one, apart from rounding in float64: every layer rounds once"""
        self.layers = layers
        self._read = read

    def layer(self, stones: int) -> Values:
        """All values of the positions with so many stones, read-only, one part behind the other.

        Raises:
            ValueError: it is not in the table, or its file is damaged.
        """
        if not self.stones <= stones <= self.game.cells:
            raise ValueError(
                f"a position of {stones} stones is not in {self}, which begins at {self.stones}: build the layers "
                f"from {max(stones, 0)} stones on"
            )
        return self._read(stones)

    def part(self, stones: int, own: int) -> Values:
        """V of the positions with so many stones, ``own`` of them the mover's, read-only: [classes, ranks].

        Raises:
            ValueError: as :meth:`layer`.
        """
        return self.layers.part(stones, own, self.layer(stones))

    def values(self, boards: Boards) -> Reals:
        """The expected result of best play by both, to the mover: float64[B] from -1 to 1.

        A finished board has the result that stands on it.

        Raises:
            ValueError: without skips, a position that no alternate play leads to; one with too few stones.
        """
        found = self._values(boards)
        return np.sign(found) if self.game.skip_chance == 0 else found

    def action_values(self, boards: Boards) -> Reals:
        """What each move is worth to the mover: float64[B, rows * columns], NaN where illegal.

        Raises:
            ValueError: as :meth:`values`; only what the moves lead to must be in the table.
        """
        found = self._action_values(boards)
        return np.sign(found) if self.game.skip_chance == 0 else found

    def distances(self, boards: Boards) -> Integers:
        """Plies to the end under best play, int64[B]: the winner is as fast, the loser as slow as can be.

        A drawn position ends with the full board, a finished one is at 0.

        Raises:
            ValueError: as :meth:`values`; the game has skips, and then no player knows how long it takes.
        """
        check_distance(self.game)
        empty = np.count_nonzero(boards.cells == 0, axis=1)
        found = self._values(boards)
        goes_on = self._sets(boards)[2]
        return np.where(goes_on, _plies(found, empty), 0)

    def action_distances(self, boards: Boards) -> Integers:
        """Plies to the end with each move, its own included: int64[B, rows * columns], -1 where illegal.

        Raises:
            ValueError: as :meth:`distances`.
        """
        check_distance(self.game)
        empty = np.count_nonzero(boards.cells == 0, axis=1, keepdims=True)
        found = self._action_values(boards)
        return np.where(np.isnan(found), -1, _plies(np.nan_to_num(found), empty))

    def _values(self, boards: Boards) -> Reals:
        """As entries of the table."""
        own, other, goes_on = self._sets(boards)
        places = self.layers.classes.places
        made, met = places[own] < 0, places[other] < 0
        out = np.where(made & ~met, float(self.layers.won), np.where(met & ~made, float(self.layers.lost), 0.0))
        out[goes_on] = self._look_up(own[goes_on], other[goes_on])
        return out

    def _action_values(self, boards: Boards) -> Reals:
        """As entries of the table."""
        own, other, goes_on = self._sets(boards)
        places, skip = self.layers.classes.places, self.game.skip_chance
        legal = boards.legal(self.game) & goes_on[:, None]
        out = np.full(legal.shape, np.nan)
        row, cell = np.nonzero(legal)
        made, theirs = own[row] | np.left_shift(1, cell), other[row]
        worth = np.full(len(row), float(self.layers.won))
        left = places[made] >= 0
        made, theirs = made[left], theirs[left]
        turned = self._look_up(theirs, made)
        if skip > 0:
            worth[left] = skip * self._look_up(made, theirs) - (1 - skip) * turned
        else:
            worth[left] = np.sign(turned) - turned  # a ply further away
        out[row, cell] = worth + 0.0  # no -0.0
        return out

    def _sets(self, boards: Boards) -> tuple[Integers, Integers, Flags]:
        """The mover's stones and the other's, int64[B] each, and where the game goes on, bool[B]."""
        places, cells = self.layers.classes.places, self.game.cells
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
        """V of pairs of sets without lines, int64[K] each, as an entry of the table."""
        stones = np.empty(len(own), np.int64)
        entries = np.empty(len(own), np.int64)
        layers = self.layers
        _find(own, other, layers.ranks, layers.classes, layers.starts, layers.widths, stones, entries)
        out = np.empty(len(own))
        for count in np.unique(stones).tolist():
            rows = stones == count
            out[rows] = self.layer(count)[entries[rows]]
        return out

    def __repr__(self) -> str:
        return f"LayeredTable({self.game})"


def check_distance(game: Game) -> None:
    """Raise ValueError for a game in which no player knows how many plies are left."""
    if game.skip_chance > 0:
        raise ValueError(
            f"distance is a number of plies only without skips, and this game has skip_chance="
            f"{game.skip_chance:g}: solve the game with skip_chance=0"
        )


def _plies(found: Reals, empty: Integers) -> Integers:
    """Plies to the end by values in bytes; a draw fills the empty cells."""
    return np.where(found == 0, empty, BYTES - np.abs(found).astype(np.int64))


@compiled
def _find(
    own: Integers,
    other: Integers,
    ranks: Ranks,
    classes: Classes,
    starts: Integers,
    widths: Integers,
    stones: Integers,
    entries: Integers,
) -> None:
    """Where V(A, B) stands: the layer, and the entry in it."""
    for i in range(len(own)):
        stones[i], entries[i] = entry_of(own[i], other[i], ranks, classes, starts, widths)


# ---------------------------------------------------------------------------------------------------------------------
# Making it


def build(
    game: Game,
    folder: Path | None = None,
    *,
    stones: int = 0,
    memory: int | None = None,
    progress: Progress | None = None,
) -> LayeredTable:
    """The values of all positions with ``stones`` stones or more, layer by layer from the full board on.

    With a folder every finished layer is a file there; what a build that was stopped has left is kept, and made anew is
    what is missing or damaged. A folder that is complete is only read and checked; one that begins at more stones goes
    on to fewer.

    Args:
        game: up to 21 cells, with any skip chance; up to 25 with ``stones`` above 0.
        folder: where the layers are kept; it is made where there is none. Without one they are kept in memory.
        stones: of the first layer, which is made last; 0 for the whole game.
        memory: bytes that may be used; None for what the machine has free.
        progress: called with the share that is done.

    Raises:
        InUse: another process builds in the folder.
        ValueError: a larger board; too little memory; a full disk, which loses no finished layer; a folder with
            something else in it.
    """
    layers = _layers(game, stones, folder is not None)
    found = None if folder is None else Folder(folder, layers)
    done: dict[int, Values] = {}
    if found is not None:
        done = found.read_all()
        if len(done) == len(layers.all()) and found.begins_at(layers.stones):
            if progress is not None:
                progress(1.0)
            return LayeredTable(layers, done.__getitem__)
    check_memory(game, stones=stones, folder=found is not None, memory=memory)
    with nullcontext() if found is None else found.writing():
        if found is not None:
            if found.has_changed():  # another process has worked on it meanwhile
                done = found.read_all()
            found.check_room(layers.estimate().disk - sum(array.nbytes for array in done.values()))
            found.write_manifest()
        _sweep(layers, found, done, progress)
    return LayeredTable(layers, done.__getitem__)


def open_table(game: Game | None, folder: Path) -> LayeredTable:
    """A table that :func:`build` has finished, memory-mapped; each layer is checked by its hash when first read.

    Args:
        game: whose table it must be; None for whatever is there.
        folder: where it is.

    Raises:
        ValueError: there is none, one of another game, or one that is not finished.
    """
    found = open_folder(folder)
    layers = found.layers
    if game is not None and layers.game != game:
        raise ValueError(f"{folder} holds the layers of {layers.game}, not of {game}: choose another folder")
    if found.missing():
        raise ValueError(
            f"{folder} has no finished table of {layers.game}: its layers of {_numbers(found.missing())} stones are "
            f"missing. Build it there, which goes on with what is kept"
        )
    read: dict[int, Values] = {}

    def layer_of(stones: int) -> Values:
        if stones not in read:
            array = found.read(stones)
            if array is None:
                raise ValueError(
                    f"{folder / _name(stones)} is damaged: build the table again, which makes only this anew"
                )
            read[stones] = array
        return read[stones]

    return LayeredTable(layers, layer_of)


def is_finished(game: Game, folder: Path) -> bool:
    """Whether a folder has all layers of a game, by its manifest."""
    try:
        found = open_folder(folder)
    except ValueError:
        return False
    return found.layers.game == game and not found.missing() and found.layers.stones == 0


def _numbers(stones: list[int]) -> str:
    return str(stones[0]) if len(stones) == 1 else f"{stones[-1]} to {stones[0]}"


def _sweep(layers: Layers, folder: Folder | None, done: dict[int, Values], progress: Progress | None) -> None:
    """Make all layers that are not there yet, into ``done``."""
    cells = layers.game.cells
    total, finished = sum(map(layers.size, layers.all())), 0
    for stones in layers.all():
        if stones not in done:
            layer = np.empty(layers.size(stones), layers.dtype)
            so_far = finished
            for own in layers.owns(stones):
                _part(layers, stones, own, done, layers.part(stones, own, layer))
                so_far += math.prod(layers.shape(stones, own))
                if progress is not None and own != layers.owns(stones)[-1]:
                    progress(so_far / total)
            layer.flags.writeable = False
            if folder is not None:
                folder.keep(stones, layer)
            done[stones] = layer
            del layer
        finished += layers.size(stones)
        if progress is not None:
            progress(finished / total)
        if folder is not None and stones < cells:  # memory is needed for two layers only
            done[stones + 1] = folder.mapped(stones + 1)
    if folder is not None:
        done[layers.stones] = folder.mapped(layers.stones)


def _part(layers: Layers, stones: int, own: int, done: dict[int, Values], out: Values) -> None:
    """One part, from those of the next layer."""
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
    for start, stop in _stretches(after):
        afterstates(start, stop, own + 1, other, layers.ranks, layers.classes, parameters, same, turned, after)
    for start, stop in _stretches(out):
        best(
            start,
            stop,
            own,
            other,
            layers.ranks,
            layers.classes,
            parameters,
            layers.won,
            layers.lost,
            after,
            out,
        )


def _stretches(array: Values) -> Iterator[tuple[int, int]]:
    """Rows to compute at once."""
    rows = max(1, AT_ONCE // max(1, array.shape[1]))
    return ((start, min(start + rows, len(array))) for start in range(0, len(array), rows))


# ---------------------------------------------------------------------------------------------------------------------
# On disk


def _name(stones: int) -> str:
    return f"{stones:02d}-layer.npy"


class Folder:
    """One file for each layer, and a manifest that says whose they are and holds their hashes."""

    def __init__(self, path: Path, layers: Layers) -> None:
        self.path = path
        self.layers = layers
        self.said: dict[str, Any] = {
            "format": FORMAT,
            "game": layers.game.to_dict(),
            "byteorder": sys.byteorder,
            "dtype": layers.dtype.name,
        }
        self.stones = layers.stones
        """of the first layer that is wanted here"""
        self._begins: int | None = None  # what the manifest says
        self.kept = self._read_manifest()
        """hashes of the files, by their names"""

    def _read_manifest(self) -> dict[str, str]:
        """The hashes; none where there is no manifest yet.

        Raises:
            ValueError: it is a manifest of something else.
        """
        data = _manifest_of(self.path)
        if data is None:
            return {}
        for name, value in self.said.items():
            if data.get(name) != value:
                raise ValueError(
                    f"{self.path} holds a table with {name}={data.get(name)!r}, not {value!r}: choose another folder, "
                    f"or remove this one"
                )
        if type(data.get("stones")) is int:
            self._begins = data["stones"]
            self.stones = min(self.stones, data["stones"])
        names = set(map(_name, range(self.layers.game.cells + 1)))
        return {name: str(digest) for name, digest in data["layers"].items() if name in names}

    def begins_at(self, stones: int) -> bool:
        """Whether there is a manifest, and by it so few stones are wanted here."""
        return self._begins is not None and self._begins <= stones

    def missing(self) -> list[int]:
        """Layers that the manifest does not have."""
        return [n for n in self.layers.all() if self.layers.size(n) > 0 and _name(n) not in self.kept]

    def digest(self) -> str:
        """SHA-256 of all: of the game and the hashes of the layers."""
        lines = [f"{name} {value}" for name, value in self.said.items()]
        lines += [f"{_name(n)} {self.kept.get(_name(n), '')}" for n in self.layers.all()]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def file(self, stones: int) -> Path:
        """Of a layer."""
        return self.path / _name(stones)

    def facts(self) -> dict[str, Any]:
        """What is here, by the manifest: JSON-ready."""
        there = [n for n in self.layers.all() if n not in self.missing()]
        entries = sum(map(self.layers.size, there))
        return {
            "game": self.layers.game.to_dict(),
            "stones": self.layers.stones,
            "entries": entries,
            "bytes": entries * self.layers.dtype.itemsize,
            "complete": not self.missing(),
            "sha256": self.digest(),
        }

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

    def read_all(self) -> dict[int, Values]:
        """All layers that are there and whole."""
        self.kept = self._read_manifest()
        found = {stones: self.read(stones) for stones in self.layers.all()}
        return {stones: array for stones, array in found.items() if array is not None}

    def read(self, stones: int) -> Values | None:
        """A layer, memory-mapped; None where its file is not there or damaged."""
        if self.layers.size(stones) == 0:
            return self._nothing()
        try:
            with open_to_read(self.path / _name(stones), self._most(stones)) as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != self.kept[_name(stones)]:
                    return None
                file.seek(0)
                return self._checked(stones, mapped(file))
        except (OSError, ValueError, KeyError, EOFError, SyntaxError):
            return None

    def mapped(self, stones: int) -> Values:
        """A layer that this process has just written or checked."""
        if self.layers.size(stones) == 0:
            return self._nothing()
        with open_to_read(self.path / _name(stones), self._most(stones)) as file:
            return self._checked(stones, mapped(file))

    def _nothing(self) -> Values:
        """A layer in which all own sets have lines: it has no file."""
        array = np.empty(0, self.layers.dtype)
        array.flags.writeable = False  # as all others, so that kernels are compiled once
        return array

    def _checked(self, stones: int, array: NDArray[Any]) -> Values:
        if array.shape != (self.layers.size(stones),) or array.dtype != self.layers.dtype:
            raise ValueError(f"{self.path / _name(stones)} has another shape or kind of number")
        return array

    def _most(self, stones: int) -> int:
        return self.layers.size(stones) * self.layers.dtype.itemsize + _HEADER

    def check_room(self, needed: int) -> None:
        """Raise ValueError where the disk has less than ``needed`` bytes."""
        tidy(self.path, [MANIFEST, *map(_name, self.layers.all())])
        free = shutil.disk_usage(self.path).free
        if needed > free:
            raise ValueError(
                f"the layers of {self.layers.game} need {needed:,} bytes more in {self.path}, and {free:,} are free: "
                f"make room, or choose another folder"
            )

    def write_manifest(self) -> None:
        """Write what is here, and from how many stones on it is wanted."""
        with self._told(self.path / MANIFEST):
            write_json(self.path / MANIFEST, {**self.said, "stones": self.stones, "layers": self.kept})

    @contextmanager
    def _told(self, path: Path) -> Iterator[None]:
        """What prevents a file from being written, in one sentence."""
        try:
            yield
        except OSError as problem:
            raise ValueError(
                f"{path} cannot be written: {problem.strerror}. What is finished is kept: make room and build again"
            ) from None

    def keep(self, stones: int, values: Values) -> None:
        """Write a layer, then its hash."""
        if values.size == 0:
            return
        path = self.path / _name(stones)
        with self._told(path):
            write_whole(path, lambda file: np.lib.format.write_array(file, values, allow_pickle=False))
            with path.open("rb") as file:
                self.kept[_name(stones)] = hashlib.file_digest(file, "sha256").hexdigest()
        self.write_manifest()


def _manifest_of(path: Path) -> dict[str, Any] | None:
    """What the manifest in a folder says; None where there is none.

    Raises:
        ValueError: it is none of a table in layers.
    """
    try:
        data = read_json(path / MANIFEST, 1 << 20)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror}: choose another folder") from None
    if isinstance(data, dict) and data.get("format") != FORMAT and "format" in data:
        raise ValueError(
            f"{path} holds a table of format {data['format']!r}, and {FORMAT} is read: build it in another folder, or "
            f"remove this one"
        )
    if not isinstance(data, dict) or not isinstance(data.get("layers"), dict):
        raise ValueError(f"{path / MANIFEST} is no manifest of a table in layers: choose another folder")
    return data


def open_folder(path: Path) -> Folder:
    """What a folder holds, as its manifest says, finished or not.

    Raises:
        ValueError: there is no table, or not of this format.
    """
    data = _manifest_of(path)
    if data is None:
        raise ValueError(f"there is no table in layers in {path}: make one by evaluate.py database build")
    game = None
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        game = Game.from_dict(data["game"])
    stones = data.get("stones")
    if game is None or type(stones) is not int:
        raise ValueError(f"{path / MANIFEST} is no manifest of a table in layers: choose another folder")
    return Folder(path, Layers(game, stones))
