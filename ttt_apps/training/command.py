"""Train a learner and write a run directory, resume one, or train the runs of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ttt_apps.cli.options import (
    OptionalPositive,
    TextOption,
    TrustOptions,
    command_words,
    installed_names,
    parse,
    run_command,
)
from ttt_apps.training.options import choose, parse_options


@dataclass(frozen=True)
class Resume(TrustOptions):
    """Continue a run that was stopped or killed: the final result is bit for bit the same."""

    resume: Path = tyro.MISSING
    """the run directory"""
    games: OptionalPositive = None
    """total number of games; at least as many as requested at first"""
    cluster: Annotated[TextOption, tyro.conf.arg(metavar="auto|HOST:PORT")] = ""
    """for a learner with a teacher: play the teacher's games on a Ray cluster"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command ``ttt-train``."""
    run_command(lambda: _main(command_words(arguments)))


def _main(words: list[str]) -> None:
    prog = installed_names("train.py")
    choice = choose(words, prog)
    if choice.resume is not None:
        resume = parse(Resume, words, prog)
        from ttt_apps.training.runs import resume_run

        resume_run(resume.resume, resume.games, resume.cluster)
    elif choice.sweep is not None:
        from ttt_apps.training.sweep import Sweep

        parse(Sweep, words, prog).run()
    else:
        options, settings = parse_options(words, prog)
        from ttt_apps.training.runs import train_run

        train_run(options, settings)
