"""The way from a board of a page to the explorer, where its position can be played on."""

from __future__ import annotations

import shlex

from ttt_envs.game.boards import to_text
from ttt_envs.game.game import Position, default_win_length
from ttt_envs.game.phantom import AnyGame, PhantomGame

MAX_EXPLORER_EDGE, MAX_EXPLORER_SKIP = 15, 0.5
"""Limits of the explorer: the maximum edge of a board, and the maximum skip chance."""
LINK_CHARACTERS = "=&./:,"
"""Characters of a link that are not escaped."""


def is_within_limits(game: AnyGame) -> bool:
    """Return whether the explorer may have a game."""
    is_large = max(game.rows, game.columns) > MAX_EXPLORER_EDGE or game.skip_chance > MAX_EXPLORER_SKIP
    return not (is_large or isinstance(game, PhantomGame))


def explorer_command(game: AnyGame, position: Position) -> str:
    """Return the command that opens the explorer with a position; "" beyond its limits."""
    if not is_within_limits(game):
        return ""
    usual = {"rows": 3, "columns": 3, "win": default_win_length(game.rows, game.columns), "skip": 0.0}
    own = {"rows": game.rows, "columns": game.columns, "win": game.win_length, "skip": game.skip_chance}
    parts = {name: str(value) for name, value in own.items() if value != usual[name]}
    parts |= {name: str(value).lower() for name, value in game.variants.items()}
    parts |= {"opening": to_text(position, game)} if position.cells.any() else {}
    link = "&".join(f"{name}={value}" for name, value in {**parts, "o": "you", "x": "you"}.items())
    return shlex.join(["python", "play.py", "--web", "--open", link])
