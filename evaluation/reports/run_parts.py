"""Shared parts of run pages: validated reading of files, tables of results, and curves.

A run's files are not trusted: any invalid part raises a one-sentence ValueError, which the page shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from evaluation.cost import is_number
from evaluation.exact.dynamic_programming import Outcome
from evaluation.reports.html import (
    Html,
    board_html,
    element,
    format_probability,
    has_room,
    joined,
    number,
    percent,
    share,
    table,
)
from evaluation.reports.plots import IN_PAGE, SERIES, STYLES, Draw, Line, as_svg, check_pictures, draw_curves
from learners.checkpoint import CONFIG
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import STONES, coordinate
from ttt_envs.game.rules import Game, Position

MARKS = 200
"""Maximum number of marks of metrics.jsonl in a plot, spaced evenly on its log axis."""
FEW = 2
"""Maximum number of moves that are listed beside a board that shows them."""
NAMED = 4
"""Maximum number of moves that are listed by name."""

Row = Mapping[str, float]
Read = TypeVar("Read")


def game_of(run: Path, config: Mapping[str, Any]) -> Game:
    """Return the game of a run.

    Raises:
        ValueError: a config without a valid game.
    """
    try:
        return Game.from_dict(dict(**config["game"]))
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{run / CONFIG} cannot be read as the settings of a run: {problem}") from None


def or_why(read: Callable[[], Read]) -> tuple[Read | None, str]:
    """Return the result of ``read``, or None and the reason of its failure."""
    try:
        return read(), ""
    except (ValueError, TypeError, OSError) as problem:
        return None, str(problem)


def key() -> Html:
    """Return the legend of bar colours."""
    return joined(
        part
        for name in ("win", "draw", "loss")
        for part in (element("span", class_=f"key {name}"), element("span", name))
    )


def results_table(caption: str, whose: str, rows: Iterable[tuple[object, Outcome]], within: Sequence[int] = ()) -> Html:
    """Return exact results as a table of numbers and bars; see :func:`evaluation.reports.html.table`."""
    cells = [(name, *_outcome_cells(one)) for name, one in rows]
    return table(caption, (whose, "win", "draw", "loss", key()), cells, within)


def _outcome_cells(one: Outcome) -> tuple[object, ...]:
    return (*map(share, one), results_bar(one))


def results_bar(shares: Iterable[float]) -> Html:
    """Return the shares of wins, draws and losses as a bar."""
    parts = zip(("win", "draw", "loss"), shares, strict=True)
    bar = (element("span", class_=name, style=f"width:{100 * part:.2f}%") for name, part in parts)
    return element("div", *bar, class_="bar", aria_hidden="true")


def picture(name: str, words: str, lines: Sequence[Line], x_label: str, y_label: str, distances: bool) -> Html:
    """Return a figure with its caption; without matplotlib the caption alone."""
    ends = "; ".join(f"{line.name} from {line.y[0]:.4g} to {line.y[-1]:.4g}" for line in lines if line.y)
    label = f"Curves by {x_label}, up to {max(max(line.x) for line in lines):,.0f}: {ends}."
    return element(
        "figure",
        embed_figure(draw_curves(lines, x_label, y_label, distances=distances), name, label),
        element("figcaption", words),
    )


def embed_figure(draw: Draw, name: str, label: str, size: tuple[float, float] = IN_PAGE) -> Html:
    """Return a figure; without matplotlib its text alternative."""
    try:
        check_pictures()
    except ValueError as problem:
        return element("p", f"Not drawn: {problem}. {label}", class_="quiet")
    return Html(as_svg(draw, name, label, size))


def line_of(rows: Sequence[Row], name: str, label: str, index: int) -> Line:
    """Return the curve of the column ``name`` by games; the index gives colour and style."""
    return Line(label, *series(rows, name), SERIES[index % len(SERIES)], STYLES[index % len(STYLES)])


def series(rows: Sequence[Row], name: str) -> tuple[list[float], list[float]]:
    """Return games and the values of the column ``name``."""
    return [row["games"] for row in rows], [row[name] for row in rows]


def rates(rows: Sequence[Row], name: str) -> tuple[list[float], list[float]]:
    """Return the share of ``name`` among the games since the previous mark, where there were any."""
    games, shares = [], []
    before: Row = {"games": 0, name: 0}
    for row in rows:
        if row["games"] > before["games"]:
            games.append(row["games"])
            shares.append((row[name] - before[name]) / (row["games"] - before["games"]))
            before = row
    return games, shares


def thin_out(rows: Sequence[Row], most: int = MARKS) -> list[Row]:
    """Return at most ``most`` rows including the first and the last, evenly spaced on the log axis of games."""
    if len(rows) <= most:
        return list(rows)
    games = np.array([max(1.0, row["games"]) for row in rows])
    wanted = np.geomspace(games[0], games[-1], most)[1:-1]
    chosen = np.searchsorted(games, wanted).clip(0, len(rows) - 1)
    return [rows[index] for index in sorted({0, *map(int, chosen), len(rows) - 1})]


def whole_number(value: object) -> str:
    """Format a number of games from a file."""
    return f"{value:,.0f}" if is_number(value) else "?"


def when_measured(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with exact measurements, no more than can be drawn."""
    return thin_out([row for row in rows if "exploitability" in row])


def left_out(sentence: str, command: str = "") -> Html:
    """Return the reason for a missing part, and the command that produces it."""
    return joined(
        [element("p", sentence, class_="quiet"), *([element("pre", element("code", command))] if command else [])]
    )


def game_options(game: Game) -> list[str]:
    """Return a game's command options that differ from the default."""
    usual, options = Game(), []
    if (game.rows, game.columns) != (usual.rows, usual.columns):
        options += ["--size", str(game.rows) if game.rows == game.columns else f"{game.rows}x{game.columns}"]
    if game.win_length != usual.win_length:
        options += ["--win-length", str(game.win_length)]
    if game.skip_chance != usual.skip_chance:
        options += ["--skip-chance", str(game.skip_chance)]
    return options


# ---------------------------------------------------------------------------------------------------------------------
# Choices in a position


def boards_of(figures: Iterable[Html]) -> Html:
    """Return boards side by side, wrapped to the available width."""
    return element("ol", *(element("li", figure) for figure in figures), class_="boards")


def choice_figure(
    game: Game,
    position: Position,
    shares: Float64Array,
    best: Sequence[int] = (),
    about: Sequence[object] = (),
    title: str = "",
) -> Html:
    """Return a board with the moves played there.

    Args:
        game: the game.
        position: the position.
        shares: float64[cells], the probabilities of moves.
        best: cells of the best moves, if known.
        about: additional line of the caption.
        title: the first line of the caption; by default the mover.
    """
    mover = STONES[position.mover + 1]
    cells = np.flatnonzero(shares > 0)
    cells = cells[np.argsort(-shares[cells], kind="stable")]
    plays = [f"{coordinate(int(cell), game)} ({format_probability(float(shares[cell]))})" for cell in cells]
    wanted = [coordinate(cell, game) for cell in best]
    told = f"; best: {_join_names(wanted)}" if wanted else ""
    shown = board_html(
        game, position.cells, shares=shares, best=best, words=f"{mover} is to move, plays {_join_names(plays)}{told}."
    )
    caption: list[object] = [element("strong", title or f"{mover} to move")]
    caption += [element("br"), *about] if about else []
    for words, moves in (("plays", plays), ("best:", wanted)):
        if moves and (len(moves) <= FEW or not has_room(game)):  # many moves are seen faster than read
            caption += [element("br"), f"{words} {_join_names(moves)}"]
    return element("figure", shown, element("figcaption", *caption))


def loses(loss: float, likely: float) -> tuple[object, ...]:
    """Describe the expected loss of a choice, and its frequency."""
    return ("loses ", element("span", number(loss), class_="cost"), f" in {percent(likely)} of games")


def _join_names(names: Sequence[str]) -> str:
    """List the first names, and count the rest."""
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    return ", ".join([*names[:NAMED], *more])
