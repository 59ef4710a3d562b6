"""``evaluate.py sprt A B``: play pairs of games until a sequential test decides whether A is better."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from baselines.timed import Clock
from ttt_apps.cli import Count, new_table, progress_bar, report_interrupt, warn
from ttt_apps.evaluate.match import describe_correction
from ttt_apps.evaluate.pairs_command import PairsCommand
from ttt_apps.train_options import folder_name
from ttt_apps.versions import make_provenance
from ttt_envs.game.game import Game
from ttt_eval.matches.elo import likelihood_of_superiority, normalized_elo
from ttt_eval.matches.luck import OFF
from ttt_eval.matches.match import MatchSettings
from ttt_eval.matches.sprt import MAX_GAMES, RESULT, SPRT, Decision, Model, SequentialMatch, run_sprt


@dataclass(frozen=True)
class Sprt(PairsCommand):
    """Play pairs of games between A and B until a sequential test decides how much better A is.

    The test compares two Elo differences, of A minus B. Games are stored: the same command resumes where it was
    stopped, and with other hypotheses or more games it reuses them.
    """

    a: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="A")] = tyro.MISSING
    """a policy, such as random or run:PATH"""
    b: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="B")] = tyro.MISSING
    """another policy"""
    elo0: float = 0.0
    """lower Elo difference: accepted if A is no better than that"""
    elo1: float = 20.0
    """upper Elo difference: accepted if A is at least that much better"""
    alpha: float = 0.05
    """maximum probability of accepting elo1 if elo0 is true"""
    beta: float = 0.05
    """maximum probability of accepting elo0 if elo1 is true"""
    model: Model = "pentanomial"
    """independent samples: pairs of games, or trinomial single games"""
    clock: Annotated[str, tyro.conf.arg(metavar="SECONDS+INCREMENT")] = ""
    """clock of both players, as in 10+0.1: seconds per game, and increment in seconds per move. A player without time
    loses"""
    games: Count = 40_000
    """maximum number of games, even"""
    out: Path | None = None
    """folder for result.json, report.html and the games played; default: runs/sprt/ and a name made of game, A and B"""

    def run(self) -> None:
        """Play the missing games, write and print.

        Raises:
            ValueError: an invalid number of games, invalid hypotheses, unknown policies.
            Stopped: an interrupt; completed work is stored.
        """
        pairs, workers, game = self.validate(self.games, MAX_GAMES, (self.a, self.b))
        test = SPRT(self.elo0, self.elo1, self.alpha, self.beta, self.model)
        clock = Clock.from_text(self.clock) if self.clock else None
        match = MatchSettings(game, self.a, self.b, self.seed, self.read_openings(game), clock, self._correction(game))
        folder = self.out or Path(
            "runs", "sprt", folder_name([game.slug, self.a, self.b, *([self.clock] if self.clock else [])])
        )
        with report_interrupt(folder), progress_bar("llr") as bar:
            task = bar.add_task("playing", total=self.games, llr="")

            def tell_bar(played: int, decision: Decision) -> None:
                bar.update(task, completed=2 * played, llr=describe_decision(decision))

            provenance = make_provenance()
            found = run_sprt(match, test, folder, provenance, pairs=pairs, jobs=workers, progress=tell_bar)
        if found.score.forfeits.first:
            warn(found.score.forfeits.describe(self.a, self.b))
        self.print_result(_table(self, str(game), found), folder / RESULT)

    def _correction(self, game: Game) -> str:
        """Return the value function that corrects luck: single games are not corrected."""
        if self.model == "pentanomial":
            return self.correction(game)
        if self.luck_correction not in ("", OFF):
            raise ValueError(
                f"--model {self.model} counts results of games, and --luck-correction {self.luck_correction} has real "
                "numbers in their place: choose one of the two"
            )
        return OFF


def describe_decision(decision: Decision) -> str:
    """Format the log-likelihood ratio with its bounds."""
    return f"LLR {decision.llr:+.2f}, from {decision.low:.2f} to {decision.high:.2f}"


def _table(asked: Sprt, game: str, found: SequentialMatch) -> Table:
    score, rating = found.score, found.elo
    table = new_table("", "", title=f"{asked.a} against {asked.b}, {game}")
    table.show_header = False
    verdict = {
        1: f"A is ahead by more than {asked.elo0:g} Elo: {asked.elo1:g} is accepted",
        0: f"A is ahead by less than {asked.elo1:g} Elo: {asked.elo0:g} is accepted",
        None: f"undecided between {asked.elo0:g} and {asked.elo1:g} Elo: allow more with --games",
    }[found.decision.accepted]
    wins, draws, losses = (int(n) for n in score.table.sum(axis=0))
    fixed = found.fixed_games
    table.add_row("verdict", verdict)
    table.add_row("likelihood ratio", describe_decision(found.decision))
    table.add_row("games", f"{score.games:,}")
    table.add_row("games of a test of fixed size", "any" if fixed is None else f"{fixed:,}")
    table.add_row("wins, draws, losses", f"{wins:,}, {draws:,}, {losses:,}")
    table.add_row("Elo, 95% interval", f"{rating.mean:+.1f} ({rating.low:+.1f} to {rating.high:+.1f})")
    table.add_row("normalized Elo", f"{normalized_elo(score):+.1f}")
    table.add_row("A is better, likelihood", f"{likelihood_of_superiority(score):.4f}")
    for row in describe_correction(score):
        table.add_row(*row)
    return table
