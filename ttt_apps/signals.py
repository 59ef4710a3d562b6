"""Handling of stop signals."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

INTERRUPTED = 130
"""Exit code of a command that a signal asked to stop."""
ENDS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals for termination and for a closed terminal. ``ttt_envs.core.parallel`` has them too, but is imported later."""


class Interrupt:
    """Context in which a first stop signal is recorded, so that the step can finish; a second one stops at once.

    Attributes:
        asked: whether a signal came.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, *_handled_ends())}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


def _handled_ends() -> list[int]:
    """Return the signals of ``ENDS`` that this process does not ignore; ``nohup`` ignores that of a closed terminal."""
    return [number for number in ENDS if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Treat other stop signals like Ctrl-C: completed work is stored, and workers end."""
    before: dict[int, Any] = {}

    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, stop) for number in _handled_ends()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def block_signals() -> Iterator[None]:
    """Block stop signals inside the context."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, *ENDS])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
