"""CPU time of trainings that are watched on a page, beside the same trainings alone.

Both sides alternate in new processes, and the ratio is taken within each round; a page asks for the run once a second.
CPU seconds, user and system, are those of the training's process in its phase of training, from ``cost.json``: the
page's own process is listed apart. All processes share one core. On a busy machine the ratio is noisy; the share of the
calls of ``ttt_apps.live`` in the CPU seconds of a watched training is not.

    python benchmarks/watch.py [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import psutil
import tyro
from measuring import Spread
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from ttt_eval.cost import processor
from ttt_eval.run_files import RunDirectory

ROOT = Path(__file__).resolve().parents[1]
ROWS: dict[str, tuple[str, ...]] = {
    "naive-mc": ("--opponent=random", "--games=3000000"),
    "q-learning": ("--opponent=self", "--skip-chance=0.25", "--games=1000000"),
    "q-net": ("--opponent=random", "--games=150000"),
    "alpha-zero": ("--opponent=self", "--games=10000"),
    "sb3-dqn": ("--opponent=random", "--games=3000"),
}
"""Learner -> options of a training of a few seconds."""
TRAIN = """
import sys, time
from ttt_apps import live, runs, train
spent = 0.0
def timed(method):
    def call(*arguments):
        global spent
        began = time.thread_time()
        found = method(*arguments)
        spent += time.thread_time() - began
        return found
    return call
for name in ("begin", "update", "show_learner"):
    setattr(live.LiveRun, name, timed(getattr(live.LiveRun, name)))
train.main(sys.argv[1:])
print(f"spent={spent}", file=sys.stderr)
"""
"""A training that prints the CPU seconds of its calls for those who watch."""


@dataclass(frozen=True)
class Watch:
    """Measure the CPU time of trainings, alone and watched."""

    rounds: int = 5
    """number of repetitions of every row"""
    only: Annotated[str, tyro.conf.arg(metavar="NAME,...")] = ""
    """learners; default: all"""
    json: Path | None = None
    """write all measurements to a file"""


@dataclass(frozen=True)
class Trained:
    """CPU seconds of a training, of its calls for those who watch, and of the page's process; the page's answers."""

    cpu_s: float
    live_cpu_s: float
    page_cpu_s: float = 0.0
    answers: int = 0


def train(name: str, *, watched: bool) -> Trained:
    """Train in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["-c", TRAIN, "--learner", name, *ROWS[name], "--out", folder, "--overwrite", "--no-report"]
        process = subprocess.Popen(
            [sys.executable, *words, *(["--watch", "--no-browser"] if watched else [])],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1] if watched else ""
        asked: list[float] = []
        asking = threading.Thread(target=ask, args=[process, address, asked])
        if watched:
            asking.start()
        error = process.communicate()[1]
        if watched:
            asking.join()
        if process.returncode:
            raise RuntimeError(error)
        spent = RunDirectory(folder).read_cost()["training"]
    own = float(error.rpartition("spent=")[2])
    return Trained(spent["cpu_user_s"] + spent["cpu_system_s"], own, max(asked, default=0.0), len(asked))


def ask(process: subprocess.Popen[str], address: str, asked: list[float]) -> None:
    """Ask as a page does until the training ends; collect the CPU seconds of the page's process so far."""
    url, _, token = address.partition("?token=")
    headers = {"content-type": "application/json", "x-ttt-token": token}
    version = ""
    while process.poll() is None:
        with suppress(OSError, psutil.Error):
            body = json.dumps({"version": version}).encode()
            with urllib.request.urlopen(urllib.request.Request(f"{url}api/runs", body, headers)) as answer:
                run = json.load(answer)["run"]
            version = "" if run is None else run["version"]
            times = [child.cpu_times() for child in psutil.Process(process.pid).children()]
            asked.append(sum(each.user + each.system for each in times))
        time.sleep(1)


def table(found: dict[str, Sequence[tuple[Trained, Trained]]]) -> Table:
    """Return medians and ranges of the rounds."""
    heads = ("alone, CPU s", "watched, CPU s", "watched / alone", "calls / watched", "page, CPU s")
    shown = Table("learner", *heads, box=MARKDOWN)
    for name, rounds in found.items():
        columns = (
            Spread.of(alone.cpu_s for alone, _ in rounds),
            Spread.of(watched.cpu_s for _, watched in rounds),
            Spread.of(watched.cpu_s / alone.cpu_s for alone, watched in rounds),
            Spread.of(watched.live_cpu_s / watched.cpu_s for _, watched in rounds),
            Spread.of(watched.page_cpu_s for _, watched in rounds),
        )
        shown.add_row(name, *map(str, columns))
    return shown


def main() -> None:
    """Measure and print."""
    options = tyro.cli(Watch, description=__doc__)
    names = options.only.split(",") if options.only else list(ROWS)
    for name in names:
        if name not in ROWS:
            raise SystemExit(f"there is no row {name}: choose among {', '.join(ROWS)}")
    found: dict[str, list[tuple[Trained, Trained]]] = {name: [] for name in names}
    for number in range(options.rounds):
        for name in names:
            order = (False, True) if number % 2 == 0 else (True, False)
            done = {watched: train(name, watched=watched) for watched in order}
            found[name].append((done[False], done[True]))
            print(f"round {number + 1}, {name}: {done[True].cpu_s / done[False].cpu_s:.4f}", file=sys.stderr)
    Console(width=120).print(f"{processor()}, medians of {options.rounds} rounds (lowest - highest)\n", table(found))
    if options.json is not None:
        content = {name: [list(map(asdict, each)) for each in rounds] for name, rounds in found.items()}
        options.json.write_text(json.dumps({"processor": processor(), "rows": content}, indent=2))


if __name__ == "__main__":
    main()
