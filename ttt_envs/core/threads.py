"""Blocks of work on the threads of one process, for kernels that release the interpreter's lock.

Callers cut their work into blocks whose results do not depend on each other, so results are bit-identical for every
number of threads. The calling thread works too, and other threads take the next block as they become free. There is one
pool per process, made when it is first needed; a forked child makes its own.

:mod:`ttt_envs.core.parallel` spreads work over processes and machines, and also serves Python code.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Literal, TypeVar

from ttt_envs.core.jit_settings import compile_at_once_in_thread

Block = TypeVar("Block")
Result = TypeVar("Result")
Threads = int | Literal["auto"]
"""number of threads; ``"auto"`` is one for each core of this process, see :func:`count_threads`"""

MAX_THREADS = 1024
"""Maximum number of threads."""


def count_threads(threads: Threads, jobs: int = 1) -> int:
    """Return the number of threads.

    Args:
        threads: a number, or ``"auto"`` for the cores of this process, divided by the number of processes that share
            them, but at least 1. A limit on the cores of a process or container counts.
        jobs: number of such processes, -1 for one per core; at least as many as :func:`share_cores` was told.

    Raises:
        ValueError: ``threads`` is neither 1 to ``MAX_THREADS`` nor ``"auto"``.
    """
    if threads == "auto":
        import joblib

        cores = int(joblib.cpu_count())
        return max(1, cores // max(_Sharing.processes, cores if jobs == -1 else jobs))
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MAX_THREADS:
        raise ValueError(f"threads={threads!r} is no number of threads: choose 1 to {MAX_THREADS}, or auto")
    return threads


class _Sharing:
    """Number of processes that share the cores."""

    processes = 1


def share_cores(processes: int) -> None:
    """Tell this process that it is one of so many that share the cores, for ``threads="auto"``."""
    _Sharing.processes = max(1, processes)


def split_rows(count: int, size: int) -> list[slice]:
    """Return rows 0 to ``count`` - 1 as slices of ``size`` rows, the last one shorter."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def map_threads(function: Callable[[int, Block], Result], blocks: Iterable[Block], threads: int) -> list[Result]:
    """Run a function for each block of work, and return the results in the order of the blocks.

    Ctrl-C and exceptions stop the work after the blocks that have begun, so a block should take a fraction of a second.
    Calls may be nested and come from several threads at once: a call never waits for a thread that has not begun to
    work for it.

    Args:
        function: called with the number of the worker, 0 to ``threads`` - 1, and a block. Calls with the same number
            never overlap, so the number can select a workspace.
        blocks: consumed lazily, and never by two threads at once: an iterator may do work that is not thread-safe.
        threads: number of threads, from :func:`count_threads`.

    Raises:
        Exception: that of the first block that failed.
    """
    if threads == 1:
        return [function(0, block) for block in blocks]
    work = _Work(function, iter(blocks))
    helpers: list[Future[None]] = []
    try:
        helpers += [_pool().submit(work.run, worker) for worker in range(1, threads)]
        work.run(0)
    finally:
        work.stopped = True
        for helper in helpers:
            if not helper.cancel():
                helper.result()
    return work.results()


class _Work(Generic[Block, Result]):
    """Blocks that several threads take in order."""

    def __init__(self, function: Callable[[int, Block], Result], blocks: Iterator[Block]) -> None:
        self.stopped = False
        self._function = function
        self._blocks = enumerate(blocks)
        self._lock = threading.Lock()
        self._done: dict[int, Result] = {}
        self._failed: dict[int, Exception] = {}
        self._taken = 0

    def run(self, worker: int) -> None:
        """Compute blocks until none is left."""
        number = 0
        with compile_at_once_in_thread():  # work for several threads repays compilation
            try:
                while not self.stopped:
                    with self._lock:
                        number = self._taken
                        taken = next(self._blocks, None)
                        self._taken += 1
                    if taken is None:
                        return
                    self._done[number] = self._function(worker, taken[1])
            except Exception as failure:  # raised by `results`
                self.stopped = True
                self._failed[number] = failure

    def results(self) -> list[Result]:
        """Return the results, or raise the exception of the first block that failed."""
        if self._failed:
            raise self._failed[min(self._failed)]
        return [self._done[number] for number in sorted(self._done)]


class _Pool:
    """The threads of this process."""

    executor: ThreadPoolExecutor | None = None
    lock = threading.Lock()


def _pool() -> ThreadPoolExecutor:
    """Return the pool, which starts a thread only if all others are busy."""
    with _Pool.lock:
        if _Pool.executor is None:
            _Pool.executor = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="ttt_envs")
        return _Pool.executor


def _forget_pool() -> None:
    """Drop the pool in a forked child, which has none of its threads and may have got its lock while it was held."""
    _Pool.executor, _Pool.lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
