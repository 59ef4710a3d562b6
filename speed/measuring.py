"""Shared parts of the benchmarks. Importing this pins the process to one core."""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import importlib.metadata
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

if hasattr(os, "sched_setaffinity"):
    # libraries, numpy among them, make as many threads as they find cores when they are imported
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import tyro
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

import ttt_envs
from ttt_envs.core.jit import INTERPRET
from ttt_eval.store.cost import processor

os.environ[INTERPRET] = "0"  # measure machine code

# a benchmark named after a package must not shadow it, and the studies are not installed
FOLDER = Path(__file__).resolve().parent
sys.path[:] = [
    *(folder for folder in sys.path if folder != str(Path(__file__).parent)),
    str(FOLDER.parent),
]


class SkipRow(Exception):  # noqa: N818  # not an error
    """A row cannot be measured here; the message is the reason."""


@dataclass(frozen=True)
class Spread:
    """Values of several rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Summarize at least one value."""
        values = sorted(values)
        return cls(statistics.median(values), values[0], values[-1])

    def __str__(self) -> str:
        scale, unit = next(
            ((s, u) for s, u in ((1e6, " M"), (1e3, " k")) if self.median >= s), (1.0, "")
        )
        median, low, high = (f"{value / scale:.3g}" for value in (self.median, self.low, self.high))
        return f"{median}{unit} ({low} - {high})"


def compile_c(source: str) -> ctypes.CDLL:
    """Compile a file of ``speed/peers`` with the usual options.

    Raises:
        SkipRow: there is no compiler.
    """
    if shutil.which("gcc") is None:
        raise SkipRow("there is no gcc: install a C compiler")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "peer.so")
        file = Path(__file__).parent / "peers" / source
        subprocess.run(
            ["gcc", "-O3", "-march=native", "-shared", "-fPIC", "-o", library, file], check=True
        )
        return ctypes.CDLL(str(library))


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python, of this package, of the installed packages and of gcc."""
    numbers = {"python": platform.python_version(), "ttt_envs": ttt_envs.__version__}
    for package in packages:
        try:
            numbers[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if shutil.which("gcc"):
        numbers["gcc"] = subprocess.run(
            ["gcc", "-dumpfullversion"], capture_output=True, text=True
        ).stdout.strip()
    return numbers


# --------------------------------------------------------------------------------------------------
# Without a peer


@dataclass(frozen=True)
class Alone:
    """A measurement without a peer, in a new process."""

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
peak = int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status", encoding="utf-8").read())[1])
print(wall, cpu, peak, found)
"""


def measure_alone(name: str, work: str, before: str, expression: str) -> Alone:
    """Run Python in a new process: ``before``, which is not measured, then ``expression``.

    Raises:
        SkipRow: it needs a package that is not installed.
        RuntimeError: it failed; the message is its traceback.
    """
    root = Path(__file__).parents[1]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
    }
    code = _CHILD.replace("{before}", before).replace("{expression}", expression)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        error = done.stderr.strip().splitlines()[-1]
        if error.startswith("ModuleNotFoundError"):
            raise SkipRow(error)
        raise RuntimeError(done.stderr)
    wall, cpu_seconds, peak, answer = done.stdout.strip().split(" ", 3)
    return Alone(name, work, answer, float(cpu_seconds), float(wall), 1024 * int(peak))


def alone_table(rows: Iterable[Alone]) -> Table:
    table = Table(box=MARKDOWN)
    for header in ("row", "work", "CPU s", "wall s", "peak RSS, MiB", "answer"):
        table.add_column(header, no_wrap=header != "answer", overflow="fold")
    for row in rows:
        memory = f"{row.peak_rss_bytes / 2**20:,.0f}"
        table.add_row(
            row.name,
            row.work,
            f"{row.cpu_seconds:.2f}",
            f"{row.wall_seconds:.2f}",
            memory,
            row.answer,
        )
    return table


# --------------------------------------------------------------------------------------------------
# Ours beside a peer


class Done(NamedTuple):
    """Amount and time of a stretch of work."""

    amount: float
    """number of moves, games, positions or answers"""
    seconds: float
    """CPU time of the work"""
    aside: float = 0.0
    """CPU time of necessary work that the rate excludes"""


Stretch = Callable[[], Done]
"""Works for some milliseconds."""


class Row(NamedTuple):
    """A comparison of ours with a peer."""

    name: str
    ours: str
    beside: str
    at_least: float | None
    """minimum ratio of our speed to the peer's; None if there is no goal"""
    our_stretch: Callable[[], Stretch]
    """prepares our side"""
    peer_stretch: Callable[[], Stretch]


class Unit(NamedTuple):
    """Unit of a column."""

    name: str
    of: Callable[[Done], float]


def rate(name: str) -> Unit:
    """Return the unit of an amount per second."""
    return Unit(name, lambda done: done.amount / done.seconds)


MS = Unit("ms", lambda done: 1e3 * done.seconds / done.amount)
US = Unit("us", lambda done: 1e6 * done.seconds / done.amount)


@dataclass(frozen=True)
class Comparison:
    """A measured row."""

    name: str
    ours: str
    beside: str
    unit: str
    our_side: Spread
    """in the unit"""
    peer_side: Spread
    ratio: Spread
    """ratio of our speed to the peer's, within each round"""
    at_least: float | None
    aside_ns: float
    """nanoseconds per counted item, on both sides, that the rates exclude"""


def time_work(work: Callable[[], float]) -> Stretch:
    """Time ``work``, which returns its amount, by CPU time."""

    def stretch() -> Done:
        begin = process_time()
        amount = work()
        return Done(amount, process_time() - begin)

    return stretch


def time_answers(ask: Callable[[], object], answers: float = 1) -> Stretch:
    """Time this number of answers at once by CPU time."""

    def work() -> float:
        ask()
        return answers

    return time_work(work)


def total(parts: Iterable[Done]) -> Done:
    return Done(*map(sum, zip(*parts, strict=True)))


def measure_rounds(stretches: Sequence[Stretch], rounds: int, seconds: float) -> list[list[Done]]:
    """Return measurements [stretch][round]: in each round, each stretch runs by turns for
    ``seconds`` of its CPU time.

    Every stretch runs at least once per round, and once before, which compiles.
    """
    for stretch in stretches:
        stretch()
    gc.collect()
    # excludes the peers' long-lived objects from garbage collection during a measurement
    gc.freeze()
    done: list[list[Done]] = [[] for _ in stretches]
    for _ in range(rounds):
        for stretch, of_stretch in zip(stretches, done, strict=True):
            parts = [stretch()]
            while sum(part.seconds for part in parts) < seconds:
                parts.append(stretch())
            of_stretch.append(total(parts))
    return done


def compare(row: Row, unit: Unit, rounds: int, seconds: float) -> Comparison:
    """Measure a row.

    Raises:
        ImportError, SkipRow: the peer is missing.
    """
    peer = row.peer_stretch()
    ours, peers = measure_rounds([row.our_stretch(), peer], rounds, seconds)
    both = total(ours + peers)
    rates = ([done.amount / done.seconds for done in side] for side in (ours, peers))
    return Comparison(
        row.name,
        row.ours,
        row.beside,
        unit.name,
        Spread.of(map(unit.of, ours)),
        Spread.of(map(unit.of, peers)),
        Spread.of(our / their for our, their in zip(*rates, strict=True)),
        row.at_least,
        1e9 * both.aside / both.amount,
    )


def format_goal(ratio: float, at_least: float | None) -> str:
    """Format the goal, and whether it was missed."""
    return "" if at_least is None else f"{at_least:g}" + (" missed" if ratio < at_least else "")


def comparison_table(comparisons: Sequence[Comparison], aside: str = "") -> Table:
    """Return the table of comparisons; ``aside`` is the header of excluded costs, if any."""
    table = Table(box=MARKDOWN)
    unit = comparisons[0].unit
    for header in ("row", "ours", "beside"):
        table.add_column(header, no_wrap=True)
    for header in (
        f"ours, {unit}",
        f"beside, {unit}",
        "ratio",
        "at least",
        *([aside] if aside else []),
    ):
        table.add_column(header, justify="right", no_wrap=True)
    for c in comparisons:
        sides = str(c.our_side), str(c.peer_side), str(c.ratio)
        left_out = [f"{c.aside_ns:.0f}" if c.aside_ns else ""] if aside else []
        table.add_row(
            c.name, c.ours, c.beside, *sides, format_goal(c.ratio.median, c.at_least), *left_out
        )
    return table


# --------------------------------------------------------------------------------------------------
# A benchmark


@dataclass(frozen=True)
class Arguments:
    """Options of every benchmark."""

    quick: bool = False
    """fewer and shorter rounds"""
    rounds: int | None = None
    """number of repetitions of every measurement"""
    only: str = ""
    """names of rows, separated by commas"""
    json: Path | None = None
    """file for the same results as JSON"""

    def chosen(self, all_names: list[str]) -> list[str]:
        """Return the rows to measure."""
        names = self.only.split(",") if self.only else all_names
        unknown = set(names) - set(all_names)
        if unknown:
            raise SystemExit(
                f"there are no rows {', '.join(sorted(unknown))}: choose among "
                f"{', '.join(all_names)}"
            )
        return names


@dataclass(frozen=True)
class Part:
    """An additional table of a benchmark."""

    key: str
    """key in the JSON"""
    names: tuple[str, ...]
    """row names, as in --only"""
    measure: Callable[[str, int, float], Any]
    """measures a row by its name, the rounds and the seconds of a round: returns a dataclass, or
    lists and dicts of them"""
    table: Callable[[list[Any]], Table]
    """formats the measurements"""


def alone_part(work: Mapping[str, tuple[str, str]], before: str) -> Part:
    """Return a part of work without a peer, in separate processes: work by name, described and as
    Python, and its setup.
    """

    def measure(name: str, rounds: int, seconds: float) -> Alone:
        return measure_alone(name, work[name][0], before, work[name][1])

    return Part("alone", tuple(work), measure, alone_table)


@dataclass(frozen=True)
class Benchmark:
    """Rows in a unit, and additional parts."""

    about: str
    """the help"""
    packages: tuple[str, ...]
    """packages whose versions are printed"""
    unit: Unit
    rows: Sequence[Row]
    parts: Sequence[Part] = ()
    left_out: tuple[str, ...] = ()
    """rows omitted from the quick form, unless requested"""
    asked_for: tuple[str, ...] = ()
    """slow rows, measured only if ``--only`` names them"""
    seconds: tuple[float, float] = (0.1, 0.4)
    """CPU time of a side in a round: in the quick form, and in the full form"""
    rounds: tuple[int, int] = (2, 5)
    aside: str = ""
    """see :func:`comparison_table`"""
    note: str = ""
    """printed below the machine"""


def to_json(value: Any) -> Any:
    """Convert dataclasses in lists and dicts to JSON-ready data."""
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value


def run(benchmark: Benchmark) -> None:
    """Run the command: measure the requested rows, print tables, write JSON."""
    arguments = tyro.cli(Arguments, description=benchmark.about)
    quick = arguments.quick
    names = list(
        dict.fromkeys(
            [
                *(row.name for row in benchmark.rows),
                *(name for part in benchmark.parts for name in part.names),
            ]
        )
    )
    left_out = {*benchmark.asked_for, *(benchmark.left_out if quick else ())}
    chosen = [name for name in arguments.chosen(names) if arguments.only or name not in left_out]
    rounds = arguments.rounds or benchmark.rounds[not quick]
    seconds = benchmark.seconds[not quick]
    console = Console()
    console.width = max(console.width, 240)  # a row is a line, in a file too
    skipped: dict[str, str] = {}

    def try_measure(name: str, measure: Callable[[], Any]) -> list[Any]:
        """Return the measurement, or nothing if it is impossible here."""
        with console.status(name):
            try:
                return [measure()]
            except ImportError as problem:
                missing = problem.name or problem
                skipped[name] = f'{missing} is not installed: pip install "ttt_envs[bench]"'
            except SkipRow as reason:
                skipped[name] = str(reason)
        return []

    comparisons = [
        comparison
        for row in benchmark.rows
        if row.name in chosen
        for comparison in try_measure(
            row.name, partial(compare, row, benchmark.unit, rounds, seconds)
        )
    ]
    measured = {
        part.key: [
            result
            for name in part.names
            if name in chosen
            for result in try_measure(name, partial(part.measure, name, rounds, seconds))
        ]
        for part in benchmark.parts
    }
    here = versions(benchmark.packages)
    console.print(f"{processor()}, one core; " + ", ".join(" ".join(pair) for pair in here.items()))
    if comparisons:
        note = f" {benchmark.note}" if benchmark.note else ""
        console.print(
            f"Medians (min - max) of {rounds} rounds; ratios are taken within each round.{note}"
        )
        console.print(comparison_table(comparisons, benchmark.aside))
    for part in benchmark.parts:
        if measured[part.key]:
            console.print(part.table(measured[part.key]))
    for name, reason in skipped.items():
        console.print(f"{name} is skipped, {reason}", markup=False)
    if arguments.json is not None:
        data = {
            "cpu": processor(),
            "versions": here,
            "rounds": rounds,
            "rows": to_json(comparisons),
            **to_json(measured),
        }
        arguments.json.write_text(
            json.dumps({**data, "skipped": skipped}, indent=2) + "\n", encoding="utf-8"
        )
