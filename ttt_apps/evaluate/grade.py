"""``evaluate.py grade FOLDER --task NAME``: grade submissions, each in a process with limits."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import tyro

from ttt_apps.cli import options as cli
from ttt_envs.core.checks import Refusal, name_place
from ttt_envs.core.files import read_json, write_json
from ttt_envs.core.parallel import map_blocks
from ttt_eval.grading import COLUMNS, Grade, GradedTask, grade, hash_inputs, load_task
from ttt_eval.reports.checks import GRADES, NOTES, TABLE, write_grades
from ttt_eval.reports.formats import command
from ttt_eval.store.result_store import Data


@dataclass(frozen=True)
class GradeSubmissions(cli.JsonOptions, cli.OutputOptions):
    """Grade submissions: files of Python with one function, as the task says.

    Each runs in a process of its own with limits of time and memory, and is judged by exact
    values. This is no sandbox: grade what you would run.
    """

    folder: Annotated[Path, tyro.conf.Positional] = tyro.MISSING
    """folder of submissions: NAME.py, NAME/solution.py, or folders with one file of Python each;
    or one file"""
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
        grades = {} if self.out is None else self.read_kept(self.out, files, task)
        blocks = [(path, task, file) for file, path in files.items() if file not in grades]
        number = len(grades) + len(blocks)
        begin = time.monotonic()
        line = command("evaluate.py", "grade", str(self.folder), task=self.task, out=self.out)
        try:
            with cli.bar("submissions", self.out) as update:
                for done, (_, result) in enumerate(map_blocks(grade, blocks, self.jobs), 1):
                    grades[result.file] = result.to_dict()
                    left_min = (len(blocks) / done - 1) * (time.monotonic() - begin) / 60
                    cli.warn(
                        f"{done} of {len(blocks)}, about {left_min:.0f} min left: {result.file}: "
                        f"{result.points:g} of {task.points:g}: {result.remark}"
                    )
                    if self.out is not None:
                        write_grades(self.out, result, [*grades.values()], task, line)
                    update(len(grades), number, result.file)
        finally:
            self.report([grades[file] for file in sorted(grades)], task)

    def read_kept(self, out: Path, files: Mapping[str, Path], task: GradedTask) -> dict[str, Data]:
        """Return the grades in the folder of an earlier command that still hold, by file.

        Args:
            out: the folder, which is made if it is missing.
            files: the submissions by name.
            task: what they are asked.

        Raises:
            ValueError: the folder has other files, or its grades are damaged.
        """
        path = out / GRADES
        if self.overwrite or not path.exists():
            self.check_new_file(*out.glob("*"))
            write_json(path, [])
        hashes = {file: hash_inputs(source, task) for file, source in files.items()}
        [(task_hash, _), *_] = hashes.values()
        grades: dict[str, Data] = {}
        with name_place(f"{path} has no grades"):
            for row in read_json(path):
                stored = msgspec.convert({**row, "check": None}, Grade)
                if stored.hashes == hashes.get(stored.file, [task_hash, stored.hashes[1]]):
                    grades[stored.file] = row
        if grades:
            cli.warn(f"kept: {len(grades)} grades whose files and rubric have not changed")
        return grades

    def report(self, grades: Sequence[Data], task: GradedTask) -> None:
        """Print the grades."""
        if not all(row["is_filtered"] for row in grades):
            cli.warn(
                "this system has no filter of system calls: submissions could start processes and "
                "use the network"
            )
        rows = [{name: row[name] for name in COLUMNS} for row in grades]
        self.show(grades, cli.rows_table(rows, task.title))
        if self.out is not None and not self.json:
            cli.print_status(
                f"written to {self.out}: {TABLE}, NAME.html for students, {NOTES}/NAME.html for you"
            )


def list_submissions(folder: Path) -> dict[str, Path]:
    """Return the submissions in a folder by name: ``NAME.py``, and of other folders the only file
    of Python, else ``NAME/solution.py``, which may be missing; other files too, without points.

    Args:
        folder: the folder, or one submission.

    Raises:
        ValueError: there are none.
    """
    if folder.is_file():
        return {folder.name: folder}
    paths: list[Path] = []
    for entry in sorted(folder.glob("[!._]*")):  # others are of the system
        sources = [*entry.glob("*.py")]
        chosen = sources[0] if len(sources) == 1 else entry / "solution.py"
        paths.append(chosen if entry.is_dir() else entry)
    if not any(path.suffix == ".py" and path.is_file() for path in paths):
        raise Refusal(f"{folder} has no submissions: name a folder of NAME.py or NAME/solution.py")
    return {path.relative_to(folder).as_posix(): path for path in paths}
