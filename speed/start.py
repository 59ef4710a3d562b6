"""Startup cost of a new process before its work: cold, without any cached machine code, and warm.

Every row runs in a new process for every round: CPU seconds, user and system, including its
children. *Cold* has an empty folder of machine code; *warm* has the folder of a run in which every
kernel was compiled. The rows "after an edit" run in a copy of the sources: a comment in a file
without kernels, then the body of one kernel.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import psutil
import tyro
from measuring import Spread
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from ttt_envs.core.jit import INTERPRET
from ttt_eval.store.cost import measure_usage, processor

ROOT = Path(__file__).resolve().parents[1]
GAME = """
import gymnasium, ttt_envs
env = gymnasium.make("ttt/TicTacToe-v0", opponent="win-or-block", seat="alternate")
observation, info = env.reset(seed=1)
env.action_space.seed(1)
done = False
while not done:
    action = env.action_space.sample(info["action_mask"])
    observation, reward, terminated, truncated, info = env.step(action)
    done = terminated or truncated
"""
PANELS = """
from ttt_apps.explorer.api import ExplorerApi
from ttt_apps.explorer.root import Root
ExplorerApi(Root(None)).warm()
"""
BOARD = """
from ttt_apps.explorer.api import ExplorerApi
from ttt_apps.explorer.root import Root
from ttt_apps.explorer.schemas import ReviewRequest
answers = ExplorerApi(Root(None))
answers.about()
game = {"rows": 3, "columns": 3, "win_length": 3, "skip_chance": 0.0}
answers.review(ReviewRequest.model_validate({"game": game}))
"""
TRAIN = ("train.py", "--quiet", "--overwrite", "--out", "{folder}/run", "--learner", "q-learning")
ROWS: dict[str, tuple[tuple[str, ...], float | None, bool]] = {
    "import ttt_envs": (("-c", "import ttt_envs"), 0.3, False),
    "train.py --help": (("train.py", "--help"), 0.5, False),
    "evaluate.py --help": (("evaluate.py", "--help"), 0.4, False),
    "play.py --help": (("play.py", "--help"), 0.4, False),
    "a first game": (("-c", GAME), 4, True),
    "exploitability random": (("evaluate.py", "--quiet", "exploitability", "random"), 5, True),
    "train.py: a table against random": (TRAIN, 8, True),
    "train.py: a table against itself": ((*TRAIN, "--opponent", "self"), 8, True),
    "explorer: board": (("-c", BOARD), None, True),
    "explorer: all panels": (("-c", PANELS), 20, True),
}
"""Row -> arguments of Python, the goal in CPU seconds, and whether the goal is for cold minus warm.
"""
NO_KERNEL = "learners/naive_mc.py"
KERNEL = "ttt_envs/agents/simple.py"
"""Files in which a comment, and the body of one kernel, are edited."""


@dataclass(frozen=True)
class Start:
    """Measure CPU seconds of new processes, cold and warm, beside the goals."""

    rounds: int = 3
    """number of repetitions of every row"""
    only: Annotated[str, tyro.conf.arg(metavar="ROW,ROW,...")] = ""
    """rows by parts of their names; default: all"""
    json: Path | None = None
    """write all measurements to a file"""


def measure(
    arguments: tuple[str, ...], folder: Path, root: Path = ROOT, *, compiled: bool = False
) -> float:
    """Return CPU seconds of a process with machine code and tables in ``folder``; every kernel may
    be compiled.
    """
    cache = {"NUMBA_CACHE_DIR": str(folder / "numba"), "TTT_ENVS_CACHE": str(folder / "tables")}
    command = [
        sys.executable,
        *(argument.replace("{folder}", str(folder)) for argument in arguments),
    ]
    environment = {
        **os.environ,
        **cache,
        INTERPRET: "0" if compiled else "1",
        "PYTHONPATH": str(root),
    }
    with contextlib.chdir(root):
        usage = measure_usage(command, environment)
    return usage.user_s + usage.system_s


def measure_row(arguments: tuple[str, ...], goal_is_beyond: bool) -> tuple[float | None, float]:
    """Return CPU seconds cold, None where no machine code is used, and warm."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cold = measure(arguments, folder)
        if goal_is_beyond:
            measure(arguments, folder, compiled=True)
        return cold if goal_is_beyond else None, measure(arguments, folder)


def measure_edits() -> dict[str, float]:
    """Return CPU seconds of a compiled first game, warm and after edits of a copy of the
    sources.
    """
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "copy")
        folder = Path(name)
        for package in ("ttt_envs", "baselines", "learners", "ttt_eval"):
            shutil.copytree(
                ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__")
            )
        play = functools.partial(measure, ("-c", GAME), folder, root, compiled=True)
        play()
        times = {"a compiled game, warm": play()}
        with (root / NO_KERNEL).open("a") as file:
            file.write("\n# a comment\n")
        times["after an edit of a file without its kernels"] = play()
        source = (root / KERNEL).read_text()
        edited = re.sub(
            r"(def _win_or_block\((?:.|\n)*?\"\"\"(?:.|\n)*?\"\"\"\n)",
            r"\1    _ = len(cells)\n",
            source,
            count=1,
        )
        assert edited != source
        (root / KERNEL).write_text(edited)
        times["after an edit of one kernel"] = play()
        return times


def main(options: Start) -> None:
    """Measure and print."""
    rows = {
        name: row
        for name, row in ROWS.items()
        if any(part in name for part in options.only.split(","))
    }
    table = Table("row", "cold", "warm", "cold - warm", "goal", box=MARKDOWN)
    figures: dict[str, list[list[float | None]]] = {name: [] for name in rows}
    for _ in range(options.rounds):  # interleaved, so that a slow moment affects all rows
        for name, (arguments, _, beyond) in rows.items():
            figures[name].append(list(measure_row(arguments, beyond)))
    for name, (_, goal, beyond) in rows.items():
        warm = Spread.of(round_[1] for round_ in figures[name] if round_[1] is not None)
        if beyond:
            cold = Spread.of(round_[0] for round_ in figures[name] if round_[0] is not None)
            more = Spread.of(a - b for a, b in figures[name] if a is not None and b is not None)
            table.add_row(
                name,
                str(cold),
                str(warm),
                str(more),
                "" if goal is None else f"<= {goal:g} beyond warm",
            )
        else:
            table.add_row(name, "", str(warm), "", f"<= {goal:g}")
    if not options.only:
        for name, seconds in measure_edits().items():
            table.add_row(name, "", f"{seconds:.2f}", "", "")
    Console(width=200).print(
        f"CPU seconds, median (range) of {options.rounds} rounds; {processor()}", table
    )
    if options.json is not None:
        options.json.write_text(
            json.dumps({"cpu": processor(), "load": psutil.getloadavg(), "rows": figures})
        )


if __name__ == "__main__":
    main(tyro.cli(Start))
