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
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote
from zlib import crc32

from markupsafe import Markup

from ttt_envs.core.checks import escape_unprintable
from ttt_envs.core.files import write_bytes
from ttt_envs.core.jit import Float64Array, Int8Array
from ttt_envs.game.boards import STONES
from ttt_envs.game.phantom import AnyGame
from ttt_eval.reports import plots
from ttt_eval.reports.formats import format_probability
from ttt_eval.store.result_store import Data

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATES = Path(__file__).parent / "templates"
"""Folder of the template, its style sheet, and the fixed words of all pages."""
MAX_COLUMNS = 8
"""Maximum number of columns of a board whose cells have room for numbers."""


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


class DataTable(NamedTuple):
    """Rows, of each the first entry is its name."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Row]
    parts: Sequence[int] = ()
    """rows that are a part of the one above them"""
    kind: str = "table"


class PlotFigure(NamedTuple):
    """A drawing."""

    svg: str
    caption: str
    missing: str = ""
    """in place of the drawing: why there is none, and its text alternative"""


class BoardFigure(NamedTuple):
    """A position, with numbers in its empty cells."""

    game: AnyGame
    cells: Int8Array
    lines: Sequence[str]
    """the caption, its first line in bold"""
    words: str = ""
    """text alternative of the marks"""
    numbers: Float64Array | None = None
    """float64[cells], shown in empty cells, which they colour; NaN for none"""
    write: Callable[[float], str] = format_probability
    names: Sequence[str] = ()
    """of cells, shown in those without a stone or a number"""
    best: Sequence[int] = ()
    """cells that are framed"""
    last: int | None = None
    """cell of the stone that is marked"""
    cost: str = ""
    """second line of the caption, in the colour of a loss"""
    explore: str = ""
    """command that opens the explorer"""


class BoardRow(NamedTuple):
    """Boards side by side."""

    boards: Sequence[BoardFigure]
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


Part = DataTable | BoardRow | Text | Sequence[PlotFigure]
"""A part of a section; figures are side by side."""
Parts = Sequence[Part | None]


class Report(NamedTuple):
    """A page."""

    title: str
    verdict: str
    tiles: Sequence[Tile]
    sections: Mapping[str, Parts]
    """by heading, "" for the first one; a section without parts is left out, and so is a part that
    is None
    """


@cache
def fixed_words() -> Data:
    """Return the content of ``templates/words.toml``."""
    return tomllib.loads((TEMPLATES / "words.toml").read_text("utf-8"))


def words(key: str, **names: object) -> str:
    """Return a fixed text of ``templates/words.toml``, with names in the places in braces."""
    text: str = fixed_words()["texts"][key]
    return text.format(**names)


def left_out(reason: str, *commands: str) -> Text:
    """Return a sentence in place of a part of a page, and the commands that compute it."""
    return Text(reason, commands, quiet=True)


def figure(draw: plots.Draw, label: str, caption: str) -> PlotFigure:
    """Return a figure with its text alternative, which stands in its place without matplotlib."""
    try:
        name = f"f{crc32((label + caption).encode()):08x}"
        return PlotFigure(Markup(plots.as_svg(draw, name, printable(label))), caption)
    except ValueError as problem:
        return PlotFigure("", caption, f"Not drawn: {problem}. {label}")


def table_texts(table: DataTable) -> list[list[str]]:
    """Return the rows of a table as text, its head first, with notes in parentheses."""

    def write(cell: str | Cell) -> str:
        if isinstance(cell, str):
            return cell
        note = [f"({cell.note})"] if cell.note else []
        return " ".join([cell.text, *note, *(text for text, _ in cell.links)])

    return [[write(cell).strip() for cell in row] for row in (table.head, *table.rows)]


def markdown(table: DataTable) -> list[str]:
    """Return the lines of a table in Markdown."""
    return markdown_rows(
        [[re.sub(r"([\\`*_<>|\[\]])", r"\\\1", text) for text in row] for row in table_texts(table)]
    )


def markdown_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table of texts in Markdown, the head first."""
    head, *lines = (f"| {' | '.join(row)} |" for row in rows)
    return [head, "|---" * len(rows[0]) + "|", *lines]


def link_to(path: Path, folder: Path) -> str:
    """Return the relative address of a file, from a page in ``folder``; "" if there is no such
    file.
    """
    if not path.is_file():
        return ""
    return quote(os.fsencode(os.path.relpath(path, folder).replace(os.sep, "/")))


def write_report(path: Path, report: Report) -> Path:
    """Write a page atomically, and return its path."""
    text = _template().render(report=report).lstrip()
    # undecodable bytes in file names are shown as escapes
    write_bytes(path, text.encode("utf-8", "backslashreplace"))
    return path


def printable(value: Any) -> Any:
    """Escape unprintable characters of a text: they may be invalid in SVG, or reverse the text
    direction.
    """
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return escape_unprintable(value, keep="\n")


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "figure_colours": Markup(plots.colour_rules(".curves svg ")),
        "stones": STONES,
        "max_columns": MAX_COLUMNS,
    }
    return environment.get_template("report.html")
