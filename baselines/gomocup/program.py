"""A subprocess with line-based communication: timeouts for answers, limits on output, and guaranteed termination."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import IO

import psutil

MAX_LINE_LENGTH = 8000
"""Maximum length of a line in bytes; the rest is cut, as by piskvork's buffer of that size."""
MAX_UNREAD_LINES = 10_000
"""Maximum number of unread lines; after more, reading stops."""
END_S = 1.0
"""Seconds between a request to end and the kill: "e.g. 1 second" in the protocol."""


def read_lines(stream: IO[bytes]) -> Iterator[str]:
    """Yield lines without surrounding spaces, cut if they are too long."""
    while line := stream.readline(MAX_LINE_LENGTH):
        end = line
        while not end.endswith(b"\n") and (end := stream.readline(MAX_LINE_LENGTH)):
            pass
        yield line.decode("ascii", "replace").strip()


class Program:
    """A running program and its standard streams.

    It has its own process group, so that Ctrl-C at the terminal does not reach it. When it is closed, when this object
    is no longer referenced, and when Python exits, it gets the request to end, and is killed after a moment, with its
    group and all processes below it. A process that has left the group and has lost its parent is not found.

    Args:
        command: the program and its arguments.
        end_command: a line that asks it to end; none: it is killed at once.

    Raises:
        ValueError: the program cannot be started.
    """

    def __init__(self, command: Sequence[str], end_command: str = "") -> None:
        pipe, self._errors = subprocess.PIPE, tempfile.TemporaryFile()  # noqa: SIM115
        try:
            child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._errors, start_new_session=True)
        except OSError as problem:
            self._errors.close()
            raise ValueError(f"{command[0]} does not start, {problem.strerror or problem}: is it a program?") from None
        assert child.stdin is not None
        assert child.stdout is not None
        self._stdin = child.stdin.fileno()
        with contextlib.suppress(OSError, AttributeError):  # not on every system
            os.set_blocking(self._stdin, False)
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        """its lines; None follows the last one"""
        # which does not reference this object
        reader = threading.Thread(target=_queue_lines, args=(child.stdout, self._lines), daemon=True)
        reader.start()
        self._end_line = bytearray(f"{end_command}\r\n" if end_command else "", "ascii")
        self._finalizer = weakref.finalize(self, _terminate, child, reader, self._errors, self._end_line, os.getpid())

    def send(self, lines: Sequence[str]) -> None:
        """Write lines, each ended by CR LF, as in the protocol.

        Raises:
            EOFError: the program has closed its input; the message is the last line of its standard error, or empty.
            TimeoutError: the program has not read earlier lines.
        """
        data = "".join(f"{line}\r\n" for line in lines).encode("ascii")
        try:
            while data:
                data = data[os.write(self._stdin, data) :]
        except BlockingIOError:
            raise TimeoutError from None
        except OSError:
            raise self._exited() from None

    def discard_unread(self) -> None:
        """Discard unread lines."""
        for _ in range(self._lines.qsize()):
            if self._lines.get() is None:
                self._lines.put(None)

    def line(self, until: float) -> str:
        """Return the next non-empty line, without surrounding spaces.

        Args:
            until: the deadline, by ``time.monotonic``.

        Raises:
            EOFError: there are no more lines; the message is the last line of standard error, or empty.
            TimeoutError: the deadline has passed.
        """
        try:
            line = self._lines.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            raise TimeoutError from None
        if line is None:
            self._lines.put(None)
            raise self._exited()
        return line

    def _exited(self) -> EOFError:
        """Return the error for a program that has closed its streams."""
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - MAX_LINE_LENGTH))
        return EOFError(*self._errors.read().decode("ascii", "replace").strip().splitlines()[-1:])

    def close(self) -> None:
        """End the program, and wait for its termination."""
        self._finalizer()

    def kill(self) -> None:
        """End the program without asking it first."""
        self._end_line.clear()
        self._finalizer()


def _queue_lines(stream: IO[bytes], lines: queue.SimpleQueue[str | None]) -> None:
    """Read lines until the end, or until too many are unread."""
    with stream:
        for line in filter(None, read_lines(stream)):
            lines.put(line)
            if lines.qsize() > MAX_UNREAD_LINES:
                break
    lines.put(None)


def _processes_below(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return list(psutil.Process(pid).children(recursive=True))
    return []


def _terminate(
    child: subprocess.Popen[bytes], reader: threading.Thread, errors: IO[bytes], end_command: bytearray, owner: int
) -> None:
    """Ask a child to end, kill it and all processes below it, and wait for it."""
    assert child.stdin is not None
    if os.getpid() != owner:  # in a forked copy of the process, the child is not ours
        return
    processes = _processes_below(child.pid)  # while they have their parents
    is_reader = reader is threading.current_thread()  # which may collect garbage
    if end_command and reader.is_alive() and not is_reader:
        with contextlib.suppress(OSError):
            os.write(child.stdin.fileno(), end_command)
            reader.join(END_S)  # until its output ends
    processes += _processes_below(child.pid)
    if hasattr(os, "killpg"):
        # the child has not been waited for, so its process id is still its own, even if it has ended
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()  # psutil compares start times: the process id may have been reused
    child.stdin.close()
    child.wait()
    errors.close()
    psutil.wait_procs(processes, END_S)
    if not is_reader:
        reader.join(END_S)
