"""Ways from a board of a page to where its position can be played on: the explorer, and the page without a server."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from ttt_envs.game.boards import MOVERS, coordinate, to_text
from ttt_envs.game.game import Position, default_win_length
from ttt_envs.game.phantom import AnyGame, PhantomGame
from ttt_envs.game.rules import winner

PLAY_PAGE = Path(__file__).resolve().parents[2] / "docs" / "play" / "index.html"
"""The page without a server, in a checkout."""
MAX_PLAY_BOARDS = 1_000_000
"""Maximum number of boards of a game that this page solves, by the bound of ``isSmall`` in its script."""
MAX_EXPLORER_EDGE, MAX_EXPLORER_SKIP = 15, 0.5
"""Limits of both pages: the maximum edge of a board, and the maximum skip chance."""
LINK_CHARACTERS = "=&./:,"
"""Characters of a link that are not escaped."""


def explorer_command(game: AnyGame, position: Position | None = None, moves: Sequence[tuple[int, bool]] = ()) -> str:
    """Return the command that opens the explorer with a position, or with a game so far; "" beyond its limits.

    Args:
        game: the game.
        position: the first position; None for the empty board.
        moves: cells, each with whether the other player's turn was skipped after it.
    """
    if not is_within_limits(game):
        return ""
    link = "&".join([*_game_words(game, position, moves), "o=you", "x=you"])
    return shlex.join(["python", "play.py", "--web", "--open", link])


def play_link(game: AnyGame, position: Position) -> str:
    """Return the part of an address, from ``#`` on, that sets up a position on the page without a server; "" where it
    has no such game.
    """
    contents = (2 ** (game.rows + 1) - 1) ** game.columns if game.variants.get("gravity") else 3**game.cells
    if not is_within_limits(game) or contents > MAX_PLAY_BOARDS or winner(game, position.cells) is not None:
        return ""
    seats = ["you", "optimal"] if position.mover == 0 else ["optimal", "you"]
    link = "&".join([*_game_words(game, position), *map("{}={}".format, MOVERS, seats)])
    return f"#{quote(link, safe=LINK_CHARACTERS)}"


def play_page(folder: Path) -> str:
    """Return the address of the page without a server as seen from a folder; "" outside of the checkout."""
    if not PLAY_PAGE.is_file() or not folder.resolve().is_relative_to(PLAY_PAGE.parents[2]):
        return ""
    return os.path.relpath(PLAY_PAGE, folder.resolve()).replace(os.sep, "/")


def is_within_limits(game: AnyGame) -> bool:
    """Return whether both pages may have a game."""
    is_large = max(game.rows, game.columns) > MAX_EXPLORER_EDGE or game.skip_chance > MAX_EXPLORER_SKIP
    return not (is_large or isinstance(game, PhantomGame))


def _game_words(game: AnyGame, position: Position | None = None, moves: Sequence[tuple[int, bool]] = ()) -> list[str]:
    """Return the parts of a link of both pages that describe a game so far."""
    usual = {"rows": 3, "columns": 3, "win": default_win_length(game.rows, game.columns), "skip": 0.0}
    own = {"rows": game.rows, "columns": game.columns, "win": game.win_length, "skip": game.skip_chance}
    parts = {name: f"{value:g}" for name, value in own.items() if value != usual[name]}
    parts |= {name: str(value).lower() for name, value in game.variants.items()}
    if position is not None and position.cells.any():
        parts["opening"] = to_text(position, game)
    if moves:
        parts["moves"] = ".".join(coordinate(cell, game) + "+" * skipped for cell, skipped in moves)
    return [f"{name}={value}" for name, value in parts.items()]
