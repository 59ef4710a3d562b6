"""``report.html`` of several runs: a comparison, with links to their own pages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from evaluation.cost import read_cost
from evaluation.exact.dynamic_programming import Outcome
from evaluation.exact.strength import Strength
from evaluation.matches.match import Score
from evaluation.reports.html import Html, element, link_to, number, section, table, write_page
from evaluation.reports.plots import Line
from evaluation.reports.run_parts import (
    Row,
    left_out,
    line_of,
    or_why,
    picture,
    results_table,
    when_measured,
    whole_number,
)
from evaluation.run_files import REPORT, read_metrics
from learners.checkpoint import read_config


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
    exact: Outcome | None
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
    opponents = list(dict.fromkeys(o for one in runs if one.strength is not None for o in one.strength.seats))
    rows = []
    lines: list[Line] = []
    notes: list[str] = []
    for index, one in enumerate(runs):
        config = read_config(one.run)
        marks, no_marks = or_why(partial(read_metrics, one.run))
        phases, no_cost = or_why(partial(read_cost, one.run))
        notes += [f"Left out of {one.name}: {why}." for why in (no_marks, no_cost) if why]
        measured = when_measured(marks or [])
        if measured:
            lines.append(line_of(measured, "exploitability", one.name, index))
        rows.append(
            (
                element("a", one.name, href=link_to(one.run / REPORT, folder)),
                *_strength_cells(one.strength),
                whole_number(marks[-1]["games"] if marks else config.get("games", 0)),
                *_format_cost((phases or {}).get("training")),
            )
        )
    results = [_against(opponent, runs) for opponent in opponents]
    head = ("learner", "exploitability", "regret", "games", "CPU of training", "peak memory")
    perfect = [one.name for one in runs if one.strength is not None and one.strength.perfect]
    says = f"Perfect at the end: {', '.join(perfect)}." if perfect else "None of them plays perfectly."
    about = "Everything but matches is exact, by dynamic programming over the positions that can be reached."
    sections = [
        element("p", f"{says if any(one.strength for one in runs) else ''} {about}".strip(), class_="lead"),
        table("What was learned; each name leads to the run's own page", head, rows),
        *([section("Exact results", element("div", *results, class_="side"))] if results else []),
        section("How they learned", *_learning_together(lines)),
        *([section("In matches", _matches(scores))] if scores else []),
        *map(left_out, notes),
    ]
    return write_page(folder / REPORT, title, sections)


def _format_cost(phase: Row | None) -> tuple[str, str]:
    if phase is None:
        return "not known", "not known"
    return f"{phase['cpu_user_s'] + phase['cpu_system_s']:,.1f} s", f"{phase['peak_rss_bytes'] / 2**20:,.0f} MiB"


def _strength_cells(strength: Strength | None) -> tuple[str, str]:
    if strength is None:
        return "not computed", "not computed"
    return number(strength.exploitability), "not solved" if strength.regret is None else number(strength.regret)


def _against(opponent: str, runs: Sequence[Compared]) -> Html:
    rows = [
        (one.name, one.strength.results[opponent])
        for one in runs
        if one.strength is not None and opponent in one.strength.seats
    ]
    return results_table(f"Against {opponent}, the mean of both seats", "learner", rows)


def _learning_together(lines: Sequence[Line]) -> list[Html]:
    if not lines:
        return [left_out("None was measured exactly while it learned: train.py --exact-every N does that.")]
    words = (
        "Exploitability of what each would play in earnest, exact; 0 is perfect. Both axes are logarithmic, that of "
        "values down to 0.001."
    )
    return [element("div", picture("together", words, lines, "games", "exploitability", True), class_="curves")]


def _matches(scores: Sequence[Played]) -> Html:
    rows = []
    for one in scores:
        rate = one.score.rate("score")
        exact = "not computed"
        if one.exact is not None:
            expected = one.exact.win + one.exact.draw / 2
            inside = rate.low <= expected <= rate.high
            exact = f"{expected:.4f}, {'inside' if inside else 'outside'}"
        wins, draws, losses = (int(count) for count in one.score.table.sum(axis=0))
        results = f"{wins:,} / {draws:,} / {losses:,}"
        rows.append(
            (
                f"{one.a} against {one.b}",
                f"{one.score.games:,}",
                results,
                f"{rate.mean:.4f}",
                f"{rate.low:.4f} to {rate.high:.4f}",
                exact,
            )
        )
    caption = (
        "The score of the first named, a draw counting half. Chance leaves the exact score outside of one interval "
        "in twenty."
    )
    head = ("match", "games", "won / drawn / lost", "score", "95% interval", "exact score")
    return table(caption, head, rows)
