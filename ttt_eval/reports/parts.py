"""Parts that several pages have: tables, boards with the moves played there, results and costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from msgspec import UnsetType

from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import STONES, coordinate, from_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.phantom import AnyGame
from ttt_eval.matches.results import ChosenMoves, DifferentMoves, PlayedResult
from ttt_eval.matches.score import Score
from ttt_eval.reports import formats, page, plots
from ttt_eval.reports.page import (
    BoardFigure,
    BoardRow,
    Cell,
    DataTable,
    Parts,
    PlotFigure,
    Text,
    Tile,
    left_out,
)
from ttt_eval.runs.curves import X_LABELS, Group, Summary, XAxis, summarize_groups
from ttt_eval.store.metrics import YAxis, metric
from ttt_eval.store.results import Result
from ttt_eval.store.statistics import Interval

Key = TypeVar("Key")
MAX_GROUPS = 12
"""Maximum number of groups in a figure: combinations of colours and line styles."""
NAMED = 4
"""Maximum number of moves that are listed by name."""


# --------------------------------------------------------------------------------------------------
# Tables and figures


def interval_cells(
    column: Sequence[Interval | None],
    write: Callable[[float], str],
    scale: tuple[float, float] | None = None,
) -> list[str | Cell]:
    """Return estimates with the ends of their intervals, and bars on a scale: by default from the
    lowest end to the highest.
    """
    values = [value for value in column if value is not None]
    low, high = scale or (
        min((value.low for value in values), default=0.0),
        max((value.high for value in values), default=1.0),
    )

    def cell(value: Interval) -> Cell:
        reach = np.clip([(end - low) / (high - low) if high > low else 0.5 for end in value], 0, 1)
        ends = formats.format_ends(value, write) if value.low < value.high else ""
        return Cell(write(value.mean), ends, reach=(100 * reach[[1, 0, 2]]).tolist())

    return ["" if value is None else cell(value) for value in column]


WRITERS: Mapping[str, Callable[[Sequence[Any]], Sequence[str | Cell]]] = {
    "": list,
    "results": lambda column: [Cell(shares=shares) for shares in column],
    "elo bar": partial(interval_cells, write=formats.format_elo),
    "score bar": partial(interval_cells, write=formats.three_digits, scale=(0.0, 1.0)),
}
"""Writers of columns: of texts and cells, of shares of wins, draws and losses, and of intervals."""


def _write_column(writer: str, column: Sequence[object]) -> Sequence[str | Cell]:
    """Return the cells of a column of values; None is an empty cell.

    Args:
        writer: of :data:`WRITERS`, a format such as ``"{:,}"``, or a function of
            :mod:`ttt_eval.reports.formats`.
        column: the values.
    """
    if writer in WRITERS:
        return WRITERS[writer](column)
    write = writer.format if writer.startswith("{") else getattr(formats, writer)
    return ["" if value is None else write(value) for value in column]


def table(
    key: str,
    rows: Sequence[Sequence[object]],
    parts: Sequence[int] = (),
    *,
    head: Sequence[str] = (),
    **names: object,
) -> DataTable:
    """Return a table with the caption, head and writers of columns of ``templates/words.toml``.

    Args:
        key: of the table there.
        rows: values; the last writer is that of all further columns, too.
        parts: rows that are a part of the one above them.
        head: in place of that of the file.
        names: in the places in braces of the caption.
    """
    words = page.fixed_words()["tables"][key]
    writers = words.get("write", [""])
    columns = [
        _write_column(writers[min(number, len(writers) - 1)], column)
        for number, column in enumerate(zip(*rows, strict=True))
    ]
    caption = words["caption"].format(**names)
    return DataTable(caption, head or words["head"], list(zip(*columns, strict=True)), parts)


def cross_table(
    key: str, names: Mapping[Key, str], cells: Mapping[tuple[Key, Key], tuple[float, str, str]]
) -> DataTable:
    """Return the results of each of several players against each other one, a row and a column for
    each.

    Args:
        key: of :func:`table`.
        names: by key, in order.
        cells: of the row against the column: a score, 0 to 1, its text, and a note.
    """

    def cell(pair: tuple[Key, Key]) -> Cell | str:
        if pair not in cells:
            return ""
        value, text, note = cells[pair]
        return Cell(text, note, 2 * value - 1)

    rows = [
        (f"{place} {name}", *(cell((a, b)) for b in names))
        for place, (a, name) in enumerate(names.items(), 1)
    ]
    return table(key, rows, head=("of the row against", *map(str, range(1, len(names) + 1))))


def seats_table(key: str, score: Score, names: Sequence[str]) -> DataTable:
    """Return a table of numbers of games by result, for both seats and for each."""
    counts = np.array([score.table.sum(axis=0), *score.table])
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    rows = zip(names, *counts.T.tolist(), (shares @ [1, 0.5, 0]).tolist(), shares, strict=True)
    return table(key, list(rows), (1, 2))


# --------------------------------------------------------------------------------------------------
# Learning curves


def curves_figure(
    lines: Sequence[plots.PlotLine],
    x_label: str,
    y_label: str,
    caption: str,
    *,
    distances: bool,
    log: bool = True,
) -> PlotFigure:
    """Return a figure of curves; see :func:`ttt_eval.reports.plots.draw_curves`."""
    ends = "; ".join(f"{line.name} from {line.y[0]:.4g} to {line.y[-1]:.4g}" for line in lines)
    label = f"Curves by {x_label}, up to {max(line.x[-1] for line in lines):,.0f}: {ends}."
    return page.figure(
        plots.draw_curves(lines, x_label, y_label, distances=distances, log=log), label, caption
    )


def curve_parts(groups: Sequence[Group]) -> Parts:
    """Return figures of the exact exploitability of groups, by games and by CPU seconds, and notes
    on them.
    """
    figures: list[PlotFigure] = []
    problem = "no run is here"
    notes: list[str] = []
    axes: Sequence[XAxis] = ("games", "cpu") if groups else ()
    for x in axes:
        try:
            summaries, more = summarize_groups(groups, x, "exploitability")
        except ValueError as error:
            problem = str(error)
            continue
        caption = page.words(f"curves by {x}")
        figures.append(
            curves_figure(
                summary_lines(summaries), X_LABELS[x], "exploitability", caption, distances=True
            )
        )
        notes += more
    if not figures:
        return [left_out(f"There are no learning curves: {problem}.")]
    return [
        figures,
        left_out(page.words("bands")) if any(len(group.curves) > 1 for group in groups) else None,
        Text("; ".join(dict.fromkeys(notes)), quiet=True, folded="Notes on the curves")
        if notes
        else None,
    ]


def summary_lines(summaries: Sequence[Summary]) -> list[plots.PlotLine]:
    """Return the medians of groups as lines with their bands.

    Raises:
        ValueError: more groups than readers can tell apart.
    """
    if len(summaries) > MAX_GROUPS:
        raise Refusal(
            f"these are {len(summaries)} groups, and at most {MAX_GROUPS} can be told apart: name "
            "fewer runs, or group them by fewer settings"
        )
    return [
        plots.PlotLine(
            f"{summary.name} ({summary.runs} runs)" if summary.runs > 1 else summary.name,
            summary.x,
            summary.median,
            low=summary.low,
            high=summary.high,
        )
        for summary in summaries
    ]


def draw_summaries(summaries: Sequence[Summary], x: XAxis, y: YAxis, log: bool) -> plots.Draw:
    """Return a plot of :func:`summary_lines`; a score is on a linear scale, from 0 to 1.

    Raises:
        ValueError: more groups than readers can tell apart.
    """
    lines = summary_lines(summaries)
    distances = metric(y).better == "lower"
    return plots.draw_curves(lines, X_LABELS[x], metric(y).label, distances=distances, log=log)


# --------------------------------------------------------------------------------------------------
# Tiles and sentences


def measure_tiles(values: Mapping[str, float | None], suffix: str = "") -> list[Tile]:
    """Return the headline numbers of the exact measures that are known."""
    return [
        Tile(metric(name).label + suffix, formats.number(value), metric(name).note)
        for name, value in values.items()
        if value is not None
    ]


def interval_tile(name: str, value: Interval, write: Callable[[float], str]) -> Tile:
    """Return an estimate as a headline number, with the ends of its interval unless it is exact."""
    ends = "exact"
    if value.low < value.high:
        ends = f"95%: {formats.format_ends(value, write)}"
    return Tile(name, write(value.mean), ends)


def score_tiles(
    name: str, score: Interval, match: Score, correction: str | UnsetType
) -> list[Tile]:
    """Return the score and the number of games, and where luck is corrected what that gains."""
    tiles = [
        interval_tile(name, score, formats.number),
        Tile("games", f"{match.games:,}", page.words("pairs")),
    ]
    if match.corrected is None:
        return tiles
    reduction = match.variance_reduction
    games = "leaves no variance"
    if reduction is not None:
        games = f"as precise as {match.games * reduction:,.0f} games without"
    return [*tiles, Tile("luck correction", correction or "on", games)]


def forfeits(score: Score, a: str, b: str) -> Text | None:
    """Return forfeited games in a sentence; None if there are none."""
    words = score.forfeits.describe(a, b)
    return left_out(f"{words[0].upper()}{words[1:]}") if score.forfeits.first else None


# --------------------------------------------------------------------------------------------------
# Boards


def choice_board(
    game: AnyGame,
    position: Position,
    shares: Float64Array,
    best: Sequence[int] = (),
    loss: float | None = None,
    likely: float | None = None,
    title: str = "",
) -> BoardFigure:
    """Return a board with the moves played there.

    Args:
        game: the game.
        position: the position.
        shares: float64[cells], the probabilities of moves.
        best: cells of the best moves, if known.
        loss: expected loss of the moves, if known.
        likely: probability that a game reaches the position, if shown.
        title: the first line of the caption; by default the mover.
    """
    mover = STONES[position.mover + 1]
    order = np.argsort(-shares, kind="stable")[: np.count_nonzero(shares > 0)].tolist()
    moves = list_moves(
        [f"{coordinate(cell, game)} ({formats.format_probability(shares[cell])})" for cell in order]
    )
    lines = [title or f"{mover} to move", f"plays {moves}"]
    if len(best):
        lines.append(f"best: {list_moves([coordinate(cell, game) for cell in best])}")
    cost = ""
    if loss is not None:
        rate = "" if likely is None else f" in {formats.percent(likely)} of games"
        cost = "loses nothing" if loss <= VALUE_TOLERANCE else f"loses {formats.number(loss)}{rate}"
    words = f"{mover} is to move, {'; '.join(lines[1:])}."
    numbers = np.where(shares > 0, shares, np.nan)
    explore = formats.explorer_command(game, position)
    return BoardFigure(
        game, position.cells, lines, words, numbers, best=best, cost=cost, explore=explore
    )


def map_board(
    game: AnyGame, key: str, values: Float64Array, write: Callable[[float], str] = formats.signed
) -> BoardFigure:
    """Return the empty board with a number in each cell.

    Args:
        game: the game.
        key: of the caption in ``templates/words.toml``, its first line before a colon.
        values: float64[cells], NaN where there is none.
        write: formats a number.
    """
    name, description = page.words(key).split(": ")
    cells = np.flatnonzero(~np.isnan(values)).tolist()
    numbers = ", ".join(f"{coordinate(cell, game)} {write(values[cell])}" for cell in cells)
    return BoardFigure(
        game,
        np.zeros(game.cells, np.int8),
        (name, description),
        f"{name}: {numbers}.",
        values,
        write,
    )


def list_moves(names: Sequence[str]) -> str:
    """List the first names, and count the rest."""
    if len(names) <= NAMED:
        return ", ".join(names)
    return ", ".join([*names[:NAMED], f"{len(names) - NAMED} more"])


def spot_board(
    game: AnyGame, spot: ChosenMoves, title: str = "", likely: float | None = None
) -> BoardFigure:
    """Return a position of a result with the moves played there; see :func:`choice_board`.

    Raises:
        ValueError: no position of the game.
    """
    shares = np.zeros(game.cells)
    shares[list(spot.moves)] = list(spot.moves.values())
    position = from_text(spot.position, game)
    return choice_board(game, position, shares, spot.best or (), spot.loss, likely, title)


def noted_board(position: str, note: str) -> BoardFigure:
    """Return a position, as text, with a note below it, in the eyes of the player to move.

    Raises:
        ValueError: no position.
    """
    cells = from_text(position).cells
    rows = position.count("/") + 1
    board = Game(rows, len(cells) // rows, 1)
    lines = (f"you are {position[-1]} and move", note)
    return BoardFigure(board, cells, lines, names=list(map(str, range(len(cells)))))


def differences(game: AnyGame, spots: Sequence[DifferentMoves] | None, a: str, b: str) -> Parts:
    """Return boards on which two players play differently; ``spots`` are None if they are not
    computed.
    """
    if spots is None:
        return [left_out(page.words("not compared"))]
    if not spots:
        return [Text(page.words("alike"))]
    pairs = []
    for spot in spots:
        difference = formats.percent(spot.difference)
        likely = formats.percent(spot.likely)
        title = f"{difference} of their moves differ; {likely} of games reach the position"
        boards = [
            spot_board(game, moves, name) for moves, name in zip(spot.choices, (a, b), strict=True)
        ]
        pairs.append(BoardRow(boards, title, pair=True))
    return [Text(page.words("differences")), *pairs]


# --------------------------------------------------------------------------------------------------
# Reproduction


def reproduction(result: Result, *words: str, **options: object) -> Parts:
    """Return the command that gives the same result.

    Args:
        result: the result; the options that commands of games have in common are added.
        words: of the command, its program first.
        options: of the command, with underscores; those with a value of None are left out.
    """
    if isinstance(result, PlayedResult):
        words = (*words, *formats.game_options(result.game))
        options |= {
            "seed": result.seed,
            "openings": result.openings or None,
            "luck_correction": result.luck_correction or None,
        }
    return [Text(page.words("reproduce"), [formats.command(*words, **options)])]
