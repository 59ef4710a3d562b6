"""``evaluate.py match A B ...``: pairs of games as a match, a sequential test (``--sprt``) or a tournament."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from baselines.timed import Clock
from ttt_apps import cli
from ttt_apps.train_options import folder_name
from ttt_apps.versions import make_provenance
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.files import read_json
from ttt_envs.game.game import Game
from ttt_eval.matches import sprt
from ttt_eval.matches.elo import elo, elo_to_dict, likelihood_of_superiority, normalized_elo
from ttt_eval.matches.games import append_games, new_games
from ttt_eval.matches.luck import OFF
from ttt_eval.matches.match import MatchSettings, play_blocks
from ttt_eval.matches.match_blocks import COST, RESULT
from ttt_eval.matches.score import Score, Times
from ttt_eval.matches.sprt import SPRT, Decision, Model
from ttt_eval.matches.tournament import MAX_GAMES_PER_PAIRING, Tournament, TournamentSettings, run_tournament


@dataclass(frozen=True)
class Match(cli.ReportOptions, cli.PairOptions):
    """Play pairs of games, each pair with the same skips and the seats swapped.

    Two players play a match, or with --sprt until a sequential test decides how much better A is than B. Three or more
    play a round robin: a cross table, and Elo ratings with intervals. Tests and tournaments store their games: the same
    command resumes where it was stopped, and with other hypotheses, more players or more games it plays what is
    missing.
    """

    players: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="A B ...")] = tyro.MISSING
    """policies, such as random, win-or-block, run:PATH"""
    games: cli.Count | None = None
    """number of games, even, in a tournament of each pairing; default: 1,000, and at most 40,000 with --sprt"""
    sprt: Annotated[tuple[float, float] | None, tyro.conf.arg(metavar="ELO0 ELO1")] = None
    """play until one of two Elo differences of A minus B is accepted: A is no better than ELO0, or at least ELO1
    better"""
    alpha: float = 0.05
    """with --sprt: maximum probability of accepting ELO1 if ELO0 is true"""
    beta: float = 0.05
    """with --sprt: maximum probability of accepting ELO0 if ELO1 is true"""
    model: Model = "pentanomial"
    """with --sprt, independent samples: pairs of games, or trinomial single games"""
    clock: Annotated[str, tyro.conf.arg(metavar="SECONDS+INCREMENT")] = ""
    """clock of two players, as in 10+0.1: seconds per game, and increment in seconds per move. A player without time
    loses"""
    log: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """of a match: new file, to which all games are written as they are played"""
    anchor: str | None = None
    """of a tournament: policy with rating 0; default: the mean of all is 0"""
    out: Path | None = None
    """of a test or tournament: folder for result.json, report.html and the games played, in a tournament also
    cost.json; default: runs/sprt/ or runs/tournament/ and a name"""

    def run(self) -> None:
        """Play, write and print.

        Raises:
            ValueError: too few or unknown players, invalid numbers, hypotheses, openings or clock, a log that exists.
            Stopped: an interrupt of a test or tournament; completed work is stored.
        """
        if len(self.players) < 2:
            raise cli.UsageError(f"match {self.players[0]} has one player: name two or more")
        if len(self.players) > 2:
            cli.check_no_effect(self, "with three players or more", "sprt", "alpha", "beta", "model", "clock", "log")
            self._play_tournament()
            return
        cli.check_no_effect(self, "with two players", "anchor")
        if self.sprt is None:
            cli.check_no_effect(self, "without --sprt ELO0 ELO1", "alpha", "beta", "model", "out", "no_report")
            self._play_match()
        else:
            cli.check_no_effect(self, "with --sprt", "log")
            self._play_test(*self.sprt)

    def _validate(self, default_games: int, max_games: int) -> tuple[int, Game]:
        """Return the validated number of pairs, and the game."""
        pairs = cli.num_pairs(default_games if self.games is None else self.games, max_games)
        cli.check_seed(self.seed)
        self.workers()
        game = self.game_for(*self.players)
        for player in self.players:
            make_policy(player, game)  # reports a wrong name before a bar is drawn
        return pairs, game

    def _settings(self, game: Game, luck_correction: str) -> MatchSettings:
        a, b = self.players
        clock = Clock.from_text(self.clock) if self.clock else None
        return MatchSettings(game, a, b, self.seed, self.read_openings(game), clock, luck_correction)

    def _play_match(self) -> None:
        pairs, game = self._validate(1_000, cli.MAX_NUMBER)
        match, (a, b) = self._settings(game, self.correction(game)), self.players
        openings = match.openings
        if openings is not None and openings.boards is not None and pairs < (number := len(openings.boards.mover)):
            cli.warn(f"{pairs:,} pairs play the first of {number:,} openings; --games {2 * number} plays all")
        if self.log is not None:
            new_games(self.log)
        log = None if self.log is None else partial(append_games, self.log)
        score = Score.empty(game)
        with cli.progress_bar() as bar:
            task = bar.add_task("playing", total=2 * pairs)
            for block in play_blocks(match, pairs, jobs=self.workers(), log=log):
                score += block
                bar.advance(task, block.games)
        _note_forfeits(score, a, b)
        if score.is_degenerate and not self.openings:
            cli.warn(
                "in each seat all games ended alike: players that draw nothing play one pair again and again, and the "
                "intervals know of no other; --openings random:2 begins elsewhere"
            )
        given = {"a": a, "b": b, "seed": self.seed, "openings": self.openings or None}
        times = score.times
        timed = {} if times is None else {"clock": self.clock, "times": [each.to_dict() for each in times]}
        cli.show(
            {"game": game.to_dict(), **given, **score.to_dict(), **elo_to_dict(score), **timed},
            score_table(game, a, b, score),
            *([] if times is None else [times_table(self.clock, a, b, times)]),
            json=self.json,
        )

    def _play_test(self, elo0: float, elo1: float) -> None:
        pairs, game = self._validate(40_000, sprt.MAX_GAMES)
        if self.model != "pentanomial" and self.luck_correction not in ("", OFF):
            raise cli.UsageError(
                f"--model {self.model} counts results of games, and --luck-correction {self.luck_correction} has real "
                "numbers in their place: choose one of the two"
            )
        test = SPRT(elo0, elo1, self.alpha, self.beta, self.model)
        match = self._settings(game, self.correction(game) if self.model == "pentanomial" else OFF)
        name = folder_name([game.slug, *self.players, *([self.clock] if self.clock else [])])
        folder = self.out or Path("runs", "sprt", name)
        with cli.report_interrupt(folder), cli.progress_bar("llr") as bar:
            task = bar.add_task("playing", total=2 * pairs, llr="")

            def tell_bar(played: int, decision: Decision) -> None:
                bar.update(task, completed=2 * played, llr=_describe_decision(decision))

            result = sprt.run_sprt(
                match, test, folder, make_provenance(), pairs=pairs, jobs=self.workers(), progress=tell_bar
            )
        _note_forfeits(result.score, *self.players)
        self._show_stored(_test_table(test, f"{' against '.join(self.players)}, {game}", result), folder / RESULT)

    def _play_tournament(self) -> None:
        pairs, game = self._validate(1_000, MAX_GAMES_PER_PAIRING)
        settings = TournamentSettings(
            game, self.players, pairs, self.seed, self.read_openings(game), self.anchor, self.correction(game)
        )
        folder = self.out or Path("runs", "tournament", game.slug)
        with cli.report_interrupt(folder), cli.progress_bar() as bar:
            task = bar.add_task("playing", total=pairs * len(self.players) * (len(self.players) - 1))
            result = run_tournament(
                settings,
                folder,
                make_provenance(),
                jobs=self.workers(),
                progress=lambda played: bar.advance(task, 2 * played),
            )
        for (i, j), score in result.scores.items():
            _note_forfeits(score, result.players[i], result.players[j])
        table = _cross_table(result, f"{game}, {2 * pairs:,} games in each pairing")
        self._show_stored(table, folder / RESULT, folder / COST)

    def _show_stored(self, table: Table, *written: Path) -> None:
        """Write the report page, and print the result, the first written file."""
        page = cli.write_folder_report(written[0].parent, self.no_report)
        cli.show(read_json(written[0]), table, json=self.json)
        if not self.json:
            cli.print_status(f"written: {', '.join(map(str, written))}{page}")


def _note_forfeits(score: Score, a: str, b: str) -> None:
    if score.forfeits.first:
        cli.warn(score.forfeits.describe(a, b))


def score_table(game: Game, a: str, b: str, score: Score) -> Table:
    """Return a table of a score."""
    table = cli.new_table(
        a, "wins", "draws", "losses", "score", title=f"{a} against {b}, {score.games:,} games of {game}"
    )
    for seat, counts in zip(("first", "second"), score.table, strict=True):
        wins, draws, losses = (int(count) for count in counts)
        share = f"{(wins + draws / 2) / sum(counts):.3f}"
        table.add_row(f"moving {seat}", f"{wins:,}", f"{draws:,}", f"{losses:,}", share)
    rates, rating = [score.rate(name) for name in ("wins", "draws", "losses", "score")], elo(score)
    table.add_row("of all games", *(f"{rate.mean:.3f}" for rate in rates))
    table.add_row("95% interval", *(f"{rate.low:.3f}-{rate.high:.3f}" for rate in rates))
    for name, value in (
        ("Elo difference", f"{rating.mean:+.0f}"),
        ("95% interval", f"{rating.low:+.0f} to {rating.high:+.0f}"),
        ("likelihood of superiority", f"{likelihood_of_superiority(score):.3f}"),
        *_describe_correction(score),
    ):
        table.add_row(name, "", "", "", value)
    return table


def _describe_correction(score: Score) -> list[tuple[str, str]]:
    """Return rows about the luck correction of a score: names and values; none if luck is not corrected."""
    if score.corrected is None:
        return []
    raw, ratio = score.raw.rate("score"), score.variance_reduction
    reduction = "leaves no variance"
    if ratio is not None:
        reduction = f"variance / {ratio:.1f}, as of {round(score.games * ratio):,} games"
    return [("score with luck", f"{raw.mean:.3f} ({raw.low:.3f}-{raw.high:.3f})"), ("luck correction", reduction)]


def times_table(clock: str, a: str, b: str, times: tuple[Times, Times]) -> Table:
    """Return a table of both players' times."""
    table = cli.new_table(
        "", "median", "largest", "least left", "lost on time", "guessed", title=f"by the clock, {clock}"
    )
    for name, player in zip((a, b), times, strict=True):
        values = player.to_dict()
        seconds = [
            f"{values[key]:.3f} s" if values["moves"] else "" for key in ("median_s", "largest_s", "least_left_s")
        ]
        guesses = f"{player.hits:,} of {player.guesses:,}" if player.guesses and values["moves"] else ""
        table.add_row(name, *seconds, f"{player.lost:,}", guesses)
    return table


def _describe_decision(decision: Decision) -> str:
    """Format the log-likelihood ratio with its bounds."""
    return f"LLR {decision.llr:+.2f}, from {decision.low:.2f} to {decision.high:.2f}"


def _test_table(test: SPRT, title: str, result: sprt.SequentialMatch) -> Table:
    score, rating = result.score, result.elo
    verdict = {
        1: f"A is ahead by more than {test.elo0:g} Elo: {test.elo1:g} is accepted",
        0: f"A is ahead by less than {test.elo1:g} Elo: {test.elo0:g} is accepted",
        None: f"undecided between {test.elo0:g} and {test.elo1:g} Elo: allow more with --games",
    }[result.decision.accepted]
    fixed = "any" if result.fixed_games is None else f"{result.fixed_games:,}"
    rows = (
        ("verdict", verdict),
        ("likelihood ratio", _describe_decision(result.decision)),
        ("games", f"{score.games:,}"),
        ("games of a test of fixed size", fixed),
        ("wins, draws, losses", ", ".join(f"{int(count):,}" for count in score.table.sum(axis=0))),
        ("Elo, 95% interval", f"{rating.mean:+.1f} ({rating.low:+.1f} to {rating.high:+.1f})"),
        ("normalized Elo", f"{normalized_elo(score):+.1f}"),
        ("A is better, likelihood", f"{likelihood_of_superiority(score):.4f}"),
        *_describe_correction(score),
    )
    table = cli.new_table("", "", title=title, rows=rows)
    table.show_header = False
    return table


def _cross_table(result: Tournament, title: str) -> Table:
    """Return the cross table, best first: the score of the row against each column."""
    order = sorted(range(len(result.players)), key=lambda i: -result.ratings[i].mean)
    table = cli.new_table("", "Elo", "95%", *(str(place + 1) for place in range(len(order))), title=title)
    for place, i in enumerate(order):
        rating = result.ratings[i]
        scores = ["" if i == j else _format_score(result, i, j) for j in order]
        interval = f"{rating.low:+.0f} to {rating.high:+.0f}"
        table.add_row(f"{place + 1} {result.players[i]}", f"{rating.mean:+.0f}", interval, *scores)
    return table


def _format_score(result: Tournament, row: int, column: int) -> str:
    share = result.score(row, column).rate("score")
    return f"{share.mean:.3f}\n{share.low:.3f}-{share.high:.3f}"
