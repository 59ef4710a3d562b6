"""All pictures: drawn by matplotlib without a display, as files or as SVG inside a page.

Colours are those of Okabe and Ito (*Color universal design*, 2008), which people with any kind of colour vision can
tell apart; results are told by blue, grey and vermilion, never by red against green.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttt_envs.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[["Figure"], None]
"""draws on an empty figure"""

WIN, DRAW, LOSS = "#0072B2", "#8C8C8C", "#D55E00"
RESULTS = (WIN, DRAW, LOSS)
"""of wins, draws and losses"""
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""of anything else, in order"""

_INK = "#010203"
"""what is drawn in it takes the colour of the text around the picture"""


def check_pictures() -> None:
    """Raise ValueError where pictures cannot be drawn."""
    if find_spec("matplotlib") is None:
        raise ValueError('pictures need matplotlib: pip install "ttt_envs[report]"')


def save_picture(path: Path, draw: Draw) -> list[Path]:
    """Draw on an empty figure and write it as PNG and as SVG.

    Args:
        path: of both, with whatever suffix.
        draw: what to draw.

    Returns:
        The two paths, PNG first. The same numbers make the same files.
    """
    figure = _drawn(draw, (8.0, 4.5), "black")
    written = []
    for form, settings in (("png", {"dpi": 120}), ("svg", {})):
        to = path.with_suffix(f".{form}")
        write_whole(to, lambda file, form=form, settings=settings: _save(figure, file, form, **settings))
        written.append(to)
    return written


def as_svg(draw: Draw, size: tuple[float, float] = (8.0, 4.0)) -> str:
    """Draw on an empty figure, as an SVG element for inside a page: transparent, in the page's text colour and font.

    Args:
        draw: what to draw.
        size: width and height in inches; in the page it is as wide as there is room.
    """
    figure = _drawn(draw, size, _INK)
    figure.patch.set_alpha(0)
    for axes in figure.axes:
        axes.patch.set_alpha(0)
    file = io.BytesIO()
    _save(figure, file, "svg")
    text = file.getvalue().decode()
    text = text[text.index("<svg") :].replace(_INK, "currentColor")
    head, body = text.split(">", 1)
    return re.sub(r' (width|height)="[^"]*"', "", head) + ">" + body


def _drawn(draw: Draw, size: tuple[float, float], ink: str) -> Figure:
    from cycler import cycler
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {"axes.prop_cycle": cycler(color=SERIES)}
    settings |= dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), ink)
    with rc_context(settings):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        for axes in figure.axes:
            axes.grid(alpha=0.3)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
    return figure


def _save(figure: Figure, file: Any, form: str, **settings: Any) -> None:
    from matplotlib import rc_context

    # no date, no version and no random names: the same numbers make the same file
    nothing = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}[form]
    with rc_context({"svg.hashsalt": "ttt_envs", "svg.fonttype": "none"}):
        figure.savefig(file, format=form, metadata=nothing, **settings)
