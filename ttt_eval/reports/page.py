"""What a page consists of, and the one template that makes it HTML.

A page is one file: its style sheet is inside, it has no script, and nothing is fetched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

import numpy as np
from markupsafe import Markup

from ttt_envs.core.files import write_atomically
from ttt_envs.core.jit import Float64Array, Int8Array
from ttt_envs.game.boards import STONES
from ttt_envs.game.game import MAX_EDGE
from ttt_envs.game.phantom import AnyGame
from ttt_eval.reports.formats import format_probability
from ttt_eval.reports.links import resolve_play_links

if TYPE_CHECKING:
    from jinja2 import Template

MAX_OPACITY = 0.6
"""Opacity of the colour of 1 or -1, chosen so that text on it stays readable in light and dark mode."""
MAX_COLUMNS = 8
"""Maximum number of columns of a board whose cells have room for numbers."""
RESULTS_KEY = "results"
"""Head of a column of bars of results: it explains their colours."""

Read = TypeVar("Read")


class Tile(NamedTuple):
    """A headline number."""

    name: str
    value: str
    note: str = ""


class Cell(NamedTuple):
    """A cell of a table that is more than text."""

    text: str = ""
    note: str = ""
    """in small print below it"""
    shade: float = 0.0
    """-1 to 1: from orange through transparent to blue"""
    shares: Sequence[float] = ()
    """of wins, draws and losses, as a bar"""
    reach: Sequence[float] = ()
    """left, middle and right of an interval in per cent of the width, as a bar"""
    links: Sequence[tuple[str, str]] = ()
    """texts with relative addresses, "" for a text without a link"""


Row = Sequence[str | Cell]


class Table(NamedTuple):
    """Rows, of each the first entry is its name."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Row]
    parts: Sequence[int] = ()
    """rows that are a part of the one above them"""
    folded: str = ""
    """text that unfolds the table; "" for a table that is open"""
    kind: str = "table"


class Figure(NamedTuple):
    """A drawing."""

    svg: Markup
    caption: str
    missing: str = ""
    """in place of the drawing: why there is none, and its text alternative"""


class Figures(NamedTuple):
    """Drawings side by side."""

    figures: Sequence[Figure]
    kind: str = "figures"


class Board(NamedTuple):
    """A position, with numbers in its cells."""

    game: AnyGame
    cells: Int8Array
    lines: Sequence[str]
    """the caption, its first line in bold"""
    words: str = ""
    """text alternative of the marks"""
    numbers: Float64Array | None = None
    """float64[cells], shown in empty cells, which they colour; NaN for none"""
    write: Callable[[float], str] = format_probability
    largest: float = 1.0
    """number with the strongest colour"""
    best: Sequence[int] = ()
    """cells that are framed"""
    last: int | None = None
    """cell of the stone that is marked"""
    order: Mapping[int, int] | None = None
    """by cell, the number in place of a stone"""
    cost: str = ""
    """second line of the caption, in the colour of a loss"""
    ways: tuple[str, str] = ("", "")
    """link to the page without a server, and command that opens the explorer"""

    @property
    def spans(self) -> list[tuple[str, dict[str, str | None]]]:
        """Text and attributes of each cell."""
        spans = []
        for cell, stone in enumerate(self.cells):
            value = float("nan") if stone or self.numbers is None else float(self.numbers[cell])
            number = "" if np.isnan(value) else self.write(value)
            text = number if not stone else STONES[stone] if self.order is None else str(self.order[cell])
            colour = shade(value / self.largest) if number else {}
            names = [STONES[stone]] * bool(stone) + list(colour.values())[:1]
            names += ["last"] * (cell == self.last) + ["best"] * (cell in self.best)
            attributes = {"class": " ".join(names) or None, "style": colour.get("style"), "title": None}
            if number and self.game.columns > MAX_COLUMNS:
                text, attributes["title"] = "", number
            spans.append((text, attributes))
        return spans

    @property
    def attributes(self) -> dict[str, str]:
        """Attributes of the board: its name for readers who do not see it, and the size of its cells."""
        rows = self.cells.reshape(self.game.rows, self.game.columns)
        stones = "; ".join(" ".join("empty" if cell == 0 else STONES[cell] for cell in row) for row in rows)
        edges = ((4, "2.9rem"), (6, "2.5rem"), (8, "2rem"), (MAX_EDGE, "0.9rem"))  # so that it fits a narrow screen
        edge = "1.7rem" if self.order else next(edge for most, edge in edges if self.game.columns <= most)
        return {
            "class": "board small" if self.numbers is None and self.order is None else "board",
            "role": "img",
            "aria-label": f"Board, row by row: {stones}. {self.words}".strip(),
            "style": f"--columns:{self.game.columns};--edge:{edge}",
        }


class Boards(NamedTuple):
    """Boards side by side."""

    boards: Sequence[Board]
    title: str = ""
    pair: bool = False
    """whether they are one of several pairs, two of which stand side by side"""
    kind: str = "boards"


class Text(NamedTuple):
    """A paragraph, and code below it."""

    text: str
    code: str | Sequence[str] = ()
    """a text, or commands, of which a click selects one; those that begin with # are comments"""
    quiet: bool = False
    """whether it is in small print"""
    folded: str = ""
    """text that unfolds it"""
    kind: str = "text"


Part = Table | Figures | Boards | Text
Parts = Sequence[Part | None]


class Report(NamedTuple):
    """A page."""

    title: str
    verdict: str
    tiles: Sequence[Tile]
    sections: Mapping[str, Parts]
    """by heading, "" for the first one; a section without parts is left out, and so is a part that is None"""
    back: str = ""
    """relative address of an overview"""


def or_why(read: Callable[[], Read]) -> tuple[Read | None, str]:
    """Return the result of ``read``, or None and the reason of its failure."""
    try:
        return read(), ""
    except (ValueError, TypeError, OSError) as problem:
        return None, str(problem)


def left_out(why: str, *commands: str) -> Text:
    """Return a sentence in place of a part of a page, and the commands that compute it."""
    return Text(why, commands, quiet=True)


def shade(value: float) -> dict[str, str]:
    """Return class and style of a cell for -1 to 1; nothing where the colour would be invisible."""
    part = MAX_OPACITY * min(1.0, abs(value))
    return {"class": "up" if value > 0 else "down", "style": f"--part:{part:.2f}"} if part >= 0.005 else {}


def encode_url(path: str) -> str:
    """Encode a relative path as a URL."""
    return quote(os.fsencode(path.replace(os.sep, "/")))


def link_to(path: Path, folder: Path) -> str:
    """Return the relative address of a file, from a page in ``folder``; "" if there is no such file."""
    return encode_url(os.path.relpath(path, folder)) if path.is_file() else ""


def write_report(path: Path, report: Report) -> Path:
    """Write a page atomically, and return its path."""
    text = resolve_play_links(_template().render(report=report).lstrip(), path.parent)
    # undecodable bytes in file names are shown as escapes
    write_atomically(path, lambda file: file.write(text.encode("utf-8", "backslashreplace")))
    return path


def printable(value: Any) -> Any:
    """Escape unprintable characters of a text: they may be invalid in SVG, or reverse the text direction."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "".join(letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1] for letter in value)


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("ttt_eval.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shade"] = shade
    return environment.get_template("report.html")
