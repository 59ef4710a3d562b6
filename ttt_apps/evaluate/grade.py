"""``evaluate.py grade FOLDER --task NAME``: grade submissions, each in a process with limits."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ttt_apps.cli import options as cli
from ttt_envs.core.checks import Refusal
from ttt_envs.core.files import make_subfolder, write_bytes
from ttt_envs.core.parallel import map_blocks
from ttt_eval.grading import Grade, GradedTask, grade, load_task
from ttt_eval.reports.checks import grade_report
from ttt_eval.reports.formats import command
from ttt_eval.reports.page import write_report

TABLE = "grades.csv"


@dataclass(frozen=True)
class GradeSubmissions(cli.JsonOptions, cli.OutputOptions):
    """Grade submissions: files of Python with one function, as the task says.

    Each runs in a process of its own with limits of time, memory and output, and is judged by exact
    values. This is no sandbox: grade what you would run.
    """

    folder: Annotated[Path, tyro.conf.Positional] = tyro.MISSING
    """folder of submissions, or one file"""
    task: str = tyro.MISSING
    """minimax, mcts, value-iteration, gae, q-learning, monte-carlo, ppo, alpha-zero; or a folder
    with task.toml"""
    jobs: cli.Count = 1
    """number of submissions at a time, -1 for one per core"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """write a page for each submission, and grades.csv"""

    def run(self) -> None:
        """Grade, print, and write the files.

        Raises:
            ValueError: there are no submissions, no such task, or files are there already.
        """
        task = load_task(self.task)
        paths = sorted(self.folder.glob("*.py")) if self.folder.is_dir() else [self.folder]
        if not all(path.is_file() for path in paths) or not paths:
            raise Refusal(f"{self.folder} has no submissions: name a folder with files of Python")
        if self.out is not None:
            pages = [self.out / f"{path.stem}.html" for path in paths]
            self.check_new_file(self.out / TABLE, *pages)
        grades: dict[int, Grade] = {}
        with cli.bar("submissions") as update:
            for number, result in map_blocks(grade, [(path, task) for path in paths], self.jobs):
                grades[number] = result
                update(len(grades), len(paths), result.file)
        results = [grades[number] for number in range(len(paths))]
        self.show(
            [result.to_dict() for result in results],
            cli.rows_table([_row(result) for result in results], task.title),
        )
        if self.out is not None:
            self._write(self.out, results, task)

    def _write(self, out: Path, results: list[Grade], task: GradedTask) -> None:
        make_subfolder(out, "")
        line = command("evaluate.py", "grade", str(self.folder), task=self.task, out=out)
        for result in results:
            page = out / f"{Path(result.file).stem}.html"
            write_report(page, grade_report(result, task, line))
        text = io.StringIO()
        table = csv.DictWriter(text, [*_row(results[0]), *task.weights], lineterminator="\n")
        table.writeheader()
        for result in results:
            rows = () if result.check is None else result.check.rows
            statuses = {row.name: row.status for row in rows if row.name in task.weights}
            table.writerow(_row(result) | statuses)
        write_bytes(out / TABLE, text.getvalue().encode())
        cli.print_status(f"written: {out / TABLE}, and a page for each submission beside it")


def _row(result: Grade) -> dict[str, object]:
    return {
        "file": result.file,
        "points": round(result.points, 2),
        "score": round(result.score, 4),
        "s": result.seconds,
        "remark": result.remark,
    }
