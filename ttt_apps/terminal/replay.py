"""Replay of played games."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ttt_apps.cli.board import board_text
from ttt_envs.core.checks import Refusal
from ttt_envs.game.boards import MOVERS, coordinate, winning_line_cells
from ttt_eval.matches.games import PlayedGame, read_games, to_notation


def find_game(path: Path, number: int, option: str, tell: Callable[[str], object]) -> PlayedGame:
    """Return a game of a file.

    Args:
        path: the file.
        number: of the game, from 1.
        option: the option that has the number.
        tell: as of :func:`ttt_eval.matches.games.read_games`.

    Raises:
        ValueError: no such file or game.
    """
    count = 0
    for count, played_game in enumerate(read_games(path, tell=tell), 1):
        if count == number:
            return played_game
    absence = f"{option} {number} is not in {path}: it has {count} games, choose another number"
    raise Refusal(absence if count else f"{path} has no games: name another file")


def replay(console: Console, path: Path, number: int) -> None:
    """Show a game of a file move by move.

    Args:
        console: the output.
        path: the file.
        number: of the game, from 1.

    Raises:
        ValueError: no such file or game.
    """
    played_game = find_game(path, number, "--number", console.print)
    game = played_game.game
    console.print(to_notation(played_game), soft_wrap=True)
    plies = list(played_game.positions())
    boards = [*(position.cells for position, _, _ in plies), played_game.end().cells][1:]
    for number, ((before, action, is_skipped), cells) in enumerate(
        zip(plies, boards, strict=True), 1
    ):
        is_won = number == len(plies) and played_game.forfeit is None
        line = winning_line_cells(game, cells, played_game.result if is_won else None)
        console.print(
            f"{number}. {MOVERS[before.mover]} "
            f"{coordinate(action, game)}{' (skip)' if is_skipped else ''}"
        )
        console.print(board_text(game, cells, [action], line) + Text("\n"), soft_wrap=True)
