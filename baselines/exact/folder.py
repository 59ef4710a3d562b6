"""Folders of layers: one file per layer, and a manifest with the game and the hashes of the
files.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from msgspec import Struct, convert
from msgspec.structs import asdict, replace

from ttt_envs.core.checks import Refusal, name_place
from ttt_envs.core.files import (
    delete_temporary_files,
    hash_json,
    locked,
    open_to_read,
    read_json,
    write_atomically,
    write_json,
)
from ttt_envs.game.game import Game
from ttt_envs.graph.numbering import MAX_UNPAIRED_CELLS, Numbering, Values

FORMAT = 3
"""version of the folder format, and of the numbering of its entries"""
MANIFEST = "manifest.json"
HEADER_BYTES = 128
"""Size of the header that numpy writes before the values of a layer."""


def dtype_of(game: Game, *, stored: bool) -> np.dtype[np.generic]:
    """Return the type of the values of a game, stored in a folder or in memory."""
    if game.skip_chance == 0:
        return np.dtype(np.int8)
    return np.dtype(np.float32 if stored or game.cells > MAX_UNPAIRED_CELLS else np.float64)


class Folder:
    """One file for each layer, and a manifest; files are written whole, and read after their hash
    is checked.

    Args:
        path: the folder; it need not exist.
        game: the game.
        stones: number of stones of the first layer.

    Raises:
        ValueError: the manifest is of something else.
    """

    def __init__(self, path: Path, game: Game, stones: int) -> None:
        self.path = path
        self.game = game
        self.stones = stones
        self.dtype = dtype_of(game, stored=True)
        self._read_manifest()

    def _read_manifest(self) -> None:
        new = _Manifest(
            format=FORMAT,
            game=self.game.to_dict(),
            byteorder=sys.byteorder,
            dtype=self.dtype.name,
            stones=self.stones,
            layers={},
        )
        manifest = _load_manifest(self.path) or new
        is_same = replace(manifest, stones=new.stones, layers=new.layers) == new
        if not is_same or not 0 <= manifest.stones <= self.game.cells:
            raise Refusal(
                f"{self.path} holds a table of another game than {self.game}, or in another "
                "format: choose another folder, or remove this one"
            )
        manifest.stones = min(self.stones, manifest.stones)
        self._manifest = manifest

    @classmethod
    def open(cls, path: Path) -> Folder:
        """Open a folder by its manifest, finished or not.

        Raises:
            ValueError: there are no layers, or they have another format.
        """
        manifest = _load_manifest(path)
        if manifest is None:
            raise Refusal(
                f"{path} has no database or table of layers: make one by evaluate.py database build"
            )
        return cls(path, Game.from_dict(manifest.game), manifest.stones)

    @property
    def layers(self) -> range:
        """The layers, the last one first."""
        return range(self.game.cells, self.stones - 1, -1)

    def missing(self) -> list[int]:
        """Return the layers that the manifest lacks, the last one first."""
        return [n for n in self.layers if self.file(n).name not in self._manifest.layers]

    def file(self, stones: int) -> Path:
        """Return the path of a layer's file."""
        return self.path / f"{stones:02d}-layer.npy"

    def facts(self) -> dict[str, object]:
        """Return the contents by the manifest, JSON-ready; ``sha256`` is over the game and the
        hashes of the layers.
        """
        files = [self.file(n) for n in self.layers]
        hashes = [self._manifest.layers.get(file.name) for file in files]
        size = sum(max(0, file.stat().st_size - HEADER_BYTES) for file in files if file.exists())
        return {
            "game": self.game.to_dict(),
            "stones": self.stones,
            "entries": size // self.dtype.itemsize,
            "bytes": size,
            "complete": not self.missing(),
            "sha256": hash_json([self.game.to_dict(), FORMAT, hashes]),
        }

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock of the folder, which is created if missing, and write its manifest.

        Raises:
            FolderLockedError: another process holds the lock.
            OSError: the folder cannot be used.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path):
            self._read_manifest()  # another process may have written to it meanwhile
            layers = [self.file(n).name for n in range(self.game.cells + 1)]
            delete_temporary_files(self.path, [MANIFEST, *layers])
            write_json(self.path / MANIFEST, asdict(self._manifest))
            yield

    def read(self, stones: int, size: int) -> Values | None:
        """Return a layer of ``size`` entries, memory-mapped; None if its file is missing or
        damaged.
        """
        file = self.file(stones)
        try:
            with open_to_read(file, HEADER_BYTES + size * self.dtype.itemsize) as stream:
                if (
                    hashlib.file_digest(stream, "sha256").hexdigest()
                    != self._manifest.layers[file.name]
                ):
                    return None
            values = self.mapped(stones)
        except Exception:  # a malformed header can raise many exceptions
            return None
        return values if values.shape == (size,) and values.dtype == self.dtype else None

    def read_all(self, numbering: Numbering) -> dict[int, Values]:
        """Return the layers that are present and intact."""
        missing = self.missing()
        layers = {n: self.read(n, numbering.size(n)) for n in self.layers if n not in missing}
        return {n: values for n, values in layers.items() if values is not None}

    def mapped(self, stones: int) -> Values:
        """Return a layer that was just written or checked, memory-mapped."""
        return np.asarray(np.load(self.file(stones), mmap_mode="r"))

    def write_layer(self, stones: int, values: Values) -> None:
        """Write a layer, then its hash; raise OSError if the disk is full."""
        file = self.file(stones)
        write_atomically(
            file, lambda stream: np.lib.format.write_array(stream, values, allow_pickle=False)
        )
        with file.open("rb") as stream:
            self._manifest.layers[file.name] = hashlib.file_digest(stream, "sha256").hexdigest()
        write_json(self.path / MANIFEST, asdict(self._manifest))


def is_finished(game: Game, folder: Path) -> bool:
    """Return whether a folder has all layers of a game, by its manifest."""
    try:
        return not Folder(folder, game, 0).missing()
    except ValueError:
        return False


class _Manifest(Struct, kw_only=True):
    """The manifest of a folder."""

    format: int
    game: dict[str, object]
    byteorder: str = ""
    dtype: str = ""
    stones: int
    layers: dict[str, object]
    """the SHA-256 of each layer, by the name of its file"""


def _load_manifest(path: Path) -> _Manifest | None:
    """Return the data of a folder's manifest; None if there is none.

    Raises:
        ValueError: it is not the manifest of a table in layers.
    """
    try:
        data = read_json(path / MANIFEST, 1 << 20)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise Refusal(f"{path} cannot be read: {problem.strerror}: choose another folder") from None
    with name_place(
        f"{path / MANIFEST} is no manifest of a table in layers, choose another folder"
    ):
        return convert(data, _Manifest)
