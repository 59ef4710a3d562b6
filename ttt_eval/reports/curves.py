"""Figures inside pages, learning curves of runs, and rows of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from markupsafe import Markup

from ttt_envs.core.jit import Float64Array
from ttt_eval.cost import COST_KEYS
from ttt_eval.curve_summaries import X_LABELS, Summary, XAxis, curve_points, log_spaced
from ttt_eval.curves import Curve
from ttt_eval.exact.dynamic_programming import OutcomeProbabilities
from ttt_eval.metrics import YAxis, metric
from ttt_eval.reports.formats import mebibytes, share
from ttt_eval.reports.html import Content, macro, or_why
from ttt_eval.reports.plots import (
    IN_PAGE,
    SERIES,
    STYLES,
    Draw,
    Line,
    as_svg,
    check_pictures,
    curves_size,
    draw_curves,
)

MAX_MARKS = 200
"""Maximum number of marks of metrics.jsonl in a plot, spaced evenly on its log axis."""

MAX_GROUPS = 12
"""Maximum number of groups in a figure: combinations of colours and line styles."""

Row = Mapping[str, float]
Scale = Literal["auto", "log", "linear"]
WIDE = 10.0
"""Factor from which on an axis is logarithmic by default."""


def embed_figure(draw: Draw, name: str, label: str, size: tuple[float, float] = IN_PAGE) -> Markup:
    """Return a figure; without matplotlib its text alternative."""
    _, missing = or_why(check_pictures)
    return macro("picture", "" if missing else as_svg(draw, name, label, size), missing, label)


def embed_curves(
    name: str, lines: Sequence[Line], x_label: str, y_label: str, distances: bool, linear: Sequence[str] = ()
) -> Markup:
    """Return a figure of curves; see :func:`ttt_eval.reports.plots.draw_curves`."""
    ends = "; ".join(f"{line.name} from {line.y[0]:.4g} to {line.y[-1]:.4g}" for line in lines if line.y)
    label = f"Curves by {x_label}, up to {max(max(line.x) for line in lines):,.0f}: {ends}."
    draw = draw_curves(lines, x_label, y_label, distances=distances, linear=linear)
    return embed_figure(draw, name, label, curves_size(lines))


def embed_exploitability(curves: Sequence[tuple[str, Curve]]) -> Content:
    """Return the content of a section: exploitability by games and by CPU seconds, a figure each with all curves.

    Args:
        curves: of runs, with their names.
    """
    figures: list[tuple[Markup, str]] = []
    axes: tuple[XAxis, ...] = ("games", "cpu")
    for x in axes:
        lines = []
        for index, (name, curve) in enumerate(curves):
            points = curve_points(curve._replace(rows=exact_rows(curve.rows)), x, "exploitability")
            if points is not None:
                xs, ys = (values.tolist() for values in points)
                lines.append(Line(name, xs, ys, SERIES[index % len(SERIES)], STYLES[index % len(STYLES)]))
        if lines:
            label, linear = X_LABELS[x], linear_axes(lines)
            figures.append((embed_curves(f"by-{x}", lines, label, "exploitability", True, linear), label))
    if not figures:
        return {"missing": "There are no exact measurements during training: train.py --exact-every N makes them."}
    return {"figures": figures}


def column_line(rows: Sequence[Row], name: str, label: str, index: int) -> Line:
    """Return the curve of the column ``name`` by games; the index gives colour and style."""
    return Line(label, *series(rows, name), SERIES[index % len(SERIES)], STYLES[index % len(STYLES)])


def summary_lines(summaries: Sequence[Summary]) -> list[Line]:
    """Return the medians of groups as lines with their bands.

    Raises:
        ValueError: more groups than readers can tell apart.
    """
    if len(summaries) > MAX_GROUPS:
        raise ValueError(
            f"these are {len(summaries)} groups, and at most {MAX_GROUPS} can be told apart: name fewer runs, or group "
            f"them by fewer settings"
        )
    return [
        Line(
            f"{one.name} ({one.runs} {'run' if one.runs == 1 else 'runs'})",
            one.x.tolist(),
            one.median.tolist(),
            SERIES[index % len(SERIES)],
            STYLES[index % len(STYLES)],
            [] if one.low is None else one.low.tolist(),
            [] if one.high is None else one.high.tolist(),
        )
        for index, one in enumerate(summaries)
    ]


def draw_summaries(
    summaries: Sequence[Summary], x: XAxis, y: YAxis, x_scale: Scale = "auto", y_scale: Scale = "auto"
) -> Draw:
    """Return a plot of :func:`summary_lines`.

    Args:
        summaries: the groups.
        x, y: what they are of.
        x_scale, y_scale: ``"auto"`` is logarithmic where the medians extend over more than a factor of ten, or down to
            0. A logarithmic y axis is linear below 0.001. A score is always linear, from 0 to 1.

    Raises:
        ValueError: more groups than readers can tell apart.
    """
    lines = summary_lines(summaries)
    linear = linear_axes(lines, x_scale, y_scale)
    measure = metric(y)
    return draw_curves(lines, X_LABELS[x], measure.label, distances=measure.better == "lower", linear=linear)


def linear_axes(lines: Sequence[Line], x_scale: Scale = "auto", y_scale: Scale = "auto") -> list[str]:
    """Return the axes, ``"x"`` and ``"y"``, that are linear; see :func:`draw_summaries`."""
    scales = (("x", x_scale, [line.x for line in lines]), ("y", y_scale, [line.y for line in lines]))
    return [
        name
        for name, scale, values in scales
        if scale == "linear" or (scale == "auto" and not _is_wide(np.concatenate(values)))
    ]


def _is_wide(values: Float64Array) -> bool:
    """Return whether values extend over more than a factor of :data:`WIDE`."""
    return bool(values.max() > WIDE * values.min())


def series(rows: Sequence[Row], name: str) -> tuple[list[float], list[float]]:
    """Return games and the values of the column ``name``."""
    return [row["games"] for row in rows], [row[name] for row in rows]


def rates(rows: Sequence[Row], name: str) -> tuple[list[float], list[float]]:
    """Return the share of ``name`` among the games since the previous mark, where there were any."""
    games, shares = [], []
    before: Row = {"games": 0, name: 0}
    for row in rows:
        if row["games"] > before["games"]:
            games.append(row["games"])
            shares.append((row[name] - before[name]) / (row["games"] - before["games"]))
            before = row
    return games, shares


def thin_out(rows: Sequence[Row], most: int = MAX_MARKS) -> list[Row]:
    """Return at most ``most`` rows including the first and the last, evenly spaced on the log axis of games."""
    return [rows[index] for index in log_spaced(np.array([row["games"] for row in rows]), most)]


def exact_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with exact measurements, no more than can be drawn."""
    return thin_out([row for row in rows if "exploitability" in row])


def result_row(name: str, shares: OutcomeProbabilities) -> tuple[object, ...]:
    """Return a row of a table of results: the shares of wins, draws and losses, and a bar of them."""
    return name, *map(share, shares), macro("bar", shares)


def phase_row(name: str, phase: Row) -> tuple[str, ...]:
    """Return a row of a table of costs by phase."""
    *times, peak = (phase[column] for column in COST_KEYS)
    return name, *(f"{time:,.2f} s" for time in times), mebibytes(peak)
