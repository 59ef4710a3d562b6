"""What a run costs: CPU seconds of user and system, wall seconds, and the peak of resident memory, by phase."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

NAMES = ("cpu_user_s", "cpu_system_s", "wall_s", "peak_rss_bytes")
"""what a phase is kept as: the numbers of :class:`Usage`, in order"""


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
        return cls(usage.ru_utime, usage.ru_stime, time.perf_counter(), _peak_rss(usage))


def _peak_rss(usage: resource.struct_rusage) -> int:
    """The high-water mark of this program: getrusage's may be that of the parent that started it."""
    try:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class Meter:
    """Differences between the borders of phases; the peak of memory is the highest so far, not the phase's own.

    Args:
        before: phases of an earlier process that did a part of the same work; what follows is added to them.
    """

    def __init__(self, before: Mapping[str, Mapping[str, float]] | None = None) -> None:
        self._last = Usage.now()
        self.phases: dict[str, dict[str, float]] = {name: dict(phase) for name, phase in (before or {}).items()}

    def end(self, phase: str) -> None:
        """``phase`` ends here, and the next begins."""
        now = Usage.now()
        spent = {
            "cpu_user_s": now.user_s - self._last.user_s,
            "cpu_system_s": now.system_s - self._last.system_s,
            "wall_s": now.wall_s - self._last.wall_s,
        }
        before = self.phases.get(phase, {})
        peak = max(now.peak_rss_bytes, before.get("peak_rss_bytes", 0))
        self.phases[phase] = {name: before.get(name, 0.0) + amount for name, amount in spent.items()}
        self.phases[phase]["peak_rss_bytes"] = peak
        self._last = now


def usage_of(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Usage:
    """What a process of its own takes from its start to its end, as the operating system counts it.

    The peak of memory is at least that of this process where the system hands it on to its children.

    Raises:
        ValueError: the process failed; the last line that it printed says why.
    """
    began = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines() or ["it said nothing"]
            raise ValueError(f"{' '.join(command)} failed with exit code {process.returncode}: {lines[-1]}")
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Usage(usage.ru_utime, usage.ru_stime, time.perf_counter() - began, peak)
