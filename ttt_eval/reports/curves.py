"""Learning curves on pages and in files."""

from __future__ import annotations

from collections.abc import Sequence

from ttt_eval.curve_summaries import X_LABELS, Group, Summary, XAxis, summarize_groups
from ttt_eval.metrics import YAxis, metric
from ttt_eval.reports import page, plots
from ttt_eval.reports.page import Figure, Parts, Text, left_out

MAX_GROUPS = 12
"""Maximum number of groups in a figure: combinations of colours and line styles."""


def curves_figure(
    lines: Sequence[plots.Line], x_label: str, y_label: str, caption: str, *, distances: bool, **scales: plots.Scale
) -> Figure:
    """Return a figure of curves; see :func:`ttt_eval.reports.plots.draw_curves`."""
    ends = "; ".join(f"{line.name} from {line.y[0]:.4g} to {line.y[-1]:.4g}" for line in lines)
    label = f"Curves by {x_label}, up to {max(line.x[-1] for line in lines):,.0f}: {ends}."
    return page.figure(plots.draw_curves(lines, x_label, y_label, distances=distances, **scales), label, caption)


def curve_parts(groups: Sequence[Group], notes: Sequence[str] = ()) -> Parts:
    """Return figures of the exact exploitability of groups, by games and by CPU seconds, and notes on them."""
    figures, problem, notes = list[Figure](), "no run is here", list(notes)
    axes: Sequence[XAxis] = ("games", "cpu") if groups else ()
    for x in axes:
        try:
            summaries, more = summarize_groups(groups, x, "exploitability")
        except ValueError as why:
            problem = str(why)
            continue
        caption = page.words(f"curves by {x}")
        figures.append(curves_figure(summary_lines(summaries), X_LABELS[x], "exploitability", caption, distances=True))
        notes += more
    if not figures:
        return [left_out(f"There are no learning curves: {problem}.")]
    several = any(len(group.curves) > 1 for group in groups)
    notes = list(dict.fromkeys(note for note in notes if several or "so no band" not in note))
    return [
        figures,
        left_out(page.words("bands")) if several else None,
        Text("; ".join(notes), quiet=True, folded="Notes on the curves") if notes else None,
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
    names = [f"{one.name} ({one.runs} runs)" if one.runs > 1 else one.name for one in summaries]
    return [
        plots.Line(name, one.x, one.median, low=one.low, high=one.high)
        for name, one in zip(names, summaries, strict=True)
    ]


def draw_summaries(
    summaries: Sequence[Summary], x: XAxis, y: YAxis, x_scale: plots.Scale = "auto", y_scale: plots.Scale = "auto"
) -> plots.Draw:
    """Return a plot of :func:`summary_lines`; a score is on a linear scale, from 0 to 1.

    Raises:
        ValueError: more groups than readers can tell apart.
    """
    lines, measure, scales = summary_lines(summaries), metric(y), {"x_scale": x_scale, "y_scale": y_scale}
    return plots.draw_curves(lines, X_LABELS[x], measure.label, distances=measure.better == "lower", **scales)
