"""Folders of layers: one file per layer, and a manifest."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from baselines.retrograde.layers import Layers, make_layers
from baselines.retrograde.sweep import Values
from ttt_envs.core.array_cache import mapped
from ttt_envs.core.checks import quote
from ttt_envs.core.files import delete_temporary_files, locked, open_to_read, read_json, write_atomically, write_json
from ttt_envs.game.rules import Game

FORMAT = 2
"""version of the folder format"""
MANIFEST = "manifest.json"
_MAX_HEADER_BYTES = 1 << 12
"""Maximum size of the header of a layer's file."""


class FolderLockedError(ValueError):  # not an error
    """Another process builds in the folder."""


def layer_name(stones: int) -> str:
    """Return the file name of a layer."""
    return f"{stones:02d}-layer.npy"


class Folder:
    """One file for each layer, and a manifest with the game and the hashes of the files."""

    def __init__(self, path: Path, layers: Layers) -> None:
        self.path = path
        self.layers = layers
        self.header: dict[str, Any] = {
            "format": FORMAT,
            "game": layers.game.to_dict(),
            "byteorder": sys.byteorder,
            "dtype": layers.dtype.name,
        }
        self.stones = layers.stones
        """number of stones of the first layer requested here"""
        self._begins: int | None = None  # from the manifest
        self.hashes = self._read_manifest()
        """file name -> hash"""

    def _read_manifest(self) -> dict[str, str]:
        """Return the hashes; none if there is no manifest yet.

        Raises:
            ValueError: the manifest is of something else.
        """
        data = _load_manifest(self.path)
        if data is None:
            return {}
        for name, value in self.header.items():
            if data.get(name) != value:
                raise ValueError(
                    f"{self.path} holds a table with {name}={quote(data.get(name))}, not {value!r}: choose another "
                    f"folder, or remove this one"
                )
        if type(data.get("stones")) is int:
            self._begins = data["stones"]
            self.stones = min(self.stones, data["stones"])
        names = set(map(layer_name, range(self.layers.game.cells + 1)))
        return {name: str(digest) for name, digest in data["layers"].items() if name in names}

    def begins_at(self, stones: int) -> bool:
        """Return whether there is a manifest that requests layers from ``stones`` stones or fewer."""
        return self._begins is not None and self._begins <= stones

    def missing(self) -> list[int]:
        """Return the layers that the manifest lacks."""
        return [
            n for n in self.layers.build_order() if not self.layers.is_empty(n) and layer_name(n) not in self.hashes
        ]

    def digest(self) -> str:
        """Return a SHA-256 over the game and the hashes of the layers."""
        lines = [f"{name} {value}" for name, value in self.header.items()]
        lines += [f"{layer_name(n)} {self.hashes.get(layer_name(n), '')}" for n in self.layers.build_order()]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def file(self, stones: int) -> Path:
        """Return the path of a layer's file."""
        return self.path / layer_name(stones)

    def facts(self) -> dict[str, Any]:
        """Return the contents by the manifest, JSON-ready."""
        there = [n for n in self.layers.build_order() if n not in self.missing()]
        entries = sum(map(self._num_entries, there))
        return {
            "game": self.layers.game.to_dict(),
            "stones": self.layers.stones,
            "entries": entries,
            "bytes": entries * self.layers.dtype.itemsize,
            "complete": not self.missing(),
            "sha256": self.digest(),
        }

    def _num_entries(self, stones: int) -> int:
        """Return the number of entries in a layer's file, 0 if it cannot be read."""
        if self.layers.max_size(stones) == 0:
            return 0
        try:
            with open_to_read(self.file(stones), self._max_bytes(stones)) as file:
                return int(mapped(file).size)
        except (OSError, ValueError):
            return 0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock of the folder, which is created if missing.

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
            yield

    def has_changed(self) -> bool:
        """Return whether the manifest has changed since it was last read."""
        return self._read_manifest() != self.hashes

    def read_all(self) -> dict[int, Values]:
        """Return all layers that are present and intact."""
        self.hashes = self._read_manifest()
        found = {stones: self.read(stones) for stones in self.layers.build_order()}
        return {stones: array for stones, array in found.items() if array is not None}

    def read(self, stones: int) -> Values | None:
        """Return a layer, memory-mapped; None if its file is missing or damaged."""
        try:
            return self.mapped(stones, check_hash=True)
        except (OSError, ValueError, KeyError):
            return None

    def mapped(self, stones: int, *, check_hash: bool = False) -> Values:
        """Return a layer, memory-mapped; an invalid file raises an exception.

        Args:
            stones: the layer.
            check_hash: whether to check the hash of its file; not needed for one just written or checked.
        """
        if self.layers.is_empty(stones):
            return self._empty_layer()
        with open_to_read(self.file(stones), self._max_bytes(stones)) as file:
            if check_hash:
                if hashlib.file_digest(file, "sha256").hexdigest() != self.hashes[layer_name(stones)]:
                    raise ValueError(f"{self.file(stones)} is damaged")
                file.seek(0)
            array = mapped(file)
        if array.shape != (self.layers.size(stones),) or array.dtype != self.layers.dtype:
            raise ValueError(f"{self.file(stones)} has another shape or kind of number")
        return array

    def _empty_layer(self) -> Values:
        """Return an empty layer, in which all own sets have lines: it has no file."""
        array = np.empty(0, self.layers.dtype)
        array.flags.writeable = False  # like all others, so that kernels are compiled once
        return array

    def _max_bytes(self, stones: int) -> int:
        return self.layers.max_size(stones) * self.layers.dtype.itemsize + _MAX_HEADER_BYTES

    def check_free_space(self, needed: int) -> None:
        """Raise ValueError if the disk has less than ``needed`` bytes free."""
        delete_temporary_files(self.path, [MANIFEST, *map(layer_name, self.layers.build_order())])
        free = shutil.disk_usage(self.path).free
        if needed > free:
            raise ValueError(
                f"the layers of {self.layers.game} need {needed:,} bytes more in {self.path}, and {free:,} are free: "
                f"make room, or choose another folder"
            )

    def write_manifest(self) -> None:
        """Write the hashes of existing layers, and the number of stones of the first requested one."""
        with self._describe_os_error(self.path / MANIFEST):
            write_json(self.path / MANIFEST, {**self.header, "stones": self.stones, "layers": self.hashes})

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

    def write_layer(self, stones: int, values: Values) -> None:
        """Write a layer, then its hash."""
        if values.size == 0:
            return
        path = self.file(stones)
        with self._describe_os_error(path):
            write_atomically(path, lambda file: np.lib.format.write_array(file, values, allow_pickle=False))
            with path.open("rb") as file:
                self.hashes[layer_name(stones)] = hashlib.file_digest(file, "sha256").hexdigest()
        self.write_manifest()


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


def open_folder(path: Path) -> Folder:
    """Open a folder by its manifest, finished or not.

    Raises:
        ValueError: there is no table, or it has another format.
    """
    data = _load_manifest(path)
    if data is None:
        raise ValueError(f"{path} has no database or table of layers: make one by evaluate.py database build")
    game = None
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        game = Game.from_dict(data["game"])
    stones = data.get("stones")
    if game is None or type(stones) is not int:
        raise ValueError(f"{path / MANIFEST} is no manifest of a table in layers: choose another folder")
    return Folder(path, make_layers(game, stones))
