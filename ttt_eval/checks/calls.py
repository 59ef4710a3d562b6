"""Calls of functions of others: a limit of time, caught errors and output, seeded generators."""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import io
import logging
import queue
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from ttt_envs.core.random import kept_generators, seed_generators


class CallError(Exception):
    """What a called function raised, as text."""


class CallTimeoutError(Exception):
    """A called function did not return within the limit of time."""


class GuardedCaller:
    """Calls functions of others in a thread, which a limit of time can end.

    Whatever the function raises becomes a :class:`CallError`, and what it prints is kept. As a
    context manager it also restores the global generators of ``random``, ``numpy.random`` and
    torch, which it seeds for each call.

    After the limit, SystemExit is raised in the thread, which ends a loop of Python. A loop of
    compiled code that keeps the interpreter's lock cannot be ended, nor measured. Code that waits
    is left to itself.

    Args:
        limit_s: maximum s of a call, compiling included; None for no limit, and calls in the
            caller's own thread.
    """

    def __init__(self, limit_s: float | None) -> None:
        self.limit_s = limit_s
        self._output = io.StringIO()
        self._thread: threading.Thread | None = None
        self._calls: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[tuple[Any, str]] = queue.SimpleQueue()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> GuardedCaller:
        logger = logging.getLogger("ttt_envs")
        handler = logging.StreamHandler()  # notices of compiling are no output of the function
        logger.addHandler(handler)
        self._stack.callback(logger.removeHandler, handler)
        self._stack.enter_context(kept_generators())
        self._stack.enter_context(contextlib.redirect_stdout(self._output))
        self._stack.enter_context(contextlib.redirect_stderr(self._output))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._calls.put(None)
        self._stack.close()

    @property
    def output(self) -> str:
        """What was printed."""
        return self._output.getvalue().strip()

    def call(self, function: Callable[..., Any], *arguments: Any, seed: int) -> Any:
        """Return what a function returns.

        Args:
            function, arguments: the call.
            seed: of the global generators.

        Raises:
            CallError: it raised something.
            CallTimeoutError: it took longer than the limit. Make no further call.
        """

        def run() -> Any:
            seed_generators(seed)
            return function(*arguments)

        if self.limit_s is None:
            answer, problem = _attempt(run, (KeyboardInterrupt,))
        else:
            answer, problem = self._run_in_thread(run, self.limit_s)
        if problem:
            raise CallError(problem)
        return answer

    def _run_in_thread(self, run: Callable[[], Any], limit_s: float) -> tuple[Any, str]:
        if self._thread is None:
            context = contextvars.copy_context()
            self._thread = threading.Thread(target=context.run, args=(self._work,), daemon=True)
            self._thread.start()
        self._calls.put(run)
        try:
            return self._results.get(timeout=limit_s)
        except queue.Empty:
            _end_thread(self._thread)
            raise CallTimeoutError(f"no answer within {limit_s:g} s") from None

    def _work(self) -> None:
        while True:
            run = self._calls.get()
            if run is None:
                return
            self._results.put(_attempt(run, ()))


def _attempt(run: Callable[[], Any], passed_on: tuple[type[BaseException], ...]) -> tuple[Any, str]:
    """Return an answer and "", or None and what was raised in its place."""
    try:
        return run(), ""
    except passed_on:
        raise
    except BaseException as error:  # whatever foreign code raises is the result
        return None, _describe(error)


def _describe(error: BaseException) -> str:
    """Return an error in one line, with the place in the foreign code."""
    try:
        message = " ".join(str(error).split())[:160]
    except Exception:  # of an error of foreign code whose text fails too
        message = "without a readable message"
    frames = traceback.extract_tb(error.__traceback__)
    places = [
        frame for frame in frames if Path(__file__).parents[1] not in Path(frame.filename).parents
    ]
    place = f" ({Path(places[-1].filename).name}:{places[-1].lineno})" if places else ""
    return f"{type(error).__name__}: {message}{place}"


def _end_thread(thread: threading.Thread) -> None:
    """Raise SystemExit in a thread, which other code does not report."""
    identifier = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(identifier, ctypes.py_object(SystemExit))
