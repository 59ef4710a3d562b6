"""What a page consists of, and the one template that makes it HTML.

A page is one file: its style sheet is inside, it has no script, and nothing is fetched.
"""

from __future__ import annotations

import os
import re
import tomllib
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
from ttt_envs.game.phantom import AnyGame
from ttt_eval.reports.formats import format_probability
from ttt_eval.reports.links import resolve_play_links
from ttt_eval.reports.plots import colour_rules

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATES = Path(__file__).parent / "templates"
"""Folder of the template, its style sheet, and the fixed words of all pages."""
MAX_OPACITY = 0.6
"""Opacity of the colour of 1 or -1, chosen so that text on it stays readable in light and dark mode."""
MAX_COLUMNS = 8
"""Maximum number of columns of a board whose cells have room for numbers."""

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
            names = [STONES[stone] if stone else "", colour.get("class", "")]
            names += ["last" if cell == self.last else "", "best" if cell in self.best else ""]
            hidden = bool(number) and self.game.columns > MAX_COLUMNS
            attributes = {"class": " ".join(filter(None, names)) or None, "style": colour.get("style")}
            spans.append(("" if hidden else text, {**attributes, "title": number if hidden else None}))
        return spans

    @property
    def label(self) -> str:
        """The board in words, for readers who do not see it."""
        rows = self.cells.reshape(self.game.rows, self.game.columns)
        stones = "; ".join(" ".join(STONES[cell] if cell else "empty" for cell in row) for row in rows)
        return f"Board, row by row: {stones}. {self.words}".strip()


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


Part = Table | Boards | Text | Sequence[Figure]
"""A part of a section; figures are side by side."""
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


@cache
def fixed_words() -> dict[str, Any]:
    """Return the content of ``templates/words.toml``."""
    return tomllib.loads((TEMPLATES / "words.toml").read_text("utf-8"))


def words(key: str, **names: str) -> str:
    """Return a fixed text of ``templates/words.toml``, with names in the places in braces."""
    text: str = fixed_words()["texts"][key]
    return text.format(**names)


def markdown(content: Table) -> list[str]:
    """Return the lines of a table in Markdown, with notes in parentheses."""
    rows = [content.head, *content.rows]
    head, *lines = (f"| {' | '.join(map(_escape_markdown, row))} |" for row in rows)
    return [head, "|---" * len(content.head) + "|", *lines]


def _escape_markdown(cell: str | Cell) -> str:
    if isinstance(cell, Cell):
        cell = f"{cell.text} ({cell.note})" if cell.note else cell.text
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", cell)


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
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, finalize=printable,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["shade"] = shade
    environment.globals["figure_colours"] = Markup(colour_rules(".curves svg "))
    return environment.get_template("report.html")
