"""What luck correction saves: the variance of scores, and the games of sequential tests, with it and without.

    python benchmarks/luck_correction.py [--quick] [--run FOLDER] [--out FILE]

Every row plays two policies with corrected luck and prints the variance of a pair's score relative to that of the
corrected score. Then ten sequential tests of other seeds, of 0 against 20 Elo, play until they decide, with and without
the correction. The last row is played by the clock on 7 x 7, with the values of a run; without ``--run`` a q-net is
trained for it first.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import tyro
from measuring import Spread
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from baselines.timed import Clock
from ttt_envs.game.game import Game
from ttt_eval.cost import processor
from ttt_eval.matches.luck import EXACT, OFF
from ttt_eval.matches.match import MatchSettings, play_pairs
from ttt_eval.matches.score import Score
from ttt_eval.matches.sprt import SPRT, run_sprt

SMALL, LARGE, TIMED = Game(skip_chance=0.25), Game(4, 4, 4, 0.1), Game(7, 7, 5, 0.1)
ROWS = (
    (SMALL, "random", "random"),
    (SMALL, "win-or-block", "random"),
    (SMALL, "win-or-block", "win-or-block"),
    (SMALL, "optimal:epsilon=0.2", "win-or-block"),
    (SMALL, "optimal:epsilon=0.05", "optimal:epsilon=0.05"),
    (SMALL, "optimal", "win-or-block"),
    (LARGE, "win-or-block", "random"),
    (LARGE, "expectiminimax:depth=2", "win-or-block"),
    (LARGE, "optimal:epsilon=0.05", "optimal:epsilon=0.1"),
)
PLAYERS, CLOCK = ("timed", "win-or-block"), Clock(0.2, 0.02)
TESTS, MOST_PAIRS = 10, 20_000


@dataclass(frozen=True)
class LuckCorrection:
    """Measure what luck correction saves."""

    quick: tyro.conf.FlagCreatePairsOff[bool] = False
    """few games, no sequential tests, no timed games"""
    run: str = ""
    """run on 7 x 7, 5 to win, skip .1, whose values correct the timed games; one is trained if none is named"""
    out: Path | None = None
    """Markdown file for the table"""

    def main(self) -> None:
        """Play and print."""
        table = Table(box=MARKDOWN, title=f"luck correction; {processor()}")
        for header in ("game", "A", "B", "games", "variance ratio", "games of a test", "without correction"):
            table.add_column(header)
        for game, a, b in ROWS[:: 4 if self.quick else 1]:
            pairs = 500 if self.quick else 20_000 if game == SMALL else 5_000
            score = play_pairs(game, a, b, pairs, luck_correction=EXACT)
            tests = ("", "") if self.quick else tuple(_games_of_tests(game, a, b, value) for value in (EXACT, OFF))
            table.add_row(str(game), a, b, f"{score.games:,}", _ratio(score), *tests)
            print(f"{game}: {a} against {b}, {_ratio(score)}", file=sys.stderr)
        if not self.quick:
            with tempfile.TemporaryDirectory() as folder:
                values = self.run or _train(Path(folder) / "run")
                score = play_pairs(TIMED, *PLAYERS, 40, clock=CLOCK, luck_correction=f"run:{values}")
            table.add_row(str(TIMED), f"{PLAYERS[0]}, {CLOCK}", PLAYERS[1], f"{score.games:,}", _ratio(score), "", "")
        Console(width=160).print(table)
        if self.out is not None:
            with self.out.open("w") as file:
                Console(file=file, width=160).print(table)


def _ratio(score: Score) -> str:
    ratio = score.variance_reduction
    return "no variance is left" if ratio is None else f"{ratio:.1f}"


def _games_of_tests(game: Game, a: str, b: str, luck_correction: str) -> str:
    """Return the median number of games of sequential tests, and their range."""
    games = []
    for seed in range(1, TESTS + 1):
        match = MatchSettings(game, (a, b), seed, luck_correction=luck_correction)
        with tempfile.TemporaryDirectory() as folder:
            games.append(run_sprt(match, SPRT(0, 20), Path(folder), {}, pairs=MOST_PAIRS).score.games)
    return f"{Spread.of(games)}{f' of at most {2 * MOST_PAIRS:,}' if max(games) == 2 * MOST_PAIRS else ''}"


def _train(folder: Path) -> Path:
    options = ("--size", "7", "--win-length", "5", "--skip-chance", "0.1", "--games", "5000")
    command = (sys.executable, "train.py", "--learner", "q-net", *options, "--quiet", "--out", str(folder))
    subprocess.run(command, check=True, cwd=Path(__file__).resolve().parents[1])
    return folder


if __name__ == "__main__":
    tyro.cli(LuckCorrection).main()
