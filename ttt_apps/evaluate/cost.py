"""``evaluate.py cost RUN...``: cost of runs, repeated in separate processes."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table

from ttt_apps.cli import Count, JsonOptions, TrustOptions, new_table, print_table, progress_bar
from ttt_apps.train_subprocess import measure_training
from ttt_eval.cost import COST_KEYS, Usage
from ttt_eval.run_files import RunDirectory


@dataclass(frozen=True)
class Cost(JsonOptions, TrustOptions):
    """Repeat runs in separate processes, each beside one that sets up the same and plays no game, and print their cost.

    A repeated run learns the same, from the start, in a temporary folder.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = tyro.MISSING
    """run directories"""
    repeats: Count = 3
    """number of repetitions of each run"""
    games: Count | None = None
    """number of games to play, in place of the run's own number"""

    def run(self) -> None:
        """Repeat, measure and print.

        Raises:
            ValueError: no runs, folders without runs, numbers below 1.
        """
        for name in ("repeats", "games"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name} {value} measures nothing: choose 1 or more")
        configs = {run: RunDirectory(run).read_training() for run in self.runs}
        measured: dict[str, dict[str, Any]] = {}
        with progress_bar() as bar:
            task = bar.add_task("repeating", total=2 * self.repeats * len(configs))
            for run, config in configs.items():
                games = self.games or config["games"]
                kinds: dict[str, list[Usage]] = {"run": [], "set_up": []}
                for _ in range(self.repeats):
                    for kind, number in (("set_up", 0), ("run", games)):  # by turns: a slow moment affects both
                        kinds[kind].append(measure_training({**config, "games": number}))
                        bar.advance(task)
                measured[str(run)] = {
                    "learner": config["learner"],
                    "games": games,
                    **{kind: _medians(usages) for kind, usages in kinds.items()},
                }
        if self.json:
            print(json.dumps(measured))
            return
        print_table(_table(measured))


def _medians(usages: Iterable[Usage]) -> dict[str, dict[str, float]]:
    columns = dict(zip(COST_KEYS, zip(*usages, strict=True), strict=True))
    return {
        name: {"median": statistics.median(values), "low": min(values), "high": max(values)}
        for name, values in columns.items()
    }


def _table(measured: dict[str, dict[str, Any]]) -> Table:
    title = "medians: CPU and wall seconds, peak resident memory; the games' own cost is the part above set-up"
    table = new_table("run", "games", "user, s", "system, s", "wall, s", "RSS, MiB", title=title)
    for run, data in measured.items():
        total, alone = ({name: data[kind][name]["median"] for name in COST_KEYS} for kind in ("run", "set_up"))
        above = {name: total[name] - alone[name] for name in COST_KEYS}
        per_game = 1e6 * (above["cpu_user_s"] + above["cpu_system_s"]) / data["games"]
        for title, games, row in (
            (run, f"{data['games']:,}", total),
            ("  set-up alone", "0", alone),
            ("  above set-up", f"{per_game:.3g} us each", above),
        ):
            memory = f"{row['peak_rss_bytes'] / 2**20:,.0f}"
            table.add_row(title, games, *(f"{row[name]:.2f}" for name in COST_KEYS[:3]), memory)
    return table
