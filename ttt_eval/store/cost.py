"""Measurement of cost per run phase and process: CPU seconds, wall seconds, and peak resident
memory.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

COST_KEYS = ("cpu_user_s", "cpu_system_s", "wall_s", "peak_rss_bytes")
"""Keys of a phase's costs: the numbers of :class:`Usage`, in order."""
MAX_COST_BYTES = 1 << 22
"""Maximum size of a cost.json in bytes."""
STOP_S = 10.0
"""Seconds that a process has to end after an interrupt, before it is told to stop, and again before
it is killed.
"""


class Usage(NamedTuple):
    """The process's resource usage at one moment."""

    user_s: float
    system_s: float
    wall_s: float
    peak_rss_bytes: int

    @classmethod
    def now(cls) -> Usage:
        """Return the usage counted by the operating system."""
        try:
            import resource
        except ImportError:  # on Windows
            import psutil

            process = psutil.Process()
            times = process.cpu_times()
            memory = process.memory_info()
            return cls(
                times.user,
                times.system,
                time.perf_counter(),
                getattr(memory, "peak_wset", memory.rss),
            )
        usage = resource.getrusage(resource.RUSAGE_SELF)
        peak: re.Match[str] | None = None
        # getrusage may count the parent that started this program, /proc does not
        with suppress(OSError):
            status = Path("/proc/self/status").read_text(encoding="utf-8")
            peak = re.search(r"VmHWM:\s*(\d+) kB", status)
        peak_bytes = 1024 * int(peak[1]) if peak else _to_bytes(usage.ru_maxrss)
        return cls(usage.ru_utime, usage.ru_stime, time.perf_counter(), peak_bytes)


def _to_bytes(maximum: int) -> int:
    """Convert ``ru_maxrss`` to bytes."""
    return maximum * (1 if sys.platform == "darwin" else 1024)


class Meter:
    """Measures usage per phase; peak memory is the highest so far, not the phase's own.

    Args:
        before: phases of an earlier process that did a part of the same work; later usage is added
            to them.
    """

    def __init__(self, before: Mapping[str, Mapping[str, float]] | None = None) -> None:
        self._last = Usage.now()
        self.phases: dict[str, dict[str, float]] = {
            name: dict(phase) for name, phase in (before or {}).items()
        }

    def end(self, phase: str) -> None:
        """End ``phase`` and begin the next."""
        last = self._last
        now = Usage.now()
        costs = self.phases.setdefault(phase, dict.fromkeys(COST_KEYS, 0.0))
        for name, start, end in zip(COST_KEYS[:3], last, now, strict=False):
            costs[name] += end - start
        costs["peak_rss_bytes"] = max(now.peak_rss_bytes, costs["peak_rss_bytes"])
        self._last = now


def measure_usage(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Usage:
    """Return the resource usage of a new process from start to end, as counted by the operating
    system.

    Peak memory is at least that of this process where children inherit it. Windows keeps no usage
    of ended processes: there all but the wall time is 0.

    An interrupt of this process stops the new one.

    Raises:
        subprocess.CalledProcessError: the process failed; it has the output.
    """
    began = time.perf_counter()
    user_s = 0.0
    system_s = 0.0
    peak = 0
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        ) as process:
            try:
                if hasattr(os, "wait4"):
                    _, status, usage = os.wait4(process.pid, 0)
                    process.returncode = os.waitstatus_to_exitcode(status)
                    user_s = usage.ru_utime
                    system_s = usage.ru_stime
                    peak = _to_bytes(usage.ru_maxrss)
                process.wait()
            except BaseException:
                _stop(process)
                raise
        if process.returncode:
            output.seek(0)
            raise subprocess.CalledProcessError(
                process.returncode, command, output.read().decode(errors="replace")
            )
    return Usage(user_s, system_s, time.perf_counter() - began, peak)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a process, with time to store its work: Ctrl-C in a terminal reaches it, too, another
    signal may not.
    """
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
    finally:  # also after a second interrupt
        process.kill()


def cpu_seconds(phase: Mapping[str, float]) -> float:
    """Return the CPU seconds of a phase, user and system."""
    return phase["cpu_user_s"] + phase["cpu_system_s"]


def processor() -> str:
    """Return the processor's name, with its family and model on x86, to qualify timings.

    Some cloud machines give generations of different speeds one name, which the numbers tell apart.
    """
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(re.findall(r"^(model name|cpu family|model)\s*: (.+)$", text, re.M))
    name = fields.get("model name", platform.machine())
    return (
        f"{name}, family {fields['cpu family']} model {fields['model']}"
        if "cpu family" in fields
        else name
    )
