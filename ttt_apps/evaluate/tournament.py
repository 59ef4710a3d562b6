"""``evaluate.py tournament A B C``: a round robin with a cross table and ratings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from ttt_apps.cli import Count, new_table, progress_bar, report_interrupt, warn
from ttt_apps.evaluate.pairs_command import PairsCommand
from ttt_apps.versions import make_provenance
from ttt_eval.matches.tournament import (
    COST,
    MAX_GAMES_PER_PAIRING,
    RESULT,
    Tournament,
    TournamentSettings,
    run_tournament,
)


@dataclass(frozen=True)
class PlayTournament(PairsCommand):
    """Play a round robin of several policies in pairs of games: a cross table, and Elo ratings with intervals.

    Games are stored: the same command resumes where it was stopped, and with more players or more games it plays only
    what is missing.
    """

    players: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="A B ...")] = tyro.MISSING
    """policies, such as random, win-or-block, run:PATH"""
    games: Count = 1_000
    """number of games in each pairing, even"""
    anchor: str | None = None
    """policy with rating 0; default: the mean of all is 0"""
    out: Path | None = None
    """folder for result.json, cost.json, report.html and the games played; default: runs/tournament/ and the game's
    name"""

    def run(self) -> None:
        """Play the missing games, write and print.

        Raises:
            ValueError: an invalid number of games, too few or unknown policies.
            Stopped: an interrupt; completed work is stored.
        """
        pairs, workers, game = self.validate(self.games, MAX_GAMES_PER_PAIRING, self.players)
        asked = TournamentSettings(
            game, self.players, pairs, self.seed, self.read_openings(game), self.anchor, self.correction(game)
        )
        folder = self.out or Path("runs", "tournament", game.slug)
        pairings = len(self.players) * (len(self.players) - 1) // 2
        with report_interrupt(folder), progress_bar() as bar:
            task = bar.add_task("playing", total=self.games * pairings)
            provenance = make_provenance()
            found = run_tournament(
                asked, folder, provenance, jobs=workers, progress=lambda played: bar.advance(task, 2 * played)
            )
        for (i, j), score in found.scores.items():
            if score.forfeits.first:
                warn(score.forfeits.describe(found.players[i], found.players[j]))
        table = _table(found, f"{game}, {self.games:,} games in each pairing")
        self.print_result(table, folder / RESULT, folder / COST)


def _table(found: Tournament, title: str) -> Table:
    """Return the cross table, best first: the score of the row against each column."""
    order = sorted(range(len(found.players)), key=lambda i: -found.ratings[i].mean)
    table = new_table("", "Elo", "95%", *(str(place + 1) for place in range(len(order))), title=title)
    for place, i in enumerate(order):
        rating = found.ratings[i]
        scores = ["" if i == j else _share(found, i, j) for j in order]
        table.add_row(
            f"{place + 1} {found.players[i]}",
            f"{rating.mean:+.0f}",
            f"{rating.low:+.0f} to {rating.high:+.0f}",
            *scores,
        )
    return table


def _share(found: Tournament, row: int, column: int) -> str:
    share = found.score(row, column).rate("score")
    return f"{share.mean:.3f}\n{share.low:.3f}-{share.high:.3f}"
