"""Studies: reproductions of published results, made of resumable units of work."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ttt_envs.core.parallel import Jobs
from ttt_eval.result_store import Unit, collect_results
from ttt_eval.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE, RESULT = "table.md", "result.json"


class Row(NamedTuple):
    """A row of a study's table."""

    what: str
    published: str
    """empty if the source gives no number"""
    ours: str
    exact: str
    """empty if there is none"""
    agrees: bool | None = None
    """whether published and exact (or ours) agree within sampling error; None if that cannot be decided"""


class Claim(NamedTuple):
    """A claim of a source in words."""

    words: str
    holds: bool | None
    """None if the measurements do not decide it"""
    evidence: str


class Caption(NamedTuple):
    """Words around a figure."""

    question: str
    answer: str | Callable[[Report], str]
    """what the results of the full form say; the quick form leaves it out. A function computes it from the rows and
    verdicts of the report: a caption says nothing that the table on its page does not, and follows every new result"""
    symbols: str
    """what is drawn, as far as the figure's legend does not say it"""

    def answer_from(self, report: Report) -> str:
        """Return the answer that these results give."""
        return self.answer if isinstance(self.answer, str) else self.answer(report)


@dataclass(frozen=True)
class Report:
    """Results of a study."""

    rows: Sequence[Row]
    claims: Sequence[Claim]
    pictures: Mapping[str, Callable[[Figure], None]]
    """figures by name; each draws on an empty figure"""
    ours: str = "ours"
    """heading of the column of that name"""
    data: Any = field(default_factory=dict)
    """JSON-ready: all measured numbers"""

    def claim(self, words: str) -> Claim:
        """Return the first claim that begins with these words."""
        return next(claim for claim in self.claims if claim.words.startswith(words))

    def find_rows(self, what: str) -> list[Row]:
        """Return the rows that begin with these words."""
        return [row for row in self.rows if row.what.startswith(what)]

    def table(self) -> list[list[str]]:
        """Return the header and the rows, without empty columns."""
        lines = [["", "published", self.ours, "exact", "agree"]]
        lines += [[*row[:4], verdict(row.agrees)] for row in self.rows]
        columns = [column for column in zip(*lines, strict=True) if any(column[1:])]
        return [list(line) for line in zip(*columns, strict=True)]


@dataclass(frozen=True)
class Study:
    """One published table or figure, and its reproduction."""

    title: str
    source: str
    """author, year, and the number of the table or figure"""
    about: str
    """description of the original, of the reproduction, and of their differences"""
    units: Callable[[bool], Sequence[Unit]]
    """returns the units of work; True asks for the quick form"""
    measure: Callable[[Unit], Any]
    """does one unit and returns JSON-ready data; a module-level function, because it may run in another process"""
    analyse: Callable[[Sequence[tuple[Unit, Any]]], Report]
    """derives the findings from the results of all units, in order"""
    left_out: str
    """parts that the quick form omits"""
    alone: bool = False
    """whether units must not run in parallel, because they measure time"""
    captions: Mapping[str, Caption] = field(default_factory=dict)
    """captions of figures by name"""
    parts: Mapping[str, str] = field(default_factory=dict)
    """independent parts: name -> description; the key ``"part"`` of a unit names its part"""
    version: int = 1
    """raised with a change of ``measure`` that alters the results of units"""

    def chosen(self, quick: bool, part: str = "") -> list[Unit]:
        """Return the units of one part, or all."""
        return [unit for unit in self.units(quick) if part in ("", unit.get("part"))]


def run_units(
    study: Study,
    folder: Path,
    provenance: Mapping[str, Any],
    *,
    quick: bool = False,
    part: str = "",
    jobs: Jobs = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[tuple[Unit, Any]]:
    """Do the units of work of a study that are not done yet.

    Every result is written to ``units.jsonl`` in the folder as soon as it is available: after a kill, the same call
    resumes.

    Args:
        study: the study.
        folder: folder of the results.
        provenance: JSON-ready: versions and everything else that determines results besides the study's version.
        quick: the quick form.
        part: of ``study.parts``; "" for all.
        jobs: the workers.
        progress: called with the number of units done, and the total.

    Returns:
        Each unit with its result, in order.

    Raises:
        ValueError: another process works in the folder, something in it is no file, or it has the results of another
            version or ``provenance``.
    """
    units, workers = study.chosen(quick, part), 1 if study.alone else jobs
    other_files = (TABLE, RESULT, "*.png", "*.svg")
    results = collect_results(
        study.measure,
        units,
        folder,
        {**provenance, "study": study.version},
        jobs=workers,
        other_files=other_files,
        progress=progress,
    )
    return list(zip(units, results, strict=True))


def verdict(holds: bool | None) -> str:
    """Format a verdict as a word."""
    return {True: "yes", False: "no", None: ""}[holds]


def choose(holds: bool | None, yes: str, no: str, undecided: str) -> str:
    """Return the words for a verdict."""
    return undecided if holds is None else yes if holds else no


def read_numbers(text: str, before: str = "", after: str = "") -> list[str]:
    """Return the numbers in a text that stand between two patterns, as they are written."""
    return re.findall(rf"{before}([-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?){after}", text)


def read_intervals(text: str) -> list[Interval]:
    """Return the intervals in a text, as :func:`format_interval` and :func:`format_difference` write them."""
    number = r"([-+]?\d+(?:\.\d+)?)"
    found = re.findall(rf"{number} \({number} to {number}\)", text)
    return [Interval(*map(float, ends)) for ends in found]


def rates(result: Iterable[float], digits: int = 3) -> str:
    """Format win / draw / loss."""
    return " / ".join(f"{rate:.{digits}f}" for rate in result)


def format_interval(one: Interval, digits: int = 3) -> str:
    """Format a number and its interval."""
    return _format_bound(one, f".{digits}f")


def format_difference(one: Interval) -> str:
    """Format a difference and its interval."""
    return _format_bound(one, "+.3f")


def _format_bound(one: Interval, form: str) -> str:
    return f"{one.mean:{form}} ({one.low:{form}} to {one.high:{form}})"
