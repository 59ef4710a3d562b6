"""The evaluation commands: one file each, imported on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tyro
from rich.table import Table

from ttt_apps.cli import GLOBAL, command_words, parse, print_output, print_table, run_command
from ttt_apps.messages import installed_names, unknown_command
from ttt_envs.agents.specs import load_object
from ttt_envs.core.checks import closest_names

Commands = Mapping[str, tuple[str, str]]
"""Maps a command to "module:class", or to "module:name" of a group of subcommands, and to its description."""

COMMANDS: Commands = {
    "match": ("ttt_apps.evaluate.match:Match", "Play pairs of games between A and B, with seats swapped."),
    "sprt": ("ttt_apps.evaluate.sprt:Sprt", "Test sequentially whether A is better than B."),
    "tournament": ("ttt_apps.evaluate.tournament:PlayTournament", "Play a round robin: cross table and ratings."),
    "book": ("ttt_apps.evaluate.book:COMMANDS", "Build and show opening books, and show where games leave them."),
    "games": ("ttt_apps.evaluate.games:Games", "Check, count, print or convert logs of games."),
    "ladder": ("ttt_apps.evaluate.ladder:PlaceOnLadder", "Rate a policy against opponents of known strength."),
    "exact": ("ttt_apps.evaluate.exact:Exact", "Compute the exact result of A against B."),
    "exploitability": (
        "ttt_apps.evaluate.exploitability:Exploitability",
        "Compute best responses to A, and its regret.",
    ),
    "solve": ("ttt_apps.evaluate.solve:Solve", "Compute the exact values of a game, and of all moves in a position."),
    "database": ("ttt_apps.evaluate.database:COMMANDS", "Build, verify, probe and list endgame databases."),
    "proved-positions": (
        "ttt_apps.evaluate.proved_positions:ProvedPositions",
        "Measure how often a policy keeps a proved result.",
    ),
    "llm": ("ttt_apps.evaluate.llm:Llm", "Evaluate a language model as a player, through an HTTP endpoint."),
    "positions": ("ttt_apps.evaluate.positions:Positions", "Write positions as prompts with the value of each move."),
    "puzzles": ("ttt_apps.evaluate.puzzles:Puzzles", "List puzzles: positions where an obvious move loses value."),
    "audit": (
        "ttt_apps.evaluate.audit:AuditEstimator",
        "Measure bias and variance of an advantage estimator against exact advantages.",
    ),
    "bench": ("ttt_apps.evaluate.bench:COMMANDS", "Run agents on the benchmark ttt-exact, and score submissions."),
    "cost": ("ttt_apps.evaluate.cost:Cost", "Measure the cost of runs in new processes."),
    "report": ("ttt_apps.evaluate.report:Report", "Regenerate the pages of finished runs."),
    "compare": ("ttt_apps.evaluate.compare:Compare", "Show runs side by side on a page."),
    "plot": ("ttt_apps.evaluate.plot:Plot", "Draw learning curves over seeds, and write their numbers."),
    "compression-levels": ("ttt_apps.evaluate.compression_levels:CompressionLevels", "Measure compressed tables."),
    "reproduce": ("ttt_apps.evaluate.reproduce:Reproduce", "Reproduce a published table or figure."),
    "policies": ("ttt_apps.evaluate.policies:Policies", "List policies with their arguments."),
    "learners": ("ttt_apps.evaluate.policies:Learners", "List learners with their settings."),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command ``ttt-evaluate``."""
    run_command(lambda: _main(command_words(arguments)))


def _main(words: list[str]) -> None:
    prog = installed_names("evaluate.py")
    if any(word.startswith("--tyro-") for word in words):  # shell completion needs all commands at once
        tyro.extras.subcommand_cli_from_dict(
            _kinds(COMMANDS), args=words, prog=prog, config=(tyro.conf.OmitArgPrefixes,)
        )
        return
    _choose(words, COMMANDS, prog, "Measure policies and learners.")


def _choose(words: list[str], commands: Commands, prog: str, about: str) -> None:
    """Run the command named by the first word; in a group of commands, the second word names it."""
    if not words or words[0] in ("-h", "--help", "help"):
        _help(commands, prog, about)
        if not words:
            raise ValueError(f"a command is missing: {closest_names('', commands)}")
        return
    name = words[0]
    if name not in commands:
        raise ValueError(unknown_command(name, commands, prog))
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
    print_output(f"usage: {prog} COMMAND [OPTIONS]\n\n{about} {prog} COMMAND --help shows its options.\n")
    table = Table.grid(padding=(0, 2))
    for name, (_, what) in commands.items():
        table.add_row(name, what)
    print_table(table)
    print_output(f"\n{GLOBAL}")
