"""The evaluation commands: one tree, and one module each, imported on demand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import tyro

from ttt_apps.cli.help import describe, installed_names
from ttt_apps.cli.options import GLOBAL, command_words, parse, run_command
from ttt_envs.agents.specs import load_object
from ttt_envs.core.checks import Refusal, closest_names

__all__ = ["COMMANDS", "main"]

Commands = Mapping[str, tuple[str, str]]
"""Maps a command to "module:class", or to "module:name" of a group of commands, and to its
description.
"""

COMMANDS: Commands = {
    "exact": ("ttt_apps.evaluate.exact:Exact", "Compute the exact result of A against B."),
    "exploitability": (
        "ttt_apps.evaluate.exact:Exploitability",
        "Compute best responses to A, and its regret.",
    ),
    "solve": (
        "ttt_apps.evaluate.solve:Solve",
        "Compute the exact values of a game, and of all moves in a position.",
    ),
    "match": (
        "ttt_apps.evaluate.match:Match",
        "Play pairs of games: a match, a sequential test, or a tournament.",
    ),
    "ladder": (
        "ttt_apps.evaluate.ladder:PlaceOnLadder",
        "Rate a policy against opponents of known strength.",
    ),
    "games": ("ttt_apps.evaluate.games:Games", "Check, count, print or copy logs of games."),
    "report": (
        "ttt_apps.evaluate.runs:RegenerateReports",
        "Regenerate the pages of finished runs.",
    ),
    "compare": ("ttt_apps.evaluate.runs:Compare", "Show runs side by side on a page."),
    "plot": (
        "ttt_apps.evaluate.runs:Plot",
        "Draw learning curves over seeds, and write their numbers.",
    ),
    "bench": (
        "ttt_apps.evaluate.bench:COMMANDS",
        "Run agents on the benchmark ttt-exact, and score submissions.",
    ),
    "check": (
        "ttt_apps.evaluate.check:COMMANDS",
        "Check a search, an agent, values, advantages, a loss or a learner.",
    ),
    "grade": (
        "ttt_apps.evaluate.grade:GradeSubmissions",
        "Grade homework and code of agents, each in a process with limits.",
    ),
    "llm": ("ttt_apps.evaluate.llm:Llm", "Evaluate a language model as a player."),
    "book": ("ttt_apps.evaluate.book:COMMANDS", "Build and show opening books."),
    "database": (
        "ttt_apps.evaluate.database:COMMANDS",
        "Build, probe and verify endgame databases.",
    ),
    "puzzles": (
        "ttt_apps.evaluate.puzzles:Puzzles",
        "List puzzles: positions where an obvious move loses value.",
    ),
    "reproduce": (
        "ttt_apps.evaluate.reproduce:Reproduce",
        "Reproduce a published table or figure.",
    ),
    "list": (
        "ttt_apps.evaluate.listing:List",
        "List policies, learners, tasks, agents or studies.",
    ),
}


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
            name: dataclasses.make_dataclass("Stub", [], namespace={"__doc__": summary})
            for name, (_, summary) in commands.items()
        }
        tyro.extras.subcommand_cli_from_dict(
            stubs, prog=prog, description=describe(description), args=list(words)
        )
        return
    path, summary = commands[words[0]]
    command = load_object(path)
    if isinstance(command, dict):
        _run(words[1:], command, f"{prog} {words[0]}", summary)
    else:
        parse(command, words[1:], f"{prog} {words[0]}").run()
