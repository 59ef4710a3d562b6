"""``evaluate.py compare RUN RUN...``: a page that shows runs side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ttt_apps.cli import TrustOptions, count_bar, print_output


@dataclass(frozen=True)
class Compare(TrustOptions):
    """Write a page that shows runs of one game side by side.

    It has their learning curves, their exact results against each other, their first moves, the positions in which the
    two best differ most, their costs, and the settings in which they differ. An unfinished run plays as its last
    checkpoint does.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = ()
    """run directories"""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE.html")] = Path("runs", "compare.html")
    """the page"""

    def run(self) -> None:
        """Compute and write.

        Raises:
            ValueError: no runs or too many, a folder without a run, a damaged one, or runs of different games.
        """
        from ttt_eval.reports.page import write_report
        from ttt_eval.reports.runs import read_common_game, read_runs, runs_report

        if self.out.suffix != ".html":
            raise ValueError(f"--out {self.out} is no page: end its name in .html")
        read_common_game(self.runs)  # refuses before a bar is drawn
        with count_bar("exact results") as progress:
            result = read_runs(self.out, self.runs, progress=progress)
        print_output(f"a page to look at: {write_report(self.out, runs_report(result))}")
