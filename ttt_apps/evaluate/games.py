"""``evaluate.py games FILE``: check and count logs of games, print them as text, or convert them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from evaluation.matches.games import RESULTS, PlayedGame, read_any_format, to_notation, write_games
from ttt_apps.cli import Count, JsonOptions, new_table, print_status, print_table, warn
from ttt_envs.core.files import write_atomically

UNFINISHED = "unfinished"


@dataclass(frozen=True)
class Games(JsonOptions):
    """Replay the games of a file by the rules, and count them by players and result."""

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = tyro.MISSING
    """a log of games, or games as text"""
    text: tyro.conf.FlagCreatePairsOff[bool] = False
    """print the games as readable text"""
    number: Count | None = None
    """only the game with this number, from 1"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """write them to another file, as a log, or as text if its name ends with .txt"""

    def run(self) -> None:
        """Read, check, and print or write."""
        if self.number is not None and self.number < 1:
            raise ValueError(f"--number {self.number} is no game: choose 1 or more")
        if self.out is not None:
            self._write(self.out)
        elif self.text:
            for count, played in enumerate(self._selected_games()):
                sys.stdout.write("\n" * (count > 0) + to_notation(played))
        else:
            self._count()

    def _selected_games(self) -> Iterator[PlayedGame]:
        """Yield the selected games, each replayed."""
        count = 0
        for count, played in enumerate(read_any_format(self.file, tell=warn), 1):
            if self.number in (None, count):
                yield played
            if count == self.number:
                return
        if self.number is not None:
            raise ValueError(f"--number {self.number} is not in {self.file}: it has {count} games")

    def _write(self, path: Path) -> None:
        """Write another file atomically."""
        if path.exists():
            raise ValueError(f"--out {path} is there already: name another file, or remove that one")
        if path.suffix == ".txt":
            texts = (to_notation(played).encode() for played in self._selected_games())
            write_atomically(
                path, lambda file: file.writelines(b"\n" * (count > 0) + text for count, text in enumerate(texts))
            )
        else:
            write_games(path, self._selected_games())
        print_status(f"written: {path}")

    def _count(self) -> None:
        """Print the number of wins of each player in each seat."""
        found: dict[tuple[Any, ...], dict[str, int]] = {}
        for played in self._selected_games():
            counts = found.setdefault((played.game, *played.players), dict.fromkeys((*RESULTS, UNFINISHED), 0))
            counts[UNFINISHED if played.result is None else RESULTS[played.result]] += 1
        total = sum(sum(counts.values()) for counts in found.values())
        if self.json:
            listed = [{"game": game.to_dict(), "players": [o, x], **counts} for (game, o, x), counts in found.items()]
            print(json.dumps({"games": total, "results": listed}))
            return
        table = new_table("o (player_0)", "x (player_1)", "game", "o wins", "draws", "x wins", "unfinished")
        table.title = f"{self.file}, {total:,} games"
        for (game, o, x), counts in found.items():
            numbers = (counts[name] for name in (RESULTS[0], RESULTS[2], RESULTS[1], UNFINISHED))
            table.add_row(o, x, str(game), *(f"{number:,}" for number in numbers))
        print_table(table)
