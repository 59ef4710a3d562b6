"""``train.py``: train a learner; ``train.py resume`` and ``train.py sweep``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ttt_apps.cli.help import installed_names
from ttt_apps.cli.options import (
    Positive,
    TextOption,
    TrustOptions,
    command_words,
    parse,
    run_command,
)
from ttt_apps.training.options import parse_options
from ttt_envs.agents.specs import load_object

SUBCOMMANDS = {
    "resume": "ttt_apps.training.command:Resume",
    "sweep": "ttt_apps.training.sweep:Sweep",
}
"""Subcommands by name, as "module:class"."""


@dataclass(frozen=True)
class Resume(TrustOptions):
    """Continue a run that was stopped or killed: the final result is bit for bit the same."""

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = tyro.MISSING
    """the run directory"""
    games: Positive | None = None
    """total number of games; at least as many as requested at first"""
    cluster: Annotated[TextOption, tyro.conf.arg(metavar="auto|HOST:PORT")] = ""
    """for a learner with a teacher: play the teacher's games on a Ray cluster"""

    def run(self) -> None:
        """Continue the run, see :func:`~ttt_apps.training.runs.resume_run`."""
        from ttt_apps.training.runs import resume_run

        resume_run(self.path, self.games, self.cluster)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command ``ttt-train``."""
    run_command(lambda: _main(command_words(arguments)))


def _main(words: list[str]) -> None:
    prog = installed_names("train.py")
    if words and words[0] in SUBCOMMANDS:
        parse(load_object(SUBCOMMANDS[words[0]]), words[1:], f"{prog} {words[0]}").run()
        return
    options, settings = parse_options(words, prog)
    from ttt_apps.training.runs import train_run

    train_run(options, settings)
