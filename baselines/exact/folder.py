"""Folders of layers: one file per layer, and a manifest with the game and the hashes of the
files.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ttt_envs.core.checks import Refusal
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
from ttt_envs.graph.numbering import MAX_UNPAIRED_CELLS, Values

FORMAT = 3
"""version of the folder format, and of the numbering of its entries"""
MANIFEST = "manifest.json"
HEADER_BYTES = 128
"""Size of the header that numpy writes before the values of a layer."""


def dtype_of(game: Game, *, stored: bool) -> np.dtype[Any]:
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
        header = {
            "format": FORMAT,
            "game": self.game.to_dict(),
            "byteorder": sys.byteorder,
            "dtype": self.dtype.name,
        }
        manifest = _load_manifest(self.path)
        if manifest is None:
            manifest = {**header, "stones": self.stones, "layers": {}}
        self._manifest = manifest
        is_other = any(self._manifest.get(name) != value for name, value in header.items())
        if is_other or not 0 <= self._manifest["stones"] <= self.game.cells:
            raise Refusal(
                f"{self.path} holds a table of another game than {self.game}, or in another "
                "format: choose another folder, or remove this one"
            )
        self._manifest["stones"] = min(self.stones, self._manifest["stones"])
        self._hashes: dict[str, str] = self._manifest["layers"]

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
        return cls(path, Game.from_dict(manifest["game"]), manifest["stones"])

    @property
    def layers(self) -> range:
        """The layers, the last one first."""
        return range(self.game.cells, self.stones - 1, -1)

    def missing(self) -> list[int]:
        """Return the layers that the manifest lacks, the last one first."""
        return [n for n in self.layers if self.file(n).name not in self._hashes]

    def file(self, stones: int) -> Path:
        """Return the path of a layer's file."""
        return self.path / f"{stones:02d}-layer.npy"

    def facts(self) -> dict[str, Any]:
        """Return the contents by the manifest, JSON-ready; ``sha256`` is over the game and the
        hashes of the layers.
        """
        files = [self.file(n) for n in self.layers]
        hashes = [self._hashes.get(file.name) for file in files]
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
            write_json(self.path / MANIFEST, self._manifest)
            yield

    def read(self, stones: int, size: int) -> Values | None:
        """Return a layer of ``size`` entries, memory-mapped; None if its file is missing or
        damaged.
        """
        file = self.file(stones)
        try:
            with open_to_read(file, HEADER_BYTES + size * self.dtype.itemsize) as stream:
                if hashlib.file_digest(stream, "sha256").hexdigest() != self._hashes[file.name]:
                    return None
            values = self.mapped(stones)
        except Exception:  # a malformed header can raise many exceptions
            return None
        return values if values.shape == (size,) and values.dtype == self.dtype else None

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
            self._hashes[file.name] = hashlib.file_digest(stream, "sha256").hexdigest()
        write_json(self.path / MANIFEST, self._manifest)


def _load_manifest(path: Path) -> dict[str, Any] | None:
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
    types = {"format": int, "game": dict, "stones": int, "layers": dict}
    if not isinstance(data, dict) or not all(
        type(data.get(name)) is kind for name, kind in types.items()
    ):
        raise Refusal(
            f"{path / MANIFEST} is no manifest of a table in layers: choose another folder"
        )
    return data
