"""A subprocess with line-based communication: timeouts for answers, limits on output, and
guaranteed termination.
"""

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
from itertools import chain
from typing import IO

import psutil

from ttt_envs.core.checks import Refusal

MAX_LINE_LENGTH = 8000
"""Maximum length of a line in bytes; the rest is cut, as by piskvork's buffer of that size."""
MAX_UNREAD_LINES = 10_000
"""Maximum number of unread lines; after more, reading stops."""
END_S = 1.0
"""Seconds between a request to end and the kill: "e.g. 1 second" in the protocol."""


def read_lines(stream: IO[bytes]) -> Iterator[str]:
    """Yield lines without surrounding spaces, cut if they are too long, except empty ones.

    They end with CR LF, LF or CR, as the protocol lets an engine choose.
    """
    beginning = b""  # of a line whose end is not read yet
    for chunk in chain(iter(lambda: os.read(stream.fileno(), 1 << 14), b""), [b"\n"]):
        text = (beginning[:MAX_LINE_LENGTH] + chunk).replace(b"\r", b"\n")
        *lines, beginning = text.split(b"\n")
        for line in lines:
            content = line[:MAX_LINE_LENGTH].decode("ascii", "replace").strip()
            if content:
                yield content


class Program:
    """A running program and its standard streams.

    It has its own process group, so that Ctrl-C at the terminal does not reach it. When it is
    closed, when this object is no longer referenced, and when Python exits, it gets the request to
    end, and is killed after a moment, with its group and all processes below it. A process that has
    left the group and has lost its parent is not found.

    Args:
        command: the program and its arguments.
        end_command: a line that asks it to end; none: it is killed at once.

    Attributes:
        close: ends the program, and waits for its termination; ``close.alive`` until then.

    Raises:
        ValueError: the program cannot be started.
    """

    def __init__(self, command: Sequence[str], end_command: str = "") -> None:
        pipe = subprocess.PIPE
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the program
        try:
            child = psutil.Popen(
                command, stdin=pipe, stdout=pipe, stderr=self._errors, start_new_session=True
            )
        except OSError as problem:
            self._errors.close()
            raise Refusal(
                f"{command[0]} does not start, {problem.strerror or problem}: is it a program?"
            ) from None
        self._stdin = child.stdin.fileno()
        with contextlib.suppress(OSError, AttributeError):  # not on every system
            os.set_blocking(self._stdin, False)
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        """its lines; None follows the last one"""
        # which does not reference this object
        reader = threading.Thread(
            target=_queue_lines, args=(child.stdout, self._lines), daemon=True
        )
        reader.start()
        self._end_line = bytearray(f"{end_command}\r\n" if end_command else "", "ascii")
        self.close = weakref.finalize(
            self, _terminate, child, reader, self._errors, self._end_line, os.getpid()
        )

    def kill(self) -> None:
        """End the program without asking it first."""
        self._end_line.clear()
        self.close()

    def ask(self, lines: Sequence[str], deadline_s: float) -> Iterator[str]:
        """Discard what is unread, write lines, each ended by CR LF, and yield the answers without
        surrounding spaces.

        Empty lines are left out. There are no more answers if the program has closed its streams.

        Args:
            lines: the lines.
            deadline_s: the deadline, by ``time.monotonic``.

        Raises:
            TimeoutError: the deadline has passed, or the program has not read earlier lines.
        """
        for _ in range(self._lines.qsize()):
            if self._lines.get() is None:
                self._lines.put(None)
        data = "".join(f"{line}\r\n" for line in lines).encode("ascii")
        try:
            while data:
                data = data[os.write(self._stdin, data) :]
            while True:
                line = self._lines.get(timeout=max(0.0, deadline_s - time.monotonic()))
                if line is None:
                    break
                yield line
            self._lines.put(None)
        except (BlockingIOError, queue.Empty):
            raise TimeoutError from None
        except OSError:  # its input is closed
            return

    def last_error(self) -> str:
        """Return the last line of its standard error; empty if there is none."""
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - MAX_LINE_LENGTH))
        return self._errors.read().decode("ascii", "replace").strip().rpartition("\n")[2].strip()


def _queue_lines(stream: IO[bytes], lines: queue.SimpleQueue[str | None]) -> None:
    """Read lines until the end, or until too many are unread."""
    with stream:
        for line in read_lines(stream):
            lines.put(line)
            if lines.qsize() > MAX_UNREAD_LINES:
                break
    lines.put(None)


def _terminate(
    child: psutil.Popen,
    reader: threading.Thread,
    errors: IO[bytes],
    end_line: bytearray,
    owner: int,
) -> None:
    """Ask a child to end, kill it and all processes below it, and wait for it."""
    if os.getpid() != owner:  # in a forked copy of the process, the child is not ours
        return
    processes = [child]
    with contextlib.suppress(psutil.Error):
        processes += child.children(recursive=True)  # while they have their parents
    # the reader may collect garbage, and not wait for itself
    with contextlib.suppress(OSError, RuntimeError):
        if end_line and reader.is_alive():
            os.write(child.stdin.fileno(), end_line)
            reader.join(END_S)  # until its output ends
    if hasattr(os, "killpg"):
        # the child has not been waited for, so its process id is still its own, even if it has
        # ended
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()  # psutil compares start times: the process id may have been reused
    child.stdin.close()
    child.wait()
    errors.close()
    psutil.wait_procs(processes, END_S)
    with contextlib.suppress(RuntimeError):
        reader.join(END_S)
