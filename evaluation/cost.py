"""What a run costs: CPU seconds of user and system, wall seconds, and the peak of resident memory, by phase."""

from __future__ import annotations

import resource
import sys
import time
from typing import NamedTuple


class Usage(NamedTuple):
    """The process's account at one moment."""

    user_s: float
    system_s: float
    wall_s: float
    peak_rss_bytes: int

    @classmethod
    def now(cls) -> Usage:
        """As the operating system keeps it."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        unit = 1 if sys.platform == "darwin" else 1024
        return cls(usage.ru_utime, usage.ru_stime, time.perf_counter(), usage.ru_maxrss * unit)


class Meter:
    """Differences between the borders of phases; the peak of memory is the highest so far, not the phase's own."""

    def __init__(self) -> None:
        self._last = Usage.now()
        self.phases: dict[str, dict[str, float]] = {}

    def end(self, phase: str) -> None:
        """``phase`` ends here, and the next begins."""
        now = Usage.now()
        self.phases[phase] = {
            "cpu_user_s": now.user_s - self._last.user_s,
            "cpu_system_s": now.system_s - self._last.system_s,
            "wall_s": now.wall_s - self._last.wall_s,
            "peak_rss_bytes": now.peak_rss_bytes,
        }
        self._last = now
