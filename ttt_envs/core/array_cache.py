"""Disk cache for arrays that are expensive to compute: hashed names, memory-mapped, oldest out."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from ttt_envs.core.files import locked, write_atomically

CACHE_VARIABLE, CACHE_BYTES_VARIABLE = "TTT_ENVS_CACHE", "TTT_ENVS_CACHE_BYTES"
"""environment variables: the cache folder, and its maximum size in bytes"""
DEFAULT_MAX_BYTES = 1 << 32
"""Default maximum size of the cache in bytes."""
MIN_CACHED_BYTES = 1 << 22
"""Minimum size in bytes of a table cached on disk; computing a smaller one is faster than reading it."""
_ENTRIES = "*-" + "[0-9a-f]" * 16 + "*"
"""pattern of the names of arrays, of their unfinished files, and of folders"""


class CachedArray:
    """A cached array: ``NAME-HASH.npy``. Only this user can write there, so it is not checked further.

    Args:
        name: human-readable name.
        content: JSON-ready data that determines the array.
    """

    def __init__(self, name: str, content: Mapping[str, Any]) -> None:
        digest = hashlib.sha256(json.dumps([dict(content), sys.byteorder]).encode()).hexdigest()[:16]
        self.path = cache_root() / f"{name}-{digest}.npy"

    def read(self, shape: tuple[int, ...], dtype: type) -> np.ndarray[Any, Any] | None:
        """Return the array, memory-mapped and read-only; None if it is missing, damaged or of another form."""
        if max_cache_bytes() == 0:
            return None
        try:
            array = np.asarray(np.load(self.path, mmap_mode="r"))
            os.utime(self.path)  # eviction removes the least recently used first
        except (OSError, ValueError, EOFError):
            return None
        return array if array.shape == shape and array.dtype == dtype else None

    def write(self, array: np.ndarray[Any, Any]) -> bool:
        """Store the array, evicting older ones; return False if it does not fit or the folder is not writable."""
        try:
            if not _make_room(self.path, array.nbytes):
                return False
            write_atomically(self.path, lambda file: np.save(file, array, allow_pickle=False))
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
    """Return a cached folder ``NAME-HASH``; it counts as cache.

    A writer must hold it (:func:`ttt_envs.core.files.locked`), because held folders are not evicted.

    Args:
        name: human-readable name.
        content: as for :class:`CachedArray`.
        size: total bytes of its files; older entries are evicted to make room.

    Returns:
        The folder, created if missing; None if the size exceeds the limit or the folder cannot be created.
    """
    folder = CachedArray(name, content).path.with_suffix("")
    try:
        if not _make_room(folder, size):
            return None
        folder.mkdir(exist_ok=True)
        os.utime(folder)  # eviction removes the least recently used first
    except OSError:
        return None
    return folder


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
        return np.asarray(np.memmap(file, dtype, "r", file.tell(), shape, "F" if by_columns else "C"))
    except OSError:
        raise
    except Exception as problem:  # a malformed header can raise many exceptions, such as those of a tokenizer
        raise ValueError(f"it holds no array of numpy: {type(problem).__name__}") from problem


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


def _make_room(new: Path, size: int) -> bool:
    """Evict entries, least recently used first, until ``size`` bytes more fit; return False if they never do.

    The entry ``new``, and folders that somebody holds, are not evicted.

    Raises:
        OSError: the folder of the cache cannot be used.
    """
    room = max_cache_bytes() - size
    if room < 0:
        return False
    new.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # others could plant other values
    for path in sorted(set(new.parent.glob(_ENTRIES)) - {new}, key=lambda path: path.stat().st_mtime, reverse=True):
        room -= sum(file.stat().st_size for file in (path, *path.glob("*")))
        if room < 0 and path.is_dir():
            with suppress(ValueError, OSError), locked(path):
                shutil.rmtree(path)
        elif room < 0:
            path.unlink(missing_ok=True)
    return True
