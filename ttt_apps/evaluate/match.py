"""``evaluate.py match A B ...``: pairs of games as a match, a sequential test (``--sprt``) or a
tournament.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro
from msgspec import UNSET
from rich.table import Table

from baselines.timed import Clock
from ttt_apps.cli import options as cli
from ttt_apps.training.options import changed_values, folder_name
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import Refusal
from ttt_envs.game.game import Game
from ttt_eval.matches import sprt, tournament
from ttt_eval.matches.elo import elo_to_dict, likelihood_of_superiority
from ttt_eval.matches.games import append_games, new_games
from ttt_eval.matches.luck import check_correction
from ttt_eval.matches.match import MatchSettings, play_blocks
from ttt_eval.matches.openings import Openings
from ttt_eval.matches.results import MatchResult, compare_moves
from ttt_eval.matches.score import Score
from ttt_eval.reports.matches import describe_decision, tournament_report
from ttt_eval.store.result_store import Data
from ttt_eval.store.versions import make_provenance

FACTS = (
    "score",
    "wins",
    "draws",
    "losses",
    "raw_score",
    "variance_reduction",
    "equivalent_games",
    "pentanomial",
    "elo",
    "likelihood_of_superiority",
)
"""Keys of a score that are printed."""


@dataclass(frozen=True)
class PairOptions:
    """Of two players."""

    clock: Annotated[cli.TextOption, tyro.conf.arg(metavar="SECONDS+INCREMENT")] = ""
    """time of each player, as in 10+0.1: seconds per game, and increment in seconds per move. A
    player without time loses; also with --sprt"""
    log: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """new file, to which all games are written as they are played; without --sprt"""


@dataclass(frozen=True)
class TestOptions:
    """Of two players: play until it is decided how much better A is than B."""

    sprt: Annotated[tuple[float, float] | None, tyro.conf.arg(metavar="ELO0 ELO1")] = None
    """the two Elo differences of A minus B, of which one is accepted: A is no better than ELO0, or
    at least ELO1 better"""
    alpha: float = 0.05
    """maximum probability of accepting ELO1 if ELO0 is true"""
    beta: float = 0.05
    """maximum probability of accepting ELO0 if ELO1 is true"""


@dataclass(frozen=True)
class TournamentOptions:
    """Of three players or more."""

    anchor: cli.OptionalText = None
    """policy with rating 0; default: the mean of all is 0"""


@dataclass(frozen=True)
class Match(cli.TrustOptions, cli.ReportOptions, cli.WorkOptions, cli.GameOptions):
    """Play pairs of games, each pair with the same skips and the seats swapped.

    Two players play a match, or with --sprt until a sequential test decides how much better A is
    than B. Three or more play a round robin: a cross table, and Elo ratings with intervals. Tests
    and tournaments store their games: the same command resumes where it was stopped, and plays what
    is missing with more games, in a tournament with more players, and in a test with other
    hypotheses and --overwrite.
    """

    players: Annotated[cli.Names, tyro.conf.arg(metavar="A B ...")] = tyro.MISSING
    """policies, such as random, win-or-block, run:PATH"""
    seed: cli.Natural = 0
    """seed of all random numbers"""
    openings: Annotated[
        cli.TextOption, tyro.conf.arg(metavar="random:N[-M][:SHARE]|all:N|FILE")
    ] = ""
    """start positions of both games of a pair: after N random plies, or N to M, in all pairs or a
    share of them, as in random:1-3:0.5; each position after N plies in turn; or those of a file"""
    luck_correction: Annotated[cli.TextOption, tyro.conf.arg(metavar="exact|run:PATH|off")] = ""
    """values that correct scores for the luck of skips and draws: exact, those of a policy such as
    run:PATH, or off; by default exact with skips on boards of up to 12 cells, else off"""
    games: cli.Even | None = None
    """number of games, even; default: 1,000. Of three players or more, that of each pairing; with
    --sprt the maximum, by default 40,000"""
    out: Path | None = None
    """folder for result.json and report.html, and for the games of all but a match; default: none
    for a match, else runs/sprt/ or runs/tournament/ and a name made of game, players and
    settings"""
    pair: Annotated[PairOptions, tyro.conf.arg(name="match")] = PairOptions()
    test: Annotated[TestOptions, tyro.conf.arg(name="sequential-test")] = TestOptions()
    tournament: TournamentOptions = TournamentOptions()

    def run(self) -> None:
        """Play, write and print.

        Raises:
            ValueError: too few or unknown players, invalid numbers, hypotheses, openings or clock,
                a log that exists.
            Stopped: an interrupt of a test or tournament; completed work is stored.
        """
        if len(self.players) < 2:
            raise Refusal(f"match {self.players[0]} has one player: name two or more")
        if len(self.players) > 2:
            cli.check_no_effect(self.pair, "with three players or more")
            cli.check_no_effect(self.test, "with three players or more")
            self._play_tournament()
            return
        cli.check_no_effect(self.tournament, "with two players")
        if self.test.sprt is None:
            cli.check_no_effect(self.test, "without --sprt ELO0 ELO1")
            if self.out is None:
                cli.check_no_effect(self, "without --out", "no_report")
            self._play_match()
        else:
            cli.check_no_effect(self.pair, "with --sprt", "log")
            self._play_test(*self.test.sprt)

    def _settings(self) -> MatchSettings:
        """Return the players and what determines their games."""
        self.workers()
        game = self.game_for(*self.players)
        for player in self.players:
            make_policy(player, game)  # reports a wrong name before a bar is drawn
        return MatchSettings(
            game,
            self.players,
            self.seed,
            Openings.from_text(self.openings, game) if self.openings else None,
            Clock.from_text(self.pair.clock) if self.pair.clock else None,
            check_correction(self.luck_correction, game),
        )

    def _folder(self, kind: str, game: Game) -> Path:
        """Return the folder of a test or tournament; the default name has the players and what
        determines the games.
        """
        parts = changed_values(self, Match, ("seed", "openings", "luck_correction"))
        parts += changed_values(self.pair, PairOptions, ("clock",))
        parts += changed_values(self.tournament, TournamentOptions, ("anchor",))
        return self.out or Path("runs", kind, folder_name([game.slug, *self.players, *parts]))

    def _pair_settings(self, kind: str, match: MatchSettings) -> dict[str, object]:
        """Return the keys of the result of two players that determine their games."""
        return {"kind": kind, **match.describe_pair(), "clock": self.pair.clock or None}

    def _play_match(self) -> None:
        match = self._settings()
        game = match.game
        pairs = (self.games or 1_000) // 2
        if match.openings is not None and match.openings.boards is not None:
            count = len(match.openings.boards.mover)
            if pairs < count:
                cli.warn(
                    f"{pairs:,} pairs play the first of {count:,} openings; --games {2 * count} "
                    "plays all"
                )
        settings = {"format": 1, **self._pair_settings("match", match)}
        if self.out is not None:
            self.check_folder(self.out, settings, {"games": 2 * pairs})
        score = self._play_pairs(match, pairs)
        if score.is_degenerate and not self.openings:
            cli.warn(
                "in each seat all games ended alike: players that draw no random numbers play the "
                "same two games again and again, and the intervals do not show it; --openings "
                "random:2 begins elsewhere"
            )
        a, b = self.players
        names = ("game", "a", "b", "seed", "openings")
        data: Data = {name: settings[name] for name in names}
        data |= score.to_dict() | elo_to_dict(score)
        parts = [*_score_tables(f"{a} against {b}, {score.games:,} games of {game}", data)]
        if score.times is not None:
            times = [player.to_dict() for player in score.times]
            data |= {"clock": self.pair.clock, "times": times}
            rows = [{"player": name, **row} for name, row in zip(self.players, times, strict=True)]
            parts.append(cli.rows_table(rows, f"by the clock, {self.pair.clock}"))
        if self.out is None:
            self.show(data, *parts)
            return
        MatchResult(
            **match.describe_pair() | {"clock": self.pair.clock or None},
            **score.to_record(),
            score=score.rate("score"),
            likelihood_of_superiority=likelihood_of_superiority(score),
            differences=compare_moves(game, a, b),
            times=data.get("times", UNSET),
            provenance=make_provenance(),
        ).write(self.out)
        self.show_folder(self.out, *parts)

    def _play_pairs(self, match: MatchSettings, pairs: int) -> Score:
        """Play the games of a match, and log them."""
        log = None
        if self.pair.log is not None:
            if self.overwrite:
                self.pair.log.unlink(missing_ok=True)
            new_games(self.pair.log)
            log = partial(append_games, self.pair.log)
        score = Score.empty(match.game)
        with cli.bar("playing") as progress:
            for block in play_blocks(match, pairs, jobs=self.workers(), log=log):
                score += block
                progress(score.games, 2 * pairs)
        _note_forfeits(score, *self.players)
        return score

    def _play_test(self, elo0: float, elo1: float) -> None:
        pairs = (self.games or 40_000) // 2
        test = sprt.SPRT(elo0, elo1, self.test.alpha, self.test.beta)
        match = self._settings()
        game = match.game
        folder = self._folder("sprt", game)
        settings = {**self._pair_settings("sprt", match), "test": asdict(test)}
        self.check_folder(folder, settings, {"most_games": 2 * pairs})
        with cli.bar("playing", folder) as bar:

            def progress(count: int, decision: sprt.Decision) -> None:
                bar(2 * count, 2 * pairs, _describe_ratio(decision))

            result = sprt.run_sprt(
                match,
                test,
                folder,
                make_provenance(),
                pairs=pairs,
                jobs=self.workers(),
                progress=progress,
            )
        _note_forfeits(result.played, *self.players)
        title = f"{' against '.join(self.players)}, {result.games:,} games of {game}"
        if result.accepted is None:
            cli.warn("the test is undecided: allow more games with --games")
        self.show_folder(
            folder,
            *_score_tables(title, result.to_dict()),
            describe_decision(result),
            _describe_ratio(result.decision),
        )

    def _play_tournament(self) -> None:
        match = self._settings()
        game = match.game
        pairs = (self.games or 1_000) // 2
        folder = self._folder("tournament", game)
        settings = {"kind": "tournament", **match.to_dict(), "anchor": self.tournament.anchor}
        players = [
            {"spec": spec, "identity": identity} for spec, identity in match.identities().items()
        ]
        self.check_folder(folder, settings, {"players": players, "games_per_pairing": 2 * pairs})
        with cli.bar("playing", folder) as progress:
            result = tournament.run_tournament(
                match,
                folder,
                make_provenance(),
                pairs=pairs,
                anchor=self.tournament.anchor,
                jobs=self.workers(),
                progress=progress,
            )
        scores = result.scores
        for (i, j), score in scores.items():
            if i < j:
                _note_forfeits(score, self.players[i], self.players[j])
        report = tournament_report(result)
        title = f"{game}, {2 * pairs:,} games in each pairing"
        self.show_folder(folder, title, *cli.report_tables(report, "Ratings", "Cross table"))


def _note_forfeits(score: Score, a: str, b: str) -> None:
    if score.forfeits.first:
        cli.warn(score.forfeits.describe(a, b))


def _score_tables(title: str, data: Data) -> Iterator[Table]:
    """Yield tables of a score: results by seat, and intervals with the rating."""
    rows = []
    for seat in ("first", "second"):
        wins, draws, losses = data[seat]
        rows.append({"moving": seat, "wins": wins, "draws": draws, "losses": losses})
    yield cli.rows_table(rows, title)
    yield cli.facts_table({name: data.get(name) for name in FACTS}, "95% intervals, per game")


def _describe_ratio(decision: sprt.Decision) -> str:
    """Format the log-likelihood ratio with its bounds."""
    return f"LLR {decision.llr:+.2f}, from {decision.low:.2f} to {decision.high:.2f}"
