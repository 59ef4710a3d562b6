"""Train a learner and write a run directory, or resume one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ttt_apps.cli import Count, TrustOptions, command_words, parse, run_command
from ttt_apps.messages import installed_names
from ttt_apps.train_options import is_given, parse_options, training_options

RESUMED = "has no effect with --resume, where the settings come from the run: leave it out"
SWEPT = "has no effect with --sweep, where the settings come from the file: write it there"


@dataclass(frozen=True)
class Resume(TrustOptions):
    """Continue a run that was stopped or killed: the final result is bit for bit the same."""

    resume: Path = tyro.MISSING
    """the run directory"""
    games: Count | None = None
    """total number of games; at least as many as requested at first"""
    cluster: Annotated[str, tyro.conf.arg(metavar="auto|HOST:PORT")] = ""
    """for a learner with a teacher: play the teacher's games on a Ray cluster"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command ``ttt-train``."""
    run_command(lambda: _main(command_words(arguments)))


def _main(arguments: list[str]) -> None:
    prog = installed_names("train.py")
    if is_given(arguments, "--resume"):
        old = parse(Resume, arguments, prog, elsewhere=lambda: dict.fromkeys(training_options(), RESUMED))
        from ttt_apps.runs import resume_run

        resume_run(old.resume, old.games, old.cluster)
        return
    if is_given(arguments, "--sweep"):
        from ttt_apps.sweep import Sweep

        parse(Sweep, arguments, prog, elsewhere=lambda: dict.fromkeys(training_options(), SWEPT)).run()
        return
    options, settings = parse_options(arguments, prog)
    from ttt_apps.runs import train_run

    train_run(options, settings)


if __name__ == "__main__":
    main()
