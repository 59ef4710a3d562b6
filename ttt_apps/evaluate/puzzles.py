"""``evaluate.py puzzles``: positions where an obvious move loses value, of a set, of a policy, or of played games."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.table import Table

from ttt_apps.cli import (
    Count,
    GameOptions,
    JsonOptions,
    check_no_effect,
    new_table,
    print_output,
    print_status,
    print_table,
    slow_status,
    warn,
)

if TYPE_CHECKING:  # compiled code is imported where it is used, not where help is written
    from ttt_eval.puzzles import Puzzle

TYPED = "evaluate.py puzzles"


@dataclass(frozen=True)
class Puzzles(JsonOptions, GameOptions):
    """List puzzles: positions where an obvious move loses value, with the exact value of every move.

    Without a policy or a log they are those of the built-in set of 100. Options of the game are for a policy.
    """

    policy: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="[POLICY]")] = ""
    """a pure policy, such as run:PATH or win-or-block: the positions in which it loses most, up to 16 cells; in the
    game of the run by default"""
    opponent: str = ""
    """opponent in the games of POLICY, such as random; default: itself"""
    log: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """a log of games, such as that of play.py --log: the positions in which a move lost value"""
    player: str = ""
    """the player in the log whose moves count, such as human; default: both"""
    count: Count = 20
    """maximum number of puzzles of a policy or a log"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """write the puzzles to a JSON file too"""

    def run(self) -> None:
        """Collect the puzzles, print, and write.

        Raises:
            ValueError: contradicting options, an unknown policy, a damaged log.
        """
        from ttt_eval.puzzles import write_puzzles

        if self.policy and self.log is not None:
            raise ValueError("puzzles come from one source: give a POLICY, or --log FILE")
        if not self.policy:
            check_no_effect(self, "without a POLICY", "opponent", *(field.name for field in fields(GameOptions)))
        if self.log is None:
            check_no_effect(self, "without --log", "player")
        if self.count < 1:
            raise ValueError(f"--count {self.count} gives no puzzle: choose 1 or more")
        puzzles, command = self._collect()
        if self.out is not None:
            write_puzzles(self.out, puzzles, {"command": command})
        if self.json:
            print(json.dumps({"puzzles": [one.to_dict() for one in puzzles]}))
            return
        of = f" of {self.policy}, {self.game_for(self.policy)}" if self.policy else ""
        if puzzles:
            print_table(_table(puzzles, f"puzzles{of}", of_policy=bool(self.policy)))
        else:
            print_output(f"no move{of} loses value: there is no puzzle")
        if self.out is not None:
            print_status(f"written: {self.out}, {len(puzzles)} puzzles")

    def _collect(self) -> tuple[list[Puzzle], str]:
        """Return the puzzles, and the command without the names of files."""
        from ttt_eval.matches.games import read_any_format
        from ttt_eval.puzzles import from_games, from_policy, read_puzzles

        if self.policy:
            game = self.game_for(self.policy)
            with slow_status(f"the games of {self.policy}"):
                found = from_policy(game, self.policy, self.count, self.opponent or None)
            return found, shlex.join([*TYPED.split(), self.policy, *self.game_words()])
        if self.log is not None:
            games = read_any_format(self.log, tell=warn)
            with slow_status("the games of the log"):
                return list(islice(from_games(games, self.player or None), self.count)), f"{TYPED} --log"
        return read_puzzles(), TYPED


def _table(puzzles: Sequence[Puzzle], title: str, *, of_policy: bool) -> Table:
    """Return a table of puzzles; those of a policy have one game and one reason, which the title names."""
    from ttt_envs.game.boards import coordinate, to_text

    cells = [
        {
            "": str(number),
            "position": to_text(one.position, one.game),
            "game": str(one.game),
            "tempting": " ".join(coordinate(cell, one.game) for cell in one.tempting),
            "why": one.why,
            "loses": f"{one.loss:.3f}",
            "best": " ".join(coordinate(cell, one.game) for cell in one.best),
            "level": str(one.level or ""),
        }
        for number, one in enumerate(puzzles, 1)
    ]
    columns = [name for name in cells[0] if not (of_policy and name in ("game", "why", "level"))]
    table = new_table(*columns, title=title)
    for row in cells:
        table.add_row(*(row[name] for name in columns))
    return table
