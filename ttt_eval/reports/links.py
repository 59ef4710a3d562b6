"""Ways from a board of a page to where its position can be played on: the explorer, and the page without a server."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from urllib.parse import quote

from ttt_envs.game.boards import to_text
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


def explorer_command(game: AnyGame, position: Position) -> str:
    """Return the command that opens the explorer with a position; "" beyond its limits."""
    link = _describe_position(game, position)
    return shlex.join(["python", "play.py", "--web", "--open", f"{link}o=you&x=you"]) if _is_within_limits(game) else ""


def play_link(game: AnyGame, position: Position) -> str:
    """Return the part of an address, from ``#`` on, that sets up a position on the page without a server; "" where it
    has no such game.
    """
    contents = (2 ** (game.rows + 1) - 1) ** game.columns if game.variants.get("gravity") else 3**game.cells
    if not _is_within_limits(game) or contents > MAX_PLAY_BOARDS or winner(game, position.cells) is not None:
        return ""
    seats = "o=you&x=optimal" if position.mover == 0 else "o=optimal&x=you"
    return f"#{quote(_describe_position(game, position) + seats, safe=LINK_CHARACTERS)}"


def ways_of(game: AnyGame, position: Position) -> tuple[str, str]:
    """Return the link and the command of a position, for a board of a page."""
    return play_link(game, position), explorer_command(game, position)


def play_page(folder: Path) -> str:
    """Return the address of the page without a server as seen from a folder; "" outside of the checkout."""
    if not PLAY_PAGE.is_file() or not folder.resolve().is_relative_to(PLAY_PAGE.parents[2]):
        return ""
    return os.path.relpath(PLAY_PAGE, folder.resolve()).replace(os.sep, "/")


def _is_within_limits(game: AnyGame) -> bool:
    is_large = max(game.rows, game.columns) > MAX_EXPLORER_EDGE or game.skip_chance > MAX_EXPLORER_SKIP
    return not (is_large or isinstance(game, PhantomGame))


def _describe_position(game: AnyGame, position: Position) -> str:
    """Return the beginning of a link of both pages: what differs from 3 x 3, and a position that is not empty."""
    usual = {"rows": 3, "columns": 3, "win": default_win_length(game.rows, game.columns), "skip": 0.0}
    own = {"rows": game.rows, "columns": game.columns, "win": game.win_length, "skip": game.skip_chance}
    parts = {name: f"{value:g}" for name, value in own.items() if value != usual[name]}
    parts |= {name: str(value).lower() for name, value in game.variants.items()}
    parts |= {"opening": to_text(position, game)} if position.cells.any() else {}
    return "".join(f"{name}={value}&" for name, value in parts.items())
