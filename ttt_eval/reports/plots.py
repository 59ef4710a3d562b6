"""All figures: drawn by matplotlib without a display, as files or as SVG inside a page.

Colours are those of Okabe and Ito (*Color universal design*, 2008), which are distinguishable with
any kind of colour vision. Results are blue, grey and vermilion, never red against green.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ttt_envs.core.checks import Refusal
from ttt_envs.core.files import write_bytes
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.packages import install_command
from ttt_eval.store.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType

Draw = Callable[["Figure"], None]
"""Draws on an empty figure, and sets its height where that depends on the content."""
Numbers = Sequence[float] | Float64Array

WIN = "#0072B2"
DRAW = "#8C8C8C"
LOSS = "#D55E00"
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
IN_PAGE = (4.8, 2.7)
"""Figure size in a page, in inches: on a narrow screen its text matches the page's small print."""
NEAR_ZERO = 1e-3
"""Threshold below which an axis of distances is linear, so that it can show 0."""

_DARK = {
    "#000000": "#e8eaed",
    "#ffffff": "#15181c",
    "#d0d0d0": "#3b424b",
    "#8c8c8c": "#a5adb8",
    "#0072b2": "#56a8e0",
    "#d55e00": "#f0803c",
    "#009e73": "#2fbf97",
    "#cc79a7": "#dd9cc0",
}
"""Colours on a dark ground in place of those on white; others are light enough."""
_STYLE: Mapping[RcKeyType, object] = {
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "ttt_envs",
    "pdf.fonttype": 42,
}
"""matplotlib's settings: fonts are embedded in PDF as TrueType, and text in SVG stays text."""
_PLAIN: Mapping[RcKeyType, object] = {
    "text.parse_math": False
}  # names of runs and players may contain $
_METADATA = {
    "png": ("Software",),
    "svg": ("Date", "Creator"),
    "pdf": ("CreationDate", "Creator", "Producer"),
}


class PlotLine(NamedTuple):
    """A curve."""

    name: str
    x: Numbers
    y: Numbers
    colour: str = ""
    """by default that of its place among the curves, as the style"""
    style: str = ""
    low: Numbers | None = None
    """the lower end of its band, as long as y; None without a band"""
    high: Numbers | None = None


# --------------------------------------------------------------------------------------------------
# Files, and figures in pages


def check_pictures() -> None:
    """Raise ValueError if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise Refusal(f"pictures need matplotlib: {install_command('report')}")


def render(
    draw: Draw, form: str, size: tuple[float, float], settings: Mapping[RcKeyType, object]
) -> bytes:
    """Draw a figure and return it in a format of :data:`FORMATS`. The same numbers make the same
    bytes.

    Args:
        draw: the drawing function.
        form: the format.
        size: width and height in inches, before the drawing function changes the height.
        settings: matplotlib's.

    Raises:
        ValueError: there is no matplotlib.
    """
    check_pictures()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({**_STYLE, **settings}):
        figure = Figure(figsize=size, layout="constrained")
        file = io.BytesIO()
        draw(figure)
        figure.savefig(file, format=form, metadata=dict.fromkeys(_METADATA[form]))
    return file.getvalue()


def colour_rules(scope: str = "") -> str:
    """Return the CSS rules that give SVG figures dark colours where the reader prefers them.

    Args:
        scope: selector before that of a mark, such as ``"figure "``; "" inside an SVG file.
    """
    kinds = [(kind, *colours) for colours in _DARK.items() for kind in ("fill", "stroke")]
    rules = "".join(
        f'{scope}[style*="{kind}: {light}"]{{{kind}:{dark}!important}}'
        for kind, light, dark in kinds
    )
    return f"@media screen and (prefers-color-scheme: dark) {{{rules}}}"


def save_figure(
    path: Path, draw: Draw, size: tuple[float, float], settings: Mapping[RcKeyType, object]
) -> Path:
    """Draw a figure and write it in the format of its suffix, black on white; SVG also has dark
    colours.

    Args:
        path: with a suffix of :data:`FORMATS`.
        draw: the drawing function.
        size, settings: as :func:`render` takes them.

    Returns:
        The path. The same numbers make the same file.

    Raises:
        ValueError: another suffix, or there is no matplotlib.
    """
    form = path.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        raise Refusal(f"{path} has no format of figures: end its name in .{', .'.join(FORMATS)}")
    content = render(draw, form, size, settings)
    if form == "svg":  # texts have no colour of their own
        ink = f"@media screen and (prefers-color-scheme: dark) {{svg{{fill:{_DARK['#000000']}}}}}"
        content = content.replace(
            b"<defs>", f"<style>{ink}{colour_rules()}</style><defs>".encode(), 1
        )
    write_bytes(path, content)
    return path


def save_picture(path: Path, draw: Draw) -> list[Path]:
    """Draw a figure and write it as PNG and as SVG, with the suffixes of both in place of that of
    ``path``.
    """
    return [
        save_figure(path.with_suffix(suffix), draw, (8.0, 4.5), {"savefig.dpi": 120})
        for suffix in (".png", ".svg")
    ]


def save_for_paper(path: Path, draw: Draw, width: float = COLUMN_WIDTH) -> None:
    """Draw a figure for a paper, as :func:`save_figure`, ``width`` inches wide: in 8-point type;
    PNG has 300 dots per inch.
    """
    settings: Mapping[RcKeyType, object] = {
        "font.size": 8,
        "axes.linewidth": 0.6,
        "savefig.dpi": 300,
        **_PLAIN,
    }
    save_figure(path, draw, (width, 0.6 * width), settings)


def as_svg(draw: Draw, name: str, label: str) -> str:
    """Draw a figure as an SVG element for inside a page, whose style sheet gives it the page's text
    colour and font.

    Args:
        draw: the drawing function.
        name: letters, digits and hyphens: prefix of all ids in the figure, unique within a page.
        label: text alternative of the figure.

    Returns:
        Well-formed XML without namespaces, which HTML does not need. The same numbers make the same
        text.

    Raises:
        ValueError: there is no matplotlib.
    """
    head, _, body = (
        render(draw, "svg", IN_PAGE, {"savefig.transparent": True, **_PLAIN})
        .decode()
        .partition("<metadata>")
    )
    # a style sheet inside a page would apply to the whole page
    body = re.sub(r"^.*?</metadata>|<style.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(
        r'(\bid="|\bhref="#|url\(#)', rf"\g<1>{name}-", body.replace("xlink:href=", "href=")
    )
    box = re.findall(r'viewBox="[^"]*"', head)[0]
    return (
        f'<svg role="img" aria-label="{escape(label)}" {box} stroke-linejoin="round" '
        'stroke-linecap="butt">'
        f"{body.strip()}"
    )


# --------------------------------------------------------------------------------------------------
# Curves


def draw_curves(
    lines: Sequence[PlotLine], x_label: str, y_label: str, *, distances: bool, log: bool = True
) -> Draw:
    """Return a plot of curves, with the legend above it.

    Args:
        lines: with x of 0 or more; their bands are shaded.
        x_label, y_label: labels of the axes.
        distances: y is a distance from 0; on a log scale it is linear below 0.001. Otherwise it is
            on a linear scale, which is from 0 to 1 for shares.
        log: whether an axis is logarithmic if its values extend over more than a factor of ten, or
            down to 0.
    """

    def is_log(values: Float64Array) -> bool:
        return log and bool(values.max() > 10 * values.min())

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        for index, line in enumerate(lines):
            marker = "." if len(line.x) <= 40 and line.low is None else None
            colour = line.colour or SERIES[index % len(SERIES)]
            style = line.style or STYLES[index % len(STYLES)]
            axes.plot(
                line.x, line.y, style, label=line.name, lw=1.6, marker=marker, ms=4, color=colour
            )
            if line.low is not None and line.high is not None:
                axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.2, lw=0)
        axes.set(xlabel=x_label, ylabel=y_label)
        x = np.concatenate([line.x for line in lines])
        y = np.concatenate([line.y for line in lines])
        _scale_x(axes, x, is_log(x))
        max_y = max(1e-9, y.max(), *(np.max(line.high) for line in lines if line.high is not None))
        if not distances and not 0 <= y.min() <= y.max() <= 1:
            axes.axhline(0, color=DRAW, lw=0.8)
        elif not distances:
            axes.set_ylim(-0.02, 1.02)
            axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        elif not is_log(y):
            axes.set_ylim(-0.02 * max_y, max(1.05 * max_y, NEAR_ZERO))
        else:
            axes.set_yscale("symlog", linthresh=NEAR_ZERO, linscale=0.5)
            axes.set_yticks(
                [0, 0.001, 0.01, 0.1, 1], ["0", "0.001", "0.01", "0.1", "1"], minor=False
            )
            axes.set_ylim(-NEAR_ZERO / 20, max(1.1, 1.1 * max_y))
        _add_legend(figure, lines)

    return draw


def _scale_x(axes: Axes, x: Float64Array, is_log: bool) -> None:
    """Set an axis that begins at 0 if it is linear; a logarithmic one includes 0 if needed, and its
    label says so.
    """
    from matplotlib.ticker import EngFormatter, NullLocator, SymmetricalLogLocator

    high = x.max() or 1.0
    if not is_log:
        axes.set_xlim(0, high)
    else:
        low = x[x > 0].min(initial=high)
        axes.set_xscale("symlog", linthresh=low, linscale=0.3)
        axes.set_xlim(0 if x.min() <= 0 else low, max(high, 1.01 * low))
        axes.set_xlabel(
            f"{axes.get_xlabel()}, logarithmic{f' from {low:.3g}' if x.min() <= 0 else ''}"
        )
        subs = (1.0,) if high >= 50 * low else (1.0, 2.0, 5.0)
        axes.xaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=low, subs=subs))
        axes.xaxis.set_minor_locator(NullLocator())
    abbreviate = EngFormatter(sep="")
    axes.xaxis.set_major_formatter(
        lambda value, _: f"{value:g}" if value < 1000 else abbreviate(value)
    )


def _add_legend(figure: Figure, lines: Sequence[PlotLine]) -> None:
    """Add a legend in as many columns as fit, and its height to that of the figure."""
    columns = max(
        1, min(len(lines), 60 // (6 + max((len(line.name) for line in lines), default=1)))
    )
    figure.set_figheight(figure.get_figheight() + 0.22 * -(-len(lines) // columns))
    figure.legend(
        loc="outside upper left", ncols=columns, frameon=False, handlelength=2.4, columnspacing=1.2
    )


def error_bars(intervals: Sequence[Interval]) -> Float64Array:
    """Return the extents of intervals below and above their means, float64[2, N], as matplotlib
    error bars.
    """
    # rounding may give -1e-17 for zero
    mean, low, high = np.transpose(intervals)
    return np.maximum(0.0, [mean - low, high - mean])
