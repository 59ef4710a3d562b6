"""What `make demo` shows: learners on the default game, how good they are exactly, and matches between them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from evaluation.exact import exploitability, match_outcome, regret
from evaluation.match import play_pairs
from evaluation.report import Learned, write_overview, write_report
from learners.checkpoint import COST, build_config
from ttt_apps.cli import run_command
from ttt_apps.evaluate.match import show
from ttt_apps.train import Options, train_run
from ttt_envs.policy import make_policy

OUT = Path("runs/demo")
GAMES = 10_000
"""games of a match"""
RUNS = (
    ("naive-mc", 100_000, {"epsilon_step": 1e-5, "symmetries": "all"}),
    ("q-learning", 100_000, {"bootstrap": "ply", "symmetries": "all"}),
    (
        "q-net",
        30_000,
        {
            "bootstrap": "ply",
            "symmetries": "all",
            "hidden": 128,
            "learning_rate": 3e-3,
            "learning_rate_decay": 1e-3,
            "epsilon": 0.5,
            "epsilon_step": 0.0,
            "replay_size": 50_000,
            "replay_batch": 128,
            "updates": 4,
        },
    ),
)
"""learner, games of self-play, settings"""
OPPONENTS = ("random", "win-or-block", "optimal")


def main() -> None:
    """Train learners on 3 x 3 by self-play, say exactly how good they are, and let them play each other."""
    run_command(_demo)


def _demo() -> None:
    console = Console(soft_wrap=True, highlight=False)
    learned: list[Learned] = []
    for name, games, settings in RUNS:
        console.rule(f"{name} learns 3 x 3 tic-tac-toe by playing itself")
        if name == "q-net" and importlib.util.find_spec("tensorflow") is None:
            console.print('left out: there is no tensorflow. pip install "ttt_envs[tf]"', markup=False)
            continue
        options = Options(
            learner=name,
            opponent="self",
            games=games,
            out=OUT / name,
            overwrite=True,
            log_every=games // 50,
            exact_every=games // 10,
        )
        learned.append(_measured(train_run(options, build_config(name, settings)), options))
    console.rule("what they learned, exactly: nothing here is sampled")
    console.print(_table(learned))
    scores = {}
    if len(learned) > 1:
        a, b = learned[0], learned[1]
        console.rule(f"the same question asked by {GAMES:,} games")
        scores[b.name] = play_pairs(options.game(), f"run:{a.run}", f"run:{b.run}", GAMES // 2, seed=1)
        show(options.game(), a.name, b.name, scores[b.name])
    for one in learned:
        write_report(one.run, scores if one is learned[0] else {}, one.exact)
    report = write_overview(OUT, f"Learners of {options.game()}", learned)
    console.print(f"a report to look at: [bold]{report}[/bold]")


def _measured(run: Path, options: Options) -> Learned:
    game = options.game()
    policy = make_policy(f"run:{run}", game)
    training = json.loads((run / COST).read_text())["phases"]["training"]
    return Learned(
        options.learner,
        run,
        options.games,
        training["cpu_user_s"] + training["cpu_system_s"],
        int(training["peak_rss_bytes"]),
        exploitability(game, policy),
        regret(game, policy),
        {opponent: match_outcome(game, policy, opponent) for opponent in OPPONENTS},
    )


def _table(learned: list[Learned]) -> Table:
    table = Table("", *(one.name for one in learned))
    table.add_row("games of self-play", *(f"{one.games:,}" for one in learned))
    table.add_row("CPU, s", *(f"{one.cpu_s:.1f}" for one in learned))
    table.add_row("peak memory, MiB", *(f"{one.peak_rss_bytes / 2**20:.0f}" for one in learned))
    table.add_row("exploitability", *(f"{one.exploitability:.6f}" for one in learned))
    table.add_row("regret", *(f"{one.regret:.6f}" for one in learned))
    for opponent in OPPONENTS:
        shares = (" / ".join(f"{share:.4f}" for share in one.exact[opponent]) for one in learned)
        table.add_row(f"win / draw / loss against {opponent}", *shares)
    return table


if __name__ == "__main__":
    main()
