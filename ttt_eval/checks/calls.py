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
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from ttt_envs.core.checks import Refusal, TypeRefusal
from ttt_envs.core.jit import BoolArray, Float64Array
from ttt_envs.core.random import kept_generators, seed_generators

CLOSING_S = 1.0
"""Maximum s in which a thread ends after its last call: errors of torch that it keeps abort the
process at its end."""


class CallError(Exception):
    """What a called function raised, as text."""


class CallTimeoutError(CallError):
    """A called function did not return within the limit of time."""


class GuardedCaller:
    """Calls functions of others in a thread, which a limit of time can end.

    Whatever the function raises becomes a :class:`CallError`. The global generators of ``random``,
    ``numpy.random`` and torch are seeded for each call.

    After the limit, SystemExit is raised in the thread, which ends a loop of Python. A loop of
    compiled code that keeps the interpreter's lock cannot be ended, nor measured. Code that waits
    is left to itself.

    Args:
        limit_s: maximum s of a call, compiling included; None for no limit.
    """

    def __init__(self, limit_s: float | None) -> None:
        self.limit_s = limit_s
        self.printed = io.StringIO()
        self._calls: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._work,), daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., Any], *arguments: Any, seed: int) -> Any:
        """Return what a function returns.

        Args:
            function, arguments: the call.
            seed: of the global generators.

        Raises:
            CallError: it raised something.
            CallTimeoutError: it took longer than the limit. Make no further call.
        """
        answer: Future[Any] = Future()

        def run() -> None:
            try:
                seed_generators(seed)
                answer.set_result(function(*arguments))
            except BaseException as error:  # whatever foreign code raises is the result
                answer.set_exception(CallError(_describe(error)))

        self._calls.put(run)
        try:
            return answer.result(self.limit_s)
        except TimeoutError:
            # other code does not report SystemExit
            identifier = ctypes.c_ulong(self._thread.ident or 0)
            exception = ctypes.py_object(SystemExit)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(identifier, exception)
            raise CallTimeoutError(f"no answer within {self.limit_s} s") from None

    def close(self) -> None:
        """End the thread; make no further call."""
        self._calls.put(None)
        self._thread.join(CLOSING_S)

    def _work(self) -> None:
        for run in iter(self._calls.get, None):
            run()


@contextlib.contextmanager
def open_caller(limit_s: float | None) -> Iterator[GuardedCaller]:
    """Yield a caller, which keeps what is printed; restore the global generators in the end."""
    caller = GuardedCaller(limit_s)
    logger = logging.getLogger("ttt_envs")
    handler = logging.StreamHandler()  # notices of compiling are no output of the function
    logger.addHandler(handler)
    with (
        kept_generators(),
        contextlib.redirect_stdout(caller.printed),
        contextlib.redirect_stderr(caller.printed),
    ):
        try:
            yield caller
        finally:
            logger.removeHandler(handler)
            caller.close()


def check_function(function: object) -> None:
    """Raise TypeError unless a function can be called."""
    if not callable(function):
        raise TypeRefusal(f"{function!r} is no function: give a function, see the check's page")


def read_numbers(
    answer: Any, shape: tuple[int, ...], name: str, where: bool | BoolArray = True
) -> Float64Array:
    """Return an answer as numbers.

    Args:
        answer: the answer.
        shape: of the numbers.
        name: of the numbers, for the message.
        where: bool, which of them must be finite; all others become 0.

    Raises:
        ValueError: it has another shape, or other numbers.
    """
    numbers = np.asarray(answer, np.float64)
    if numbers.shape != shape:
        raise Refusal(f"{name} have the shape {numbers.shape}: return numbers of the shape {shape}")
    if not np.isfinite(numbers).all(where=where):
        raise Refusal(f"{name} are not all finite: return finite numbers")
    return np.where(where, numbers, 0.0)


def _describe(error: BaseException) -> str:
    """Return an error in one line, with the place in the foreign code; one of a call as it is."""
    details = traceback.TracebackException.from_exception(error)  # str(error) can raise
    message = " ".join(str(details).split())[:160]
    if isinstance(error, CallError):
        return message
    own_folder = Path(__file__).parents[1]
    places = [frame for frame in details.stack if own_folder not in Path(frame.filename).parents]
    place = f" ({Path(places[-1].filename).name}:{places[-1].lineno})" if places else ""
    return f"{type(error).__name__}: {message}{place}"
