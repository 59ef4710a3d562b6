"""``evaluate.py grade FOLDER --task NAME``: grade submissions, each in a process with limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Annotated

import tyro

from ttt_apps.cli import options as cli
from ttt_envs.core.checks import Refusal
from ttt_envs.core.files import write_json
from ttt_envs.core.parallel import map_blocks
from ttt_eval.grading import (
    Grade,
    GradedTask,
    grade,
    hash_inputs,
    load_task,
    student_of,
    summarize,
)
from ttt_eval.reports.checks import GRADES, NOTES, TABLE, read_grades, write_grades, write_pages
from ttt_eval.reports.formats import command
from ttt_eval.store.result_store import Data

SOLUTION = "solution.py"
"""Name of the file in a folder of a student's own."""


@dataclass(frozen=True)
class GradeSubmissions(cli.JsonOptions, cli.OutputOptions):
    """Grade submissions: files of Python with one function, as the task says.

    Each runs in a process of its own with limits of time and memory, and is judged by exact
    values. This is no sandbox: grade what you would run.
    """

    folder: Annotated[Path, tyro.conf.Positional] = tyro.MISSING
    """folder of submissions, NAME.py or NAME/solution.py; or one file"""
    task: str = tyro.MISSING
    """minimax, mcts, value-iteration, gae, q-learning, monte-carlo, ppo, alpha-zero; or a folder
    with task.toml"""
    jobs: cli.Count = 1
    """number of submissions at a time, -1 for one per core"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """write grades.csv, and pages of each submission for its student and for you. Grades that are
    there already are kept if neither the file nor the rubric has changed"""

    def run(self) -> None:
        """Grade what is new or changed, print all, and write the files.

        Raises:
            ValueError: there are no submissions, no such task, or files are there already.
        """
        task = load_task(self.task)
        files = list_submissions(self.folder)
        grades = self.read_kept(files, task)
        blocks = [
            (path, task, file) for file, path in files.items() if student_of(file) not in grades
        ]
        number = len(grades) + len(blocks)
        try:
            with cli.bar("submissions") as update:
                for _, result in map_blocks(grade, blocks, self.jobs):
                    grades[student_of(result.file)] = result.to_dict()
                    cli.warn(
                        f"{result.file}: {result.points:g} of {task.points:g}: {result.remark}"
                    )
                    self.keep(result, [*grades.values()], task)
                    update(len(grades), number, result.file)
        except KeyboardInterrupt:
            self.report(grades.values(), task)
            text = f"stopped: {len(grades)} of {number} submissions are graded"
            raise cli.Stopped(text) from None
        self.report(grades.values(), task)

    def read_kept(self, files: Mapping[str, Path], task: GradedTask) -> dict[str, Data]:
        """Return the grades in the folder of an earlier command that still hold, by student.

        Args:
            files: the submissions to grade, by name.
            task: what they are asked.

        Raises:
            ValueError: there are other files, or grades of another task that would be lost.
        """
        if self.out is None:
            return {}
        path = self.out / GRADES
        if self.overwrite or not path.exists():
            pages = [self.out / f"{student_of(file)}.html" for file in files]
            self.check_new_file(self.out / TABLE, *pages)
            write_json(path, [])
        hashes = {student_of(file): [*hash_inputs(path, task)] for file, path in files.items()}
        task_hash = next(iter(hashes.values()))[0]
        kept: dict[str, Data] = {}
        for stored in read_grades(path):
            student = student_of(stored["file"])
            if student not in hashes and stored["hashes"][0] != task_hash:
                raise Refusal(
                    f"{path} has a grade of {student} by another task or rubric: grade all "
                    "submissions anew, or name another folder"
                )
            if stored["hashes"] == hashes.get(student, stored["hashes"]):
                kept[student] = stored
        if kept:
            cli.warn(f"kept: {len(kept)} grades of files that have not changed")
        return kept

    def keep(self, result: Grade, grades: Sequence[Data], task: GradedTask) -> None:
        """Write the pages of a grade, and all grades."""
        if self.out is not None:
            line = command("evaluate.py", "grade", str(self.folder), task=self.task, out=self.out)
            write_pages(self.out, result, task, line)
            write_grades(self.out, grades, task)

    def report(self, grades: Iterable[Data], task: GradedTask) -> None:
        """Print the grades."""
        if not all(result["is_filtered"] for result in grades):
            cli.warn(
                "this system has no filter of system calls: submissions could start processes and "
                "use the network"
            )
        results = sorted(grades, key=itemgetter("file"))
        self.show(results, cli.rows_table(map(summarize, results), task.title))
        if self.out is not None and grades:
            cli.print_status(
                f"written to {self.out}: {TABLE}, NAME.html for students, {NOTES}/NAME.html for you"
            )


def list_submissions(folder: Path) -> dict[str, Path]:
    """Return the submissions in a folder by name: ``NAME.py`` and ``NAME/solution.py``.

    Args:
        folder: the folder, or one submission.

    Raises:
        ValueError: there are none, or two of one student.
    """
    if not folder.exists():
        raise Refusal(f"{folder} does not exist: name a folder with files of Python")
    if folder.is_file():
        return {folder.name: folder}
    paths = [*folder.glob("*.py"), *folder.glob(f"*/{SOLUTION}")]
    files = {path.relative_to(folder).as_posix(): path for path in sorted(paths) if path.is_file()}
    if not files:
        raise Refusal(f"{folder} has no submissions: name a folder with files of Python")
    students = {student_of(file): file for file in files}
    if len(students) < len(files):
        names = sorted(files.keys() - students.values())
        raise Refusal(f"{folder} has two files of one student: remove {names[0]} or the other one")
    others = {path.name for path in folder.iterdir()} - {file.partition("/")[0] for file in files}
    if others:
        cli.warn(f"not graded, because no NAME.py and no NAME/{SOLUTION}: {sorted(others)}")
    return files
