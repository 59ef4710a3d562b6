"""Processes of Python that are started by a command line."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress


@contextmanager
def environment_variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within this context, for this process and those that it starts.

    Variables that were not set are empty afterwards.
    """
    before = {name: os.environ.get(name, "") for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.update(before)


def end_with_stdin() -> None:
    """From now on, end this process when its standard input ends.

    A process whose input is a pipe from its parent does not outlive it, however the parent ends.
    """
    threading.Thread(target=_exit_after_stdin, name="stdin", daemon=True).start()


def _exit_after_stdin() -> None:
    with suppress(OSError):
        while os.read(0, 1 << 16):  # sys.stdin has a lock, and Python aborts at its end if a thread still holds it
            pass
    os._exit(1)
