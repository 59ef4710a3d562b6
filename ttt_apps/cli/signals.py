"""Handling of stop signals."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""Exit code of a command that a signal asked to stop."""
ENDS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals for termination and for a closed terminal. ``ttt_envs.core.parallel`` has them too, but
is imported later.
"""


@contextmanager
def _handle(handler: Callable[..., object], *signals: int) -> Iterator[None]:
    """Handle :data:`ENDS`, but those that the process ignores, as under ``nohup``, and others in
    the main thread.
    """
    numbers: list[int] = []
    if threading.current_thread() is threading.main_thread():
        numbers = [
            *signals,
            *(number for number in ENDS if signal.getsignal(number) is not signal.SIG_IGN),
        ]
    handlers = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in handlers.items():
            signal.signal(number, former)


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """Yield a list that receives the first stop signal, so that the step can finish; a second one
    stops at once.
    """
    requests: list[int] = []

    def receive(number: int, *_: object) -> None:
        if requests:
            raise KeyboardInterrupt
        requests.append(number)

    with _handle(receive, signal.SIGINT):
        yield requests


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Treat other stop signals like Ctrl-C: completed work is stored, and workers end."""
    with _handle(signal.default_int_handler):
        yield
