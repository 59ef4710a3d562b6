"""HTML pages: templates that escape all content, and the file of a page.

A page is one file: its style sheet is inside, it has no script, and nothing is fetched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import quote

from markupsafe import Markup

from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.files import write_atomically
from ttt_eval.reports import formats
from ttt_eval.reports.links import resolve_play_links
from ttt_eval.statistics import Interval

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_OPACITY = 0.6
"""Opacity of the colour of 1 or -1, chosen so that text on it stays readable in light and dark mode."""

Read = TypeVar("Read")
Content = Mapping[str, object]
"""Variables of a template."""


class Shaded(NamedTuple):
    """A table cell coloured by its number, -1 to 1."""

    content: object
    value: float


def macro(name: str, *arguments: object) -> Markup:
    """Return the HTML of a macro of ``macros.html``; all arguments but Markup are escaped."""
    html: Markup = getattr(_environment().get_template("macros.html").module, name)(*arguments)
    return html


def write_page(path: Path, template: str, content: Content) -> Path:
    """Write a page atomically.

    Args:
        path: path of the file.
        template: file name of the template.
        content: variables of the template; ``title`` is the first heading.

    Returns:
        ``path``.
    """
    text = resolve_play_links(_environment().get_template(template).render(content), path.parent)
    # undecodable bytes in file names are shown as escapes
    write_atomically(path, lambda file: file.write(text.encode("utf-8", "backslashreplace")))
    return path


def or_why(read: Callable[[], Read]) -> tuple[Read | None, str]:
    """Return the result of ``read``, or None and the reason of its failure."""
    try:
        return read(), ""
    except (ValueError, TypeError, OSError) as problem:
        return None, str(problem)


def section(build: Callable[[], Content]) -> Content:
    """Return the content of a section; if its data are invalid, the reason as ``missing``."""
    content, why = or_why(build)
    return {"missing": f"Left out: {why}."} if content is None else content


def shade(value: float) -> dict[str, str]:
    """Return class and style of a cell for -1 to 1: from orange through transparent to blue."""
    part = MAX_OPACITY * min(1.0, abs(value))
    return {} if part < 0.005 else {"class": "up" if value > 0 else "down", "style": f"--part:{part:.2f}"}


def interval_bar(value: Interval, low: float, high: float) -> Markup:
    """Return an interval as a small bar on a scale from ``low`` to ``high``, its estimate as a mark."""
    left, middle, right = (
        100 * min(1.0, max(0.0, (end - low) / (high - low))) if high > low else 50.0
        for end in (value.low, value.mean, value.high)
    )
    return macro("interval_bar", left, middle, right)


def link_to(path: Path, folder: Path) -> str:
    """Return the relative address of a file, from a page in ``folder``."""
    return encode_url(os.path.relpath(path, folder))


def encode_url(path: str) -> str:
    """Encode a relative path as a URL."""
    return quote(os.fsencode(path.replace(os.sep, "/")))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("ttt_eval.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (formats.number, formats.percent, formats.share, formats.mebibytes, shade)
    made.filters.update({one.__name__: one for one in filters})
    made.globals["VALUE_TOLERANCE"] = VALUE_TOLERANCE
    return made
