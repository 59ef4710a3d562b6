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
from ttt_eval.reports.page import BoardRow, Parts, Report, Text, Tile, words, write_report

TABLE = "grades.csv"


def check_report(title: str, check: Check, line: str) -> Report:
    """Return the page of a check: its rows, and the positions that failed rows show.

    Args:
        title: of the page.
        check: the check.
        line: the command that writes the page.
    """
    return Report(title, check.verdict, [], {**_sections(check), **_reproduction(line)})


def grade_report(grade: Grade, task: GradedTask, line: str) -> Report:
    """Return the page of a submission: its points, what is right and what is wrong.

    Args:
        grade: of the submission.
        task: what it was asked.
        line: the command that writes the page.
    """
    points = f"{grade.points:.1f} of {task.points:g}"
    tiles = [Tile("points", points), Tile("score", f"{grade.score:.3f}")]
    sections = {} if grade.check is None else _sections(grade.check)
    title = f"{grade.file}: {task.title}"
    return Report(title, grade.remark, tiles, {**sections, **_reproduction(line)})


def write_grades(folder: Path, grades: Sequence[Grade], task: GradedTask, line: str) -> None:
    """Write a page for each submission, and ``grades.csv`` with the rows of the rubric.

    Args:
        folder: of the files, made if it is missing.
        grades: of the submissions.
        task: what they were asked.
        line: the command that writes them.
    """
    text = StringIO()
    table = csv.DictWriter(text, [*grades[0].summary(), *task.weights], lineterminator="\n")
    table.writeheader()
    for grade in grades:
        page = (folder / grade.file).with_suffix(".html")
        write_report(page, grade_report(grade, task, line))
        rows = () if grade.check is None else grade.check.rows
        statuses = {row.name: row.status for row in rows if row.name in task.weights}
        table.writerow({**grade.summary(), **statuses})
    write_bytes(folder / TABLE, text.getvalue().encode("utf-8", "backslashreplace"))


def _sections(check: Check) -> dict[str, Parts]:
    boards: list[BoardRow] = []
    for row in check.rows:
        if row.evidence:
            figures = [parts.noted_board(*evidence) for evidence in row.evidence]
            boards.append(BoardRow(figures, row.name))
    rows = [(row.name, row.measured, row.status, row.limit) for row in check.rows]
    return {"": [parts.table("check", rows, subject=check.subject)], "Positions": boards}


def _reproduction(line: str) -> dict[str, Sequence[Text]]:
    return {"Reproduction": [Text(words("command of the page"), [line])]}
