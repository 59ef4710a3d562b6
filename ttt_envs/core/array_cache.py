"""Disk cache for arrays that are expensive to compute: hashed names, memory-mapped, oldest out."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import platformdirs
from numpy.typing import NDArray

from ttt_envs.core.checks import Refusal
from ttt_envs.core.files import FolderLockedError, hash_json, locked, write_atomically

CACHE_VARIABLE = "TTT_ENVS_CACHE"
"""environment variable: the cache folder"""
CACHE_BYTES_VARIABLE = "TTT_ENVS_CACHE_BYTES"
"""environment variable: its maximum size in bytes"""
DEFAULT_MAX_BYTES = 1 << 32
"""Default maximum size of the cache in bytes."""
MIN_CACHED_BYTES = 1 << 22
"""Minimum size in bytes of a table cached on disk; computing a smaller one is faster than reading
it.
"""
_ENTRIES = "*-" + "[0-9a-f]" * 16 + "*"
"""pattern of the names of arrays, of their unfinished files, and of folders"""


def cache_path(name: str, content: Mapping[str, object], suffix: str = "") -> Path:
    """Return the path ``NAME-HASH`` of a folder in the cache, or with the suffix ``.npy`` of an
    array.

    Args:
        name: human-readable name; it may have dots, as in ``skip0.25``.
        content: JSON-ready data that determines the array or what the folder holds.
        suffix: of the file.
    """
    digest = hash_json([dict(content), sys.byteorder])[:16]
    return cache_root() / f"{name}-{digest}{suffix}"


def load_or_compute(
    name: str,
    content: Mapping[str, object],
    compute: Callable[[], NDArray[np.float64]],
    *,
    min_bytes: int = MIN_CACHED_BYTES,
) -> NDArray[np.float64]:
    """Return an array, read-only: loaded from the disk cache, or else computed, and stored if it
    fits.

    Only this user can write to the cache, so an array is not checked further.

    Args:
        name, content: as for :func:`cache_path`.
        compute: makes the array.
        min_bytes: minimum size of an array that is stored.
    """
    path = cache_path(name, content, ".npy")
    with suppress(OSError, ValueError, EOFError):  # missing, or damaged
        os.utime(path)  # eviction removes the least recently used first
        return np.asarray(np.load(path, mmap_mode="r"))
    array = compute()
    if array.nbytes >= min_bytes and make_room(path, array.nbytes):
        with suppress(OSError):  # such as a full disk
            write_atomically(path, lambda file: np.save(file, array, allow_pickle=False))
    array.flags.writeable = False
    return array


def cache_root() -> Path:
    """Return the cache folder: ``TTT_ENVS_CACHE``, or else the user's cache directory."""
    return Path(os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_path("ttt_envs"))


def max_cache_bytes() -> int:
    """Return the maximum total size of cached arrays in bytes; 0 stores nothing.

    Raises:
        ValueError: ``TTT_ENVS_CACHE_BYTES`` is not a number of bytes.
    """
    text = os.environ.get(CACHE_BYTES_VARIABLE, str(DEFAULT_MAX_BYTES))
    if not text.isdecimal():
        raise Refusal(
            f"{CACHE_BYTES_VARIABLE}={text!r} is no number of bytes: write {DEFAULT_MAX_BYTES}"
        )
    return int(text)


def make_room(entry: Path, size: int) -> bool:
    """Make room for ``size`` bytes more in an array or folder of the cache, by eviction, least
    recently used first.

    The entry itself, and folders that somebody holds (:func:`ttt_envs.core.files.locked`), are not
    evicted.

    Returns:
        Whether the entry may be written: not if the size exceeds the limit, or the folder of the
            cache cannot be used.
    """
    room = max_cache_bytes() - size
    if room < 0:
        return False
    try:
        # for this user alone, because others could plant other values
        entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        other_entries = set(entry.parent.glob(_ENTRIES)) - {entry}
        for path in sorted(other_entries, key=lambda path: path.stat().st_mtime, reverse=True):
            room -= sum(file.stat().st_size for file in (path, *path.glob("*")))
            if room < 0 and path.is_dir():
                with suppress(FolderLockedError), locked(path):
                    shutil.rmtree(path)
            elif room < 0:
                path.unlink(missing_ok=True)
        if entry.exists():
            os.utime(entry)
    except OSError:
        return False
    return True
