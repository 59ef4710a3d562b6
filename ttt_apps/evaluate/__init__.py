"""The evaluation commands: one file each, imported on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tyro
from rich.table import Table

from ttt_apps.cli import GLOBAL, as_called, parse, print_output, print_table, run_command, words_of
from ttt_envs.agents.specs import closest_names, load_object

Commands = Mapping[str, tuple[str, str]]
"""Maps a command to "module:class", or to "module:name" of a group of subcommands, and to its description."""

COMMANDS: Commands = {
    "match": ("ttt_apps.evaluate.match:Match", "Play pairs of games between A and B, with seats swapped."),
    "sprt": ("ttt_apps.evaluate.sprt:Sprt", "Pairs of games until it is known whether A is better than B."),
    "tournament": (
        "ttt_apps.evaluate.tournament:PlayTournament",
        "Everybody against everybody: a cross table and ratings.",
    ),
    "book": (
        "ttt_apps.evaluate.book:COMMANDS",
        "Opening books: made of games or by a search, shown, and how games leave them.",
    ),
    "games": ("ttt_apps.evaluate.games:Games", "Logs of games: checked, counted, as text, or as another file."),
    "ladder": ("ttt_apps.evaluate.ladder:PlaceOnLadder", "Where a policy stands among opponents of known strength."),
    "exact": ("ttt_apps.evaluate.exact:Exact", "The exact result of A against B, without a game played."),
    "exploitability": (
        "ttt_apps.evaluate.exploitability:Exploitability",
        "How far A is from perfect play: best responses, regret.",
    ),
    "solve": ("ttt_apps.evaluate.solve:Solve", "The exact value of a game, and of all moves in a position."),
    "database": ("ttt_apps.evaluate.database:COMMANDS", "Endgame databases: build, verify, probe, list."),
    "prove": ("ttt_apps.evaluate.prove:Prove", "Who wins a larger board without skips."),
    "proved-positions": (
        "ttt_apps.evaluate.proved_positions:ProvedPositions",
        "How often a policy keeps a proved result on larger boards.",
    ),
    "cost": ("ttt_apps.evaluate.cost:Cost", "What runs cost, repeated in fresh processes."),
    "report": ("ttt_apps.evaluate.report:Report", "The page of a finished run, made anew."),
    "compression-levels": (
        "ttt_apps.evaluate.compression_levels:CompressionLevels",
        "Opponents of graded strength, from a compressed table.",
    ),
    "reproduce": ("ttt_apps.evaluate.reproduce:Reproduce", "A published table or figure, computed anew."),
    "ground-truth": ("ttt_apps.evaluate.ground_truth:GroundTruth", "All exact facts of docs/ground-truth.md."),
    "warm-up": ("ttt_apps.evaluate.warm_up:WarmUp", "Compile now what environments, policies and learners need."),
    "policies": ("ttt_apps.evaluate.policies:Policies", "Everything that plays, with its arguments."),
    "learners": ("ttt_apps.evaluate.policies:Learners", "Everything that learns, with its settings."),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command ``ttt-evaluate``."""
    run_command(lambda: _main(words_of(arguments)))


def _main(words: list[str]) -> None:
    prog = as_called("evaluate.py")
    if any(word.startswith("--tyro-") for word in words):  # shell completion needs all commands at once
        tyro.extras.subcommand_cli_from_dict(
            _kinds(COMMANDS), args=words, prog=prog, config=(tyro.conf.OmitArgPrefixes,)
        )
        return
    _choose(words, COMMANDS, prog, "Measure what plays.")


def _choose(words: list[str], commands: Commands, prog: str, about: str) -> None:
    """Run the command named by the first word; in a group of commands, the second word names it."""
    if not words or words[0] in ("-h", "--help"):
        _help(commands, prog, about)
        if not words:
            raise ValueError(f"a command is missing: {closest_names('', commands)}")
        return
    name = words[0]
    if name not in commands:
        near = closest_names(name, commands)
        raise ValueError(f"there is no command {name!r}: {near}{'' if near.endswith('?') else '.'} See {prog} --help")
    path, what = commands[name]
    kind = load_object(path)
    if isinstance(kind, dict):
        _choose(words[1:], kind, f"{prog} {name}", what)
        return
    command = parse(kind, words[1:], f"{prog} {name}")
    command.run()


def _kinds(commands: Commands) -> dict[str, Any]:
    """Return the classes of all commands; those of a group by both words."""
    found: dict[str, Any] = {}
    for name, (path, _) in commands.items():
        kind = load_object(path)
        found |= (
            {f"{name} {other}": each for other, each in _kinds(kind).items()}
            if isinstance(kind, dict)
            else {name: kind}
        )
    return found


def _help(commands: Commands, prog: str, about: str) -> None:
    print_output(f"usage: {prog} COMMAND [OPTIONS]\n\n{about} {prog} COMMAND --help tells a command's options.\n")
    table = Table.grid(padding=(0, 2))
    for name, (_, what) in commands.items():
        table.add_row(name, what)
    print_table(table)
    print_output(f"\n{GLOBAL}")
