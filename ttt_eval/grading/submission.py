"""A submission in a process of its own, with limits: what it is asked, and why it ended."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import psutil

from ttt_envs.core.checks import MAX_PROBLEM, Refusal, truncate
from ttt_envs.core.files import read_bounded, read_table
from ttt_eval.checks.calls import CallError
from ttt_eval.grading import submission_side
from ttt_eval.grading.submission_side import MAX_MESSAGE, Channel

MAX_SOURCE = 1 << 20
"""Maximum size of a submission in bytes."""
MAX_FILE = 1 << 20
"""Maximum size of each of its files, in bytes."""
POLL_S = 0.1
MAX_WAITS = 10
"""Maximum s that a submission is waited for, as a multiple of its CPU s."""
CPU_PROBLEM = (
    "it took more than {} s of CPU time, the limit of the task: it does not end, or is too slow"
)
TABLES = read_table(__file__)


class SubmissionError(Exception):
    """A submission cannot be asked further: the message says why."""


@dataclass(frozen=True)
class SubmissionLimits:
    """Limits of a submission."""

    cpu_s: int = 60
    """CPU s, and s for which it may sleep before it answers"""
    memory_mib: int = 2048
    """address space in MiB"""
    allowed: Sequence[str] = ("numpy",)
    """names of packages that it may import, beside Python's standard library"""


def check_source(path: Path, allowed: Sequence[str]) -> None:
    """Check the source of a submission without running it.

    Raises:
        SubmissionError: it is no file of Python, or imports what it may not.
    """
    if path.suffix != ".py" or not path.exists():
        raise SubmissionError(
            "not graded: hand in NAME.py, or a folder with solution.py or one file of Python"
        )
    try:
        tree = ast.parse(read_bounded(path, MAX_SOURCE))
    except SyntaxError as error:
        raise SubmissionError(f"SyntaxError: {error.msg} (line {error.lineno or 1})") from None
    except (ValueError, RecursionError, MemoryError, OSError) as error:
        raise SubmissionError(f"it cannot be read: {error}") from None
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in nodes:
        for alias in node.names:
            module = getattr(node, "module", None) or alias.name
            if module.partition(".")[0] not in {*sys.stdlib_module_names, *allowed}:
                names = " and ".join(["Python's standard library", *allowed])
                raise SubmissionError(
                    f"line {node.lineno}: it imports {module}; the task allows {names} only"
                )


class SubmissionProcess:
    """A submission that runs, until it is closed.

    Its process has a folder of its own, which is deleted. It sends messages of bounded size, of
    numbers and texts; nothing of them is executed.

    Args:
        path: a file of Python.
        function: its function that is asked.
        limits: of the process.

    Attributes:
        restart: begins another process of the same file.
        is_filtered: whether the kernel denies it other processes, connections and signals.
        waited_s: s that it was waited for.
        cpu_s: CPU s that it has taken, as of at most :data:`POLL_S` s ago.
        problem: why it ended before it was closed; else empty.
        error: the first error that a function raised.

    Raises:
        SubmissionError: the file cannot be loaded.
    """

    def __init__(self, path: Path, function: str, limits: SubmissionLimits) -> None:
        if os.name != "posix":
            raise Refusal("submissions run on systems with POSIX limits only: use Linux or macOS")
        check_source(path, limits.allowed)
        self.restart = partial(SubmissionProcess, path, function, limits)
        self.limits = limits
        self.waited_s = 0.0
        self.cpu_s = 0.0
        self.problem = ""
        self.error = ""
        self._idle_s = -inf
        """s for which it has slept since it was asked; minus infinity while it is not"""
        self._folder = tempfile.TemporaryDirectory()
        ours, theirs = Pipe()
        with theirs:
            self._process = self._start(path, function, theirs.fileno())
        self._channel = Channel(ours, lambda number: partial(self.call, number))
        threading.Thread(target=self._watch, daemon=True).start()
        try:
            self.is_filtered = bool(self._answer())
        except (CallError, SubmissionError):
            self.close()
            raise SubmissionError(self.problem or self.error) from None

    def _start(self, path: Path, function: str, descriptor: int) -> subprocess.Popen[bytes]:
        limits = {
            "cpu_s": self.limits.cpu_s,
            "memory": self.limits.memory_mib << 20,
            "file_bytes": MAX_FILE,
        }
        own = {"HOME": self._folder.name, "TMPDIR": self._folder.name, **TABLES["settings"]}
        kept = {name: os.environ[name] for name in TABLES["passed_on"] if name in os.environ}
        program = [sys.executable, "-B", "-s", "-P", "-X", "utf8", submission_side.__file__]
        return subprocess.Popen(
            [*program, str(path.resolve()), function, str(descriptor), json.dumps(limits)],
            cwd=self._folder.name,
            env=kept | own,
            pass_fds=[descriptor],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> SubmissionProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._kill()
        self._process.wait()
        self._channel.connection.close()
        with contextlib.suppress(OSError, RecursionError):
            self._folder.cleanup()

    def call(self, function: int, *arguments: Any) -> Any:
        """Return what a function of the submission returns; functions in it can be called.

        Args:
            function: its number; 0 is that of the task.
            arguments: numbers, texts, lists, dictionaries, arrays, and functions, which it may call
                meanwhile.

        Raises:
            CallError: it raised something.
            SubmissionError: it has ended, or is above a limit.
        """
        return self._answer(call=function, arguments=arguments)

    def _answer(self, **request: Any) -> Any:
        """Return the answer to a request, after the answers to questions."""
        message = self._exchange(request)
        while "question" in message:
            try:
                question = self._channel.functions[message["question"]]
                answer = question(*message["arguments"], **message["keywords"])
            except Exception as error:  # whatever it asks
                raise self._end(f"its call of {question.__name__} fails: {error}") from None
            message = self._exchange({"answer": answer})
        if "error" in message:
            text = truncate(message["error"], MAX_PROBLEM)
            hints = [hint for part, hint in TABLES["hints"].items() if part in text]
            self.error = self.error or ": ".join([*hints, text])
            raise CallError(text)
        return message.get("answer")

    def _exchange(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a message, if it holds something, and return the next one."""
        if self.problem:
            raise SubmissionError(self.problem)
        if self.waited_s > MAX_WAITS * self.limits.cpu_s:
            raise self._end(f"it took more than {MAX_WAITS * self.limits.cpu_s} s")
        begin = time.monotonic()
        self._idle_s = 0.0
        try:
            if message:
                self._channel.send(**message)
            reply: Any = self._channel.receive()
        except (TypeError, ValueError, RecursionError) as error:
            raise self._end(f"it sends no message: {error}") from None
        except (EOFError, ConnectionError):
            raise self._end(self._reason()) from None
        except OSError:
            raise self._end(f"it sends more than {MAX_MESSAGE >> 20} MiB") from None
        finally:
            self._idle_s = -inf
            self.waited_s += time.monotonic() - begin
        if not isinstance(reply, dict):
            raise self._end("it sends no message")
        return reply

    def _end(self, problem: str) -> SubmissionError:
        """Return the error of a submission that is asked nothing further."""
        self.problem = self.problem or truncate(problem, MAX_PROBLEM)
        self._kill()
        return SubmissionError(self.problem)

    def _reason(self) -> str:
        """Return why the process closed its connection."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        if self._process.returncode == -signal.SIGKILL:
            return CPU_PROBLEM.format(self.limits.cpu_s)
        return f"its process ended with code {self._process.returncode}"

    def _watch(self) -> None:
        """End a process that takes too much CPU time, or sleeps for too long while it is asked."""
        process = psutil.Process(self._process.pid)
        while self._process.poll() is None:
            time.sleep(POLL_S)
            with contextlib.suppress(psutil.Error):  # it has ended
                if process.status() == psutil.STATUS_SLEEPING:
                    self._idle_s += POLL_S
                self.cpu_s = sum(process.cpu_times()[:2])  # user and system
                if self.cpu_s > self.limits.cpu_s:
                    self._end(CPU_PROBLEM.format(self.limits.cpu_s))
            if self._idle_s > self.limits.cpu_s:
                self._end(f"it waited for more than {self.limits.cpu_s} s")

    def _kill(self) -> None:
        if self._process.poll() is not None:
            return  # its number may be that of another one
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
