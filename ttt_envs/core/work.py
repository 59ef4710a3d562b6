"""How long computations are done: threads, memory, positions per query, progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ttt_envs.core.threads import Threads

Progress = Callable[[float], None]
"""called with the fraction of work done, 0 to 1"""


class Work(NamedTuple):
    """Resources of a long computation. No result depends on them but by rounding."""

    threads: Threads = 1
    """number of threads of solving, see :mod:`ttt_envs.core.threads`"""
    memory: int | None = None
    """maximum memory in bytes; None for all free memory"""
    progress: Progress | None = None
    chunk: int = 1 << 14
    """maximum number of positions per query of a policy"""

    def part(self, index: int, count: int) -> Work:
        """Return the work of part ``index`` of ``count`` equal parts."""
        report = self.progress
        if report is None:
            return self
        return self._replace(progress=lambda share: report((index + share) / count))


DEFAULT_WORK = Work()
