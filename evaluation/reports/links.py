"""Ways from a board of a page to where its position can be played on: the explorer, and the page without a server."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from ttt_envs.game.boards import MOVERS, coordinate, to_text
from ttt_envs.game.rules import Game, Position, default_win_length, winner

PLAY_PAGE = Path(__file__).resolve().parents[2] / "docs" / "play" / "index.html"
"""The page without a server, in a checkout."""
PLAY_SKIPS = (0.0, 0.1, 0.25, 0.5)
"""Skip chances of that page, which has 3 x 3 only."""
PLAY_SCHEME = "play-page:"
"""Stands for the address of that page in links of boards, which do not know the folder of their page."""
MAX_EXPLORER_EDGE, MAX_EXPLORER_SKIP = 15, 0.5
"""Limits of the explorer: the maximum edge of a board, and the maximum skip chance."""


def explorer_command(game: Game, position: Position | None = None, moves: Sequence[tuple[int, bool]] = ()) -> str:
    """Return the command that opens the explorer with a position, or with a game so far; "" beyond its limits.

    Args:
        game: the game.
        position: the first position; None for the empty board.
        moves: cells, each with whether the other player's turn was skipped after it.
    """
    if (
        max(game.rows, game.columns) > MAX_EXPLORER_EDGE
        or game.skip_chance > MAX_EXPLORER_SKIP
        or game.variants
        or game.hidden != "no"
    ):
        return ""
    usual = {"rows": 3, "columns": 3, "win": default_win_length(game.rows, game.columns), "skip": 0.0}
    own = {"rows": game.rows, "columns": game.columns, "win": game.win_length, "skip": game.skip_chance}
    parts = {name: f"{value:g}" for name, value in own.items() if value != usual[name]}
    if position is not None and position.cells.any():
        parts["opening"] = to_text(position, game)
    if moves:
        parts["moves"] = ".".join(coordinate(cell, game) + "+" * skipped for cell, skipped in moves)
    link = "&".join(f"{name}={value}" for name, value in {**parts, "o": "you", "x": "you"}.items())
    return shlex.join(["python", "play.py", "--web", "--open", link])


def play_link(game: Game, position: Position) -> str:
    """Return the link that sets up a position on the page without a server; "" where it has no such game.

    The link begins with :data:`PLAY_SCHEME`, which :func:`resolve_play_links` replaces.
    """
    if game != Game(skip_chance=game.skip_chance) or game.skip_chance not in PLAY_SKIPS:
        return ""
    if winner(game, position.cells) is not None:
        return ""
    at = to_text(position, game).replace(" ", "_")
    return f"{PLAY_SCHEME}#against=optimal&skip={game.skip_chance:g}&you={MOVERS[position.mover]}&position={at}"


def resolve_play_links(text: str, folder: Path) -> str:
    """Replace the scheme of links by the address of the page without a server, as seen from a folder.

    Outside of the checkout there is no such address: the links are removed.
    """
    root = PLAY_PAGE.parents[2]
    if PLAY_PAGE.is_file() and folder.resolve().is_relative_to(root):
        address = os.path.relpath(PLAY_PAGE, folder.resolve()).replace(os.sep, "/")
        return text.replace(f'href="{PLAY_SCHEME}', f'href="{address}')
    return re.sub(rf'<a href="{PLAY_SCHEME}[^"]*">[^<]*</a>\s?', "", text)
