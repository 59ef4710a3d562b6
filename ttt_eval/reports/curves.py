"""Learning curves on pages and in files."""

from __future__ import annotations

import itertools
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
    axes: Sequence[XAxis] = ("games", "cpu") if groups else ()
    for x in axes:
        try:
            summaries, more = summarize_groups(groups, x, "exploitability")
        except ValueError as why:
            problem = str(why)
            continue
        lines, caption = summary_lines(summaries), page.words(f"curves by {x}")
        linear = linear_axes(lines)
        figures.append(curves_figure(lines, X_LABELS[x], "exploitability", caption, distances=True, linear=linear))
        notes += more
    if not figures:
        return [page.left_out(f"There are no learning curves: {problem}.")]
    several = any(len(group.curves) > 1 for group in groups)
    notes = list(dict.fromkeys(note for note in notes if several or "so no band" not in note))
    return [
        figures,
        page.left_out(page.words("bands")) if several else None,
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
    lines = []
    for one in summaries:
        name = f"{one.name} ({one.runs} runs)" if one.runs > 1 else one.name
        band = [[] if end is None else end.tolist() for end in (one.low, one.high)]
        lines.append(plots.Line(name, one.x.tolist(), one.median.tolist(), low=band[0], high=band[1]))
    return lines


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
    counts = {0.0: 0.0}
    for row in rows:
        counts.setdefault(row["games"], row[name])
    games = [(b, (counts[b] - counts[a]) / (b - a)) for a, b in itertools.pairwise(counts)]
    return [at for at, _ in games], [share for _, share in games]


def thin_out(rows: Sequence[Row], most: int = MAX_MARKS) -> list[Row]:
    """Return at most ``most`` rows including the first and the last, evenly spaced on the log axis of games."""
    return [rows[index] for index in log_spaced(np.array([row["games"] for row in rows]), most)]
