"""All figures: drawn by matplotlib without a display, as files or as SVG inside a page.

Colours are those of Okabe and Ito (*Color universal design*, 2008), which are distinguishable with any kind of colour
vision. Results are blue, grey and vermilion, never red against green.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ttt_envs.core.checks import truncate
from ttt_envs.core.files import write_atomically
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.packages import install_command
from ttt_eval.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Draw = Callable[["Figure"], None]
"""Draws on an empty figure."""

WIN, DRAW, LOSS = "#0072B2", "#8C8C8C", "#D55E00"
RESULTS = (WIN, DRAW, LOSS)
"""Colours of wins, draws and losses."""
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Colours of other series, in order."""
STYLES = ("-", "--", ":", "-.")
"""Line styles, in order, for readers who cannot distinguish colours."""
FORMATS = ("pdf", "svg", "png")
"""File formats of figures."""
COLUMN_WIDTH = 3.4
"""Default width in inches of a figure in a paper: a column of a page of two columns."""
IN_PAGE = (4.8, 3.0)
"""Default figure size in a page, in inches: on a narrow screen its text matches the page's small print."""
NEAR_ZERO = 1e-3
"""Threshold below which an axis of distances is linear, so that it can show 0."""
MAX_NAME_LENGTH = 30
"""Maximum length of a name beside its mark, in characters."""

_DARK = {
    "#000000": "#e8eaed", "#ffffff": "#15181c", "#d0d0d0": "#3b424b", "#8c8c8c": "#a5adb8", "#0072b2": "#56a8e0",
    "#d55e00": "#f0803c", "#009e73": "#2fbf97", "#cc79a7": "#dd9cc0",
}  # fmt: skip
"""Colours on a dark ground in place of those on white; others are light enough."""


class Line(NamedTuple):
    """A curve."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str = ""
    """by default that of its place among the curves, as the style"""
    style: str = ""
    low: Sequence[float] = ()
    """the lower end of its band, as long as y; empty without a band"""
    high: Sequence[float] = ()


def check_pictures() -> None:
    """Raise ValueError if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise ValueError(f"pictures need matplotlib: {install_command('report')}")


def render(draw: Draw, form: str, size: tuple[float, float], transparent: bool = False, **settings: Any) -> bytes:
    """Draw a figure and return it in a format of :data:`FORMATS`. The same numbers make the same bytes.

    Fonts are embedded in PDF as TrueType; text in SVG stays text.

    Args:
        draw: the drawing function.
        form: the format.
        size: width and height in inches.
        transparent: whether the ground is left out.
        settings: matplotlib's, with an underscore for each dot.

    Raises:
        ValueError: there is no matplotlib.
    """
    check_pictures()
    from cycler import cycler
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    fixed: dict[Any, Any] = {"axes.prop_cycle": cycler(color=SERIES), "svg.hashsalt": "ttt_envs"}
    fixed |= {"svg.fonttype": "none", "pdf.fonttype": 42}
    nothing = {"png": ("Software",), "svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer")}
    with rc_context(fixed | {name.replace("_", "."): value for name, value in settings.items()}):
        figure, file = Figure(figsize=size, layout="constrained"), io.BytesIO()
        draw(figure)
        for axes in figure.axes:
            axes.grid(alpha=0.3)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(file, format=form, metadata=dict.fromkeys(nothing[form]), transparent=transparent)
    return file.getvalue()


def colour_rules(scope: str = "") -> str:
    """Return the CSS rules that give SVG figures dark colours where the reader prefers them.

    Args:
        scope: selector before that of a mark, such as ``"figure "``; "" inside an SVG file.
    """
    kinds = [(kind, *colours) for colours in _DARK.items() for kind in ("fill", "stroke")]
    rules = "".join(f'{scope}[style*="{kind}: {light}"]{{{kind}:{dark}!important}}' for kind, light, dark in kinds)
    return f"@media screen and (prefers-color-scheme: dark) {{{rules}}}"


def add_dark_colours(svg: str) -> str:
    """Return a figure as SVG with the colours of :func:`colour_rules`; texts have no colour of their own."""
    ink = f"@media screen and (prefers-color-scheme: dark) {{svg{{fill:{_DARK['#000000']}}}}}"
    return svg.replace("<defs>", f"<style>{ink}{colour_rules()}</style><defs>", 1)


def save_figure(path: Path, draw: Draw, size: tuple[float, float] = (8.0, 4.5), **settings: Any) -> Path:
    """Draw a figure and write it in the format of its suffix, black on white; SVG also has dark colours.

    Args:
        path: with a suffix of :data:`FORMATS`.
        draw: the drawing function.
        size: width and height in inches.
        settings: as :func:`render` takes them.

    Returns:
        The path. The same numbers make the same file.

    Raises:
        ValueError: another suffix, or there is no matplotlib.
    """
    form = path.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        raise ValueError(f"{path} has no format of figures: end its name in .{', .'.join(FORMATS)}")
    content = render(draw, form, size, **settings)
    if form == "svg":
        content = add_dark_colours(content.decode()).encode()
    write_atomically(path, lambda file: file.write(content))
    return path


def save_picture(path: Path, draw: Draw) -> list[Path]:
    """Draw a figure and write it as PNG and as SVG, with the suffixes of both in place of that of ``path``."""
    return [save_figure(path.with_suffix(suffix), draw, savefig_dpi=120) for suffix in (".png", ".svg")]


def save_for_paper(path: Path, draw: Draw, width: float = COLUMN_WIDTH, legend_rows: int = 0) -> None:
    """Draw a figure for a paper, as :func:`save_figure`: in 8-point type; PNG has 300 dots per inch.

    Args:
        path: with a suffix of :data:`FORMATS`.
        draw: the drawing function.
        width: in inches.
        legend_rows: number of rows of the legend above the plot, for which there is room.
    """
    size = (width, 0.6 * width + 0.17 * legend_rows)
    save_figure(path, draw, size, font_size=8, axes_linewidth=0.6, savefig_dpi=300)


def as_svg(draw: Draw, name: str, label: str, size: tuple[float, float] = IN_PAGE) -> str:
    """Draw a figure as an SVG element for inside a page, whose style sheet gives it the page's text colour and font.

    Args:
        draw: the drawing function.
        name: letters, digits and hyphens: prefix of all ids in the figure, unique within a page.
        label: text alternative of the figure.
        size: width and height in inches; the page scales it to the available width.

    Returns:
        Well-formed XML without namespaces, which HTML does not need. The same numbers make the same text.

    Raises:
        ValueError: there is no matplotlib.
    """
    text = render(draw, "svg", size, transparent=True).decode()
    # a style sheet inside a page would apply to the whole page
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text[text.index("<defs>") :], flags=re.DOTALL)
    body = re.sub(r'(\bid="|\bhref="#|url\(#)', rf"\g<1>{name}-", body.replace("xlink:href=", "href="))
    box = f"0 0 {round(72 * size[0], 2):g} {round(72 * size[1], 2):g}"
    head = f'role="img" aria-label="{escape(label)}" viewBox="{box}" stroke-linejoin="round" stroke-linecap="butt"'
    return f"<svg {head}>{body.strip()}"


def draw_curves(
    lines: Sequence[Line], x_label: str, y_label: str, *, distances: bool, linear: Sequence[str] = ()
) -> Draw:
    """Return a plot of curves by games: a logarithmic axis, and the legend above the plot.

    Args:
        lines: with x of 0 or more; their bands are shaded.
        x_label, y_label: labels of the axes.
        distances: y is a distance from 0, shown on a log scale from 1 to 0.001 and linearly below; else a share, 0 to
            1.
        linear: axes, ``"x"`` and ``"y"``, that are linear all the same.
    """

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        for index, line in enumerate(lines):
            marker = "." if len(line.x) <= 40 and not line.low else None
            [mark] = axes.plot(line.x, line.y, label=line.name, lw=1.6, marker=marker, ms=4, **_style(index, line))
            if line.low:
                axes.fill_between(line.x, line.low, line.high, color=mark.get_color(), alpha=0.2, lw=0)
        axes.set(xlabel=x_label, ylabel=y_label)
        if "x" in linear:
            axes.set_xlim(0, max((x for line in lines for x in line.x), default=0.0) or 1.0)
            axes.xaxis.set_major_formatter(lambda value, _: _format_count(value))
        else:
            _set_log_axis(axes, [x for line in lines for x in line.x])
        top = max((y for line in lines for y in (*line.y, *line.high)), default=1.0)
        if distances and "y" in linear:
            axes.set_ylim(-0.02 * top, max(1.05 * top, NEAR_ZERO))
        elif distances:
            axes.set_yscale("symlog", linthresh=NEAR_ZERO, linscale=0.5)
            axes.set_yticks([0, 0.001, 0.01, 0.1, 1], ["0", "0.001", "0.01", "0.1", "1"], minor=False)
            axes.set_ylim(-NEAR_ZERO / 20, max(1.1, 1.1 * top))
        else:
            axes.set_ylim(-0.02, 1.02)
            axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        columns = _legend_columns(lines)
        figure.legend(loc="outside upper left", ncols=columns, frameon=False, handlelength=2.4, columnspacing=1.2)

    return draw


def _style(index: int, line: Line) -> dict[str, Any]:
    colour, style = line.colour or SERIES[index % len(SERIES)], line.style or STYLES[index % len(STYLES)]
    return {"color": colour, "linestyle": style}


def _legend_columns(lines: Sequence[Line], characters: int = 60) -> int:
    """Return how many columns of the legend fit, if a figure is as wide as this number of characters."""
    return max(1, min(len(lines), characters // (6 + max((len(line.name) for line in lines), default=1))))


def curves_size(lines: Sequence[Line]) -> tuple[float, float]:
    """Return the size of :func:`draw_curves` in inches: from four rows on, the legend adds to its height."""
    rows = -(-len(lines) // _legend_columns(lines))
    return IN_PAGE[0], IN_PAGE[1] + 0.22 * max(0, rows - 3)


class IntervalRow(NamedTuple):
    """An estimate with its interval, drawn as a row, or as a point by its cost."""

    name: str
    value: Interval
    marked: bool = False
    """whether it is highlighted"""
    cost: float = 0.0
    front: bool = False
    """whether it is on the Pareto front"""


def draw_intervals(rows: Sequence[IntervalRow], x_label: str, zero: float | None = None) -> Draw:
    """Return a plot of estimates with their intervals, one below the other, the first one on top.

    Args:
        rows: at least one.
        x_label: label of the axis.
        zero: position of a reference line.
    """

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        places = range(len(rows))
        if zero is not None:
            axes.axvline(zero, color=DRAW, lw=1.2)
        for place, row in zip(places, rows, strict=True):
            sizes = {"ms": 6, "lw": 2.2} if row.marked else {"ms": 4.5, "lw": 1.6}
            plot_intervals(axes, [place], [row.value], across=True, **_mark(row), **sizes)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_yticks(list(places), [_name(row.name) for row in rows], parse_math=False)
        for label, row in zip(axes.get_yticklabels(), rows, strict=True):
            label.set_fontweight("bold" if row.marked else "normal")
        axes.set_xlabel(x_label)
        axes.locator_params(axis="x", nbins=6)  # more labels than that overlap if they have many digits

    return draw


def figure_size(rows: int) -> tuple[float, float]:
    """Return the figure size in inches for this number of rows."""
    return IN_PAGE[0], 0.75 + 0.24 * rows


def draw_sprt_path(games: Sequence[float], ratios: Sequence[float], low: float, high: float) -> Draw:
    """Return a plot of the log-likelihood ratio of a sequential test, which stops when it leaves two bounds.

    Args:
        games, ratios: the points of the curve.
        low, high: the bounds.
    """

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        axes.axhline(0, color=DRAW, lw=0.8)
        for bound, colour in ((high, WIN), (low, LOSS)):
            axes.axhline(bound, color=colour, lw=1.6, ls="--")
        axes.plot([0, *games], [0, *ratios], color="black", lw=1.6, marker=None if len(games) > 40 else ".", ms=4)
        last = WIN if ratios[-1] >= high else LOSS if ratios[-1] <= low else DRAW
        axes.plot(games[-1:], ratios[-1:], "D", color=last, ms=6)
        reach = max(high, -low, *map(abs, ratios))
        axes.set(xlabel="games", ylabel="log likelihood ratio", ylim=(-1.15 * reach, 1.15 * reach), xlim=(0, None))
        axes.xaxis.set_major_formatter(lambda value, _: _format_count(value))

    return draw


def draw_pareto_front(points: Sequence[IntervalRow], x_label: str, y_label: str) -> Draw:
    """Return a plot of value by cost, on a log scale, with the Pareto front.

    Args:
        points: with costs above 0.
        x_label, y_label: labels of the axes.
    """

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        edge = sorted((point.cost, point.value.mean) for point in points if point.front)
        if edge:
            axes.step(*zip(*edge, strict=True), where="post", color=DRAW, lw=1.4, ls="--")
        for point in points:
            style = _mark(point) | ({} if point.front or point.marked else {"mfc": "none"})
            plot_intervals(axes, [point.cost], [point.value], ms=7 if point.marked else 5, lw=1.4, **style)
        axes.set_xscale("log")
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.margins(x=0.05, y=0.1)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        _name_beside(axes, sorted(points, key=lambda point: point.value.mean))

    return draw


def _mark(row: IntervalRow) -> dict[str, Any]:
    """Return the style of an estimate: highlighted or not; a point has no ends."""
    style = {"fmt": "D", "color": LOSS} if row.marked else {"fmt": "o", "color": WIN}
    return {**style, "capsize": 3 if row.value.low < row.value.high else 0}


def _name_beside(axes: Axes, points: Sequence[IntervalRow]) -> None:
    """Write the names of points of rising values right of the plot, without overlap, each with a line to its point."""
    bottom, top = axes.get_ylim()
    gap = 1 / max(14, 1.4 * len(points))
    order = gap * np.arange(len(points))
    heights = (np.array([point.value.mean for point in points]) - bottom) / (top - bottom)
    heights = np.maximum.accumulate(heights - order) + order
    heights = np.minimum(heights, 1 - gap * len(points) + gap + order)
    for point, height in zip(points, heights, strict=True):
        axes.annotate(
            _name(point.name), (point.cost, point.value.mean), (1.06, height), textcoords="axes fraction", va="center",
            fontsize="small", fontweight="bold" if point.marked else "normal", parse_math=False,
            arrowprops={"arrowstyle": "-", "color": DRAW, "lw": 0.5, "relpos": (0, 0.5), "shrinkA": 2, "shrinkB": 4},
        )  # fmt: skip


def draw_radar(names: Sequence[str], lines: Sequence[Line]) -> Draw:
    """Return a radar chart: 0 and all below in the centre, 1 at the edge.

    Args:
        names: of the axes, three or more.
        lines: whose y has a value for each axis; their x is not used.
    """
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(names) + 1) / len(names)
    x, y = np.cos(angles), np.sin(angles)

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        for radius in (0.25, 0.5, 0.75, 1.0):
            axes.plot(radius * x, radius * y, color=DRAW, lw=0.6)
            axes.annotate(f"{radius:g}", (0, radius), (2, 1), textcoords="offset points", fontsize="x-small")
        for name, right, up in zip(names, x[:-1], y[:-1], strict=True):
            axes.plot([0, right], [0, up], color=DRAW, lw=0.6)
            side = "center" if abs(right) < 0.1 else "left" if right > 0 else "right"
            level = "bottom" if up > 0.9 else "top" if up < -0.9 else "center"
            axes.annotate(name, (1.06 * right, 1.06 * up), ha=side, va=level, fontsize="small", parse_math=False)
        for index, line in enumerate(lines):
            radii = np.clip([*line.y, line.y[0]], 0.0, 1.0)
            axes.plot(radii * x, radii * y, lw=1.6, marker=".", ms=4, label=line.name, **_style(index, line))
        axes.set(aspect="equal", xlim=(-1.75, 1.75), ylim=(-1.2, 1.25))
        axes.set_axis_off()
        figure.legend(loc="outside lower center", ncols=_radar_columns(lines), frameon=False, fontsize="small")

    return draw


def radar_size(lines: Sequence[Line]) -> tuple[float, float]:
    """Return the size of :func:`draw_radar` in inches: from five rows on, the legend adds to its height."""
    rows = -(-len(lines) // _radar_columns(lines))
    return IN_PAGE[0], 4.2 + 0.17 * max(0, rows - 4)


def _radar_columns(lines: Sequence[Line]) -> int:
    return min(3, _legend_columns(lines, 72))  # in small type


def _name(text: str) -> str:
    """Return a name for a figure: shortened, in characters that the font has."""
    shown = "".join(letter if letter.isprintable() and ord(letter) < 0x250 else "?" for letter in text)
    return truncate(shown, MAX_NAME_LENGTH)


def _set_log_axis(axes: Axes, x: Sequence[float]) -> None:
    """Set a logarithmic axis with integer ticks, which includes 0 if needed."""
    from matplotlib.ticker import FixedLocator, NullLocator

    positive, has_zero = [value for value in x if value > 0] or [1.0], min(x, default=1) <= 0
    low, high = min(positive), max(positive)
    if low == high:
        low, high = low / 2, high * 2
    axes.set_xscale("symlog", linthresh=low, linscale=0.3) if has_zero else axes.set_xscale("log")
    axes.set_xlim(0 if has_zero else low, high)
    steps = (1.0,) if high / low >= 50 else (1.0, 2.0, 5.0)
    marks = [step * 10.0**power for power in range(-6, 20) for step in steps if low <= step * 10.0**power <= high]
    axes.xaxis.set_major_locator(FixedLocator([0.0, *marks] if has_zero else marks or [low, high]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: _format_count(value))


def _format_count(value: float) -> str:
    """Abbreviate a number of games."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def error_bars(intervals: Sequence[Interval]) -> Float64Array:
    """Return the extents of intervals below and above their means, float64[2, N], as matplotlib error bars."""
    # rounding may give -1e-17 for zero
    return np.maximum(0.0, [[one.mean - one.low for one in intervals], [one.high - one.mean for one in intervals]])


def plot_intervals(
    axes: Axes,
    places: Sequence[float] | np.ndarray[Any, Any],
    intervals: Sequence[Interval],
    *,
    across: bool = False,
    **style: Any,
) -> None:
    """Plot means with error bars: upwards, or ``across`` the page."""
    means, bars = [interval.mean for interval in intervals], error_bars(intervals)
    if across:
        axes.errorbar(means, places, xerr=bars, **style)
    else:
        axes.errorbar(places, means, yerr=bars, **style)
