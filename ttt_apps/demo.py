"""The demo of `make demo`: train learners, evaluate them exactly, and play a match between two.

The game is 3 x 3 with skips, where first moves differ in value.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ttt_apps.cli import command_words, inherited_options, new_table, print_output, print_table, run_command
from ttt_apps.evaluate.match import score_table
from ttt_envs.core.packages import install_command
from ttt_envs.game.game import Game
from ttt_eval.matches.match import play_pairs
from ttt_eval.metrics import LOSS_LABELS
from ttt_eval.reports.formats import game_options
from ttt_eval.reports.page import write_report
from ttt_eval.reports.runs import PlayedMatch, RunResult, read_runs, runs_report, write_run_page
from ttt_eval.run_files import REPORT, RunDirectory

OUT = Path("runs/demo")
GAME = Game(skip_chance=0.25)
GAMES = 10_000
"""Number of games of a match."""
LEARNERS = ("naive-mc", "q-learning", "q-net", "alpha-zero")
IN_TENSORFLOW = ("q-net", "alpha-zero")
OPPONENTS = ("random", "win-or-block", "optimal")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train learners by self-play, evaluate them exactly, and play a match between two."""
    run_command(lambda: _demo(command_words(arguments)))


def _demo(words: list[str]) -> None:
    if words:
        raise ValueError(f"the demo takes no arguments but --quiet and --version: leave {' '.join(words)} out")
    folders: list[Path] = []
    for name in LEARNERS:
        Console().rule(f"{name} learns {GAME} by playing itself")
        if name in IN_TENSORFLOW and importlib.util.find_spec("tensorflow") is None:
            print_output(f"left out: there is no TensorFlow: {install_command('tf')}")
            continue
        folders.append(OUT / name)
        # a process each, so that CPU time and peak memory are the run's own
        options = [
            "--learner",
            name,
            "--opponent",
            "self",
            *game_options(GAME),
            "--out",
            str(OUT / name),
            "--overwrite",
        ]
        subprocess.run([sys.executable, "-m", "ttt_apps.train", *options, *inherited_options()], check=True)
    result = read_runs(OUT / REPORT, folders, OPPONENTS)
    for run in result.runs:
        write_run_page(run.path, run.strength, back=f"../{REPORT}")
    Console().rule("exact results of the learners: nothing here is sampled")
    print_table(_table(result.runs))
    i, j = 0, min(2, len(folders) - 1)  # the first two learn nearly the same
    Console().rule(f"the same comparison by {GAMES:,} sample games")
    a, b = (RunDirectory(folders[k]).policy for k in (i, j))
    score = play_pairs(GAME, a, b, GAMES // 2, seed=1)
    print_table(score_table(GAME, folders[i].name, folders[j].name, score))
    match = PlayedMatch(folders[i].name, folders[j].name, score, result.outcomes[i, j])
    page = write_report(OUT / REPORT, runs_report(result._replace(matches=[match])))
    print_output(f"a report to look at: {page}")


def _table(runs: Sequence[RunResult]) -> Table:
    """Return the learners, one a row, with their scores against the opponents; it is at most 80 columns wide."""
    opponents = (f"against\n{opponent}" for opponent in OPPONENTS)
    table = new_table("learner", "CPU", *LOSS_LABELS, *opponents, title="Scores count a draw half.")
    for run in runs:
        table.add_row(run.name, run.cost_cells()[0], *run.strength_cells(OPPONENTS))
    return table


if __name__ == "__main__":
    main()
