"""Disk cache for arrays that are expensive to compute: named, hashed, memory-mapped, bounded in size."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from ttt_envs.core.files import locked, open_to_read, read_json, write_atomically, write_json
from ttt_envs.version import __version__

CACHE_VARIABLE, CACHE_BYTES_VARIABLE = "TTT_ENVS_CACHE", "TTT_ENVS_CACHE_BYTES"
"""environment variables: the cache folder, and its maximum size in bytes"""
DEFAULT_MAX_BYTES = 1 << 32
"""Default maximum size of the cache in bytes."""

_OURS = re.compile(r"-[0-9a-f]{16}\.json$")
_UNFINISHED = re.compile(r"-[0-9a-f]{16}\.(npy|json).*\.tmp$")
_FOLDER = re.compile(r"-[0-9a-f]{16}$")
_IN_FOLDER = re.compile(r"(manifest\.json|[0-9]+-([0-9]+|layer)\.npy)([0-9a-f]{8}\.tmp)?$")
_ABANDONED_S = 3600
"""Age in seconds after which an unfinished file counts as abandoned."""
MIN_CACHED_BYTES = 1 << 22
"""Minimum size in bytes of a table cached on disk; computing a smaller one is faster than reading it."""
OVERHEAD_BYTES = 1 << 12
"""Maximum size in bytes of a file's header and label."""


class CachedArray:
    """A cached array: ``NAME-HASH.npy``, with a label ``NAME-HASH.json`` that describes it.

    Args:
        name: human-readable name.
        content: JSON-ready data that determines the array.
        code_hash: a hash of the code that computes it, if that should be part of the file's name, too.
    """

    def __init__(self, name: str, content: Mapping[str, Any], code_hash: str = "") -> None:
        digest = hashlib.sha256(json.dumps([dict(content), sys.byteorder, code_hash]).encode()).hexdigest()[:16]
        label_content = {**content, "code_hash": code_hash, "byteorder": sys.byteorder}
        self.label_content: dict[str, Any] = json.loads(
            json.dumps(label_content)
        )  # in the form in which the label is read back
        """content of the label, except the hash of the array"""
        self.path = cache_root() / f"{name}-{digest}.npy"
        self.label = self.path.with_suffix(".json")

    def read(self, shape: tuple[int, ...], dtype: type) -> np.ndarray[Any, Any] | None:
        """Return the array, memory-mapped and read-only; None if it is missing, damaged or of other content.

        The label must match, so that a renamed file is not accepted.
        """
        if max_cache_bytes() == 0:
            return None
        try:
            data = read_json(self.label, OVERHEAD_BYTES)
            if data != {**self.label_content, "sha256": data["sha256"]}:
                return None
            with open_to_read(self.path, math.prod(shape) * np.dtype(dtype).itemsize + OVERHEAD_BYTES) as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != data["sha256"]:
                    return None
                file.seek(0)
                found = mapped(file)
            os.utime(self.label)  # eviction removes the least recently used first
        except Exception:  # files can be wrong in endless ways, and the array can be recomputed
            return None
        return found if found.shape == shape and found.dtype == dtype else None

    def write(self, array: np.ndarray[Any, Any]) -> bool:
        """Store the array, evicting older ones; return False if it does not fit or the folder is not writable."""
        room = max_cache_bytes() - array.nbytes - OVERHEAD_BYTES
        if room < 0:
            return False
        try:
            _make_root(self.path.parent)
            _make_room(self.path.parent, room)
            write_atomically(self.path, lambda file: np.lib.format.write_array(file, array, allow_pickle=False))
            with self.path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            write_json(self.label, {**self.label_content, "sha256": digest})
        except OSError:
            return False
        return True


def load_or_compute(
    cached: CachedArray, shape: tuple[int, ...], compute: Callable[[], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return an array float64[shape], read-only: computed, or above 4 MiB loaded from the disk cache."""
    is_large = 8 * math.prod(shape) >= MIN_CACHED_BYTES
    array = cached.read(shape, np.float64) if is_large else None
    if array is None:
        array = compute()
        if is_large and cached.write(array):
            stored = cached.read(shape, np.float64)  # its memory is shared with other processes
            array = array if stored is None else stored
    array.flags.writeable = False
    return array


def make_cached_folder(name: str, content: Mapping[str, Any], size: int) -> Path | None:
    """Return a cached folder ``NAME-HASH`` for ``manifest.json`` and arrays ``N-layer.npy``; it counts as cache.

    A writer must hold it (:func:`ttt_envs.core.files.locked`), because held folders are not evicted.

    Args:
        name: human-readable name.
        content: as for :class:`CachedArray`.
        size: total bytes of its files; older entries are evicted to make room.

    Returns:
        The folder, created if missing; None if the size exceeds the limit or the folder cannot be created.
    """
    place = CachedArray(name, content).path.with_suffix("")
    room = max_cache_bytes() - size - OVERHEAD_BYTES
    if room < 0:
        return None
    try:
        _make_root(place.parent)
        _make_room(place.parent, room, excluded=place)
        place.mkdir(exist_ok=True)
        os.utime(place)  # eviction removes the least recently used first
    except OSError:
        return None
    return place


def mapped(file: IO[bytes]) -> np.ndarray[Any, Any]:
    """Return the array in a numpy file, memory-mapped and read-only.

    Raises:
        OSError: the file cannot be read.
        ValueError: it holds no array.
    """
    try:
        major, _ = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = read(file)
        if dtype.hasobject:
            raise ValueError("it holds objects")
        found = np.memmap(file, dtype, "r", file.tell(), shape, "F" if by_columns else "C")
    except OSError:
        raise
    except Exception as problem:  # a malformed header can raise many exceptions, such as those of a tokenizer
        raise ValueError(f"it holds no array of numpy: {type(problem).__name__}") from problem
    return np.asarray(found)


def _make_root(root: Path) -> None:
    """Create a folder private to the user: anybody with write access could plant other values."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.environ.get(CACHE_VARIABLE):  # a folder chosen by the user may be shared
        with suppress(OSError):
            root.chmod(0o700)


def cache_root() -> Path:
    """Return the cache folder: ``TTT_ENVS_CACHE``, or else the user's cache directory."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else platformdirs.user_cache_path("ttt_envs")


def max_cache_bytes() -> int:
    """Return the maximum total size of cached arrays in bytes; 0 disables the cache.

    Raises:
        ValueError: ``TTT_ENVS_CACHE_BYTES`` is not a number of bytes.
    """
    text = os.environ.get(CACHE_BYTES_VARIABLE, str(DEFAULT_MAX_BYTES))
    if not text.isdecimal():
        raise ValueError(
            f"{CACHE_BYTES_VARIABLE}={text!r} is no number of bytes: write for example "
            f"{CACHE_BYTES_VARIABLE}={DEFAULT_MAX_BYTES}"
        )
    return int(text)


def hash_of_sources(*modules: ModuleType) -> str:
    """Return a hash of the code of modules. Call it while they are imported, because files may change later.

    Without source files, as in some installations, the hash is of the package version.
    """
    try:
        sources = "".join(map(inspect.getsource, modules))
    except OSError:
        sources = __version__
    return hashlib.sha256(sources.encode()).hexdigest()


def _make_room(root: Path, room: int, excluded: Path | None = None) -> None:
    """Evict arrays and folders, least recently read first, until the others take at most ``room`` bytes.

    Only files named by this module are counted or removed, including those of killed processes; the folder
    ``excluded`` is left out.
    """
    found = []
    for path in root.iterdir():
        if _UNFINISHED.search(path.name) and time.time() - path.stat().st_mtime > _ABANDONED_S:
            path.unlink(missing_ok=True)
        elif _OURS.search(path.name) or (_FOLDER.search(path.name) and path.is_dir() and path != excluded):
            found.append((path.lstat().st_mtime, path))
    for _, path in sorted(found, reverse=True):
        files = _files_of(path)
        room -= OVERHEAD_BYTES + sum(file.lstat().st_size for file in files)
        if room < 0 and path.is_dir():
            with suppress(ValueError), locked(path):
                for file in files:
                    file.unlink(missing_ok=True)
                with suppress(OSError):  # the folder holds a foreign file
                    path.rmdir()
        elif room < 0:
            with suppress(PermissionError):  # on Windows a mapped array cannot be removed; its label stays too
                for file in reversed(files):
                    file.unlink(missing_ok=True)


def _files_of(path: Path) -> list[Path]:
    """Return the label of an array and the array, or the files of a folder."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if _IN_FOLDER.match(file.name))
    array = path.with_suffix(".npy")
    return [path, array] if array.exists() else [path]
