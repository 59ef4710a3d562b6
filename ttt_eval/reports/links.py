"""Ways from a board of a page to where its position can be played on: the explorer, and the page without a server."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from ttt_envs.game.boards import MOVERS, coordinate, to_text
from ttt_envs.game.game import Game, Position, default_win_length
from ttt_envs.game.phantom import AnyGame, PhantomGame
from ttt_envs.game.rules import winner

PLAY_PAGE = Path(__file__).resolve().parents[2] / "docs" / "play" / "index.html"
"""The page without a server, in a checkout."""
PLAY_SKIPS = (0.0, 0.1, 0.25, 0.5)
"""Skip chances of that page."""
PLAY_BOARDS = {"3x3": Game(3, 3, 3), "3x4": Game(3, 4, 3), "4x4": Game(4, 4, 4, gravity=True)}
"""Boards of that page, which has all rules on them; the last one only with gravity."""
MAX_EXPLORER_EDGE, MAX_EXPLORER_SKIP = 15, 0.5
"""Limits of the explorer: the maximum edge of a board, and the maximum skip chance."""


def explorer_command(game: AnyGame, position: Position | None = None, moves: Sequence[tuple[int, bool]] = ()) -> str:
    """Return the command that opens the explorer with a position, or with a game so far; "" beyond its limits.

    Args:
        game: the game.
        position: the first position; None for the empty board.
        moves: cells, each with whether the other player's turn was skipped after it.
    """
    is_large = max(game.rows, game.columns) > MAX_EXPLORER_EDGE
    if is_large or game.skip_chance > MAX_EXPLORER_SKIP or isinstance(game, PhantomGame):
        return ""
    usual = {"rows": 3, "columns": 3, "win": default_win_length(game.rows, game.columns), "skip": 0.0}
    own = {"rows": game.rows, "columns": game.columns, "win": game.win_length, "skip": game.skip_chance}
    parts = {name: f"{value:g}" for name, value in own.items() if value != usual[name]}
    parts |= {name: str(value).lower() for name, value in game.variants.items()}
    if position is not None and position.cells.any():
        parts["opening"] = to_text(position, game)
    if moves:
        parts["moves"] = ".".join(coordinate(cell, game) + "+" * skipped for cell, skipped in moves)
    link = "&".join(f"{name}={value}" for name, value in {**parts, "o": "you", "x": "you"}.items())
    return shlex.join(["python", "play.py", "--web", "--open", link])


def play_link(game: AnyGame, position: Position) -> str:
    """Return the part of an address, from ``#`` on, that sets up a position on the page without a server; "" where it
    has no such game.
    """
    shapes = [(board.rows, board.columns, board.win_length) for board in PLAY_BOARDS.values()]
    shape = (game.rows, game.columns, game.win_length)
    if not isinstance(game, Game) or shape not in shapes or game.skip_chance not in PLAY_SKIPS:
        return ""
    name, board = list(PLAY_BOARDS.items())[shapes.index(shape)]
    if (board.gravity and not game.gravity) or winner(game, position.cells) is not None:
        return ""
    size = f"&board={name}" if name != "3x3" else ""
    rules = f"&rules={'.'.join(game.variant_names)}" if game.variants else ""
    at = to_text(position, game).replace(" ", "_")
    return f"#against=optimal{size}{rules}&skip={game.skip_chance:g}&you={MOVERS[position.mover]}&position={at}"


def play_page(folder: Path) -> str:
    """Return the address of the page without a server as seen from a folder; "" outside of the checkout."""
    if not PLAY_PAGE.is_file() or not folder.resolve().is_relative_to(PLAY_PAGE.parents[2]):
        return ""
    return os.path.relpath(PLAY_PAGE, folder.resolve()).replace(os.sep, "/")
