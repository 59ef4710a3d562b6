"""The evaluation commands: one tree, and one module each, imported on demand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tyro

from ttt_apps.cli.help import describe, installed_names
from ttt_apps.cli.options import GLOBAL, command_words, parse, run_command
from ttt_envs.agents.specs import load_object
from ttt_envs.core.checks import Refusal, closest_names
from ttt_envs.core.files import read_table

__all__ = ["COMMANDS", "main"]

Commands = Mapping[str, Mapping[str, Any]]
"""Commands by name: the ``class`` of each, as "module:class", or the ``commands`` of a group; and a
``summary``.
"""

COMMANDS: Commands = read_table(str(Path(__file__).with_name("commands")))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command ``ttt-evaluate``."""
    run_command(
        lambda: _run(
            command_words(arguments),
            COMMANDS,
            installed_names("evaluate.py"),
            "Measure policies. " + GLOBAL,
        )
    )


def _run(words: Sequence[str], commands: Commands, prog: str, description: str) -> None:
    """Run the command that the first word names; in a group of commands, the second word names
    it.
    """
    if words and not words[0].startswith("-") and words[0] not in commands:
        raise Refusal(
            f"there is no command {words[0]!r} (see {prog} --help): "
            f"{closest_names(words[0], commands)}"
        )
    if not words or words[0] not in commands:  # help: the parser needs no command's own options
        stubs: dict[str, Callable[..., object]] = {
            name: dataclasses.make_dataclass("Stub", [], namespace={"__doc__": command["summary"]})
            for name, command in commands.items()
        }
        tyro.extras.subcommand_cli_from_dict(
            stubs, prog=prog, description=describe(description), args=list(words)
        )
        return
    command = commands[words[0]]
    prog = f"{prog} {words[0]}"
    if "commands" in command:
        _run(words[1:], command["commands"], prog, command["summary"])
    else:
        parse(load_object(command["class"]), words[1:], prog).run()
