"""``evaluate.py reproduce NAME``: reproduce a published table or figure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich import box
from rich.table import Table
from rich.text import Text

from ttt_apps.cli import JsonOptions, WorkOptions, count_bar, print_output, print_status, print_table, report_interrupt
from ttt_apps.studies import STUDIES
from ttt_apps.versions import make_provenance
from ttt_envs.agents.specs import load_object
from ttt_envs.core.checks import closest_names
from ttt_envs.core.jit import compile_at_once
from ttt_eval.reports.plots import check_pictures
from ttt_eval.reports.study import write_report_files
from ttt_eval.result_store import UNITS
from ttt_eval.study import RESULT, TABLE, Report, Study, run_units, verdict


@dataclass(frozen=True)
class Reproduce(JsonOptions, WorkOptions):
    """Reproduce a published table or figure: a table, figures, and whether the claims of the source hold.

    Studies that measure time use one process, whatever the number of workers.
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = ""
    """name of the study; without a name, list all"""
    quick: tyro.conf.FlagCreatePairsOff[bool] = False
    """a small form in under a minute, which says what it leaves out"""
    part: str = ""
    """one part of a study with parts, such as alpha-zero; its results are reused for the whole"""
    out: Path | None = None
    """folder for table.md, result.json and figures; default: runs/reproduce/NAME"""
    fresh: tyro.conf.FlagCreatePairsOff[bool] = False
    """repeat all work, including that of an earlier call that was stopped"""

    @compile_at_once()  # the cost of moves and learning is that of machine code
    def run(self) -> None:
        """Do the missing work, write and print.

        Raises:
            ValueError: an unknown name, an invalid number of workers, no matplotlib.
            Stopped: an interrupt; completed work is stored.
        """
        if not self.name:
            _list()
            return
        if self.name not in STUDIES:
            raise ValueError(f"there is no study {self.name!r}: {closest_names(self.name, STUDIES)}")
        workers = self.workers()
        check_pictures()
        study: Study = load_object(STUDIES[self.name])
        if self.part and self.part not in study.parts:
            hint = f"choose {', '.join(study.parts)}" if study.parts else "it has none, leave --part out"
            raise ValueError(f"{self.name} has no part {self.part!r}: {hint}")
        folder = self.out or Path("runs", "reproduce", f"{self.name}{'-quick' if self.quick else ''}")
        if self.fresh:
            (folder / UNITS).unlink(missing_ok=True)
        with report_interrupt(folder), count_bar(self.name) as progress:
            provenance, quick, part = make_provenance(), self.quick, self.part
            results = run_units(study, folder, provenance, quick=quick, part=part, jobs=workers, progress=progress)
        findings = study.analyse(results)
        pictures = write_report_files(study, self.name, findings, folder, self.quick, self.part)
        if self.json:
            print((folder / RESULT).read_text("utf-8"), end="")
            return
        _print_findings(study, findings, self.quick)
        print_status(f"written: {', '.join(map(str, (folder / TABLE, folder / RESULT, *pictures)))}")


def _print_findings(study: Study, findings: Report, quick: bool) -> None:
    table = Table(title=f"{study.title}: {study.source}", title_justify="left")
    head, *rows = findings.table()
    for column in head:
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    print_table(table)
    claims = Table("claim of the source", "verdict", "evidence", show_lines=True)
    for claim in findings.claims:
        holds = "undecided" if claim.holds is None else verdict(claim.holds)
        claims.add_row(claim.words, holds, claim.evidence)
    if findings.claims:
        print_table(claims)
    if quick:
        print_output(f"quick form: {study.left_out}")


def _list() -> None:
    table = Table("name", "study and source", box=box.SIMPLE_HEAD, pad_edge=False)
    for name, path in STUDIES.items():
        study = load_object(path)
        source = re.sub(r" \(https?://[^)]*\)|; https?://[^),]*", "", study.source)  # its page has the address
        table.add_row(name, Text.assemble(study.title, "\n", (source, "dim")))
    print_table(table)
    print_output("evaluate.py reproduce NAME runs a study, with --quick a small form of it")
