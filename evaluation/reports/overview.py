"""``report.html`` of several runs: a comparison, with links to their own pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from evaluation.exact.dynamic_programming import OutcomeProbabilities
from evaluation.exact.strength import Strength
from evaluation.matches.score import Score
from evaluation.reports.curves import (
    Row,
    column_line,
    embed_curves,
    exact_rows,
    result_row,
)
from evaluation.reports.formats import mebibytes, number, whole_number
from evaluation.reports.html import link_to, macro, or_why, write_page
from evaluation.reports.plots import Line
from evaluation.run_files import REPORT, RunDirectory


class Compared(NamedTuple):
    """A run in an overview."""

    name: str
    run: Path
    strength: Strength | None
    """None if not computed"""


class Played(NamedTuple):
    """A match between two runs of an overview, and its exact result."""

    a: str
    b: str
    score: Score
    exact: OutcomeProbabilities | None
    """of a, the mean over both seats; None if not computed"""


def write_overview(folder: Path, title: str, runs: Sequence[Compared], scores: Sequence[Played] = ()) -> Path:
    """Write ``report.html`` in ``folder``: a comparison of runs, with links to their own pages.

    Args:
        folder: folder of the page; links to the runs are relative to it.
        title: its heading.
        runs: the runs to compare.
        scores: matches between them.

    Returns:
        The page's path.

    Raises:
        ValueError: no run, or one whose ``config.json`` is damaged.
    """
    rows: list[tuple[object, ...]] = []
    lines: list[Line] = []
    notes: list[str] = []
    for index, one in enumerate(runs):
        directory = RunDirectory(one.run)
        config = directory.read_config()
        marks, no_marks = or_why(directory.read_metrics)
        phases, no_cost = or_why(directory.read_cost)
        notes += [f"Left out of {one.name}: {why}." for why in (no_marks, no_cost) if why]
        measured = exact_rows(marks or [])
        if measured:
            lines.append(column_line(measured, "exploitability", one.name, index))
        rows.append(
            (
                macro("link", link_to(directory.report, folder), one.name),
                *strength_cells(one.strength),
                whole_number(marks[-1]["games"] if marks else config.get("games", 0)),
                *cost_cells((phases or {}).get("training")),
            )
        )
    known = [(one.name, one.strength) for one in runs if one.strength is not None]
    opponents = dict.fromkeys(opponent for _, strength in known for opponent in strength.seats)
    content = {
        "title": title,
        "known": bool(known),
        "perfect": [name for name, strength in known if strength.perfect],
        "rows": rows,
        "results": {
            opponent: [
                result_row(name, strength.results[opponent]) for name, strength in known if opponent in strength.seats
            ]
            for opponent in opponents
        },
        "curves": embed_curves("together", lines, "games", "exploitability", True) if lines else None,
        "matches": [_match_row(one) for one in scores],
        "notes": notes,
    }
    return write_page(folder / REPORT, "overview.html", content)


def strength_cells(strength: Strength | None) -> tuple[str, str]:
    """Return the table cells of exploitability and regret."""
    if strength is None:
        return "not computed", "not computed"
    return number(strength.exploitability), "not solved" if strength.regret is None else number(strength.regret)


def cost_cells(phase: Row | None) -> tuple[str, str]:
    """Return the table cells of CPU seconds and peak memory."""
    if phase is None:
        return "not known", "not known"
    return f"{phase['cpu_user_s'] + phase['cpu_system_s']:,.1f} s", mebibytes(phase["peak_rss_bytes"])


def _match_row(one: Played) -> tuple[str, ...]:
    rate = one.score.rate("score")
    exact = "not computed"
    if one.exact is not None:
        expected = one.exact.win + one.exact.draw / 2
        exact = f"{expected:.4f}, {'inside' if rate.low <= expected <= rate.high else 'outside'}"
    return (
        f"{one.a} against {one.b}",
        f"{one.score.games:,}",
        " / ".join(f"{int(count):,}" for count in one.score.table.sum(axis=0)),
        f"{rate.mean:.4f}",
        f"{rate.low:.4f} to {rate.high:.4f}",
        exact,
    )
