"""Pages of checks, and of grades of submissions."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

import numpy as np

from ttt_envs.core.files import write_json
from ttt_eval.checks import Check
from ttt_eval.grading import COLUMNS, Grade, GradedTask
from ttt_eval.reports import parts
from ttt_eval.reports.page import (
    BoardRow,
    Cell,
    Parts,
    Report,
    Text,
    Tile,
    words,
    write_report,
)
from ttt_eval.store.result_store import Data, write_csv

TABLE = "grades.csv"
GRADES = "grades.json"
NOTES = "teacher"
"""Folder of the pages for the teacher."""
MAX_BOARDS = 2
"""Maximum number of boards on the page of a submission."""


def check_report(title: str, check: Check, line: str) -> Report:
    """Return the page of a check: its rows, and the positions that failed rows show.

    Args:
        title: of the page.
        check: the check.
        line: the command that writes the page.
    """
    rows = [(row.name, row.measured, row.status, row.limit) for row in check.rows]
    boards = [
        BoardRow([parts.noted_board(*board) for board in row.evidence], row.name)
        for row in check.rows
        if row.evidence
    ]
    sections: dict[str, Parts] = {
        "": [parts.table("check", rows, subject=check.subject)],
        "Positions": boards,
        "Reproduction": [Text(words("command of the page"), [line])],
    }
    return Report(title, check.verdict, [], sections)


def grade_report(grade: Grade, task: GradedTask) -> Report:
    """Return the page of a submission for its student: its points by row of the rubric, and
    positions with mistakes.

    Args:
        grade: of the submission.
        task: what it was asked.
    """
    rubric = [
        (Cell(task.describe(name), grade.results[name]), points, task.worth(name))
        for name, points in grade.earned.items()
    ]
    sections: dict[str, Parts] = {"": [parts.table("rubric", rubric, unjudged=task.unjudged)]}
    rows = () if grade.check is None else grade.check.rows
    boards = [
        BoardRow(
            [parts.noted_board(*row.evidence[0])],
            f"{task.describe(row.name)}: {_board_text(row.evidence[0].position)}",
        )
        for row in rows
        if row.evidence and row.name in {*task.needs, *task.weights}
    ]
    if boards:
        sections["Positions"] = [Text(words("mistakes")), *boards[:MAX_BOARDS]]
    tiles = [Tile("points", f"{grade.points:.1f} of {task.points:g}")]
    return Report(f"{grade.file}: {task.title}", grade.remark, tiles, sections)


def _board_text(text: str) -> str:
    """Return a position as the argument of a submission."""
    stones = {".": 0, text[-1]: 1}
    return f"board = {[stones.get(mark, -1) for mark in text[:-2].replace('/', '')]}"


def write_grades(
    folder: Path, grade: Grade, grades: Sequence[Data], task: GradedTask, line: str
) -> None:
    """Write the pages of a submission: ``NAME.html`` for its student, and ``teacher/NAME.html``
    with all that was measured; ``grades.csv``, with the points of all in total and by row of the
    rubric; and ``grades.json``.

    Args:
        folder: of the files, made if it is missing.
        grade: of the submission.
        grades: of all submissions so far, by :meth:`Grade.to_dict`.
        task: what they were asked.
        line: the command that writes the files.
    """
    page = Path(f"{grade.file.removesuffix('.py')}.html")
    write_report(folder / page, grade_report(grade, task))
    notes = check_report(grade.file, grade.check or Check(task.title, ()), line)
    write_report(folder / NOTES / page, notes._replace(verdict=grade.remark))
    rows = sorted(grades, key=itemgetter("file"))
    points = (
        (*(row[name] for name in COLUMNS), *np.round([*row["earned"].values()], 2).tolist())
        for row in rows
    )
    write_csv(folder / TABLE, [[*COLUMNS, *task.weights], *points])
    write_json(folder / GRADES, rows)
