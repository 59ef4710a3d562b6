"""Pieces of HTML pages: elements that escape what is put into them, tables, boards, and the page around them.

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
from ttt_envs.boards import COLUMNS, STONES
from ttt_envs.compiling import Cells, Reals
from ttt_envs.files import write_whole
from ttt_envs.policy import TIE
from ttt_envs.rules import LARGEST_EDGE, Game

STRONGEST = 0.6
"""opacity of the colour of 1 or -1: so much that text on it is still read easily, in light and in dark"""
_EMPTY = ("br", "col", "hr", "meta")
"""elements that hold nothing and are not closed"""


class Html(str):
    """What is HTML already; every other string is escaped where it is put into an element."""


def element(tag: str, *content: object, **attributes: object) -> Html:
    """An element with attributes and content, escaped but for :class:`Html`; None is left out.

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
    """HTML after HTML."""
    return Html(between.join(parts))


class Shaded(NamedTuple):
    """A cell of a table that is coloured by its number, -1 to 1."""

    content: object
    value: float


def _cell(cell: object) -> Html:
    if isinstance(cell, Shaded):
        return element("td", cell.content, **_shade(cell.value))
    return element("td", cell)


def reach(value: Interval, low: float, high: float) -> Html:
    """An interval as a small bar on a scale from ``low`` to ``high``, its estimate as a mark."""
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
    """A table of data in a box of its own, which scrolls where the page is narrower.

    Args:
        caption: what it shows.
        head: names of the columns.
        rows: the first of a row is its name.
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
    # the caption does not scroll; what does can be reached with the keyboard
    box = element("div", inside, class_="wide", tabindex=0, role="region", aria_label=caption)
    return element("figure", element("figcaption", caption), box)


def tiles(shown: Iterable[tuple[str, object, str]]) -> Html:
    """Numbers to see first: what each is, the number, and a few words on it."""
    return element(
        "dl",
        *(
            element("div", element("dt", name), element("dd", value, element("small", words) if words else None))
            for name, value, words in shown
        ),
        class_="tiles",
    )


def folded(title: str, *content: object) -> Html:
    """What is seen when its title is clicked."""
    return element("details", element("summary", title), *content)


# ---------------------------------------------------------------------------------------------------------------------
# Numbers


def number(value: float) -> str:
    """A distance: what is whole to rounding has no digits, and a small one has more."""
    if _is_whole(value):
        return f"{round(value)}"
    if abs(value) >= 1e-3:
        return f"{value:.4f}"
    return f"{value:.6f}" if abs(value) >= 1e-5 else f"{value:.1e}"


def share(value: float) -> str:
    """A probability with four digits; 0 and 1 only where it is that to rounding."""
    return f"{round(value)}" if _is_whole(value) else f"{value:.4f}"


def short(value: float) -> str:
    """A probability for a cell of a board."""
    if _is_whole(value):
        return f"{round(value)}"
    return f"{value:.2f}" if value >= 0.01 else f"{value:.1g}"


def _is_whole(value: float) -> bool:
    return abs(value - round(value)) <= TIE


def percent(value: float) -> str:
    """A probability in words; none and all only where it is that to rounding."""
    if _is_whole(value):
        return f"{100 * round(value)}%"
    return "below 0.1%" if value < 0.0005 else ("over 99.9%" if value > 0.9995 else f"{value:.1%}")


def signed(value: float, digits: int = 2) -> str:
    """A value, -1 to 1, with its sign."""
    return "0" if abs(value) <= TIE else f"{value:+.{digits}f}"


# ---------------------------------------------------------------------------------------------------------------------
# Boards


def _edge(game: Game) -> str:
    """The edge of a cell, so that the board, and its name beside it, are no wider than a narrow screen."""
    edges = ((4, "2.9rem"), (6, "2.5rem"), (8, "2rem"), (LARGEST_EDGE, "0.9rem"))
    return next(edge for most, edge in edges if game.columns <= most)


def has_room(game: Game) -> bool:
    """Whether the cells of a board in a page can hold numbers."""
    return game.columns <= 8


def _shade(value: float) -> dict[str, object]:
    """Class and style of a cell that shows -1 to 1: from orange through nothing to blue."""
    part = STRONGEST * min(1.0, abs(value))
    if part < 0.005:
        return {}
    return {"class_": "up" if value > 0 else "down", "style": f"--part:{part:.2f}"}


def in_words(game: Game, cells: Cells) -> str:
    """A board as a sentence, row by row."""
    rows = cells.reshape(game.rows, game.columns)
    return "; ".join(" ".join("empty" if cell == 0 else STONES[cell] for cell in row) for row in rows)


def board(
    game: Game,
    cells: Cells,
    *,
    last: int | None = None,
    shares: Reals | None = None,
    best: Sequence[int] = (),
    numbers: Mapping[int, int] | None = None,
    words: str = "",
) -> Html:
    """A small board.

    Args:
        game: whose board.
        cells: int8[cells], the stones.
        last: the cell of the stone to mark.
        shares: float64[cells], probabilities of moves, shown in empty cells.
        best: cells to mark as best moves.
        numbers: by cell, what to show in place of a stone.
        words: what is marked, for those who do not see it.
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
            text = short(float(shares[cell])) if has_room(game) else ""
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
    game: Game, title: str, about: str, values: Reals, written: Callable[[float], str], largest: float = 1.0
) -> Html:
    """A table in the form of the board, coloured by its numbers.

    Args:
        game: whose board.
        title: what it shows.
        about: more on it.
        values: float64[cells], -1 to 1, NaN where there is none.
        written: a number as text; it stands in the cell where there is room, and is shown by pointing at it in any
            case.
        largest: the number that has the strongest colour.
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
    """The relative address of a file, seen from a page in ``folder``."""
    return encoded(os.path.relpath(path, folder))


def encoded(path: str) -> str:
    """A relative path as an address; letters that stand for something else there are written by their codes."""
    return quote(os.fsencode(path.replace(os.sep, "/")))


def write_page(path: Path, title: str, sections: Iterable[Html], back: tuple[str, str] | None = None) -> Path:
    """Write a page, whole or not at all.

    Args:
        path: of the file.
        title: of the page, its first heading.
        sections: what stands on it.
        back: address and words of the link above the heading.

    Returns:
        ``path``.
    """
    style = resources.files("evaluation").joinpath("style.css").read_text("utf-8")
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
    # names of files that are no text are shown with their codes
    write_whole(path, lambda file: file.write(text.encode("utf-8", "backslashreplace")))
    return path


def section(title: str, *content: object) -> Html:
    """A part of a page with its heading."""
    return element("section", element("h2", title), Html("\n"), *content)
