"""Train a learner and write a run directory, or go on with one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from learners import LEARNERS
from learners.config import AnyConfig
from ttt_apps.cli import (
    GLOBAL,
    Count,
    as_called,
    option_names,
    parse,
    run_command,
    trust_files,
    words_of,
)
from ttt_apps.options import Options, defaults_of
from ttt_envs.specs import load_object, nearest


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped or killed: it ends bit by bit as if it had never been."""

    resume: Path
    """the run directory"""
    games: Count | None = None
    """how many games in all; as many as were asked for at first, or more"""
    trust: tyro.conf.FlagCreatePairsOff[bool] = False
    """run code that the files of the run name: an opponent or a teacher that is a class of yours, or a zip of sb3:PATH.
    Without it they may name built-in policies only"""
    cluster: Annotated[str, tyro.conf.arg(metavar="auto|HOST:PORT")] = ""
    """where a learner has a teacher: play the teacher's games on a cluster of Ray"""


def main(arguments: Sequence[str] | None = None) -> None:
    """The command ``ttt-train``."""
    run_command(lambda: _main(words_of(arguments)))


def _main(arguments: list[str]) -> None:
    prog = as_called("train.py")
    if any(argument.partition("=")[0] == "--resume" for argument in arguments):
        old = parse(Resume, arguments, prog)
        from ttt_apps.runs import resume_run

        if old.trust:
            trust_files()
        resume_run(old.resume, old.games, old.cluster)
        return
    if _named(arguments, "--sweep") is not None:
        from ttt_apps.sweep import Sweep

        parse(Sweep, arguments, prog).run()
        return
    asked = asked_for(arguments, prog)
    from ttt_apps.runs import train_run

    train_run(*asked)


def asked_for(arguments: Sequence[str], prog: str) -> tuple[Options, AnyConfig]:
    """What a command line asks to be trained.

    Raises:
        ValueError: arguments that make no sense.
        SystemExit: help was asked for.
    """
    name = _named(arguments, "--learner") or Options.learner
    if name not in LEARNERS:
        raise ValueError(f"there is no learner {name!r}: {nearest(name, LEARNERS)}")
    default = defaults_of(name, _named(arguments, "--opponent"))
    flat: Any = tyro.conf.OmitArgPrefixes
    joined: Any = dataclasses.make_dataclass(
        "Train",
        [("run", flat[Options]), ("settings", flat[load_object(LEARNERS[name])])],
        namespace={"__doc__": f"{Options.__doc__}\n\n    {GLOBAL}"},
        frozen=True,
    )
    asked = parse(joined, arguments, prog, default=joined(*default), elsewhere=lambda: _settings_of_others(name))
    return asked.run, asked.settings


def _named(arguments: Sequence[str], option: str) -> str | None:
    """What a command line gives for an option on which the defaults of others depend; None where it does not."""
    for index, argument in enumerate(arguments):
        if argument == option and index + 1 < len(arguments):
            return arguments[index + 1]
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
    return None


def _settings_of_others(learner: str) -> dict[str, list[str]]:
    """Options that are settings of other learners, and of which."""
    found: dict[str, list[str]] = {}
    for other in sorted(LEARNERS):
        if other != learner:
            for option in option_names(load_object(LEARNERS[other])):
                found.setdefault(option, []).append(other)
    return found


if __name__ == "__main__":
    main()
