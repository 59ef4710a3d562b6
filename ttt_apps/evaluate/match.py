"""``evaluate.py match A B``: pairs of games with seats swapped."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.table import Table

from ttt_apps.cli import (
    Count,
    JsonOptions,
    PairOptions,
    check_seed,
    new_table,
    num_pairs,
    print_table,
    progress_bar,
    warn,
)
from ttt_envs.agents.specs import make_policy

if TYPE_CHECKING:  # compiled code and scipy are imported where a game is played, not where help is written
    from baselines.timed import Clock
    from ttt_envs.game.game import Game
    from ttt_eval.matches.score import Score, Times


@dataclass(frozen=True)
class Match(JsonOptions, PairOptions):
    """Play pairs of games between A and B, each pair with the same skips and the seats swapped."""

    a: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="A")] = tyro.MISSING
    """a policy, such as random or run:PATH"""
    b: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="B")] = tyro.MISSING
    """another policy"""
    games: Count = 1_000
    """number of games, even"""
    clock: Annotated[str, tyro.conf.arg(metavar="SECONDS+INCREMENT")] = ""
    """clock of both players, as in 10+0.1: seconds per game, and increment in seconds per move. A player without time
    loses"""
    log: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """new file, to which all games are written as they are played"""

    def run(self) -> None:
        """Play and print."""
        from ttt_eval.matches.elo import elo_to_dict

        game = self.game_for(self.a, self.b)
        score = self.play(game)
        times = score.times
        if score.forfeits.first:
            warn(score.forfeits.describe(self.a, self.b))
        if score.is_degenerate and not self.openings:
            warn(
                "in each seat all games ended alike: players that draw nothing play one pair again and again, and the "
                "intervals know of no other; --openings random:2 begins elsewhere"
            )
        if self.json:
            asked = {"a": self.a, "b": self.b, "seed": self.seed, "openings": self.openings or None}
            timed = {"clock": self.clock, "times": [each.to_dict() for each in times]} if times else {}
            print(json.dumps({"game": game.to_dict(), **asked, **score.to_dict(), **elo_to_dict(score), **timed}))
        else:
            print_table(score_table(game, self.a, self.b, score))
            if times:
                print_table(times_table(self.clock, self.a, self.b, times))

    def read_clock(self) -> Clock | None:
        """Return the clock of a timed match; an untimed one loads no search."""
        if not self.clock:
            return None
        from baselines.timed import Clock

        return Clock.from_text(self.clock)

    def play(self, game: Game) -> Score:
        """Play with a progress bar, and return a's score.

        Raises:
            OSError: openings that cannot be read, a log that cannot be written.
            ValueError: an invalid number of games, unknown policies, invalid openings or clock, a log that exists.
        """
        from ttt_eval.matches.games import append_games, new_games
        from ttt_eval.matches.match import MatchSettings, play_blocks
        from ttt_eval.matches.score import Score

        clock = self.read_clock()
        pairs = num_pairs(self.games)
        check_seed(self.seed)
        workers = self.workers()
        make_policy(self.a, game), make_policy(self.b, game)  # reports a wrong name before a bar is drawn
        openings = self.read_openings(game)
        match = MatchSettings(game, self.a, self.b, self.seed, openings, clock, self.correction(game))
        if openings is not None and openings.boards is not None and pairs < len(openings.boards.mover):
            warn(
                f"{pairs:,} pairs play the first of {len(openings.boards.mover):,} openings; "
                f"--games {2 * len(openings.boards.mover)} plays all"
            )
        if self.log is not None:
            new_games(self.log)
        with progress_bar() as bar:
            task = bar.add_task("playing", total=self.games)
            log = None if self.log is None else partial(append_games, self.log)
            total = Score.empty(game)
            for score in play_blocks(match, pairs, jobs=workers, log=log):
                total += score
                bar.advance(task, score.games)
        return total


def score_table(game: Game, a: str, b: str, score: Score) -> Table:
    """Return a table of a score."""
    from ttt_eval.matches.elo import elo, likelihood_of_superiority

    title = f"{a} against {b}, {score.games:,} games of {game}"
    table = new_table(a, "wins", "draws", "losses", "score", title=title)
    for seat, counts in zip(("first", "second"), score.table, strict=True):
        wins, draws, losses = (int(count) for count in counts)
        table.add_row(
            f"moving {seat}", f"{wins:,}", f"{draws:,}", f"{losses:,}", f"{(wins + draws / 2) / sum(counts):.3f}"
        )
    rates = [score.rate(name) for name in ("wins", "draws", "losses", "score")]
    table.add_row("of all games", *(f"{rate.mean:.3f}" for rate in rates))
    table.add_row("95% interval", *(f"{rate.low:.3f}-{rate.high:.3f}" for rate in rates))
    rating = elo(score)
    table.add_row("Elo difference", "", "", "", f"{rating.mean:+.0f}")
    table.add_row("95% interval", "", "", "", f"{rating.low:+.0f} to {rating.high:+.0f}")
    table.add_row("likelihood of superiority", "", "", "", f"{likelihood_of_superiority(score):.3f}")
    for name, value in describe_correction(score):
        table.add_row(name, "", "", "", value)
    return table


def describe_correction(score: Score) -> list[tuple[str, str]]:
    """Return rows about the luck correction of a score: names and values; none if luck is not corrected."""
    if score.corrected is None:
        return []
    raw, ratio = score.raw.rate("score"), score.variance_reduction
    rows = [("score with luck", f"{raw.mean:.3f} ({raw.low:.3f}-{raw.high:.3f})")]
    if ratio is None:
        return [*rows, ("luck correction", "leaves no variance")]
    return [*rows, ("luck correction", f"variance / {ratio:.1f}, as of {round(score.games * ratio):,} games")]


def times_table(clock: str, a: str, b: str, times: tuple[Times, Times]) -> Table:
    """Return a table of both players' times."""
    table = new_table("", "median", "largest", "least left", "lost on time", "guessed", title=f"by the clock, {clock}")
    for name, each in zip((a, b), times, strict=True):
        known = each.to_dict()
        guessed = f"{each.hits:,} of {each.guesses:,}" if each.guesses else ""
        if not known["moves"]:
            table.add_row(name, "", "", "", "0", "")
            continue
        seconds = (f"{known[key]:.3f} s" for key in ("median_s", "largest_s", "least_left_s"))
        table.add_row(name, *seconds, f"{each.lost:,}", guessed)
    return table
