"""Train a learner and write a run directory, or resume one."""

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
from ttt_apps.train_options import Options, defaults_of
from ttt_envs.agents.specs import closest_names, load_object


@dataclass(frozen=True)
class Resume:
    """Continue a run that was stopped or killed: the final result is bit for bit the same."""

    resume: Path
    """the run directory"""
    games: Count | None = None
    """total number of games; at least as many as requested at first"""
    trust: tyro.conf.FlagCreatePairsOff[bool] = False
    """run code that the run's files name: an opponent or a teacher of your own class, or a zip of sb3:PATH. Without it
    they may name built-in policies only"""
    cluster: Annotated[str, tyro.conf.arg(metavar="auto|HOST:PORT")] = ""
    """for a learner with a teacher: play the teacher's games on a Ray cluster"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command ``ttt-train``."""
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
    if _last_value_of(arguments, "--sweep") is not None:
        from ttt_apps.sweep import Sweep

        parse(Sweep, arguments, prog).run()
        return
    asked = asked_for(arguments, prog)
    from ttt_apps.runs import train_run

    train_run(*asked)


def asked_for(arguments: Sequence[str], prog: str) -> tuple[Options, AnyConfig]:
    """Parse the options and settings of a training.

    Raises:
        ValueError: invalid arguments.
        SystemExit: after help.
    """
    name = _last_value_of(arguments, "--learner")
    name = Options.learner if name is None else name
    if name not in LEARNERS:
        raise ValueError(f"there is no learner {name!r}: {closest_names(name, LEARNERS)}")
    default = defaults_of(name, _last_value_of(arguments, "--opponent"))
    flat: Any = tyro.conf.OmitArgPrefixes
    joined: Any = dataclasses.make_dataclass(
        "Train",
        [("run", flat[Options]), ("settings", flat[load_object(LEARNERS[name])])],
        namespace={"__doc__": f"{Options.__doc__}\n\n    {GLOBAL}"},
        frozen=True,
    )
    asked = parse(joined, arguments, prog, default=joined(*default), elsewhere=lambda: _settings_of_others(name))
    return asked.run, asked.settings


def _last_value_of(arguments: Sequence[str], option: str) -> str | None:
    """Return the last value of an option on which other defaults depend; None if it is not given."""
    found = None
    for index, argument in enumerate(arguments):
        if argument == option and index + 1 < len(arguments):
            found = arguments[index + 1]
        if argument.startswith(f"{option}="):
            found = argument.partition("=")[2]
    return found


def _settings_of_others(learner: str) -> dict[str, list[str]]:
    """Return options that are settings of other learners, with these learners."""
    found: dict[str, list[str]] = {}
    for other in sorted(LEARNERS):
        if other != learner:
            for option in option_names(load_object(LEARNERS[other])):
                found.setdefault(option, []).append(other)
    return found


if __name__ == "__main__":
    main()
