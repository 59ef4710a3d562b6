"""Train a learner and write a run directory, or resume one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ttt_apps.cli import Count, TrustOptions, command_words, installed_names, parse, run_command
from ttt_apps.train_options import last_value, parse_options


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
    if any(argument.partition("=")[0] == "--resume" for argument in arguments):
        old = parse(Resume, arguments, prog)
        from ttt_apps.runs import resume_run

        resume_run(old.resume, old.games, old.cluster)
        return
    if last_value(arguments, "--sweep") is not None:
        from ttt_apps.sweep import Sweep

        parse(Sweep, arguments, prog).run()
        return
    options, settings = parse_options(arguments, prog)
    from ttt_apps.runs import train_run

    train_run(options, settings)


if __name__ == "__main__":
    main()
