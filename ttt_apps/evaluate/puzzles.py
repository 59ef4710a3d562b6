"""``evaluate.py puzzles``: positions where an obvious move loses value, of a set, of a policy, or
of played games.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

import tyro

from ttt_apps.cli import options as cli
from ttt_envs.core.checks import Refusal
from ttt_envs.game.boards import coordinate, to_text
from ttt_eval.matches.games import read_games
from ttt_eval.puzzles import Puzzle, from_games, from_policy, read_puzzles, write_puzzles
from ttt_eval.reports.formats import game_options
from ttt_eval.runs.sweep import to_command_line


@dataclass(frozen=True)
class Puzzles(cli.TrustOptions, cli.JsonOptions, cli.OutputOptions, cli.GameOptions):
    """List puzzles: positions where an obvious move loses value, with the exact value of every
    move.

    Without a policy or a log they are those of the built-in set of 100. Options of the game are for
    a policy.
    """

    policy: Annotated[cli.TextOption, tyro.conf.Positional, tyro.conf.arg(metavar="[POLICY]")] = ""
    """a pure policy, such as run:PATH or win-or-block: the positions in which it loses most, up to
    16 cells; in the game of the run by default"""
    opponent: cli.TextOption = ""
    """opponent in the games of POLICY, such as random; default: itself"""
    log: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """a log of games, such as that of play.py --log: the positions in which a move lost value"""
    player: cli.TextOption = ""
    """the player in the log whose moves count, such as human; default: both"""
    count: cli.Positive = 20
    """maximum number of puzzles of a policy or a log"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """write the puzzles to a JSON file too"""

    def run(self) -> None:
        """Collect the puzzles, print, and write.

        Raises:
            ValueError: contradicting options, an unknown policy, a damaged log.
        """
        if self.policy and self.log is not None:
            raise Refusal("puzzles come from one source: give a POLICY, or --log FILE")
        if not self.policy:
            cli.check_no_effect(self, "without a POLICY", "opponent", "trust", *cli.GAME_FIELDS)
        if self.log is None:
            cli.check_no_effect(self, "without --log", "player")
        self.check_new_file(self.out)
        puzzles, command, title = self._collect()
        rows = [{"": number, **_row(puzzle)} for number, puzzle in enumerate(puzzles, 1)]
        absence = f"no move loses value: there are no {title}"
        part = cli.rows_table(rows, title) if rows else absence
        self.show({"puzzles": [puzzle.to_dict() for puzzle in puzzles]}, part)
        if self.out is not None:
            write_puzzles(self.out, puzzles, {"command": command})
            cli.warn(f"written: {self.out}, {len(puzzles)} puzzles")

    def _collect(self) -> tuple[list[Puzzle], str, str]:
        """Return the puzzles, the command without the name of a log, and a title."""
        if self.policy:
            game = self.game_for(self.policy)
            with cli.status(f"the games of {self.policy}"):
                puzzles = from_policy(game, self.policy, self.count, self.opponent or None)
            command = self._command(self.policy, *game_options(game))
            return puzzles, command, f"puzzles of {self.policy}, {game}"
        if self.log is None:
            return read_puzzles(), "evaluate.py puzzles", "puzzles"
        with cli.status("the games of the log"):
            games = from_games(read_games(self.log, tell=cli.warn), self.player or None)
            return list(islice(games, self.count)), self._command("--log", "FILE"), "puzzles"

    def _command(self, *words: str) -> str:
        """Return the command that collects the puzzles of a policy or a log, with the words that
        name it.
        """
        options = {name: getattr(self, name) or None for name in ("opponent", "player", "count")}
        return shlex.join(["evaluate.py", "puzzles", *words, *to_command_line(options)])


def _row(puzzle: Puzzle) -> dict[str, object]:
    """Return the cells of a puzzle in the table."""
    game = puzzle.game
    return {
        "position": to_text(puzzle.position, game),
        "game": str(game),
        "tempting": [coordinate(cell, game) for cell in puzzle.tempting],
        "why": puzzle.why,
        "loses": puzzle.loss,
        "best": [coordinate(cell, game) for cell in puzzle.best],
        "level": puzzle.level or None,
    }
