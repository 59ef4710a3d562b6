"""Learning curves on pages and in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from ttt_envs.core.jit import Float64Array
from ttt_eval.curve_summaries import X_LABELS, Group, Summary, XAxis, log_spaced, summarize_groups
from ttt_eval.metrics import YAxis, metric
from ttt_eval.reports import page, parts, plots

MAX_MARKS = 200
"""Maximum number of marks of metrics.jsonl in a plot, spaced evenly on its log axis."""
MAX_GROUPS = 12
"""Maximum number of groups in a figure: combinations of colours and line styles."""

Row = Mapping[str, float]
Scale = Literal["auto", "log", "linear"]
WIDE = 10.0
"""Factor from which on an axis is logarithmic by default."""
EXACT_CAPTIONS: Mapping[XAxis, str] = {
    "games": "Exact exploitability without exploration, by games played; 0 is perfect.",
    "cpu": "The same, by CPU seconds of training without measurements.",
}


def curves_figure(
    lines: Sequence[plots.Line],
    x_label: str,
    y_label: str,
    caption: str,
    *,
    distances: bool,
    linear: Sequence[str] = (),
) -> page.Figure:
    """Return a figure of curves; see :func:`ttt_eval.reports.plots.draw_curves`."""
    ends = "; ".join(f"{line.name} from {line.y[0]:.4g} to {line.y[-1]:.4g}" for line in lines if line.y)
    label = f"Curves by {x_label}, up to {max(max(line.x) for line in lines):,.0f}: {ends}."
    draw = plots.draw_curves(lines, x_label, y_label, distances=distances, linear=linear)
    return parts.figure(draw, label, caption, plots.curves_size(lines))


def curve_parts(groups: Sequence[Group], notes: Sequence[str] = ()) -> page.Parts:
    """Return figures of the exact exploitability of groups, by games and by CPU seconds, and notes on them."""
    figures, problem, notes = [], "no run is here", list(notes)
    for x, caption in EXACT_CAPTIONS.items():
        if not groups:
            break
        found, why = page.or_why(lambda x=x: summarize_groups(groups, x, "exploitability"))  # type: ignore[misc]
        problem = why or problem
        if found is not None:
            lines = summary_lines(found[0])
            label, linear = X_LABELS[x], linear_axes(lines)
            figures.append(curves_figure(lines, label, "exploitability", caption, distances=True, linear=linear))
            notes += found[1]
    if not figures:
        return [page.left_out(f"There are no learning curves: {problem}.")]
    bands = (
        "Bands are the range of up to five runs, and the 95% interval of the median of six or more; one run has none."
    )
    several = any(len(group.curves) > 1 for group in groups)
    notes = list(dict.fromkeys(note for note in notes if several or "so no band" not in note))
    return [
        page.Figures(figures),
        page.left_out(f"Lines are medians over the runs of a setting. {bands}") if several else None,
        page.Text("; ".join(notes), quiet=True, folded="Notes on the curves") if notes else None,
    ]


def summary_lines(summaries: Sequence[Summary]) -> list[plots.Line]:
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
        plots.Line(
            f"{one.name} ({one.runs} runs)" if one.runs > 1 else one.name,
            one.x.tolist(),
            one.median.tolist(),
            plots.SERIES[index % len(plots.SERIES)],
            plots.STYLES[index % len(plots.STYLES)],
            [] if one.low is None else one.low.tolist(),
            [] if one.high is None else one.high.tolist(),
        )
        for index, one in enumerate(summaries)
    ]


def draw_summaries(
    summaries: Sequence[Summary], x: XAxis, y: YAxis, x_scale: Scale = "auto", y_scale: Scale = "auto"
) -> plots.Draw:
    """Return a plot of :func:`summary_lines`.

    Args:
        summaries: the groups.
        x, y: what they are of.
        x_scale, y_scale: ``"auto"`` is logarithmic where the medians extend over more than a factor of ten, or down to
            0. A logarithmic y axis is linear below 0.001. A score is always linear, from 0 to 1.

    Raises:
        ValueError: more groups than readers can tell apart.
    """
    lines, measure = summary_lines(summaries), metric(y)
    linear = linear_axes(lines, x_scale, y_scale)
    return plots.draw_curves(lines, X_LABELS[x], measure.label, distances=measure.better == "lower", linear=linear)


def linear_axes(lines: Sequence[plots.Line], x_scale: Scale = "auto", y_scale: Scale = "auto") -> list[str]:
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
