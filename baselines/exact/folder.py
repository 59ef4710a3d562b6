"""Folders of layers: one file per layer, and a manifest."""

from __future__ import annotations

import hashlib
import math
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from ttt_envs.core.array_cache import mapped
from ttt_envs.core.checks import quote
from ttt_envs.core.files import delete_temporary_files, locked, open_to_read, read_json, write_atomically, write_json
from ttt_envs.game.game import Game
from ttt_envs.graph.numbering import MAX_CODED_CELLS, Values

FORMAT = 3
"""version of the folder format, and of the numbering of its entries"""
MANIFEST = "manifest.json"
_MAX_HEADER_BYTES = 1 << 12
"""Maximum size of the header of a layer's file."""


class FolderLockedError(ValueError):  # not an error
    """Another process builds in the folder."""


def dtype_of(game: Game, *, stored: bool) -> np.dtype[Any]:
    """Return the type of the values of a game, stored in a folder or in memory."""
    if game.skip_chance == 0:
        return np.dtype(np.int8)
    return np.dtype(np.float32 if stored or game.cells > MAX_CODED_CELLS else np.float64)


def layer_name(stones: int) -> str:
    """Return the file name of a layer."""
    return f"{stones:02d}-layer.npy"


class Folder:
    """One file for each layer, and a manifest with the game and the hashes of the files.

    Args:
        path: the folder; it need not exist.
        game: the game.
        stones: number of stones of the first layer.

    Raises:
        ValueError: the manifest is of something else.
    """

    def __init__(self, path: Path, game: Game, stones: int) -> None:
        self.path, self.game, self.stones = path, game, stones
        self.dtype = dtype_of(game, stored=True)
        self.header: dict[str, Any] = {
            "format": FORMAT,
            "game": game.to_dict(),
            "byteorder": sys.byteorder,
            "dtype": self.dtype.name,
        }
        self.hashes: dict[str, str] = {}
        """file name -> hash"""
        self._begins = stones
        self._read_manifest()

    @classmethod
    def open(cls, path: Path) -> Folder:
        """Open a folder by its manifest, finished or not.

        Raises:
            ValueError: there are no layers, or they have another format.
        """
        data = _load_manifest(path)
        if data is None:
            raise ValueError(f"{path} has no database or table of layers: make one by evaluate.py database build")
        game, stones = None, data.get("stones")
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            game = Game.from_dict(data["game"])
        if game is None or type(stones) is not int or not 0 <= stones <= game.cells:
            raise ValueError(f"{path / MANIFEST} is no manifest of a table in layers: choose another folder")
        return cls(path, game, stones)

    def _read_manifest(self) -> None:
        data = _load_manifest(self.path)
        if data is None:
            return
        for name, value in self.header.items():
            if data.get(name) != value:
                raise ValueError(
                    f"{self.path} holds a table with {name}={quote(data.get(name))}, not {value!r}: choose another "
                    f"folder, or remove this one"
                )
        if type(data.get("stones")) is int:
            self._begins = min(self._begins, data["stones"])
        names = set(map(layer_name, range(self.game.cells + 1)))
        self.hashes = {name: str(digest) for name, digest in data["layers"].items() if name in names}

    def missing(self) -> list[int]:
        """Return the layers that the manifest lacks, the last one first."""
        return [n for n in range(self.game.cells, self.stones - 1, -1) if layer_name(n) not in self.hashes]

    def file(self, stones: int) -> Path:
        """Return the path of a layer's file."""
        return self.path / layer_name(stones)

    def facts(self) -> dict[str, Any]:
        """Return the contents by the manifest, JSON-ready; ``sha256`` is over the game and the hashes of the layers."""
        lines = [f"{name} {value}" for name, value in self.header.items()]
        order = range(self.game.cells, self.stones - 1, -1)
        lines += [f"{layer_name(n)} {self.hashes.get(layer_name(n), '')}" for n in order]
        entries = sum(self._num_entries(n) for n in order)
        return {
            "game": self.game.to_dict(),
            "stones": self.stones,
            "entries": entries,
            "bytes": entries * self.dtype.itemsize,
            "complete": not self.missing(),
            "sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest(),
        }

    def _num_entries(self, stones: int) -> int:
        """Return the number of entries in a layer's file, 0 if it cannot be read."""
        try:
            return int(self.mapped(stones).size)
        except (OSError, ValueError):
            return 0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock of the folder, which is created if missing, and write its manifest.

        Raises:
            FolderLockedError: another process holds the lock.
        """
        with ExitStack() as stack:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(self.path))
            except OSError as problem:
                raise ValueError(f"{self.path} cannot be used: {problem.strerror}: choose another folder") from None
            except ValueError as problem:
                raise FolderLockedError(str(problem)) from None
            self._read_manifest()  # another process may have written to it meanwhile
            delete_temporary_files(self.path, [MANIFEST, *map(layer_name, range(self.game.cells + 1))])
            self._write_manifest()
            yield

    def read(self, stones: int, size: int) -> Values | None:
        """Return a layer of ``size`` entries, memory-mapped; None if its file is missing or damaged."""
        try:
            with open_to_read(self.file(stones), self._max_bytes(stones)) as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != self.hashes[layer_name(stones)]:
                    return None
            values = self.mapped(stones)
        except (OSError, ValueError, KeyError):
            return None
        return values if values.shape == (size,) and values.dtype == self.dtype else None

    def mapped(self, stones: int) -> Values:
        """Return a layer that was just written or checked, memory-mapped; an invalid file raises an exception."""
        with open_to_read(self.file(stones), self._max_bytes(stones)) as file:
            return mapped(file)

    def _max_bytes(self, stones: int) -> int:
        return (math.comb(self.game.cells, stones) << stones) * self.dtype.itemsize + _MAX_HEADER_BYTES

    def check_free_space(self, needed: int) -> None:
        """Raise ValueError if the disk has less than ``needed`` bytes free."""
        free = shutil.disk_usage(self.path).free
        if needed > free:
            raise ValueError(
                f"the layers of {self.game} need {needed:,} bytes more in {self.path}, and {free:,} are free: "
                f"make room, or choose another folder"
            )

    def write_layer(self, stones: int, values: Values) -> None:
        """Write a layer, then its hash."""
        path = self.file(stones)
        with self._describe_os_error(path):
            write_atomically(path, lambda file: np.lib.format.write_array(file, values, allow_pickle=False))
            with path.open("rb") as file:
                self.hashes[layer_name(stones)] = hashlib.file_digest(file, "sha256").hexdigest()
        self._write_manifest()

    def _write_manifest(self) -> None:
        with self._describe_os_error(self.path / MANIFEST):
            write_json(self.path / MANIFEST, {**self.header, "stones": self._begins, "layers": self.hashes})

    @contextmanager
    def _describe_os_error(self, path: Path) -> Iterator[None]:
        """Turn an error from writing a file into a one-line message."""
        try:
            yield
        except OSError as problem:
            raise ValueError(
                f"{path} cannot be written: {problem.strerror}. Free some space and build again: finished "
                f"files are reused"
            ) from None


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
        raise ValueError(f"{path} cannot be read: {problem.strerror}: choose another folder") from None
    if isinstance(data, dict) and data.get("format") != FORMAT and "format" in data:
        raise ValueError(
            f"{path} holds a table of format {quote(data['format'])}, and {FORMAT} is read: build it in another "
            f"folder, or remove this one"
        )
    if not isinstance(data, dict) or not isinstance(data.get("layers"), dict):
        raise ValueError(f"{path / MANIFEST} is no manifest of a table in layers: choose another folder")
    return data
