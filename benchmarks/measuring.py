"""What the benchmarks share. Importing this keeps the process on one core."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from rich.box import MARKDOWN
from rich.table import Table

import ttt_envs

# a benchmark that is named after a package must not be found in its place
sys.path[:] = [folder for folder in sys.path if folder != str(Path(__file__).parent)]

if hasattr(os, "sched_setaffinity"):  # libraries imported later make threads for the cores they find
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


class SkipRow(Exception):  # noqa: N818  # no error
    """A row cannot be measured here; the message says why."""


def not_installed(problem: ImportError) -> SkipRow:
    return SkipRow(f'{problem.name or problem} is not installed: pip install "ttt_envs[bench]"')


@dataclass(frozen=True)
class Spread:
    """Values of several rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Of at least one value."""
        values = sorted(values)
        return cls(statistics.median(values), values[0], values[-1])

    def __str__(self) -> str:
        scale, unit = next(((s, u) for s, u in ((1e6, " M"), (1e3, " k")) if self.median >= s), (1.0, ""))
        median, low, high = (f"{value / scale:.3g}" for value in (self.median, self.low, self.high))
        return f"{median}{unit} ({low} - {high})"


def compile_c(source: str) -> ctypes.CDLL:
    """C as a plain programmer would have it compiled.

    Raises:
        SkipRow: there is no compiler.
    """
    if shutil.which("gcc") is None:
        raise SkipRow("there is no gcc: install a C compiler")
    with tempfile.TemporaryDirectory() as folder:
        file, library = Path(folder, "peer.c"), Path(folder, "peer.so")
        file.write_text(source)
        subprocess.run(["gcc", "-O3", "-march=native", "-shared", "-fPIC", "-o", library, file], check=True)
        return ctypes.CDLL(str(library))


def cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Of Python, of ours, of the packages that are installed and of gcc."""
    found = {"python": platform.python_version(), "ttt_envs": ttt_envs.__version__}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if shutil.which("gcc"):
        found["gcc"] = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
    return found


def seconds_of(ask: Callable[[], object], least: float) -> float:
    """CPU seconds of one answer, from as many as fill ``least`` seconds."""
    begin = process_time()
    count = 0
    while count == 0 or process_time() - begin < least:
        ask()
        count += 1
    return (process_time() - begin) / count


@dataclass(frozen=True)
class Alone:
    """What was measured by itself, in a fresh process."""

    name: str
    work: str
    answer: str
    cpu_seconds: float
    wall_seconds: float
    peak_rss_bytes: int


_CHILD = """
import re, time
{before}
wall, cpu = time.perf_counter(), time.process_time()
found = {expression}
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
# not getrusage's, which a child inherits of its parent
peak = int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
print(wall, cpu, peak, found)
"""


def measure_alone(name: str, work: str, before: str, expression: str) -> Alone:
    """Run Python in a fresh process: ``before``, which is not measured, then ``expression``.

    Raises:
        SkipRow: it failed.
    """
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    code = _CHILD.replace("{before}", before).replace("{expression}", expression)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SkipRow(f"it failed: {done.stderr.strip().splitlines()[-1]}")
    wall, cpu_seconds, peak, answer = done.stdout.strip().split(" ", 3)
    return Alone(name, work, answer, float(cpu_seconds), float(wall), 1024 * int(peak))


def table_of_alone(rows: Iterable[Alone]) -> Table:
    table = Table(box=MARKDOWN)
    for header in ("row", "work", "CPU s", "wall s", "peak RSS, MiB", "answer"):
        table.add_column(header, no_wrap=header != "answer", overflow="fold")
    for row in rows:
        memory = f"{row.peak_rss_bytes / 2**20:,.0f}"
        table.add_row(row.name, row.work, f"{row.cpu_seconds:.2f}", f"{row.wall_seconds:.2f}", memory, row.answer)
    return table


@dataclass(frozen=True)
class Arguments:
    """What every benchmark is asked."""

    quick: bool = False
    """fewer and shorter rounds"""
    rounds: int | None = None
    """how often everything is measured"""
    only: str = ""
    """names of rows with commas between them"""
    json: Path | None = None
    """where to write the same as JSON"""

    def chosen(self, known: list[str]) -> list[str]:
        """The rows to measure."""
        names = self.only.split(",") if self.only else known
        if unknown := set(names) - set(known):
            raise SystemExit(f"there are no rows {', '.join(sorted(unknown))}: choose among {', '.join(known)}")
        return names
