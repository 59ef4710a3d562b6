"""Atomic writes, file locks, and careful reading of untrusted files.

Anybody with write access to a folder may replace a file with a link, a device without end, a pipe that blocks, or JSON
nested a million times. All of these are rejected with a one-line error.
"""

from __future__ import annotations

import errno
import importlib
import json
import math
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from io import BufferedRandom, BufferedReader
from pathlib import Path
from typing import IO, Any

from ttt_envs.core.checks import closest_name, truncate

MAX_FILE_BYTES = 1 << 30
"""Default maximum size of a file that is read, in bytes."""
MAX_JSON_DEPTH = 64
"""Maximum nesting depth of JSON."""
MAX_DIGITS = 40
"""Maximum number of digits of an integer in JSON."""
LOCKED_BYTE = 1 << 30
"""offset of the byte that is locked on Windows, beyond the end of locked files"""

_STRING = re.compile(r'"(?:[^"\\]|\\.?)*+"?', re.DOTALL)


# ---------------------------------------------------------------------------------------------------------------------
# Writing


def write_atomically(path: Path, write: Any, *, durable: bool = True) -> None:
    """Write a file atomically: ``write(file)`` fills a temporary file, which then replaces ``path``.

    If ``path`` is a link, the link is replaced and its target left alone. The umask of the process sets the
    permissions, as for any new file.

    Args:
        path: the file.
        write: takes the open temporary file.
        durable: whether the content is on disk before it replaces the old one; without it a crash of the whole machine
            can leave an empty file.

    Raises:
        OSError: the file cannot be written; the error names ``path``.
    """
    try:
        if not path.name:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}{secrets.token_hex(4)}.tmp")
        file = unfinished.open("x+b")  # a file from tempfile would be readable by its owner only
        try:
            with file:
                write(file)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            _replace(unfinished, path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror or str(problem), str(path)) from None


def _replace(new: Path, old: Path) -> None:
    """Rename a file. Windows refuses while the old file is open, as it is for a moment in readers; so retry."""
    for pause in (0.01, 0.03, 0.1, 0.3, 1.0) if os.name == "nt" else ():
        try:
            return os.replace(new, old)
        except PermissionError:
            time.sleep(pause)
    return os.replace(new, old)


def write_json(path: Path, data: Any) -> None:
    """Write JSON atomically."""
    write_atomically(path, lambda file: file.write(json.dumps(data, indent=2).encode() + b"\n"))


def write_csv(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """Write CSV atomically."""
    import csv
    from io import StringIO

    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_atomically(path, lambda file: file.write(text.getvalue().encode()))


def replace_tail(file: IO[bytes], path: Path, size: int, content: bytes, *, durable: bool = True) -> None:
    """Replace everything after the first ``size`` bytes of a file.

    A crash leaves a part of ``content`` at most. A failure leaves nothing of it.

    Args:
        file: open for writing, and locked if others write to it.
        path: its path, for messages.
        size: number of bytes to keep.
        content: the new end of the file.
        durable: whether to return when it is on disk.

    Raises:
        OSError: the content cannot be written, for example because the disk is full; the error names ``path``.
    """
    file.truncate(size)
    descriptor, left = file.fileno(), memoryview(content)
    os.lseek(descriptor, size, os.SEEK_SET)
    try:
        while left:  # unbuffered: a buffer would retry when closed, after what was cut off
            left = left[os.write(descriptor, left) :]
        if durable:
            os.fsync(descriptor)
    except OSError as problem:
        with suppress(OSError):
            file.truncate(size)
        raise OSError(problem.errno, problem.strerror or str(problem), str(path)) from None


def delete_temporary_files(folder: Path, names: Iterable[str]) -> None:
    """Remove temporary files left in a folder by killed processes that wrote files of the given names.

    A name may be a pattern such as ``*.png``.

    No other process may write there meanwhile: see :func:`locked`.
    """
    patterns = tuple(names)
    for path in folder.glob("*.tmp"):
        match = re.fullmatch(r"(.+)[a-z0-9_]{8}\.tmp", path.name)
        if match and any(fnmatchcase(match[1], pattern) for pattern in patterns):
            path.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on an existing folder, so that no two processes write in it at once. No file is created.

    Windows cannot lock a folder. There, a file beside it is locked, which the system removes when it is closed.

    Raises:
        ValueError: another process holds the lock.
    """
    in_use = ValueError(f"another process is writing in {folder}: wait until it has ended, or choose another folder")
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        temporary = getattr(os, "O_TEMPORARY", None)  # Windows only
        if temporary is None:
            raise
        try:
            descriptor = os.open(f"{folder.resolve()}.lock", os.O_RDWR | os.O_CREAT | temporary)
        except PermissionError:  # the file is about to be removed
            raise in_use from None
    try:
        try:
            lock(descriptor, wait=False)
        except (BlockingIOError, PermissionError):
            raise in_use from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(descriptor)


def lock(descriptor: int, *, wait: bool) -> None:
    """Lock an open file or folder against other processes that lock it, until it is closed.

    Args:
        descriptor: of a file or, where the system has ``fcntl``, of a folder.
        wait: whether to block until the lock is free; Windows gives up after ten seconds.

    Raises:
        BlockingIOError: another process holds the lock; on Windows a PermissionError.
        OSError: locking fails, as on a file system without locks.
    """
    try:
        import fcntl
    except ImportError:
        with suppress(ImportError):  # some systems have neither
            msvcrt: Any = importlib.import_module("msvcrt")
            position = os.lseek(descriptor, 0, os.SEEK_CUR)
            os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)  # Windows locks are byte ranges that others cannot read
            try:
                msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
            finally:
                os.lseek(descriptor, position, os.SEEK_SET)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


# ---------------------------------------------------------------------------------------------------------------------
# Opening


def open_to_read(path: Path, most: int = MAX_FILE_BYTES) -> BufferedReader:
    """Open a regular file for reading.

    Args:
        path: the file.
        most: maximum size in bytes.

    Raises:
        OSError: the file is missing or cannot be opened.
        ValueError: the path is a link, a device, a pipe, a folder, or a larger file.
    """
    return os.fdopen(_open_regular_file(path, os.O_RDONLY, most), "rb")


def open_to_write(path: Path) -> BufferedRandom:
    """Open a regular file for reading and writing, from its start, keeping its content; it is created if missing.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the path is a link, a device, a pipe or a folder.
    """
    return os.fdopen(_open_regular_file(path, os.O_RDWR | os.O_CREAT, None), "r+b")


def read_bounded(path: Path, most: int = MAX_FILE_BYTES) -> bytes:
    """Return all bytes of a regular file.

    Raises:
        OSError, ValueError: as :func:`open_to_read`.
    """
    with open_to_read(path, most) as file:
        content = file.read(most + 1)
    if len(content) > most:  # the file has grown since it was opened
        raise ValueError(f"{path} has more than {most:,} bytes, which is more than is read")
    return content


def _open_regular_file(path: Path, flags: int, most: int | None) -> int:
    """Return the descriptor of a regular file."""
    with suppress(FileNotFoundError):
        _check_kind(path, os.lstat(path))  # before opening, because opening a device may have side effects
    # flags missing on some systems; the kind is checked again below, because the file may have been replaced
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o666)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.EMLINK):
            raise ValueError(_no_file(path, "a link")) from None
        raise
    try:
        found = os.fstat(descriptor)
        _check_kind(path, found)
        if most is not None and found.st_size > most:
            raise ValueError(f"{path} has {found.st_size:,} bytes, and at most {most:,} are read")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_kind(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        raise ValueError(_no_file(path, kinds.get(stat.S_IFMT(found.st_mode), "a device")))


def _no_file(path: Path, kind: str) -> str:
    return f"{path} is {kind}, not a regular file: name a regular file"


def subfolder(folder: Path, name: str) -> Path:
    """Return the path of a folder to write into, such as ``TASK/seed-0``, below another one.

    Raises:
        ValueError: a part of it is a link.
    """
    path = folder
    for part in Path(name).parts:
        path /= part
        if path.is_symlink():
            raise ValueError(f"{path} is a link, and nothing is written through it: put a folder there")
    return path


def closest_path(path: Path, kind: Callable[[Path], bool] = Path.exists) -> Path | None:
    """Return the path of this kind in the same folder with the closest name, None if there is none."""
    try:
        names = [name for name in os.listdir(path.parent) if name != path.name and kind(path.parent / name)]
    except OSError:
        return None
    near = closest_name(path.name, names, 0.6)
    return None if near is None else path.parent / near


def path_hint(path: Path, otherwise: str) -> str:
    """Return the advice for a path that does not exist: the closest one that does, or ``otherwise``."""
    near = closest_path(path)
    return otherwise if near is None else f"did you mean {near}?"


# ---------------------------------------------------------------------------------------------------------------------
# JSON


def read_json(path: Path, most: int = MAX_FILE_BYTES) -> Any:
    """Return the JSON in a regular file; see :func:`open_to_read` and :func:`parse_json`.

    Raises:
        OSError: the file is missing or cannot be opened.
        ValueError: any other problem; the message names the file.
    """
    content = read_bounded(path, most)
    try:
        return parse_json(content, most)
    except ValueError as problem:
        raise ValueError(f"{path} cannot be read: {problem}") from None


def parse_json(text: bytes | str, most: int = MAX_FILE_BYTES, *, nan: bool = False) -> Any:
    """Parse JSON from an untrusted source.

    Args:
        text: the JSON.
        most: maximum length, in bytes or, for a string, in characters.
        nan: whether NaN and Infinity count as numbers, as Python writes them.

    Raises:
        ValueError: the text is not JSON, or is beyond the limits on size, depth or digits.
    """
    if len(text) > most:
        raise ValueError(f"it has more than {most:,} {'bytes' if isinstance(text, bytes) else 'characters'}")
    try:
        words = text.decode() if isinstance(text, bytes) else text
        data = json.loads(
            words,
            parse_float=float if nan else _finite_number,
            parse_int=_whole_number,
            parse_constant=float if nan else _no_number,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as problem:
        if (
            _depth(words[: problem.pos]) > MAX_JSON_DEPTH
        ):  # the order in which problems are found depends on Python's version
            raise ValueError("it is nested too deeply") from None
        raise ValueError(f"it is not JSON: {problem.msg} at character {problem.pos + 1}") from None
    except UnicodeDecodeError:
        raise ValueError("it is not JSON: its bytes are not UTF-8") from None
    if words.count("[") + words.count("{") > MAX_JSON_DEPTH and _is_deep(data):
        raise ValueError("it is nested too deeply")
    return data


def _is_deep(data: Any) -> bool:
    level = [data]
    for _ in range(MAX_JSON_DEPTH + 1):
        parts = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        if not parts:
            return False
        level = [each for part in parts for each in part]
    return True


def _depth(text: str) -> int:
    """Return the maximum nesting depth in the beginning of a JSON text."""
    depth = deepest = 0
    for bracket in re.findall(r"[\[\]{}]", _STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _whole_number(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"it has a number of {len(text)} digits")
    return int(text)


def _finite_number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{truncate(text)} is too large a number")
    return number


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")
