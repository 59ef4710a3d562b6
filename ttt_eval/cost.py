"""Measurement of cost per run phase and process: CPU seconds, wall seconds, and peak resident memory."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # a meter that runs from the start of a process imports little
    import psutil

COST_KEYS = ("cpu_user_s", "cpu_system_s", "wall_s", "peak_rss_bytes")
"""Keys of a phase's costs: the numbers of :class:`Usage`, in order."""
POLL_S = 0.05
"""Seconds between two polls of a process, where the system keeps no usage of ended processes."""
STOP_S = 10.0
"""Seconds that a process has to end after an interrupt, before it is told to stop, and again before it is killed."""


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
            spent = os.times()
            return cls(spent.user, spent.system, time.perf_counter(), _own_peak())
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return cls(usage.ru_utime, usage.ru_stime, time.perf_counter(), _own_peak(_to_bytes(usage.ru_maxrss)))


def _own_peak(counted: int | None = None) -> int:
    """Return this program's peak memory; ``counted`` by getrusage may include the parent that started it."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        if counted is not None:
            return counted
        import psutil

        return _peak_memory(psutil.Process())


def _to_bytes(maximum: int) -> int:
    """Convert ``ru_maxrss`` to bytes."""
    return maximum * (1 if sys.platform == "darwin" else 1024)


def _peak_memory(process: psutil.Process) -> int:
    """Return a process's peak resident memory in bytes; where the system does not keep it, the current one."""
    memory = process.memory_info()
    return int(getattr(memory, "peak_wset", memory.rss))


class Meter:
    """Measures usage per phase; peak memory is the highest so far, not the phase's own.

    Args:
        before: phases of an earlier process that did a part of the same work; later usage is added to them.
    """

    def __init__(self, before: Mapping[str, Mapping[str, float]] | None = None) -> None:
        self._last = Usage.now()
        self.phases: dict[str, dict[str, float]] = {name: dict(phase) for name, phase in (before or {}).items()}

    def end(self, phase: str) -> None:
        """End ``phase`` and begin the next."""
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


class ProcessFailed(ValueError):  # noqa: N818  # what happened
    """A process ended with an exit code other than 0, or by a signal.

    Args:
        command: the words of its command.
        code: its exit code, negative for a signal.
        output: what it printed.
    """

    def __init__(self, command: Sequence[str], code: int, output: str) -> None:
        super().__init__(command, code, output)
        self.command, self.code, self.output = command, code, output

    @property
    def ending(self) -> str:
        """How it ended, such as "ended by SIGSEGV"."""
        if self.code >= 0:
            return f"failed with exit code {self.code}"
        try:
            name = signal.Signals(-self.code).name
        except ValueError:
            name = f"signal {-self.code}"
        out_of_memory = ", as the system ends processes when memory runs out" if name == "SIGKILL" else ""
        return f"ended by {name}{out_of_memory}"

    @property
    def last_line(self) -> str:
        """The last line of its output."""
        return ([line for line in self.output.splitlines() if line.strip()] or ["it printed nothing"])[-1].strip()

    def __str__(self) -> str:
        return f"{' '.join(self.command)} {self.ending}: {self.last_line}"


def measure_usage(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Usage:
    """Return the resource usage of a new process from start to end, as counted by the operating system.

    Peak memory is at least that of this process where children inherit it. Windows keeps no usage of ended processes:
    there the process is polled every :data:`POLL_S`, and usage after the last poll is missing.

    An interrupt of this process stops the new one.

    Raises:
        ProcessFailed: the process failed.
    """
    began = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        ) as process:
            try:
                user, system, peak = _wait_for_usage(process)
            except BaseException:
                _stop(process)
                raise
        if process.returncode:
            output.seek(0)
            raise ProcessFailed(command, process.returncode, output.read().decode(errors="replace"))
    return Usage(user, system, time.perf_counter() - began, peak)


def _wait_for_usage(process: subprocess.Popen[bytes]) -> tuple[float, float, int]:
    """Wait for the end of a process, and return its user and system seconds and its peak memory."""
    if not hasattr(os, "wait4"):
        return _poll_usage(process)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime, usage.ru_stime, _to_bytes(usage.ru_maxrss)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a process, with time to store its work: Ctrl-C in a terminal reaches it, too, another signal may not."""
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.terminate()
                process.wait(STOP_S)
    finally:  # also after a second interrupt
        process.kill()


def _poll_usage(process: subprocess.Popen[bytes]) -> tuple[float, float, int]:
    """Return user and system seconds and peak memory of a process and its children, as of the last poll."""
    import psutil

    seen: dict[int, tuple[float, float, int]] = {}
    while process.poll() is None:
        with contextlib.suppress(psutil.Error):
            parent = psutil.Process(process.pid)
            for one in [parent, *parent.children(recursive=True)]:  # python.exe of a virtual environment has a child
                times = one.cpu_times()
                seen[one.pid] = times.user, times.system, max(_peak_memory(one), seen.get(one.pid, (0.0, 0.0, 0))[2])
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)
    users, systems, peaks = zip(*seen.values(), strict=True) if seen else ((0.0,), (0.0,), (0,))
    return sum(users), sum(systems), max(peaks)


def processor() -> str:
    """Return the processor's model, to qualify timings."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    found = dict(re.findall(r"^(model name|cpu family|model)\s*: (.+)$", text, re.M))
    name = found.get("model name", platform.machine())
    return f"{name}, family {found['cpu family']} model {found['model']}" if "cpu family" in found else name


MAX_COST_BYTES = 1 << 22
"""Maximum size of a cost.json in bytes."""


def is_number(value: object) -> bool:
    """Return whether a parsed value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300  # excludes NaN
