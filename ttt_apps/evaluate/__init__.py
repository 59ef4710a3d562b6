"""Measure what plays: one file for each command, imported when it is chosen."""

from __future__ import annotations

from collections.abc import Sequence

import tyro
from rich.table import Table

from ttt_apps.cli import GLOBAL, as_called, parse, run_command, say, show, words_of
from ttt_envs.specs import load_object, nearest

COMMANDS: dict[str, tuple[str, str]] = {
    "match": ("ttt_apps.evaluate.match:Match", "Play pairs of games between A and B, with seats swapped."),
    "sprt": ("ttt_apps.evaluate.sprt:Sprt", "Pairs of games until it is known whether A is better than B."),
    "tournament": (
        "ttt_apps.evaluate.tournament:PlayTournament",
        "Everybody against everybody: a cross table and ratings.",
    ),
    "games": ("ttt_apps.evaluate.games:Games", "Logs of games: checked, counted, as text, or as another file."),
    "ladder": ("ttt_apps.evaluate.ladder:PlaceOnLadder", "Where a policy stands among opponents of known strength."),
    "exact": ("ttt_apps.evaluate.exact:Exact", "The exact result of A against B, without a game played."),
    "exploitability": (
        "ttt_apps.evaluate.exploitability:Exploitability",
        "How far A is from perfect play: best responses, regret.",
    ),
    "solve": ("ttt_apps.evaluate.solve:Solve", "The exact value of a game, and of all moves in a position."),
    "prove": ("ttt_apps.evaluate.prove:Prove", "Who wins a larger board without skips."),
    "cost": ("ttt_apps.evaluate.cost:Cost", "What runs cost, repeated in fresh processes."),
    "dial": ("ttt_apps.evaluate.dial:Dial", "Opponents of graded strength, from a compressed table."),
    "reproduce": ("ttt_apps.evaluate.reproduce:Reproduce", "A published table or figure, computed anew."),
    "ground-truth": ("ttt_apps.evaluate.ground_truth:GroundTruth", "All exact facts of docs/ground-truth.md."),
    "policies": ("ttt_apps.evaluate.policies:Policies", "Everything that plays, with its arguments."),
    "learners": ("ttt_apps.evaluate.policies:Learners", "Everything that learns, with its settings."),
}
"""name -> "module:class", and what it does"""


def main(arguments: Sequence[str] | None = None) -> None:
    """The command ``ttt-evaluate``."""
    run_command(lambda: _main(words_of(arguments)))


def _main(words: list[str]) -> None:
    prog = as_called("evaluate.py")
    if any(word.startswith("--tyro-") for word in words):  # shell completion knows all commands at once
        kinds = {name: load_object(path) for name, (path, _) in COMMANDS.items()}
        tyro.extras.subcommand_cli_from_dict(kinds, args=words, prog=prog, config=(tyro.conf.OmitArgPrefixes,))
        return
    if not words or words[0] in ("-h", "--help"):
        _help(prog)
        if not words:
            raise ValueError(f"a command is missing: {nearest('', COMMANDS)}")
        return
    name = words[0]
    if name not in COMMANDS:
        raise ValueError(f"there is no command {name!r}: {nearest(name, COMMANDS)}. See {prog} --help")
    command = parse(load_object(COMMANDS[name][0]), words[1:], f"{prog} {name}")
    command.run()


def _help(prog: str) -> None:
    say(f"usage: {prog} COMMAND [OPTIONS]\n\nMeasure what plays. {prog} COMMAND --help tells a command's options.\n")
    table = Table.grid(padding=(0, 2))
    for name, (_, what) in COMMANDS.items():
        table.add_row(name, what)
    show(table)
    say(f"\n{GLOBAL}")
