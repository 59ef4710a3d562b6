"""Boards inside pages: positions, the moves chosen there, and numbers of their cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from markupsafe import Markup

from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.jit import Float64Array, Int8Array
from ttt_envs.game.boards import COLUMNS, STONES, coordinate
from ttt_envs.game.game import MAX_EDGE, Position
from ttt_envs.game.phantom import AnyGame
from ttt_envs.game.rules import legal
from ttt_eval.reports.formats import format_probability
from ttt_eval.reports.html import macro, shade
from ttt_eval.reports.links import explorer_command, play_link

MAX_LISTED = 2
"""Maximum number of moves that are listed beside a board that shows them."""
MAX_NAMED = 4
"""Maximum number of moves that are listed by name."""


def cells_hold_text(game: AnyGame) -> bool:
    """Return whether the cells of a board in a page can hold numbers."""
    return game.columns <= 8


def draw_board(
    game: AnyGame,
    cells: Int8Array,
    *,
    last: int | None = None,
    shares: Float64Array | None = None,
    best: Sequence[int] = (),
    numbers: Mapping[int, int] | None = None,
    words: str = "",
) -> Markup:
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
    spans = []
    for cell, stone in enumerate(cells):
        text, shaded, names = "", dict[str, str](), []
        if stone:
            names.append(STONES[stone])
            text = STONES[stone] if numbers is None else str(numbers[cell])
        elif shares is not None and shares[cell] > 0:
            shaded = shade(float(shares[cell]))
            names += [shaded["class"]] if shaded else []
            text = format_probability(float(shares[cell])) if cells_hold_text(game) else ""
        names += ["last"] * (cell == last) + ["best"] * (cell in best)
        spans.append((text, {"class": " ".join(names) or None, "style": shaded.get("style")}))
    rows = cells.reshape(game.rows, game.columns)
    stones = "; ".join(" ".join("empty" if cell == 0 else STONES[cell] for cell in row) for row in rows)
    attributes = {
        "class": "board" if numbers is not None or shares is not None else "board small",
        "role": "img",
        "aria-label": f"Board, row by row: {stones}. {words}".strip(),
        "style": f"--columns:{game.columns};--edge:{_edge(game) if numbers is None else '1.7rem'}",
    }
    return macro("board", attributes, spans)


def draw_choice(
    game: AnyGame,
    position: Position,
    shares: Float64Array,
    best: Sequence[int] = (),
    loss: float | None = None,
    likely: float | None = None,
    title: str = "",
) -> Markup:
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
    cells = np.flatnonzero(shares > 0)
    cells = cells[np.argsort(-shares[cells], kind="stable")]
    plays = [f"{coordinate(int(cell), game)} ({format_probability(float(shares[cell]))})" for cell in cells]
    best_names = [coordinate(cell, game) for cell in best]
    about = f"; best: {_list_moves(best_names)}" if best_names else ""
    words = f"{mover} is to move, plays {_list_moves(plays)}{about}."
    lines = [
        f"{name} {_list_moves(moves)}"
        for name, moves in (("plays", plays), ("best:", best_names))
        if moves and (len(moves) <= MAX_LISTED or not cells_hold_text(game))  # many moves are seen faster than read
    ]
    open_moves = np.count_nonzero(legal(game, position.cells))
    if MAX_LISTED < len(cells) == open_moves and np.ptp(shares[cells]) <= VALUE_TOLERANCE:
        lines = [f"plays all moves alike ({format_probability(float(shares[cells[0]]))})", *lines]
        shares = np.zeros_like(shares)
    board = draw_board(game, position.cells, shares=shares, best=best, words=words)
    ways = open_position(game, position)
    return macro("choice", board, title or f"{mover} to move", loss, likely, lines, ways)


def open_position(game: AnyGame, position: Position, moves: Sequence[tuple[int, bool]] | None = None) -> Markup:
    """Return a link to the page without a server, and the command that opens the explorer.

    Args:
        game: the game.
        position: the position.
        moves: the moves to it, from the empty board, as :func:`~ttt_eval.reports.links.explorer_command` takes them;
            None if unknown.
    """
    command = explorer_command(game, position) if moves is None else explorer_command(game, None, moves)
    return macro("open_position", play_link(game, position), command)


def heat_map(
    game: AnyGame, title: str, about: str, values: Float64Array, write: Callable[[float], str], largest: float = 1.0
) -> Markup:
    """Return a table in the form of the board, coloured by its numbers.

    Args:
        game: the game.
        title: title of the table.
        about: explanation.
        values: float64[cells], -1 to 1, NaN where there is none.
        write: formats a number; shown in the cell if there is room, and always as a tooltip.
        largest: number with the strongest colour.
    """
    cells = [
        ("", {}) if np.isnan(value) else (write(value), {"title": write(value) or None, **shade(value / largest)})
        for value in map(float, values)
    ]
    rows = [cells[start : start + game.columns] for start in range(0, game.cells, game.columns)]
    return macro("heat_map", title, about, COLUMNS[: game.columns], rows, cells_hold_text(game), _edge(game))


def first_move_map(game: AnyGame, shares: Float64Array) -> Markup:
    """Return a heat map of the probabilities of first moves, float64[cells]."""
    about, largest = "the probability of each first move", 1.0
    if not cells_hold_text(game):  # many moves share the probability, and no colour would be visible
        largest = max(1e-9, float(shares.max()))
        about += f", {format_probability(largest)} the darkest"
    return heat_map(game, "Move probabilities", about, shares, format_probability, largest)


def _edge(game: AnyGame) -> str:
    """Return the edge of a cell, so that the board and its name fit a narrow screen."""
    edges = ((4, "2.9rem"), (6, "2.5rem"), (8, "2rem"), (MAX_EDGE, "0.9rem"))
    return next(edge for most, edge in edges if game.columns <= most)


def _list_moves(names: Sequence[str]) -> str:
    """List the first names, and count the rest."""
    more = [f"{len(names) - MAX_NAMED} more"] if len(names) > MAX_NAMED else []
    return ", ".join([*names[:MAX_NAMED], *more])
