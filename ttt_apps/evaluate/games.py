"""``evaluate.py games FILE``: check and count logs of games, print them as text, or copy
them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated

import tyro

from ttt_apps.cli import options as cli
from ttt_apps.terminal.replay import find_game
from ttt_envs.core.checks import Refusal
from ttt_envs.game.game import Game
from ttt_eval.matches.account import make_account
from ttt_eval.matches.games import RESULTS, PlayedGame, read_games, to_notation, write_games
from ttt_eval.matches.luck import EXACT, default_correction, make_correction

UNFINISHED = "unfinished"


@dataclass(frozen=True)
class Games(cli.JsonOptions, cli.OutputOptions):
    """Replay the games of a file by the rules, and count them by players and result."""

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = tyro.MISSING
    """a log of games"""
    text: cli.Flag = False
    """print the games as readable text"""
    number: cli.Positive | None = None
    """only the game with this number, from 1"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """write them to another file"""
    explain: cli.Positive | None = None
    """explain the result of the game with this number, from 1: by the values of its moves and the
    luck of its skips
    """
    luck_correction: Annotated[cli.TextOption, tyro.conf.arg(metavar="exact|run:PATH|off")] = ""
    """values that explain a game and correct scores for the luck of skips, as in evaluate.py match
    """

    def run(self) -> None:
        """Read, check, and print or write."""
        if self.explain is not None:
            cli.check_no_effect(self, "with --explain", "number", "out", "text")
            self._explain(self.explain)
        elif self.out is not None:
            cli.check_no_effect(self, "with --out", "json", "luck_correction", "text")
            self._write(self.out)
        elif self.text:
            cli.check_no_effect(self, "with --text", "json", "luck_correction")
            sys.stdout.writelines(self._texts())
        else:
            self._count()

    def _selected_games(self) -> Iterator[PlayedGame]:
        """Yield the selected games, each replayed."""
        if self.number is not None:
            yield find_game(self.file, self.number, "--number", cli.warn)
        else:
            yield from read_games(self.file, tell=cli.warn)

    def _texts(self) -> Iterator[str]:
        """Yield the selected games as text, with empty lines between them."""
        for number, game in enumerate(self._selected_games()):
            if number > 0:
                yield "\n"
            yield to_notation(game)

    def _explain(self, number: int) -> None:
        """Print the account of one game."""
        played_game = find_game(self.file, number, "--explain", cli.warn)
        correction = make_correction(self.luck_correction or EXACT, played_game.game)
        if correction is None:
            raise Refusal(
                "--luck-correction off leaves no values to explain a game with: leave it out"
            )
        if played_game.result is None:
            raise Refusal(
                f"--explain {number} is an unfinished game, without a result: choose a finished one"
            )
        account = make_account(played_game, correction).to_dict(played_game)
        facts = {name: value for name, value in account.items() if name != "moves"}
        title = f"game {number} of {self.file}, in values for player_0"
        self.show(account, cli.rows_table(account["moves"], title), cli.facts_table(facts))

    def _write(self, path: Path) -> None:
        """Write another file atomically."""
        self.check_new_file(path)
        write_games(path, self._selected_games())
        cli.print_status(f"written: {path}")

    def _count(self) -> None:
        """Print the number of wins of each player in each seat."""
        counts: dict[tuple[Game, str, str], dict[str, int]] = {}
        scores: dict[tuple[Game, str, str], list[float]] = {}
        for played_game in self._selected_games():
            key = (played_game.game, *played_game.players)
            results = counts.setdefault(key, dict.fromkeys((*RESULTS, UNFINISHED), 0))
            results[UNFINISHED if played_game.result is None else RESULTS[played_game.result]] += 1
            spec = self.luck_correction or default_correction(played_game.game)
            correction = make_correction(spec, played_game.game)
            if correction is not None and played_game.result is not None:
                score = (1 + make_account(played_game, correction).corrected) / 2
                scores.setdefault(key, []).append(score)
        total = sum(sum(results.values()) for results in counts.values())
        data = []
        rows = []
        for key, results in counts.items():
            game, o, x = key
            facts: dict[str, object] = {**results}
            if key in scores:
                facts["corrected_score"] = fmean(scores[key])
            data.append({"game": game.to_dict(), "players": [o, x], **facts})
            rows.append({"game": str(game), "players": f"o {o}, x {x}", **facts})
        table = cli.rows_table(rows, f"{self.file}, {total:,} games")
        self.show({"games": total, "results": data}, table)
