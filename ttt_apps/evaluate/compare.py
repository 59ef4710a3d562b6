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
    """run directories, two or more"""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE.html")] = Path("runs", "compare.html")
    """the page"""

    def run(self) -> None:
        """Compute and write.

        Raises:
            ValueError: fewer than two runs or too many, no run, a damaged one, or runs of different games.
        """
        from ttt_eval.reports.side_by_side import read_common_game, write_side_by_side

        if self.out.suffix != ".html":
            raise ValueError(f"--out {self.out} is no page: end its name in .html")
        read_common_game(self.runs)  # refuses before a bar is drawn
        with count_bar("exact results") as progress:
            page = write_side_by_side(self.out, self.runs, progress)
        print_output(f"a page to look at: {page}")
