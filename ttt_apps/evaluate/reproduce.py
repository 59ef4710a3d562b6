"""``evaluate.py reproduce NAME``: reproduce a published table or figure, in a checkout."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich import box
from rich.table import Table
from rich.text import Text

from ttt_apps.cli import JsonOptions, WorkOptions, count_bar, print_output, print_status, print_table, report_interrupt
from ttt_apps.versions import make_provenance
from ttt_envs.agents.specs import load_object
from ttt_envs.core.checks import closest_names
from ttt_envs.core.jit import compile_at_once
from ttt_eval.reports.plots import check_pictures
from ttt_eval.result_store import UNITS

CHECKOUT = Path(__file__).parents[2]
"""Folder of a checkout, where this package is one's."""


@dataclass(frozen=True)
class Reproduce(JsonOptions, WorkOptions):
    """Reproduce a published table or figure: a table, figures, and whether the claims of the source hold.

    Studies that measure time use one process, whatever the number of workers.
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = ""
    """name of the study; without a name, list all"""
    quick: tyro.conf.FlagCreatePairsOff[bool] = False
    """a small form in under a minute, which says what it leaves out"""
    out: Path | None = None
    """folder for table.md, result.json and figures; default: runs/reproduce/NAME"""
    fresh: tyro.conf.FlagCreatePairsOff[bool] = False
    """repeat all work, including that of an earlier call that was stopped"""

    def run(self) -> None:
        """Do the missing work, write and print.

        Raises:
            ValueError: this is no checkout, an unknown name, an invalid number of workers, no matplotlib.
            Stopped: an interrupt; completed work is stored.
        """
        studies = load_studies()
        if not self.name:
            _list(studies)
            return
        if self.name not in studies:
            raise ValueError(f"there is no study {self.name!r}: {closest_names(self.name, studies)}")
        jobs = self.workers()
        check_pictures()
        study = load_object(studies[self.name])()
        folder = self.out or Path("runs", "reproduce", f"{self.name}{'-quick' if self.quick else ''}")
        if self.fresh:
            (folder / UNITS).unlink(missing_ok=True)
        # compiled at once: the cost of moves and learning is that of machine code
        with compile_at_once(), report_interrupt(folder), count_bar(self.name) as progress:
            work = {"quick": self.quick, "jobs": jobs, "progress": progress}
            report, paths = load_object("studies.frame:reproduce")(study, self.name, folder, make_provenance(), **work)
        if self.json:
            print(next(path for path in paths if path.suffix == ".json").read_text("utf-8"), end="")
            return
        title = f"{study.title}: {study.source}"
        _print_table(report.table(), title)
        if report.claims:
            _print_table(report.claims_table(), "")
        if self.quick:
            print_output(f"quick form: {study.left_out}")
        print_status(f"written: {', '.join(map(str, paths))}")


def load_studies() -> dict[str, str]:
    """Return the studies of this checkout, "module:class" by name.

    Raises:
        ValueError: the package is installed without a checkout.
    """
    if not (CHECKOUT / "studies" / "frame.py").is_file():
        raise ValueError(
            "the studies are not installed: run `python evaluate.py reproduce` in a checkout of the project, or in its "
            "unpacked source distribution (pip download --no-deps --no-binary :all: ttt_envs)"
        )
    if str(CHECKOUT) not in sys.path:
        sys.path.append(str(CHECKOUT))
    studies: dict[str, str] = import_module("studies").STUDIES
    return studies


def _print_table(lines: list[list[str]], title: str) -> None:
    table = Table(*lines[0], title=title or None, title_justify="left", show_lines=not title)
    for line in lines[1:]:
        table.add_row(*line)
    print_table(table)


def _list(studies: dict[str, str]) -> None:
    table = Table("name", "study and source", box=box.SIMPLE_HEAD, pad_edge=False)
    for name, path in studies.items():
        study: Any = load_object(path)
        table.add_row(name, Text.assemble(study.title, "\n", (study.source.partition(" (http")[0], "dim")))
    print_table(table)
    print_output("evaluate.py reproduce NAME runs a study, with --quick a small form of it")
