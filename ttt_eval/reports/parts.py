"""Parts that several pages have: figures, boards with the moves played there, tables of results and of costs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
from markupsafe import Markup

from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import STONES, coordinate
from ttt_envs.game.game import Position
from ttt_envs.game.phantom import AnyGame
from ttt_envs.game.rules import legal
from ttt_eval.cost import COST_KEYS
from ttt_eval.matches.score import Score
from ttt_eval.metrics import LOSSES, metric
from ttt_eval.reports import formats, page, plots
from ttt_eval.reports.links import explorer_command, play_link
from ttt_eval.reports.results import GameResult, Played, Result, Spot, spread_moves
from ttt_eval.statistics import Interval

Key = TypeVar("Key")
SETTINGS = (
    "game", "games_per_pairing", "a", "b", "policy", "source", "endpoint", "model", "temperature", "max_tokens",
    "presentation", "illegal", "max_asks", "show_legal", "opponent", "identity", "identities", "seed", "openings",
    "openings_sha256", "most_games", "luck_correction", "anchor", "prior", "draws", "rated_by", "block", "clock",
    "test", "settings", "ladder", "provenance", "processor",
)  # fmt: skip
"""Keys of results that determine their numbers."""
LISTED = 2
"""Maximum number of moves that are listed beside a board that shows them."""
NAMED = 4
"""Maximum number of moves that are listed by name."""
BARS: Mapping[str, tuple[Any, ...]] = {
    "elo bar": (formats.format_elo_difference,),
    "score bar": (formats.three_digits, (0.0, 1.0)),
}
"""Writers of columns of intervals: the arguments of :func:`interval_cells`."""


def figure(draw: plots.Draw, label: str, caption: str, size: tuple[float, float] = plots.IN_PAGE) -> page.Figure:
    """Return a figure with its text alternative, which stands in its place without matplotlib."""
    _, missing = page.or_why(plots.check_pictures)
    if missing:
        return page.Figure(Markup(), caption, f"Not drawn: {missing}. {label}")
    name = f"f{crc32((label + caption).encode()):08x}"
    return page.Figure(Markup(plots.as_svg(draw, name, page.printable(label), size)), caption)


def intervals_figure(
    rows: Sequence[plots.IntervalRow], label: str, x_label: str, caption: str, write: Callable[[float], str],
    zero: float | None = None,
) -> page.Figure:  # fmt: skip
    """Return a figure of estimates with their intervals, one below the other; ``write`` formats its numbers."""
    values = "; ".join(f"{row.name} {formats.format_interval(row.value, write)}" for row in rows)
    draw = plots.draw_intervals(rows, x_label, zero)
    return figure(draw, f"{label}: {values}.", caption, plots.figure_size(len(rows)))


def interval_cells(
    column: Sequence[Interval | None], write: Callable[[float], str], scale: tuple[float, float] | None = None
) -> list[str | page.Cell]:
    """Return estimates with the ends of their intervals, and bars on a scale: by default from the lowest end to the
    highest.
    """
    known = [value for value in column if value is not None]
    low, high = scale or (min(value.low for value in known), max(value.high for value in known))
    cells = list[str | page.Cell]()
    for value in column:
        if value is None:
            cells.append("")
            continue
        reach = np.clip([(end - low) / (high - low) if high > low else 0.5 for end in value], 0, 1)
        ends = formats.format_ends(value, write) if value.low < value.high else ""
        cells.append(page.Cell(write(value.mean), ends, reach=(100 * reach[[1, 0, 2]]).tolist()))
    return cells


def _write_column(writer: str, column: Sequence[Any]) -> Sequence[str | page.Cell]:
    """Return the cells of a column of values; None is an empty cell.

    Args:
        writer: ``""`` for texts and cells, ``"results"`` for shares of wins, draws and losses, one of :data:`BARS` for
            intervals, a format such as ``"{:,}"``, or the name of a function of :mod:`ttt_eval.reports.formats`.
        column: the values.
    """
    if writer in ("", "results"):
        return list(column) if not writer else [page.Cell(shares=shares) for shares in column]
    if writer in BARS:
        return interval_cells(column, *BARS[writer])
    write = writer.format if writer.startswith("{") else getattr(formats, writer)
    return ["" if value is None else write(value) for value in column]


def table(
    key: str, rows: Sequence[Sequence[Any]], parts: Sequence[int] = (), *, head: Sequence[str] = (), **names: str
) -> page.Table:
    """Return a table with the caption, head and writers of columns of ``templates/words.toml``.

    Args:
        key: of the table there; see :func:`_write_column` for its writers.
        rows: values; the last writer is that of all further columns, too.
        parts: rows that are a part of the one above them.
        head: in place of that of the file.
        names: in the places in braces of the caption.
    """
    fixed = page.fixed_words()["tables"][key]
    columns, writers = list(zip(*rows, strict=True)), fixed.get("write", [""])
    written = [_write_column(writers[min(i, len(writers) - 1)], column) for i, column in enumerate(columns)]
    lines, caption = list(zip(*written, strict=True)), fixed["caption"].format(**names)
    return page.Table(caption, head or fixed.get("head", ()), lines, parts, fixed.get("folded", ""))


def cross_table(
    key: str, names: Mapping[Key, str], cells: Mapping[tuple[Key, Key], tuple[float, str, str]], most: int = 1_000
) -> page.Table:
    """Return the results of each of several players against each other one, a row and a column for each.

    Args:
        key: of :func:`table`.
        names: by key, in order.
        cells: of the row against the column: a score, 0 to 1, its text, and a note.
        most: maximum number of rows.
    """
    keys = list(names)[:most]
    shaded = {pair: page.Cell(text, note, 2 * value - 1) for pair, (value, text, note) in cells.items()}
    rows = [(f"{place} {names[a]}", *(shaded.get((a, b), "") for b in keys)) for place, a in enumerate(keys, 1)]
    return table(key, rows, head=("of the row against", *map(str, range(1, len(keys) + 1))))


def results_table(
    key: str, rows: Sequence[tuple[str, Sequence[float]]], parts: Sequence[int] = (), **names: str
) -> page.Table:
    """Return a table of the shares of wins, draws and losses, with bars; see :func:`table`."""
    return table(key, [(name, *shares, shares) for name, shares in rows], parts, **names)


def seats_table(key: str, score: Score, names: Sequence[str]) -> page.Table:
    """Return a table of numbers of games by result, for both seats and for each."""
    counts = np.array([score.table.sum(axis=0), *score.table])
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    rows = zip(names, *counts.T.tolist(), (shares @ [1, 0.5, 0]).tolist(), shares, strict=True)
    return table(key, list(rows), (1, 2))


def phases_table(key: str, phases: Mapping[str, Mapping[str, float]], **names: str) -> page.Table:
    """Return a table of costs by phase."""
    return table(key, [(name, *(phase[cost] for cost in COST_KEYS)) for name, phase in phases.items()], (), **names)


def measure_tiles(values: Mapping[str, float | None], of: str = "") -> list[page.Tile]:
    """Return the headline numbers of the exact measures that are known."""
    known = [(metric(name), value) for name in LOSSES if (value := values.get(name)) is not None]
    return [page.Tile(one.label + of, formats.number(max(0.0, value)), one.note) for one, value in known]


def luck_tiles(match: Played, correction: str | None) -> list[page.Tile]:
    """Return the score with luck beside a corrected one; nothing if luck is not corrected."""
    if match.raw_score is None:
        return []
    raw, games = match.raw_score.interval, match.equivalent_games
    precise = "leaves no variance" if games is None else f"as precise as {games:,} games without"
    score = page.Tile("score with luck", formats.share(raw.mean), f"95%: {formats.format_ends(raw)}")
    return [score, page.Tile("luck correction", correction or "on", precise)]


def forfeits(score: Score, a: str, b: str) -> page.Text | None:
    """Return forfeited games in a sentence; None if there are none."""
    words = score.forfeits.describe(a, b)
    return page.left_out(f"{words[0].upper()}{words[1:]}") if score.forfeits.first else None


def describe_best(name: str, count: int, value: str, undecided: int, second: str) -> str:
    """Say whether the first of several is best.

    Args:
        name: of the first.
        count: number of all.
        value: of the first.
        undecided: number of others that are not distinguished from it.
        second: value of the next.
    """
    if not undecided:
        return f"{name} is best of {count}: {value}; next {second}"
    others = "other is" if undecided == 1 else "others are"
    return f"Undecided: {name} came out first of {count}, {value}, and {undecided} {others} not distinguished from it"


# ---------------------------------------------------------------------------------------------------------------------
# Boards


def choice_board(
    game: AnyGame,
    position: Position,
    shares: Float64Array,
    best: Sequence[int] = (),
    loss: float | None = None,
    likely: float | None = None,
    title: str = "",
) -> page.Board:
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
    mover, cells = STONES[position.mover + 1], np.flatnonzero(shares > 0)
    cells = cells[np.argsort(-shares[cells], kind="stable")]
    moves = [f"{coordinate(int(cell), game)} ({formats.format_probability(float(shares[cell]))})" for cell in cells]
    names = [coordinate(cell, game) for cell in best]
    words = f"{mover} is to move, plays {list_moves(moves)}{f'; best: {list_moves(names)}' if names else ''}."
    cost = ""
    if loss is not None:
        rate = "" if likely is None else f" in {formats.percent(min(1.0, likely))} of games"
        cost = "loses nothing" if loss <= VALUE_TOLERANCE else f"loses {formats.number(loss)}{rate}"
    board = page.Board(game, position.cells, (), words, np.where(shares > 0, shares, np.nan), best=best, cost=cost)
    lines = [
        f"{verb} {list_moves(listed)}"
        for verb, listed in (("plays", moves), ("best:", names))
        if listed and (len(listed) <= LISTED or game.columns > page.MAX_COLUMNS)  # many moves are seen faster than read
    ]
    every = len(cells) == np.count_nonzero(legal(game, position.cells))
    if every and len(cells) > LISTED and np.ptp(shares[cells]) <= VALUE_TOLERANCE:
        lines = [f"plays all moves alike ({formats.format_probability(float(shares[cells[0]]))})", *lines]
        board = board._replace(numbers=np.full(game.cells, np.nan))
    return board._replace(lines=[title or f"{mover} to move", *lines], ways=open_position(game, position))


def map_board(
    game: AnyGame,
    title: str,
    about: str,
    values: Float64Array,
    write: Callable[[float], str] = formats.signed,
    largest: float = 1.0,
) -> page.Board:
    """Return the empty board with a number in each cell.

    Args:
        game: the game.
        title, about: the caption.
        values: float64[cells], NaN where there is none.
        write: formats a number.
        largest: number with the strongest colour.
    """
    known = np.flatnonzero(~np.isnan(values))
    words = ", ".join(f"{coordinate(int(cell), game)} {write(float(values[cell]))}" for cell in known)
    empty = np.zeros(game.cells, np.int8)
    return page.Board(game, empty, (title, about), f"{title}: {words}.", values, write, largest)


def first_move_board(game: AnyGame, shares: Float64Array) -> page.Board:
    """Return the empty board with the probabilities float64[cells] of first moves."""
    about, largest = "the probability of each first move", 1.0
    if game.columns > page.MAX_COLUMNS:  # many moves share the probability, and no colour would be visible
        largest = max(1e-9, float(shares.max()))
        about += f", {formats.format_probability(largest)} the darkest"
    return map_board(game, "Move probabilities", about, shares, formats.format_probability, largest)


def open_position(
    game: AnyGame, position: Position, moves: Sequence[tuple[int, bool]] | None = None
) -> tuple[str, str]:
    """Return the link to the page without a server, and the command that opens the explorer.

    Args:
        game: the game.
        position: the position.
        moves: the moves to it, from the empty board, as :func:`~ttt_eval.reports.links.explorer_command` takes them;
            None if unknown.
    """
    command = explorer_command(game, position) if moves is None else explorer_command(game, None, moves)
    return play_link(game, position), command


def list_moves(names: Sequence[str]) -> str:
    """List the first names, and count the rest."""
    rest = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    return ", ".join([*names[:NAMED], *rest])


def spot_board(
    game: AnyGame, spot: Spot, moves: dict[int, float], loss: float | None, title: str = "", likely: float | None = None
) -> page.Board:
    """Return a position of a result with the moves played there; see :func:`choice_board`.

    Raises:
        ValueError: no position of the game, or a move that is not legal.
    """
    position = spot.place(game)
    shares = spread_moves(game, position, moves)
    spread_moves(game, position, dict.fromkeys(spot.best or (), 1.0))
    return choice_board(game, position, shares, spot.best or (), loss, likely, title)


def differences(game: AnyGame, spots: Sequence[Spot] | None, a: str, b: str) -> page.Parts:
    """Return boards on which two players play differently; ``spots`` are None if they are not computed."""
    if not spots:
        return [page.left_out(page.words("not compared")) if spots is None else page.Text(page.words("alike"))]
    parts: list[page.Part | None] = [page.Text(page.words("differences"))]
    for spot in spots:
        difference, likely = (formats.percent(min(1.0, share)) for share in (spot.difference, spot.likely or 0.0))
        title = f"{difference} of their moves differ; {likely} of games reach the position"
        both = ((spot.a, spot.loss_a, a), (spot.b, spot.loss_b, b))
        boards = [spot_board(game, spot, moves, loss, name) for moves, loss, name in both]
        parts.append(page.Boards(boards, title, pair=True))
    return parts


# ---------------------------------------------------------------------------------------------------------------------
# Reproduction


def match_options(result: GameResult) -> list[str | int | None]:
    """Return the options that commands of matches have in common, for :func:`reproduction`."""
    options = [*formats.game_options(result.game), "--seed", result.seed, "--openings", result.openings]
    return [*options, "--luck-correction", result.luck_correction]


def reproduction(result: Result, words: Sequence[str | float | None]) -> page.Parts:
    """Return the command that gives the same result, and the settings that determine it.

    Args:
        result: the result.
        words: of the command; an option before a value of None is left out.
    """
    kept = [word for word, after in zip(words, (*words[1:], ""), strict=True) if word is not None and after is not None]
    command = shlex.join(["python", *(f"{word:g}" if isinstance(word, float) else str(word) for word in kept)])
    settings = json.dumps({name: result.raw[name] for name in SETTINGS if name in result.raw}, indent=2)
    return [page.Text(page.words("reproduce"), [command]), page.Text("", settings, folded=page.words("all settings"))]
