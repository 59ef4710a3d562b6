"""``evaluate.py plot RUN...``: learning curves over seeds, for a paper."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from ttt_apps.cli import JsonOptions, new_table, print_status, print_table, warn
from ttt_eval.curve_summaries import COLUMNS, Summary, XAxis, group_curves, summarize_groups, write_csv
from ttt_eval.curves import read_curves
from ttt_eval.metrics import YAxis
from ttt_eval.reports.curves import Scale, draw_summaries
from ttt_eval.reports.formats import number
from ttt_eval.reports.plots import COLUMN_WIDTH, save_for_paper

MIN_WIDTH, MAX_WIDTH = 1.5, 20.0
"""Limits of the width of a figure in inches."""


@dataclass(frozen=True)
class Plot(JsonOptions):
    """Draw learning curves: the median over seeds, and their range; with six or more its 95% interval.

    RUN is a run directory, the folder of a sweep, a folder of runs, or a file of ttt_eval.curves.record with the
    measurements of an agent of yours. Curves with different marks are interpolated between them, over the range that
    all of a group cover.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = tyro.MISSING
    """run directories, sweeps, or files"""
    by: Annotated[str, tyro.conf.arg(metavar="KEY,KEY,...")] = ""
    """settings whose values make a group, such as learner or learner,epsilon; default: all in which runs of a learner
    differ, the seed aside"""
    x: XAxis = "games"
    """games, moves of the learner, or CPU seconds of its training without measurements"""
    y: YAxis = "exploitability"
    """exact measurement; score: wins and half the draws against the opponent of the training"""
    x_scale: Scale = "auto"
    """scale of the x axis; auto: log if it extends over more than a factor of ten"""
    y_scale: Scale = "auto"
    """scale of the y axis, likewise; log is linear below 0.001, so that 0 can be shown, and a score is always linear"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE.pdf|svg|png")] = None
    """write the figure into this file"""
    width: float = COLUMN_WIDTH
    """width of the figure in inches; the default is a column of a page of two"""
    csv: Annotated[Path | None, tyro.conf.arg(metavar="FILE.csv")] = None
    """write the numbers of the figure into this file"""

    def run(self) -> None:
        """Read, summarize, write and print.

        Raises:
            ValueError: no runs, damaged ones, or none with the measurements asked for.
        """
        if not MIN_WIDTH <= self.width <= MAX_WIDTH:
            raise ValueError(f"--width {self.width:g} is no width of a figure: choose {MIN_WIDTH:g} to {MAX_WIDTH:g}")
        groups = group_curves(read_curves(self.runs), [name for name in self.by.replace(",", " ").split() if name])
        summaries, notes = summarize_groups(groups, self.x, self.y)
        for note in notes:
            warn(note)
        if self.out is not None:
            figure = draw_summaries(summaries, self.x, self.y, self.x_scale, self.y_scale)
            save_for_paper(self.out, figure, self.width, len(summaries))
        if self.csv is not None:
            write_csv(self.csv, summaries, self.x, self.y)
        if self.json:
            print(json.dumps(self._to_json(summaries)))
            return
        self._print_ends(summaries)
        written = [str(path) for path in (self.out, self.csv) if path is not None]
        hint = "--out FILE.pdf draws this, --csv FILE.csv writes it"
        print_status(f"written: {', '.join(written)}" if written else hint)

    def _to_json(self, summaries: Sequence[Summary]) -> dict[str, Any]:
        groups = [
            {
                "name": one.name,
                "settings": dict(one.labels),
                "runs": one.runs,
                COLUMNS[self.x]: one.x.tolist(),
                self.y: one.median.tolist(),
                "low": None if one.low is None else one.low.tolist(),
                "high": None if one.high is None else one.high.tolist(),
                "notes": list(one.notes),
            }
            for one in summaries
        ]
        return {"x": self.x, "y": self.y, "groups": groups}

    def _print_ends(self, summaries: Sequence[Summary]) -> None:
        """Print the last point of each group."""
        table = new_table("group", "runs", COLUMNS[self.x], f"median {self.y}", "band", title="at the last common mark")
        for one in summaries:
            ends = "" if one.low is None or one.high is None else f"{number(one.low[-1])} to {number(one.high[-1])}"
            table.add_row(one.name, str(one.runs), f"{one.x[-1]:,.4g}", number(one.median[-1]), ends)
        print_table(table)
