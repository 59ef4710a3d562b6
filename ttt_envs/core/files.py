"""Atomic writes, locks, and careful reading of untrusted files.

Anybody with write access to a folder may replace a file with a link, a device without end, a pipe
that blocks, or JSON nested a million times. All of these are rejected with a one-line error.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedRandom, BufferedReader, FileIO
from pathlib import Path
from typing import Any

import msgspec

from ttt_envs.core.checks import Refusal, name_place

MAX_FILE_BYTES = 1 << 30
"""Default maximum size of a file that is read, in bytes."""


# --------------------------------------------------------------------------------------------------
# Writing


@contextmanager
def name_file(path: Path) -> Iterator[None]:
    """Let the errors of the system name this file, whatever they name themselves."""
    try:
        yield
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror or str(problem), str(path)) from None


def write_atomically(path: Path, write: Callable[[Any], object]) -> None:
    """Write a file atomically: ``write(file)`` fills a temporary file, which then replaces
    ``path``.

    The content is on disk before it replaces the old one. If ``path`` is a link, the link is
    replaced and its target left alone. The umask of the process sets the permissions, as for any
    new file.

    Args:
        path: the file.
        write: takes the open temporary file.

    Raises:
        OSError: the file cannot be written; the error names ``path``.
    """
    target = Path(os.path.abspath(path))
    temporary = target.with_name(f"{target.name}{secrets.token_hex(4)}.tmp")
    try:
        with name_file(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            # a file from tempfile would be readable by its owner only
            with temporary.open("x+b") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
    finally:
        with suppress(OSError):  # it has become the file
            temporary.unlink()


def write_bytes(path: Path, content: bytes) -> None:
    """Write the whole content of a file atomically."""
    write_atomically(path, lambda file: file.write(content))


def write_json(path: Path, data: object, indent: int = 2) -> None:
    """Write JSON atomically."""
    write_bytes(path, json.dumps(data, indent=indent).encode() + b"\n")


def make_subfolder(folder: Path, name: str) -> Path:
    """Return the folder ``name`` within a folder that a program writes in; what is missing is made.

    Args:
        folder: a folder of the caller's choice, which may be reached through links.
        name: names of one or more levels within it, such as ``runs/first``.

    Raises:
        ValueError: a level within ``folder`` is a link, or no folder.
    """
    path = folder
    path.mkdir(parents=True, exist_ok=True)
    for part in Path(name).parts:
        path = path / part
        with suppress(FileExistsError):
            path.mkdir()
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            kind = "a link" if path.is_symlink() else "no folder"
            raise Refusal(
                f"{path} is {kind}, and files are written to folders within {folder} only: move it "
                "away"
            )
    return path


def delete_temporary_files(folder: Path, names: Iterable[str]) -> None:
    """Remove temporary files left in a folder by killed processes that wrote files of the given
    names.

    A name may be a pattern such as ``*.png``. No other process may write there meanwhile: see
    :func:`locked`.
    """
    for name in names:
        for path in folder.glob(f"{name}{'?' * 8}.tmp"):
            path.unlink(missing_ok=True)


class FolderLockedError(Refusal):  # not an error
    """Another process writes in a folder."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on an existing folder, so that no two processes write in it at once.

    No file is created but on Windows, which cannot lock a folder.

    Raises:
        FolderLockedError: another process holds the lock.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
    try:
        if not lock(descriptor, wait=False):
            raise FolderLockedError(
                f"another process is writing in {folder}: wait, or choose another folder"
            )
        yield
    finally:
        os.close(descriptor)


def lock(descriptor: int, *, wait: bool) -> bool:
    """Lock an open file or folder against other processes that lock it, until it is closed.

    Returns:
        Whether this process may write: not if another one holds the lock. File systems without
            locks allow everybody.
    """
    from filelock import lock_descriptor

    with suppress(OSError):
        return lock_descriptor(descriptor, blocking=wait, poll_interval=0.01)
    return True


# --------------------------------------------------------------------------------------------------
# Opening


def open_to_read(path: Path, max_bytes: int = MAX_FILE_BYTES) -> BufferedReader:
    """Open a regular file for reading.

    Args:
        path: the file.
        max_bytes: maximum size in bytes.

    Raises:
        OSError: the file is missing or cannot be opened.
        ValueError: the path is a link, a device, a pipe, a folder, or a larger file.
    """
    return os.fdopen(_open_regular_file(path, os.O_RDONLY, max_bytes), "rb")


class _NamedFile(FileIO):
    """A file opened by its descriptor, whose errors of writing name it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        super().__init__(descriptor, "r+b")
        self.path = path

    def write(self, data: Any) -> int:
        with name_file(self.path):
            return super().write(data)


def open_to_write(path: Path) -> BufferedRandom:
    """Open a regular file for reading and writing, from its start, keeping its content; it is
    created if missing.

    Raises:
        OSError: the file cannot be opened, or later not be written; the error names ``path``.
        ValueError: the path is a link, a device, a pipe or a folder.
    """
    return BufferedRandom(
        _NamedFile(path, _open_regular_file(path, os.O_RDWR | os.O_CREAT, sys.maxsize))
    )


def rewrite(path: Path, size: int = 0) -> None:
    """Replace a regular file by a copy of its first ``size`` bytes, or make an empty one.

    A hard link elsewhere keeps the old file.

    Raises:
        OSError, ValueError: as :func:`open_to_read`, :func:`write_atomically`.
    """
    content = b""
    if os.path.lexists(path):
        with open_to_read(path, sys.maxsize) as file:
            content = file.read(max(0, size))
    write_bytes(path, content)


def read_bounded(path: Path, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Return all bytes of a regular file.

    Raises:
        OSError, ValueError: as :func:`open_to_read`.
    """
    with open_to_read(path, max_bytes) as file:
        return file.read(max_bytes)


def _open_regular_file(path: Path, flags: int, max_bytes: int) -> int:
    """Return the descriptor of a regular file."""
    with suppress(FileNotFoundError):
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe"}
            kind = kinds.get(stat.S_IFMT(status.st_mode), "a device")
            raise Refusal(f"{path} is {kind}, not a regular file: name a regular file")
        if status.st_size > max_bytes:
            raise Refusal(
                f"{path} has {status.st_size:,} bytes, and at most {max_bytes:,} are read"
            )
    # what has replaced it since is no link and blocks nobody
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)


# --------------------------------------------------------------------------------------------------
# JSON


def read_json(path: Path, max_bytes: int = MAX_FILE_BYTES) -> Any:
    """Return the JSON in a regular file; see :func:`open_to_read` and :func:`parse_json`.

    Raises:
        OSError: the file is missing or cannot be opened.
        ValueError: any other problem; the message names the file.
    """
    content = read_bounded(path, max_bytes)
    with name_place(f"{path} cannot be read"):
        return parse_json(content, max_bytes)


def parse_json(text: bytes | str, max_length: int = MAX_FILE_BYTES) -> Any:
    """Parse JSON from an untrusted source; NaN, infinity and halves of surrogate pairs are refused.

    Args:
        text: the JSON.
        max_length: maximum length, in bytes or, for a string, in characters.

    Raises:
        ValueError: the text is too long, or no JSON that Python can read.
    """
    if len(text) > max_length:
        raise Refusal(
            f"it has more than {max_length:,} "
            f"{'bytes' if isinstance(text, bytes) else 'characters'}"
        )
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise Refusal("it is nested too deeply") from None
    except ValueError as problem:
        raise Refusal(f"it is not JSON: {problem}") from None


def hash_json(data: object, *, sort_keys: bool = False) -> str:
    """Return the SHA-256 of JSON-ready data, as JSON with its keys in their order or sorted."""
    return hashlib.sha256(json.dumps(data, sort_keys=sort_keys).encode()).hexdigest()


def read_table(module: str) -> dict[str, Any]:
    """Return the TOML file beside a module, given its ``__file__``: the table of its data."""
    return tomllib.loads(Path(module).with_suffix(".toml").read_text("utf-8"))
