"""How long computations are done: threads, memory, positions per query, progress.

Threads are for kernels that release the interpreter's lock. Callers cut their work into blocks
whose results do not depend on each other, so results are bit-identical for every number of threads.
:mod:`ttt_envs.core.parallel` spreads work over processes and machines, and also serves Python code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NamedTuple, TypeVar

import psutil

from ttt_envs.core.checks import Refusal, is_whole

Block = TypeVar("Block")
Result = TypeVar("Result")
Threads = int | Literal["auto"]
"""number of threads; ``"auto"`` is one for each core of this process, see :func:`count_threads`"""
Progress = Callable[[float], None]
"""called with the fraction of work done, 0 to 1"""

QUERY_SIZE = 1 << 14
"""Default maximum number of positions per query of a policy."""
MAX_THREADS = 1024
"""Maximum number of threads."""


class Work(NamedTuple):
    """Resources of a long computation. No result depends on them but by rounding."""

    threads: Threads = 1
    """number of threads of solving"""
    memory: int | None = None
    """maximum memory in bytes; None for all free memory"""
    progress: Progress | None = None
    chunk: int = QUERY_SIZE
    """maximum number of positions per query of a policy"""

    def part(self, index: int, count: int) -> Work:
        """Return the work of part ``index`` of ``count`` equal parts."""
        report = self.progress
        return (
            self
            if report is None
            else self._replace(progress=lambda share: report((index + share) / count))
        )


DEFAULT_WORK = Work()


def usable_memory(limit: int | None = None) -> int:
    """Return the bytes of memory that may be used: the limit, by default all that are free."""
    return int(psutil.virtual_memory().available) if limit is None else limit


def count_threads(threads: Threads, jobs: int = 1) -> int:
    """Return the number of threads.

    Args:
        threads: a number, or ``"auto"`` for the cores of this process, divided by the number of
            processes that share them, but at least 1. A limit on the cores of a process or
            container counts, and ``LOKY_MAX_CPU_COUNT``.
        jobs: number of such processes, -1 for one per core.

    Raises:
        ValueError: ``threads`` is neither 1 to ``MAX_THREADS`` nor ``"auto"``.
    """
    if threads == "auto":
        import joblib

        return 1 if jobs == -1 else max(1, int(joblib.cpu_count()) // jobs)
    if not is_whole(threads) or not 1 <= threads <= MAX_THREADS:
        raise Refusal(
            f"threads={threads!r} is no number of threads: choose 1 to {MAX_THREADS}, or auto"
        )
    return threads


def map_threads(
    function: Callable[[Block], Result], blocks: Iterable[Block], threads: int
) -> list[Result]:
    """Run a function for each block of work, and return the results in the order of the blocks.

    Ctrl-C and exceptions stop the work after the blocks that have begun, so a block should take a
    fraction of a second.

    Raises:
        Exception: that of the first block that failed.
    """
    if threads == 1:
        return list(map(function, blocks))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, blocks))
