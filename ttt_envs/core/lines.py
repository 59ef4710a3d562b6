"""Files to which lines are appended. The last line of such a file is torn if its writer was killed,
or is still writing: it has no end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from ttt_envs.core.checks import Refusal
from ttt_envs.core.files import name_file


def iterate_lines(file: IO[bytes], max_length: int) -> Iterator[bytes]:
    """Return the lines of a file with their ends, and of a line longer than ``max_length`` bytes
    its parts.
    """
    return iter(partial(file.readline, max_length + 1), b"")


def is_torn(line: bytes, max_length: int) -> bool:
    """Return whether a line of :func:`iterate_lines` is torn; one that is too long is not."""
    return not line.endswith(b"\n") and len(line) <= max_length


def find_end(file: IO[bytes], max_length: int) -> int:
    """Return the number of bytes of a file without a torn last line.

    Raises:
        ValueError: the last line has more than ``max_length`` bytes.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - max_length))
    _, end, last_line = file.read().rpartition(b"\n")
    if not end and size > max_length:
        raise Refusal(f"its last line has more than {max_length:,} bytes: name another file")
    return size - len(last_line)


def read_to_append(file: IO[bytes]) -> list[bytes]:
    """Return the lines of a file without their ends, also a torn last one, which gets an end."""
    lines = file.read().split(b"\n")
    if lines[-1]:
        file.write(b"\n")
    return lines


def replace_tail(file: IO[bytes], path: Path, size: int, content: bytes) -> None:
    """Replace everything after the first ``size`` bytes of a file.

    A crash leaves a part of ``content`` at most, a failure nothing of it. The system brings the
    content to the disk within seconds: what was written outlives this process, but perhaps no power
    cut.

    Args:
        file: open for writing, and locked if others write to it.
        path: its path, for messages.
        size: number of bytes to keep.
        content: the new end of the file.

    Raises:
        OSError: the content cannot be written, for example because the disk is full; the error
            names ``path``.
    """
    file.truncate(size)
    descriptor = file.fileno()
    os.lseek(descriptor, size, os.SEEK_SET)
    unwritten = memoryview(content)
    with name_file(path):
        try:
            # unbuffered: a buffer would retry when closed, after what was cut off
            while unwritten:
                unwritten = unwritten[os.write(descriptor, unwritten) :]
        except OSError:
            with suppress(OSError):
                file.truncate(size)
            raise
