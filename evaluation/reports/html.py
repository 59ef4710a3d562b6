"""Building blocks of HTML pages: elements that escape their content, tables, boards, and the page around them.

A page is one file: its style sheet is inside, it has no script, and nothing is fetched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from evaluation.statistics import Interval
from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.files import write_atomically
from ttt_envs.core.jit import Float64Array, Int8Array
from ttt_envs.game.boards import COLUMNS, STONES
from ttt_envs.game.rules import MAX_EDGE, Game

STRONGEST = 0.6
"""Opacity of the colour of 1 or -1, chosen so that text on it stays readable in light and dark mode."""
_EMPTY = ("br", "col", "hr", "meta")
"""Void elements, which have no content and no end tag."""


class Html(str):
    """A string that is HTML already; elements escape every other string."""


def element(tag: str, *content: object, **attributes: object) -> Html:
    """Return an element with attributes and content, escaped except for :class:`Html`; None is left out.

    An attribute's name may end in ``_`` and has ``_`` for ``-``, as in ``class_``, ``aria_label``.
    """
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    inside = "".join(one if isinstance(one, Html) else escape(str(one)) for one in content if one is not None)
    return Html(f"<{tag}{named}>" if tag in _EMPTY else f"<{tag}{named}>{inside}</{tag}>")


def joined(parts: Iterable[Html], between: str = "") -> Html:
    """Concatenate HTML."""
    return Html(between.join(parts))


class Shaded(NamedTuple):
    """A table cell coloured by its number, -1 to 1."""

    content: object
    value: float


def _cell(cell: object) -> Html:
    if isinstance(cell, Shaded):
        return element("td", cell.content, **_shade(cell.value))
    return element("td", cell)


def reach(value: Interval, low: float, high: float) -> Html:
    """Return an interval as a small bar on a scale from ``low`` to ``high``, its estimate as a mark."""
    left, middle, right = (
        100 * min(1.0, max(0.0, (end - low) / (high - low))) if high > low else 50.0
        for end in (value.low, value.mean, value.high)
    )
    return element(
        "div",
        element("span", style=f"left:{left:.1f}%;width:{right - left:.1f}%"),
        element("i", style=f"left:{middle:.1f}%"),
        class_="reach",
        aria_hidden="true",
    )


def table(caption: str, head: Sequence[object], rows: Iterable[Sequence[object]], parts: Sequence[int] = ()) -> Html:
    """Return a table in a box of its own, which scrolls if the page is narrower.

    Args:
        caption: caption of the table.
        head: names of the columns.
        rows: the first entry of a row is its name.
        parts: indices of rows that are a part of the one above them.
    """
    columns = element("tr", *(element("th", name, scope="col") for name in head))
    body = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *map(_cell, row[1:]),
            class_="part" if index in parts else None,
        )
        for index, row in enumerate(rows)
    ]
    inside = element("table", element("thead", columns), element("tbody", *body), class_="data", aria_label=caption)
    # the caption does not scroll; the scrolling part is reachable by keyboard
    box = element("div", inside, class_="wide", tabindex=0, role="region", aria_label=caption)
    return element("figure", element("figcaption", caption), box)


def tiles(shown: Iterable[tuple[str, object, str]]) -> Html:
    """Return headline numbers: for each a name, the number, and a few words."""
    return element(
        "dl",
        *(
            element("div", element("dt", name), element("dd", value, element("small", words) if words else None))
            for name, value, words in shown
        ),
        class_="tiles",
    )


def details(title: str, *content: object) -> Html:
    """Return content that is shown when its title is clicked."""
    return element("details", element("summary", title), *content)


# ---------------------------------------------------------------------------------------------------------------------
# Numbers


def number(value: float) -> str:
    """Format a distance: integers (up to rounding) without decimals, small ones with more."""
    if _is_whole(value):
        return f"{round(value)}"
    if abs(value) >= 1e-3:
        return f"{value:.4f}"
    return f"{value:.6f}" if abs(value) >= 1e-5 else f"{value:.1e}"


def share(value: float) -> str:
    """Format a probability with four decimals; as 0 and 1 only if equal up to rounding."""
    return f"{round(value)}" if _is_whole(value) else f"{value:.4f}"


def format_probability(value: float) -> str:
    """Format a probability for a cell of a board."""
    if _is_whole(value):
        return f"{round(value)}"
    return f"{value:.2f}" if value >= 0.01 else f"{value:.1g}"


def _is_whole(value: float) -> bool:
    return abs(value - round(value)) <= VALUE_TOLERANCE


def percent(value: float) -> str:
    """Format a probability as a percentage; as 0% and 100% only if equal up to rounding."""
    if _is_whole(value):
        return f"{100 * round(value)}%"
    return "below 0.1%" if value < 0.0005 else ("over 99.9%" if value > 0.9995 else f"{value:.1%}")


def signed(value: float, digits: int = 2) -> str:
    """Format a value, -1 to 1, with its sign."""
    return "0" if abs(value) <= VALUE_TOLERANCE else f"{value:+.{digits}f}"


# ---------------------------------------------------------------------------------------------------------------------
# Boards


def _edge(game: Game) -> str:
    """Return the edge of a cell, so that the board and its name fit a narrow screen."""
    edges = ((4, "2.9rem"), (6, "2.5rem"), (8, "2rem"), (MAX_EDGE, "0.9rem"))
    return next(edge for most, edge in edges if game.columns <= most)


def has_room(game: Game) -> bool:
    """Return whether the cells of a board in a page can hold numbers."""
    return game.columns <= 8


def _shade(value: float) -> dict[str, object]:
    """Return class and style of a cell for -1 to 1: from orange through transparent to blue."""
    part = STRONGEST * min(1.0, abs(value))
    if part < 0.005:
        return {}
    return {"class_": "up" if value > 0 else "down", "style": f"--part:{part:.2f}"}


def in_words(game: Game, cells: Int8Array) -> str:
    """Describe a board row by row."""
    rows = cells.reshape(game.rows, game.columns)
    return "; ".join(" ".join("empty" if cell == 0 else STONES[cell] for cell in row) for row in rows)


def board_html(
    game: Game,
    cells: Int8Array,
    *,
    last: int | None = None,
    shares: Float64Array | None = None,
    best: Sequence[int] = (),
    numbers: Mapping[int, int] | None = None,
    words: str = "",
) -> Html:
    """Return a small board.

    Args:
        game: the game.
        cells: int8[cells], the stones.
        last: the cell of the stone to mark.
        shares: float64[cells], probabilities of moves, shown in empty cells.
        best: cells to mark as best moves.
        numbers: by cell, text in place of a stone.
        words: text alternative of the marks.
    """
    shown = []
    for cell, stone in enumerate(cells):
        names, style, text = [], None, ""
        if stone:
            names.append(STONES[stone])
            text = STONES[stone] if numbers is None else str(numbers[cell])
        elif shares is not None and shares[cell] > 0:
            shade = _shade(float(shares[cell]))
            names += [str(shade["class_"])] if shade else []
            style = shade.get("style")
            text = format_probability(float(shares[cell])) if has_room(game) else ""
        names += ["last"] * (cell == last) + ["best"] * (cell in best)
        shown.append(element("span", text, class_=" ".join(names) or None, style=style))
    return element(
        "div",
        *shown,
        class_="board" if numbers is not None or shares is not None else "board small",
        role="img",
        aria_label=f"Board, row by row: {in_words(game, cells)}. {words}".strip(),
        style=f"--columns:{game.columns};--edge:{_edge(game) if numbers is None else '1.7rem'}",
    )


def heat_map(
    game: Game, title: str, about: str, values: Float64Array, written: Callable[[float], str], largest: float = 1.0
) -> Html:
    """Return a table in the form of the board, coloured by its numbers.

    Args:
        game: the game.
        title: title of the table.
        about: explanation.
        values: float64[cells], -1 to 1, NaN where there is none.
        written: formats a number; shown in the cell if there is room, and always as a tooltip.
        largest: number with the strongest colour.
    """
    grid: NDArray[np.float64] = values.reshape(game.rows, game.columns)
    names = (element("th", COLUMNS[column], scope="col") for column in range(game.columns))
    head = element("tr", element("td", style="border:0"), *names)
    body = []
    for row in range(game.rows):
        shown = []
        for value in map(float, grid[row]):
            text = "" if np.isnan(value) else written(value)
            colours = {} if np.isnan(value) else _shade(value / largest)
            shown.append(element("td", text if has_room(game) else None, title=text or None, **colours))
        body.append(element("tr", element("th", row + 1, scope="row"), *shown))
    caption = element("caption", element("strong", title), element("br"), about)
    inside = (caption, element("thead", head), element("tbody", *body))
    return element("table", *inside, class_="map", style=f"--edge:{_edge(game)}")


# ---------------------------------------------------------------------------------------------------------------------
# The page


def link_to(path: Path, folder: Path) -> str:
    """Return the relative address of a file, from a page in ``folder``."""
    return encoded(os.path.relpath(path, folder))


def encoded(path: str) -> str:
    """Encode a relative path as a URL."""
    return quote(os.fsencode(path.replace(os.sep, "/")))


def write_page(path: Path, title: str, sections: Iterable[Html], back: tuple[str, str] | None = None) -> Path:
    """Write a page atomically.

    Args:
        path: of the file.
        title: of the page, its first heading.
        sections: content of the page.
        back: address and words of the link above the heading.

    Returns:
        ``path``.
    """
    style = resources.files("evaluation.reports").joinpath("style.css").read_text("utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        Html(f"<style>\n{style}</style>"),
    )
    above = None if back is None else element("nav", element("a", f"← {back[1]}", href=back[0]), aria_label="Overview")
    body = element(
        "body",
        Html("\n"),
        element("header", above, element("h1", title)),
        Html("\n"),
        element("main", joined(sections, "\n")),
        Html("\n"),
    )
    text = f'<!doctype html>\n<html lang="en">\n{head}\n{body}\n</html>\n'
    # undecodable bytes in file names are shown as escapes
    write_atomically(path, lambda file: file.write(text.encode("utf-8", "backslashreplace")))
    return path


def section(title: str, *content: object) -> Html:
    """Return a section with its heading."""
    return element("section", element("h2", title), Html("\n"), *content)
