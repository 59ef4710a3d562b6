"""Arrays that are dear to compute, kept on disk: named, checked by a hash, memory-mapped, and bounded in size."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import platformdirs

from ttt_envs.files import write_json, write_whole
from ttt_envs.version import __version__

CACHE, CACHE_BYTES = "TTT_ENVS_CACHE", "TTT_ENVS_CACHE_BYTES"
"""environment variables: the folder of kept arrays, and how many bytes they may take in all"""
MOST_BYTES = 1 << 32
"""bytes of all kept arrays unless the environment says otherwise"""

_OURS = re.compile(r"-[0-9a-f]{16}\.json$")
_UNFINISHED = re.compile(r"-[0-9a-f]{16}\.(npy|json).*\.tmp$")
_ABANDONED_S = 3600
"""seconds after which a file that is being written belongs to nobody any more"""
_BESIDE = 1 << 12
"""bytes allowed for a file's header and label"""


class Kept:
    """A place on disk for one array: ``NAME-HASH.npy``, and beside it ``NAME-HASH.json``, which says what it is.

    Args:
        name: for people.
        content: JSON-ready data that decides what is in the array.
        made_by: :func:`source_of` the modules that compute it. The hash is of it, too: no version reads another's.
    """

    def __init__(self, name: str, content: Mapping[str, Any], made_by: str) -> None:
        self.content = dict(content)
        digest = hashlib.sha256(json.dumps([self.content, sys.byteorder, made_by]).encode()).hexdigest()[:16]
        self.path = folder() / f"{name}-{digest}.npy"
        self.label = self.path.with_suffix(".json")

    def read(self, shape: tuple[int, ...], dtype: type) -> np.ndarray[Any, Any] | None:
        """The array, memory-mapped and read-only; None where there is none, or one that is damaged."""
        if limit() == 0:
            return None
        try:
            data = json.loads(self.label.read_text())
            with self.path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != data["sha256"]:
                    return None
            found: Any = np.load(self.path, mmap_mode="r", allow_pickle=False)
            os.utime(self.label)  # what was read last is removed last
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return np.asarray(found) if found.shape == shape and found.dtype == dtype else None

    def write(self, array: np.ndarray[Any, Any]) -> bool:
        """Keep the array, older ones making room; False where it does not fit or the folder cannot be written."""
        room = limit() - array.nbytes - _BESIDE
        if room < 0:
            return False
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _make_room(self.path.parent, room)
            write_whole(self.path, lambda file: np.lib.format.write_array(file, array, allow_pickle=False))
            with self.path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            write_json(self.label, {**self.content, "sha256": digest})
        except OSError:
            return False
        return True


def folder() -> Path:
    """Where arrays are kept: ``TTT_ENVS_CACHE``, or else the user's cache directory."""
    chosen = os.environ.get(CACHE)
    return Path(chosen) if chosen else platformdirs.user_cache_path("ttt_envs")


def limit() -> int:
    """Bytes that kept arrays may take in all; with 0 none is kept or read.

    Raises:
        ValueError: ``TTT_ENVS_CACHE_BYTES`` is no number of bytes.
    """
    text = os.environ.get(CACHE_BYTES, str(MOST_BYTES))
    if not text.isdecimal():
        raise ValueError(f"{CACHE_BYTES}={text!r} is no number of bytes: write for example {CACHE_BYTES}={MOST_BYTES}")
    return int(text)


def source_of(*modules: ModuleType) -> str:
    """A hash of the code of modules. Called while they are imported, for files may change later.

    Without source files, in some installations, it is the version of the package.
    """
    try:
        sources = "".join(map(inspect.getsource, modules))
    except OSError:
        sources = __version__
    return hashlib.sha256(sources.encode()).hexdigest()


def _make_room(kept: Path, room: int) -> None:
    """Remove arrays, the one unread for longest first, until the others take at most ``room`` bytes.

    Only files that this module has written are counted or touched, those of a process that was killed included.
    """
    for left in kept.iterdir():
        if _UNFINISHED.search(left.name) and time.time() - left.stat().st_mtime > _ABANDONED_S:
            left.unlink(missing_ok=True)
    labels = [label for label in kept.glob("*.json") if _OURS.search(label.name)]
    for label in sorted(labels, key=lambda label: label.stat().st_mtime, reverse=True):
        array = label.with_suffix(".npy")
        room -= _BESIDE + (array.stat().st_size if array.exists() else 0)
        if room < 0:
            label.unlink(missing_ok=True)
            array.unlink(missing_ok=True)
