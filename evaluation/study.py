"""Studies: published results computed anew. Units of work that can be stopped at any time, and what they show."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from joblib import Parallel, delayed

from evaluation.drawing import Draw, save_picture
from evaluation.statistics import Interval
from ttt_envs.files import held, open_to_write, parse_json, read_bounded, tidy, write_json, write_whole

Unit = Mapping[str, Any]
"""JSON-ready settings of one piece of work"""

UNITS, TABLE, RESULT = "units.jsonl", "table.md", "result.json"


class Row(NamedTuple):
    """A line of a study's table."""

    what: str
    published: str
    """empty where the source gives no number"""
    ours: str
    exact: str
    """empty where there is none"""
    agrees: bool | None = None
    """whether published and exact (or ours) are within sampling error; None where that cannot be said"""


class Claim(NamedTuple):
    """What a source says in words."""

    words: str
    holds: bool | None
    """None where what was measured does not decide it"""
    evidence: str


@dataclass(frozen=True)
class Findings:
    """What a study comes to."""

    rows: Sequence[Row]
    claims: Sequence[Claim]
    pictures: Mapping[str, Draw]
    """by name; each draws on an empty figure"""
    ours: str = "ours"
    """what stands in the column of that name"""
    data: Any = field(default_factory=dict)
    """JSON-ready: all numbers that were measured"""

    def table(self) -> list[list[str]]:
        """The head and the rows, without columns that are empty everywhere."""
        lines = [["", "published", self.ours, "exact", "agree"]]
        lines += [[*row[:4], verdict(row.agrees)] for row in self.rows]
        columns = [column for column in zip(*lines, strict=True) if any(column[1:])]
        return [list(line) for line in zip(*columns, strict=True)]


@dataclass(frozen=True)
class Study:
    """One published table or figure, and what it takes to have it again."""

    title: str
    source: str
    """author, year, and which table or figure"""
    about: str
    """what was done there, what is done here, and what differs"""
    units: Callable[[bool], Sequence[Unit]]
    """the pieces of work; True asks for the quick form"""
    measure: Callable[[Unit], Any]
    """does one piece; a function of a module, for it may run in another process. Returns JSON-ready data"""
    conclude: Callable[[Sequence[tuple[Unit, Any]]], Findings]
    """what the results of all units, in order, say"""
    left_out: str
    """what the quick form leaves out"""
    alone: bool = False
    """whether units must not run side by side, because they measure time"""


def run_units(
    study: Study,
    folder: Path,
    made_by: Mapping[str, Any],
    *,
    quick: bool = False,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[tuple[Unit, Any]]:
    """Do the pieces of work of a study, but for those that are done already.

    Every result is written to ``units.jsonl`` in the folder as soon as it is there: killed at any time, the same call
    goes on.

    Args:
        study: whose.
        folder: where results are kept; those that something else made are thrown away.
        made_by: JSON-ready: versions and whatever else decides results.
        quick: the quick form.
        jobs: processes.
        progress: called with how many pieces are done, and how many there are.

    Returns:
        Each unit with its result, in order.

    Raises:
        ValueError: another process works in the folder, or something in it is no file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder):
        tidy(folder, (UNITS, TABLE, RESULT))
        return _run_units(study, folder, made_by, quick, jobs, progress)


def _run_units(
    study: Study,
    folder: Path,
    made_by: Mapping[str, Any],
    quick: bool,
    jobs: int,
    progress: Callable[[int, int], None] | None,
) -> list[tuple[Unit, Any]]:
    units = list(study.units(quick))
    head = json.dumps({"made_by": dict(made_by)})
    kept = _kept(folder / UNITS, head)
    names = [json.dumps(unit, sort_keys=True) for unit in units]
    missing = [index for index, name in enumerate(names) if name not in kept]
    lines = [head, *(_line(name, kept[name]) for name in names if name in kept)]
    write_whole(folder / UNITS, lambda file: file.write(("\n".join(lines) + "\n").encode()))
    tell = progress or (lambda done, total: None)
    tell(len(units) - len(missing), len(units))
    with open_to_write(folder / UNITS) as file:
        file.seek(0, os.SEEK_END)
        work = (delayed(_measured)(study.measure, index, units[index]) for index in missing)
        results = Parallel(n_jobs=1 if study.alone else jobs, return_as="generator_unordered")(work)
        for count, (index, result) in enumerate(results):
            kept[names[index]] = result
            file.write(_line(names[index], result).encode() + b"\n")
            file.flush()
            tell(len(units) - len(missing) + count + 1, len(units))
    # as they are read again from the file: an interrupted study and one in a single run conclude from the same
    return [(unit, json.loads(json.dumps(kept[name]))) for unit, name in zip(units, names, strict=True)]


def _measured(measure: Callable[[Unit], Any], index: int, unit: Unit) -> tuple[int, Any]:
    return index, measure(unit)


def _line(name: str, result: Any) -> str:
    """What is kept of a unit, as a line: a hash in it tells damage that is JSON, too."""
    data = {"unit": json.loads(name), "result": result}
    return json.dumps({**data, "sha256": hashlib.sha256(json.dumps(data).encode()).hexdigest()})


def _kept(path: Path, head: str) -> dict[str, Any]:
    """The results in a file, by the unit as JSON; none where its first line is another."""
    try:
        content = read_bounded(path)
    except FileNotFoundError:
        return {}
    lines = content.decode(errors="replace").splitlines()
    if not lines or lines[0] != head:
        return {}
    kept = {}
    for line in lines[1:]:
        try:
            data = parse_json(line, nan=True)
            name, result = json.dumps(data["unit"], sort_keys=True), data["result"]
            if line == _line(name, result):
                kept[name] = result
        except (ValueError, KeyError, TypeError):  # the end of a file whose writer was killed
            continue
    return kept


def write_findings(study: Study, name: str, findings: Findings, folder: Path, quick: bool) -> list[Path]:
    """Write ``table.md``, ``result.json`` and each picture as PNG and SVG into a folder; return the pictures' paths."""
    write_whole(folder / TABLE, lambda file: file.write(_markdown(study, name, findings, quick).encode()))
    write_json(
        folder / RESULT,
        {
            "format": 1,
            "study": name,
            "quick": quick,
            "rows": [row._asdict() for row in findings.rows],
            "claims": [claim._asdict() for claim in findings.claims],
            "data": findings.data,
        },
    )
    return [
        path for picture, draw in findings.pictures.items() for path in save_picture(folder / f"{picture}.png", draw)
    ]


def verdict(holds: bool | None) -> str:
    """In a word."""
    return {True: "yes", False: "no", None: ""}[holds]


def rates(result: Iterable[float], digits: int = 3) -> str:
    """Win / draw / loss."""
    return " / ".join(f"{rate:.{digits}f}" for rate in result)


def interval(one: Interval, digits: int = 3) -> str:
    """A number and its interval."""
    return _ends(one, f".{digits}f")


def signed(one: Interval) -> str:
    """A difference and its interval."""
    return _ends(one, "+.3f")


def _ends(one: Interval, form: str) -> str:
    return f"{one.mean:{form}} ({one.low:{form}} to {one.high:{form}})"


def _markdown(study: Study, name: str, findings: Findings, quick: bool) -> str:
    lines = [f"# {study.title}", "", f"{study.source}. {study.about}", ""]
    lines += [f"Quick form: {study.left_out}", ""] if quick else []
    lines += [f"`python evaluate.py reproduce {name}{' --quick' if quick else ''}`", ""]
    head, *rows = findings.table()
    lines += [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
    if findings.claims:
        lines += ["", "| what the source says | holds | what was found |", "|---|---|---|"]
        lines += [
            f"| {claim.words} | {'undecided' if claim.holds is None else verdict(claim.holds)} | {claim.evidence} |"
            for claim in findings.claims
        ]
    lines += ["", *(f"![{picture}]({picture}.png)" for picture in findings.pictures)]
    return "\n".join(lines) + "\n"
