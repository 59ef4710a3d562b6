"""``evaluate.py grade FOLDER --task NAME``: grade submissions, each in a process with limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ttt_apps.cli import options as cli
from ttt_envs.core.checks import Refusal
from ttt_envs.core.parallel import map_blocks
from ttt_eval.grading import Grade, GradedTask, grade, load_task
from ttt_eval.reports.checks import TABLE, write_grades
from ttt_eval.reports.formats import command


@dataclass(frozen=True)
class GradeSubmissions(cli.JsonOptions, cli.OutputOptions):
    """Grade submissions: files of Python with one function, as the task says.

    Each runs in a process of its own with limits of time and memory, and is judged by exact
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
        if not self.folder.exists():
            raise Refusal(f"{self.folder} does not exist: name a folder with files of Python")
        paths = sorted(self.folder.glob("*.py")) if self.folder.is_dir() else [self.folder]
        if not all(path.is_file() for path in paths) or not paths:
            raise Refusal(f"{self.folder} has no submissions: name a folder with files of Python")
        if self.folder.is_dir():
            others = {path.name for path in self.folder.iterdir()} - {path.name for path in paths}
            if others:
                cli.warn(f"not graded, because their names do not end in .py: {sorted(others)}")
        if self.out is not None:
            pages = [self.out / f"{path.stem}.html" for path in paths]
            self.check_new_file(self.out / TABLE, *pages)
        blocks = [(path, task) for path in paths]
        grades: list[Grade] = []
        try:
            with cli.bar("submissions") as update:
                for _, result in map_blocks(grade, blocks, self.jobs):
                    grades.append(result)
                    self.keep(grades, task)
                    update(len(grades), len(paths), result.file)
        except KeyboardInterrupt:
            self.report(grades, task)
            text = f"stopped: {len(grades)} of {len(paths)} submissions are graded"
            raise cli.Stopped(text) from None
        self.report(grades, task)

    def keep(self, grades: Sequence[Grade], task: GradedTask) -> None:
        """Print the last grade, and write what there is."""
        result = grades[-1]
        cli.warn(f"{result.file}: {result.points:g} of {task.points:g}: {result.remark}")
        if self.out is not None:
            line = command("evaluate.py", "grade", str(self.folder), task=self.task, out=self.out)
            write_grades(self.out, grades, task, line)

    def report(self, grades: Sequence[Grade], task: GradedTask) -> None:
        """Print the grades."""
        if not all(result.is_filtered for result in grades):
            cli.warn(
                "this system has no filter of system calls: submissions could start processes and "
                "use the network"
            )
        results = sorted(grades, key=lambda result: result.file)
        rows = [result.summary() for result in results]
        self.show([result.to_dict() for result in results], cli.rows_table(rows, task.title))
        if self.out is not None and grades:
            cli.print_status(f"written: {self.out / TABLE}, and a page for each submission")
