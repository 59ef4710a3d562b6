"""Play in the terminal, and replay games."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TextIO

import numpy as np
import tyro
from rich.console import Console

from ttt_apps.cli import options as cli
from ttt_apps.cli.help import installed_names
from ttt_envs.agents.specs import load_object, make_policy
from ttt_envs.envs.config import SeatChoice

PERFECT = "optimal"
"""Default opponent on boards that can be solved."""
SEARCHING = "mcts:simulations=2000"
"""Default opponent on larger boards."""
SEARCH_BY_CLOCK = "timed"
"""Default engine for tournament managers, which keep clocks."""
SEEDS = 10**6


@dataclass(frozen=True)
class Play(cli.TrustOptions, cli.GameOptions):
    """Play in the terminal against any policy. In the game, help lists the commands.

    Subcommand:

        play.py web   play in the browser, with the value of every move
    """

    opponent: Annotated[cli.OptionalText, tyro.conf.arg(metavar="POLICY")] = None
    """a policy, such as random, svd:rank=18 or run:PATH; default: optimal on boards up to 16 cells,
    and mcts:simulations=2000 on larger ones"""
    seat: SeatChoice = "first"
    """your seat; alternate begins with the first"""
    games: cli.Positive | None = None
    """number of games; default: ask after each"""
    seed: cli.Natural | None = None
    """seed of all random numbers: the same seed and moves give the same game; default: a new one
    each time
    """
    log: Path | None = None
    """file to which games are appended when they end"""
    replay: Path | None = None
    """show a game of such a file, move by move, instead of playing"""
    number: cli.Positive | None = None
    """with --replay: which game, counted from 1; default: the first"""
    input: Path | None = None
    """file whose lines are read as if they were typed: moves and commands, or with --gomocup a
    manager's lines
    """
    gomocup: cli.Flag = False
    """run the opponent as an engine of the Gomocup protocol, started by a tournament manager;
    default: timed, a search by the manager's times"""

    def run(self, console: Console, lines: TextIO) -> None:
        """Play or show.

        Raises:
            ValueError: invalid options.
            Stopped: a signal asked to stop.
        """
        if self.gomocup:
            from ttt_apps.terminal.gomocup import serve

            self._check_no_effect(
                "with --gomocup, where the manager chooses the game",
                "gomocup",
                "opponent",
                "input",
                "seed",
                "trust",
            )
            serve(self.opponent or SEARCH_BY_CLOCK, self._seed(), lines.buffer)
            return
        from baselines.exact import MAX_SOLVER_CELLS
        from ttt_apps.terminal.game import TerminalGame
        from ttt_apps.terminal.replay import replay
        from ttt_eval.matches.games import append_games

        if self.replay is not None:
            self._check_no_effect("with --replay", "replay", "number")
            replay(console, self.replay, self.number or 1)
            return
        cli.check_no_effect(self, "without --replay FILE", "number")
        game = self.game_for(self.opponent or "")
        name = self.opponent or (PERFECT if game.cells <= MAX_SOLVER_CELLS else SEARCHING)
        policy = make_policy(name, game)
        if self.log is not None:
            append_games(self.log, [])  # reports problems with the file before the first game
        TerminalGame(
            game, policy, name, console, lines, self.seat, self._seed(), self.games, self.log
        ).run()

    def _check_no_effect(self, circumstance: str, *exceptions: str) -> None:
        """Raise ValueError if an option is given that has no effect, which all others have not."""
        names = {field.name for field in dataclasses.fields(self)}
        cli.check_no_effect(self, circumstance, *(names - {*exceptions}))

    def _seed(self) -> int:
        return int(np.random.default_rng().integers(SEEDS)) if self.seed is None else self.seed


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command ``ttt-play``."""
    cli.run_command(lambda: _main(cli.command_words(arguments)))


def _main(words: list[str]) -> None:
    prog = installed_names("play.py")
    if words[:1] == ["web"]:
        cli.parse(load_object("ttt_apps.explorer.command:Web"), words[1:], f"{prog} web").run()
        return
    options = cli.parse(Play, words, prog)
    if hasattr(sys.stdin, "reconfigure"):  # input may be undecodable
        sys.stdin.reconfigure(errors="replace")
    with (
        open(options.input, encoding="utf-8", errors="replace")
        if options.input
        else nullcontext(sys.stdin) as lines
    ):
        options.run(cli.PlainConsole(), lines)
