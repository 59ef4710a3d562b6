"""``report.html`` of several runs: a comparison, with links to their own pages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ttt_eval.curves import Curve, read_curves
from ttt_eval.exact.dynamic_programming import OutcomeProbabilities
from ttt_eval.exact.strength import Strength
from ttt_eval.matches.score import Score
from ttt_eval.metrics import LOSS_LABELS, LOSSES
from ttt_eval.reports.curves import Row, embed_exploitability, result_row
from ttt_eval.reports.formats import mebibytes, number, share, whole_number
from ttt_eval.reports.html import link_to, macro, or_why, write_page
from ttt_eval.run_files import REPORT, RunDirectory


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
    curves: list[tuple[str, Curve]] = []
    notes: list[str] = []
    for one in runs:
        directory = RunDirectory(one.run)
        config = directory.read_config()
        marks, no_marks = or_why(directory.read_metrics)
        phases, no_cost = or_why(directory.read_cost)
        notes += [f"Left out of {one.name}: {why}." for why in (no_marks, no_cost) if why]
        curves += [(one.name, curve) for curve in or_why(partial(read_curves, [one.run]))[0] or ()]
        rows.append(
            (
                macro("link", link_to(directory.report, folder), one.name),
                *strength_cells(one.strength),
                whole_number(marks[-1]["games"] if marks else config.get("games", 0)),
                *cost_cells((phases or {}).get("training")),
            )
        )
    known = [(one.name, one.strength) for one in runs if one.strength is not None]
    results: list[tuple[object, ...]] = []
    for opponent in dict.fromkeys(opponent for _, strength in known for opponent in strength.seats):
        results.append((f"against {opponent}", *[""] * 4))
        results += [
            result_row(name, strength.results[opponent]) for name, strength in known if opponent in strength.seats
        ]
    content = {
        "title": title,
        "known": bool(known),
        "perfect": [name for name, strength in known if strength.perfect],
        "rows": rows,
        "losses": list(LOSS_LABELS),
        "results": results,
        "learners": [index for index, row in enumerate(results) if row[1]],
        "learning": embed_exploitability(curves),
        "matches": [_match_row(one) for one in scores],
        "notes": notes,
    }
    return write_page(folder / REPORT, "overview.html", content)


def strength_cells(strength: Strength | None, opponents: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the table cells of :data:`~ttt_eval.metrics.LOSSES`, and of the scores against opponents."""
    if strength is None:
        return ("not computed",) * (len(LOSSES) + len(opponents))
    measures = strength.measures
    losses = (number(measures[name]) if name in measures else "not solved" for name in LOSSES)
    scores = (share(strength.results[opponent].score) for opponent in opponents)
    return *losses, *scores


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
