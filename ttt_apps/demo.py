"""What `make demo` shows: train a learner on the default game, then play it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from evaluation.match import play_pairs
from evaluation.report import write_report
from learners.q_learning import QLearningConfig
from ttt_apps.cli import run_command
from ttt_apps.evaluate.match import show
from ttt_apps.train import Options, train_run

GAMES = 10_000
"""games of each match"""


def main() -> None:
    """Train q-learning on 3 x 3 against random, then play it against random and win-or-block."""
    run_command(_demo)


def _demo() -> None:
    console = Console()
    options = Options(out=Path("runs/demo"), overwrite=True, games=200_000, log_every=2_000)
    console.rule("q-learning learns 3 x 3 tic-tac-toe against random moves")
    run = train_run(options, QLearningConfig())
    game = options.game()
    me = f"run:{run}"
    scores = {}
    for opponent in ("random", "win-or-block"):
        console.rule(f"what it learned, against {opponent}")
        scores[opponent] = play_pairs(game, me, opponent, GAMES // 2, seed=1)
        show(game, me, opponent, scores[opponent])
    report = write_report(run, scores)
    console.print(f"a report to look at: [bold]{report}[/bold]", soft_wrap=True)


if __name__ == "__main__":
    main()
