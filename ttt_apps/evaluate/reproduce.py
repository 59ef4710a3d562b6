"""``evaluate.py reproduce NAME``: reproduce a published table or figure, in a checkout."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ttt_apps.cli import options as cli
from ttt_envs.agents.specs import load_object
from ttt_envs.core.checks import Refusal, find_named
from ttt_envs.core.jit import compile_at_once
from ttt_eval.reports.plots import check_pictures
from ttt_eval.store.versions import make_provenance

CHECKOUT = Path(__file__).parents[2]
"""Root folder of the checkout, if this package is in one."""


@dataclass(frozen=True)
class Reproduce(cli.JsonOptions, cli.OutputOptions, cli.WorkOptions):
    """Reproduce a published table or figure: a table, figures, and whether the claims of the source
    hold.

    Studies that measure time use one process, whatever the number of workers.
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = tyro.MISSING
    """name of the study, of those of evaluate.py list studies"""
    quick: cli.Flag = False
    """a small form in under a minute, which says what it leaves out"""
    out: Path | None = None
    """folder for table.md, result.json and figures; default: runs/reproduce/NAME"""

    source: tuple[Path, ...] = ()
    """folders of Git repositories of others, whose data a study reads as of the revision that is
    checked out
    """

    def run(self) -> None:
        """Do the missing work, write and print.

        Raises:
            ValueError: this is no checkout, an unknown name, an invalid number of workers, no
                matplotlib, or a source for a study that reads none.
            Stopped: an interrupt; completed work is stored.
        """
        path = find_named("study", self.name, load_studies())
        check_pictures()
        study = load_object(path)()
        if self.source:
            study.use_checkouts(self.source)
        folder = self.out or Path(
            "runs", "reproduce", f"{self.name}{'-quick' if self.quick else ''}"
        )
        self.check_folder(folder, {"study": self.name, "quick": self.quick}, {})
        # compiled at once: the cost of moves and learning is that of machine code
        with compile_at_once(), cli.bar(self.name, folder) as progress:
            report, paths = load_object("studies.frame:reproduce")(
                study,
                self.name,
                folder,
                make_provenance(),
                quick=self.quick,
                jobs=self.workers(),
                progress=progress,
            )
        if self.json:
            print(next(path for path in paths if path.suffix == ".json").read_text("utf-8"), end="")
            return
        cli.print_output(f"{study.title}: {study.source}")
        for rows in (report.table(), report.claims_table()):
            cli.print_output(cli.texts_table(rows))
        if self.quick and study.left_out:
            cli.print_output(f"quick form: {study.left_out}")
        cli.print_status(f"written: {', '.join(map(str, paths))}")


def load_studies() -> dict[str, str]:
    """Return the studies of this checkout, "module:class" by name.

    Raises:
        ValueError: the package is installed without a checkout.
    """
    if not (CHECKOUT / "studies" / "frame.py").is_file():
        raise Refusal(
            "the studies are not installed: run `python evaluate.py reproduce` in a checkout of "
            "the project, or in its unpacked source distribution"
        )
    if str(CHECKOUT) not in sys.path:
        sys.path.append(str(CHECKOUT))
    return dict(load_object("studies:STUDIES"))
