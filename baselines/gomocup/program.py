"""A subprocess with line-based communication: timeouts for answers, limits on output, and guaranteed termination."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import IO

import psutil

MAX_LINE_LENGTH = 8000
"""Maximum length of a line in bytes; the rest is cut, as by piskvork's buffer of that size."""
MAX_UNREAD_LINES = 10_000
"""Maximum number of unread lines; after more, reading stops."""
END_S = 1.0
"""Seconds between a request to end and the kill: "e.g. 1 second" in the protocol."""


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
        pipe = subprocess.PIPE
        try:
            child = subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
        except OSError as problem:
            raise ValueError(f"{command[0]} does not start, {problem.strerror or problem}: is it a program?") from None
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        with contextlib.suppress(OSError, AttributeError):  # not on every system
            os.set_blocking(child.stdin.fileno(), False)
        self._stdin = child.stdin
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        """its lines; None follows the last one"""
        self._last_error: deque[str] = deque(maxlen=1)
        self._readers = [  # which do not reference this object
            threading.Thread(target=_queue_lines, args=(child.stdout, self._lines), daemon=True),
            threading.Thread(target=_keep_last, args=(child.stderr, self._last_error), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        self._end_command = bytearray(f"{end_command}\r\n" if end_command else "", "ascii")
        self._finalizer = weakref.finalize(self, _terminate, child, self._readers, self._end_command, os.getpid())

    def send(self, lines: Sequence[str]) -> None:
        """Write lines, each ended by CR LF, as in the protocol.

        Raises:
            EOFError: the program has closed its input; the message is the last line of its standard error, or empty.
            TimeoutError: the program has not read earlier lines.
        """
        data = "".join(f"{line}\r\n" for line in lines).encode("ascii")
        try:
            while data:
                data = data[os.write(self._stdin.fileno(), data) :]
        except BlockingIOError:
            raise TimeoutError from None
        except (OSError, ValueError):
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
        self._readers[1].join(END_S)
        return EOFError(*self._last_error)

    def close(self) -> None:
        """End the program, and wait for its termination."""
        self._finalizer()

    def kill(self) -> None:
        """End the program without asking it first."""
        self._end_command.clear()
        self._finalizer()


def _queue_lines(stream: IO[bytes], lines: queue.SimpleQueue[str | None]) -> None:
    """Read lines until the end, or until too many are unread."""
    for line in _read_lines(stream):
        lines.put(line)
        if lines.qsize() > MAX_UNREAD_LINES:
            break
    lines.put(None)


def _keep_last(stream: IO[bytes], last: deque[str]) -> None:
    last.extend(_read_lines(stream))


def _read_lines(stream: IO[bytes]) -> Iterator[str]:
    """Yield lines, which may end with CR LF, LF or CR, except empty ones; long ones are cut."""
    rest = b""
    with stream, contextlib.suppress(OSError, ValueError):
        while chunk := stream.read(1 << 14):  # unbuffered: returns what is available
            *lines, rest = (rest + chunk).replace(b"\r", b"\n").split(b"\n")
            rest = rest[:MAX_LINE_LENGTH]
            yield from filter(None, map(_decode, lines))
    if line := _decode(rest):
        yield line


def _decode(line: bytes) -> str:
    return line[:MAX_LINE_LENGTH].decode("ascii", "replace").strip()


def _processes_below(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return list(psutil.Process(pid).children(recursive=True))
    return []


def _terminate(
    child: subprocess.Popen[bytes], readers: Sequence[threading.Thread], end_command: bytearray, owner: int
) -> None:
    """Ask a child to end, kill it and all processes below it, and wait for it."""
    if os.getpid() != owner or child.stdin is None:  # in a forked copy of the process, the child is not ours
        return
    processes = _processes_below(child.pid)  # while they have their parents
    if end_command and readers[0].is_alive():
        with contextlib.suppress(OSError):
            os.write(child.stdin.fileno(), end_command)
            readers[0].join(END_S)  # until its output ends
    processes += _processes_below(child.pid)
    if hasattr(os, "killpg"):
        # the child has not been waited for, so its process id is still its own, even if it has ended
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()  # psutil compares start times: the process id may have been reused
    with contextlib.suppress(OSError):
        child.stdin.close()
    child.wait()
    psutil.wait_procs(processes, END_S)
    for reader in readers:
        if reader is not threading.current_thread():
            reader.join(END_S)  # they close the other streams
