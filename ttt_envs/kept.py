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

from ttt_envs.files import held, open_to_read, read_json, write_json, write_whole
from ttt_envs.version import __version__

CACHE, CACHE_BYTES = "TTT_ENVS_CACHE", "TTT_ENVS_CACHE_BYTES"
"""environment variables: the folder of kept arrays, and how many bytes they may take in all"""
MOST_BYTES = 1 << 32
"""bytes of all kept arrays unless the environment says otherwise"""

_OURS = re.compile(r"-[0-9a-f]{16}\.json$")
_UNFINISHED = re.compile(r"-[0-9a-f]{16}\.(npy|json).*\.tmp$")
_FOLDER = re.compile(r"-[0-9a-f]{16}$")
_IN_FOLDER = re.compile(r"(manifest\.json|[0-9]+-([0-9]+|layer)\.npy)([0-9a-f]{8}\.tmp)?$")
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


def kept_folder(name: str, content: Mapping[str, Any], made_by: str, size: int) -> Path | None:
    """A folder ``NAME-HASH`` for ``manifest.json`` and arrays ``N-layer.npy``, which count among what is kept.

    Who writes there holds it (:func:`ttt_envs.files.held`): what is held is not removed.

    Args:
        name: for people.
        content: as of :class:`Kept`.
        made_by: as of :class:`Kept`.
        size: bytes of all its files; older ones of others make room for them.

    Returns:
        The folder, made where there is none; None where so much is not kept, or it cannot be made.
    """
    place = Kept(name, content, made_by).path.with_suffix("")
    room = limit() - size - _BESIDE
    if room < 0:
        return None
    try:
        _make_folder(place.parent)
        _make_room(place.parent, room, besides=place)
        place.mkdir(exist_ok=True)
        os.utime(place)  # what was asked for last is removed last
    except OSError:
        return None
    return place


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


def _make_room(kept: Path, room: int, besides: Path | None = None) -> None:
    """Remove arrays and folders, the one unread for longest first, until the others take at most ``room`` bytes.

    Only files that this module has named are counted or touched, those of a process that was killed included; and not
    the folder ``besides``.
    """
    found = []
    for path in kept.iterdir():
        if _UNFINISHED.search(path.name) and time.time() - path.stat().st_mtime > _ABANDONED_S:
            path.unlink(missing_ok=True)
        elif _OURS.search(path.name) or (_FOLDER.search(path.name) and path.is_dir() and path != besides):
            found.append((path.lstat().st_mtime, path))
    for _, path in sorted(found, reverse=True):
        files = _files_of(path)
        room -= _BESIDE + sum(file.lstat().st_size for file in files)
        if room < 0 and path.is_dir():
            with suppress(ValueError), held(path):
                for file in files:
                    file.unlink(missing_ok=True)
                with suppress(OSError):  # somebody has put a file of his own there
                    path.rmdir()
        elif room < 0:
            with suppress(PermissionError):  # Windows keeps an array that somebody has mapped, and its label stays
                for file in reversed(files):
                    file.unlink(missing_ok=True)


def _files_of(path: Path) -> list[Path]:
    """The label of an array and the array, or the files of a folder."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if _IN_FOLDER.match(file.name))
    array = path.with_suffix(".npy")
    return [path, array] if array.exists() else [path]
