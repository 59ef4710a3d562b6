"""What `make demo` shows: train a learner on the default game, then measure it exactly and by matches."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from evaluation.exact import exploitability, match_outcome, regret
from evaluation.match import play_pairs
from evaluation.report import write_report
from learners.q_learning import QLearningConfig
from ttt_apps.cli import run_command
from ttt_apps.evaluate.exact import add_outcomes
from ttt_apps.evaluate.match import show
from ttt_apps.train import Options, train_run
from ttt_envs.policy import make_policy

GAMES = 10_000
"""games of each match"""


def main() -> None:
    """Train q-learning on 3 x 3 against random, then say exactly how good it is, and play it."""
    run_command(_demo)


def _demo() -> None:
    console = Console(soft_wrap=True)
    options = Options(out=Path("runs/demo"), overwrite=True, games=200_000, log_every=2_000, exact_every=10_000)
    console.rule("q-learning learns 3 x 3 tic-tac-toe against random moves")
    run = train_run(options, QLearningConfig())
    game = options.game()
    me = f"run:{run}"
    learned = make_policy(me, game)
    exact = {opponent: match_outcome(game, learned, opponent) for opponent in ("random", "win-or-block", "optimal")}
    console.rule("what it learned, exactly")
    table = Table(title=f"{me}, the mean of both seats", title_justify="left")
    add_outcomes(table, "against", exact)
    console.print(table)
    console.print(f"exploitability {exploitability(game, learned):.6f}, regret {regret(game, learned):.6f}")
    scores = {}
    for opponent in ("random", "win-or-block"):
        console.rule(f"what it learned, in a match against {opponent}")
        scores[opponent] = play_pairs(game, me, opponent, GAMES // 2, seed=1)
        show(game, me, opponent, scores[opponent])
    report = write_report(run, scores, exact)
    console.print(f"a report to look at: [bold]{report}[/bold]")


if __name__ == "__main__":
    main()
