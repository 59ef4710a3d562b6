"""``evaluate.py report``, ``compare`` and ``plot``: pages and figures of runs, finished or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ttt_apps.cli import options as cli
from ttt_apps.training.runs import report_run
from ttt_envs.core.checks import check_range
from ttt_eval.reports.page import write_report
from ttt_eval.reports.parts import draw_summaries
from ttt_eval.reports.plots import COLUMN_WIDTH, save_for_paper
from ttt_eval.reports.runs import read_common_game, read_runs, runs_report
from ttt_eval.runs.curves import (
    COLUMNS,
    Summary,
    XAxis,
    group_curves,
    read_curves,
    summarize_groups,
    write_summaries,
)
from ttt_eval.runs.run_files import RunDirectory
from ttt_eval.store.metrics import YAxis

MIN_WIDTH = 1.5
"""Minimum width of a figure in inches."""
MAX_WIDTH = 20.0
"""Maximum width of a figure in inches."""
OTHERS = ("settings", "notes")
"""Keys of a group that are not in the printed table."""
Runs = Annotated[cli.Paths, tyro.conf.arg(metavar="RUN ...")]


@dataclass(frozen=True)
class RegenerateReports(cli.TrustOptions):
    """Regenerate the report.html of finished runs, each from the files of its run alone.

    An unfinished run is rejected, and so are all that are named beside it: train.py resume RUN
    finishes it.
    """

    runs: Runs = tyro.MISSING
    """run directories"""

    def run(self) -> None:
        """Check all runs, then write.

        Raises:
            ValueError: folders without runs, unfinished runs.
        """
        for run in self.runs:
            RunDirectory(run).check_trained()
        for run in self.runs:
            with cli.status(f"writing the report of {run}"):
                page = report_run(run)
            cli.print_output(f"a report to look at: {page}")


@dataclass(frozen=True)
class Compare(cli.TrustOptions, cli.OutputOptions):
    """Write a page that shows runs of one game side by side, and compares settings over their
    seeds.

    RUN is a run directory, that of ttt_eval.record too, or a folder of them. The page has learning
    curves and, of up to twelve runs, their exact results against each other, their first moves, the
    positions in which the two best differ most, their costs, and the settings in which they differ.
    An unfinished run plays as its last checkpoint does.
    """

    runs: Runs = tyro.MISSING
    """run directories"""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE.html")] = Path("runs", "compare.html")
    """the page"""

    def run(self) -> None:
        """Compute and write.

        Raises:
            ValueError: a folder without a run, a damaged one, runs of different games, or too many
                settings.
        """
        cli.check_page(self.out)
        self.check_new_file(self.out)
        read_common_game(self.runs)  # refuses before a bar is drawn
        with cli.bar("exact results") as progress:
            result = read_runs(self.out, self.runs, progress=progress)
        cli.print_output(f"a page to look at: {write_report(self.out, runs_report(result))}")


@dataclass(frozen=True)
class Plot(cli.JsonOptions, cli.OutputOptions):
    """Draw learning curves: the median over seeds, and their range; with six or more its 95%
    interval.

    RUN is a run directory, that of ttt_eval.record with the measurements of an agent of yours too,
    the folder of a sweep, or a folder of runs. Curves with different log points are interpolated
    between them, over the range that all of a group cover.
    """

    runs: Runs = tyro.MISSING
    """run directories or sweeps"""
    by: Annotated[cli.TextOption, tyro.conf.arg(metavar="KEY,KEY,...")] = ""
    """settings whose values make a group, such as learner or learner,epsilon; default: all in which
    runs of a learner differ, the seed aside"""
    x: XAxis = "games"
    """games, moves of the learner, or CPU seconds of its training without measurements"""
    y: YAxis = "exploitability"
    """exact measurement; score: wins and half the draws against the opponent of the training"""
    linear: cli.Flag = False
    """linear axes; by default an axis over more than a factor of ten is logarithmic"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE.pdf|svg|png")] = None
    """write the figure into this file"""
    width: float = COLUMN_WIDTH
    """width of the figure in inches; the default is a column of a page of two"""
    csv: Annotated[Path | None, tyro.conf.arg(metavar="FILE.csv")] = None
    """write the numbers of the figure into this file"""

    def run(self) -> None:
        """Read, summarize, write and print.

        Raises:
            ValueError: damaged runs, or none with the measurements asked for.
        """
        check_range("--width", self.width, MIN_WIDTH, MAX_WIDTH)
        self.check_new_file(self.out, self.csv)
        groups = group_curves(read_curves(self.runs), self.by.replace(",", " ").split())
        summaries, notes = summarize_groups(groups, self.x, self.y)
        for note in notes:
            cli.warn(note)
        if self.out is not None:
            figure = draw_summaries(summaries, self.x, self.y, not self.linear)
            save_for_paper(self.out, figure, self.width)
        if self.csv is not None:
            write_summaries(self.csv, summaries, self.x, self.y)
        groups_data = [_group_data(group, self.x, self.y) for group in summaries]
        table = cli.rows_table(map(_last_row, groups_data), "medians at the last common log point")
        self.show({"x": self.x, "y": self.y, "groups": groups_data}, table)
        if not self.json:
            files = [str(path) for path in (self.out, self.csv) if path is not None]
            hint = "--out FILE.pdf draws this, --csv FILE.csv writes it"
            cli.print_status(f"written: {', '.join(files)}" if files else hint)


def _last_row(group: Mapping[str, object]) -> dict[str, object]:
    """Return the cells of a group in the table: of each list its last number."""
    return {
        key: part[-1] if isinstance(part, list) else part
        for key, part in group.items()
        if key not in OTHERS
    }


def _group_data(group: Summary, x: XAxis, y: YAxis) -> dict[str, object]:
    """Return a group's curve as JSON-ready data."""
    return {
        "name": group.name,
        "settings": dict(group.labels),
        "runs": group.runs,
        COLUMNS[x]: group.x.tolist(),
        y: group.median.tolist(),
        "low": None if group.low is None else group.low.tolist(),
        "high": None if group.high is None else group.high.tolist(),
        "notes": list(group.notes),
    }
