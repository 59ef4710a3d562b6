"""A subprocess with line-based communication: timeouts for answers, limits on output, and guaranteed termination."""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
import uuid
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
KILL_ROUNDS = 20
"""Maximum number of searches for processes of a program, because it may start others in the meantime."""


class EngineExitedError(Exception):  # not necessarily an error
    """The program has closed its output; the message is the last line of its standard error, or empty."""


class EngineTimeoutError(Exception):
    """There was no answer in time."""


class Program:
    """A running program and its standard streams.

    It has its own process group, so that Ctrl-C at the terminal does not reach it. When it is closed, when this object
    is no longer referenced, and when Python exits, it gets the request to end, and is killed after a moment, with all
    processes it has started. Processes that have left the group are recognised by an environment variable.

    Args:
        command: the program and its arguments.
        end_command: a line that asks it to end; none: it is killed at once.

    Raises:
        ValueError: the program cannot be started.
    """

    def __init__(self, command: Sequence[str], end_command: str | None = None) -> None:
        mark = f"TTT_ENVS_PROGRAM_{uuid.uuid4().hex.upper()}"
        try:
            child = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, mark: "1"},
            )
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
        self._ended = False
        self._last_error: collections.deque[str] = collections.deque(maxlen=1)
        reader = threading.Thread(target=_queue_lines, args=(child.stdout, self._lines), daemon=True)
        self._errors_reader = threading.Thread(target=_keep_last, args=(child.stderr, self._last_error), daemon=True)
        readers = [reader, self._errors_reader]  # which do not reference this object
        for one in readers:
            one.start()
        self._end_command = [] if end_command is None else [f"{end_command}\r\n".encode()]
        self._finalizer = weakref.finalize(self, _terminate, child, mark, readers, self._end_command, os.getpid())

    def send(self, lines: Sequence[str]) -> None:
        """Write lines, each ended by CR LF, as in the protocol.

        Raises:
            EngineExitedError: the program has closed its input.
            EngineTimeoutError: the program has not read earlier lines.
        """
        data = "".join(f"{line}\r\n" for line in lines).encode("ascii")
        while data:
            try:
                written = os.write(self._stdin.fileno(), data)
            except BlockingIOError:
                raise EngineTimeoutError from None
            except (OSError, ValueError):
                raise EngineExitedError(self._last_error_line()) from None
            data = data[written:]

    def discard_unread(self) -> None:
        """Discard unread lines."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._ended |= self._lines.get_nowait() is None

    def line(self, until: float) -> str:
        """Return the next non-empty line, without surrounding spaces.

        Args:
            until: the deadline, by ``time.monotonic``.

        Raises:
            EngineExitedError: there are no more lines.
            EngineTimeoutError: the deadline has passed.
        """
        if self._ended:
            raise EngineExitedError(self._last_error_line())
        try:
            line = self._lines.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            raise EngineTimeoutError from None
        if line is None:
            self._ended = True
            raise EngineExitedError(self._last_error_line())
        return line

    def _last_error_line(self) -> str:
        """Return the last line of its standard error."""
        self._errors_reader.join(END_S)
        return self._last_error[0] if self._last_error else ""

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


def _keep_last(stream: IO[bytes], last: collections.deque[str]) -> None:
    last.extend(_read_lines(stream))


def _read_lines(stream: IO[bytes]) -> Iterator[str]:
    """Yield lines, which may end with CR LF, LF or CR, except empty ones."""
    rest = b""
    with stream:
        while chunk := _read_available(stream):
            *whole, rest = (rest + chunk).replace(b"\r", b"\n").split(b"\n")
            rest = rest[:MAX_LINE_LENGTH]
            yield from filter(None, map(_decode, whole))
    if last := _decode(rest):
        yield last


def _decode(line: bytes) -> str:
    return line[:MAX_LINE_LENGTH].decode("ascii", "replace").strip()


def _read_available(stream: IO[bytes]) -> bytes:
    try:
        return stream.read(1 << 14) or b""  # unbuffered: returns what is available
    except (OSError, ValueError):
        return b""


def _marked_processes(mark: str) -> list[psutil.Process]:
    """Return running processes with this environment variable; those of other users cannot be read."""
    found = []
    for number in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            process = psutil.Process(number)
            if mark in process.environ():
                found.append(process)
    return found


def _kill_marked(mark: str) -> None:
    """Kill all processes that have inherited a variable."""
    for _ in range(KILL_ROUNDS):
        found = _marked_processes(mark)
        if not found:
            return
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()  # psutil compares start times: the process id may have been reused
        psutil.wait_procs(found, END_S)


def _terminate(
    child: subprocess.Popen[bytes],
    mark: str,
    readers: Sequence[threading.Thread],
    end_command: Sequence[bytes],
    owner: int,
) -> None:
    """Ask a child to end, kill it and all processes it has started, and wait for it."""
    if os.getpid() != owner or child.stdin is None:  # in a forked copy of the process, the child is not ours
        return
    if end_command and readers[0].is_alive():
        with contextlib.suppress(OSError):
            os.write(child.stdin.fileno(), end_command[0])
            readers[0].join(END_S)  # until its output ends
    if hasattr(os, "killpg"):
        # the child has not been waited for, so its process id is still its own, even if it has ended
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()
    with contextlib.suppress(OSError):
        child.stdin.close()
    child.wait()
    _kill_marked(mark)
    for reader in readers:
        if reader is not threading.current_thread():
            reader.join(END_S)  # they close the other streams
