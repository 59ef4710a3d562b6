"""Arrays that are dear to compute, kept on disk: named, checked by a hash, memory-mapped, and bounded in size."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import re
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np
import platformdirs

from ttt_envs.files import open_to_read, read_json, write_json, write_whole
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
        digest = hashlib.sha256(json.dumps([dict(content), sys.byteorder, made_by]).encode()).hexdigest()[:16]
        said = {**content, "made_by": made_by, "byteorder": sys.byteorder}
        self.said: dict[str, Any] = json.loads(json.dumps(said))  # as it is read again
        """what the label says, but for the hash of the array"""
        self.path = folder() / f"{name}-{digest}.npy"
        self.label = self.path.with_suffix(".json")

    def read(self, shape: tuple[int, ...], dtype: type) -> np.ndarray[Any, Any] | None:
        """The array, memory-mapped and read-only; None where there is none, a damaged one, or one of something else.

        The label must say what is asked for: a file under another's name is not believed.
        """
        if limit() == 0:
            return None
        try:
            data = read_json(self.label, _BESIDE)
            if data != {**self.said, "sha256": data["sha256"]}:
                return None
            with open_to_read(self.path, math.prod(shape) * np.dtype(dtype).itemsize + _BESIDE) as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != data["sha256"]:
                    return None
                file.seek(0)
                found = mapped(file)
            os.utime(self.label)  # what was read last is removed last
        except Exception:  # there is no end of ways in which files can be wrong, and the array can be made anew
            return None
        return found if found.shape == shape and found.dtype == dtype else None

    def write(self, array: np.ndarray[Any, Any]) -> bool:
        """Keep the array, older ones making room; False where it does not fit or the folder cannot be written."""
        room = limit() - array.nbytes - _BESIDE
        if room < 0:
            return False
        try:
            _make_folder(self.path.parent)
            _make_room(self.path.parent, room)
            write_whole(self.path, lambda file: np.lib.format.write_array(file, array, allow_pickle=False))
            with self.path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            write_json(self.label, {**self.said, "sha256": digest})
        except OSError:
            return False
        return True


def mapped(file: IO[bytes]) -> np.ndarray[Any, Any]:
    """The array in a file of numpy, memory-mapped and read-only; whatever is wrong with it is any exception."""
    major, _ = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds objects")
    found = np.memmap(file, dtype, "r", file.tell(), shape, "F" if by_columns else "C")
    return np.asarray(found)


def _make_folder(kept: Path) -> None:
    """A folder that is the user's alone: whoever can write in it can have other values believed."""
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.environ.get(CACHE):  # who has chosen another one may share it
        with suppress(OSError):
            kept.chmod(0o700)


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
