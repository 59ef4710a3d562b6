"""Pages of checks, and of grades of submissions."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from ttt_envs.core.files import write_bytes
from ttt_eval.checks import Check
from ttt_eval.grading import Grade, GradedTask
from ttt_eval.reports import parts
from ttt_eval.reports.page import (
    BoardRow,
    DataTable,
    Parts,
    Report,
    Text,
    Tile,
    words,
    write_report,
)

TABLE = "grades.csv"
MAX_BOARDS = 2
"""Maximum number of boards on the page of a submission."""


def check_report(title: str, check: Check, line: str) -> Report:
    """Return the page of a check: its rows, and the positions that failed rows show.

    Args:
        title: of the page.
        check: the check.
        line: the command that writes the page.
    """
    sections: dict[str, Parts] = {"": [_measurements(check)], "Positions": _boards(check)}
    return Report(title, check.verdict, [], {**sections, **_reproduction(line)})


def grade_report(grade: Grade, task: GradedTask, line: str) -> Report:
    """Return the page of a submission: its points by row of the rubric, its likeliest mistake, and
    what was measured.

    Args:
        grade: of the submission.
        task: what it was asked.
        line: the command that writes the page.
    """
    rubric = [
        (task.texts.get(name, name), points, task.worth(name))
        for name, points in grade.earned.items()
    ]
    sections: dict[str, Parts] = {"": [parts.table("rubric", rubric)]}
    if grade.check is not None:
        boards = [row._replace(boards=row.boards[:1]) for row in _boards(grade.check)[:MAX_BOARDS]]
        sections["Positions"] = boards
        sections["For the teacher"] = [_measurements(grade.check)]
    tiles = [Tile("points", f"{grade.points:.1f} of {task.points:g}")]
    title = f"{grade.file}: {task.title}"
    return Report(title, grade.remark, tiles, {**sections, **_reproduction(line)})


def write_grades(folder: Path, grades: Sequence[Grade], task: GradedTask, line: str) -> None:
    """Write the page of the last submission, and ``grades.csv`` with the points of all, in total
    and by row of the rubric.

    Args:
        folder: of the files, made if it is missing.
        grades: of the submissions so far.
        task: what they were asked.
        line: the command that writes them.
    """
    page = (folder / grades[-1].file).with_suffix(".html")
    write_report(page, grade_report(grades[-1], task, line))
    text = StringIO()
    table = csv.DictWriter(text, [*grades[0].summary(), *task.weights], lineterminator="\n")
    table.writeheader()
    for grade in sorted(grades, key=lambda grade: grade.file):
        table.writerow({**grade.summary(), **grade.earned})
    write_bytes(folder / TABLE, text.getvalue().encode("utf-8", "backslashreplace"))


def _boards(check: Check) -> list[BoardRow]:
    rows = [row for row in check.rows if row.evidence]
    return [
        BoardRow([parts.noted_board(*board) for board in row.evidence], row.name) for row in rows
    ]


def _measurements(check: Check) -> DataTable:
    rows = [(row.name, row.measured, row.status, row.limit) for row in check.rows]
    return parts.table("check", rows, subject=check.subject)


def _reproduction(line: str) -> dict[str, Sequence[Text]]:
    return {"Reproduction": [Text(words("command of the page"), [line])]}
