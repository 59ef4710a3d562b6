"""Play in the terminal, and look at games that were played."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TextIO

import numpy as np
import tyro
from rich.console import Console
from tyro.constructors import PrimitiveConstructorSpec

from ttt_apps.cli import Count, GameOptions, as_called, check_seed, parse, run_command, trust_files, words_of
from ttt_envs.lockstep import SeatChoice
from ttt_envs.specs import make_policy

PERFECT, SEARCHING = "optimal", "mcts:simulations=2000"
"""who plays where nobody is named: on boards that can be solved, and on larger ones"""
SEARCH_BY_CLOCK = "timed"
"""the same for managers of tournaments, who keep clocks"""
SEEDS = 10**6
EnginePolicy = Annotated[
    str | None,
    PrimitiveConstructorSpec(
        nargs=(0, 1),
        metavar="[POLICY]",
        instance_from_str=lambda words: words[0] if words else SEARCH_BY_CLOCK,
        is_instance=lambda value: value is None or isinstance(value, str),
        str_from_instance=lambda value: [str(value)],
    ),
]
"""a policy that need not be named"""


@dataclass(frozen=True)
class Play(GameOptions):
    """Play in the terminal against anything that plays. In the game, help tells what can be typed."""

    opponent: Annotated[str | None, tyro.conf.arg(metavar="POLICY")] = None
    """a policy, such as random, svd:rank=18 or run:PATH; by default optimal on boards up to 16 cells, and
    mcts:simulations=2000 on larger ones"""
    seat: SeatChoice = "first"
    """yours; alternate begins with the first"""
    games: Count | None = None
    """how many games; by default you are asked after each"""
    seed: Count | None = None
    """of all chance: the same seed and moves give the same game; by default another one each time"""
    log: Path | None = None
    """a file to which games are added when they end"""
    replay: Path | None = None
    """show the games of such a file instead of playing"""
    number: Count | None = None
    """with --replay: show this game move by move, counted from 1"""
    gomocup: EnginePolicy = None
    """be an engine of the Gomocup protocol instead, which a manager of tournaments starts; without a policy timed, a
    search by the manager's times"""
    web: tyro.conf.FlagCreatePairsOff[bool] = False
    """open the explorer, a page in the browser, instead: see --web --help"""

    def run(self, console: Console, lines: TextIO) -> None:
        """Play or show.

        Raises:
            ValueError: options that make no sense.
            Stopped: a signal asked to stop.
        """
        if self.gomocup is not None:
            self._serve(self.gomocup)
            return
        from baselines.solver import LARGEST
        from evaluation.games import append_games
        from ttt_apps.replay import replay
        from ttt_apps.sitting import Sitting

        if self.number is not None and (self.replay is None or self.number < 1):
            raise ValueError(f"--number {self.number} names no game: choose 1 or more, with --replay FILE")
        if self.replay is not None:
            replay(console, self.replay, self.number)
            return
        if self.games is not None and self.games < 1:
            raise ValueError(f"--games {self.games} leaves nothing to play: choose 1 or more")
        seed = int(np.random.default_rng().integers(SEEDS)) if self.seed is None else self.seed
        check_seed(seed)
        game = self.game()
        name = self.opponent or (PERFECT if game.cells <= LARGEST else SEARCHING)
        policy = make_policy(name, game)
        if self.log is not None:
            append_games(self.log, [])  # what is wrong with the file is told before anybody has played
        if self.opponent is None:
            why = "plays perfectly" if name == PERFECT else "searches: the board is too large to be solved"
            console.print(f"Nobody is named by --opponent, so it is {name}, which {why}.")
        Sitting(game, policy, name, console, lines, self.seat, seed, self.games, self.log).run()

    def _serve(self, spec: str) -> None:
        """Be an engine.

        Raises:
            ValueError: options that are the manager's to say.
        """
        from ttt_apps.gomocup import serve

        default, others = Play(), ("gomocup", "seed", "trust")
        for field in dataclasses.fields(self):
            if field.name not in others and getattr(self, field.name) != getattr(default, field.name):
                option = f"--{field.name.replace('_', '-')}"
                raise ValueError(f"{option} does nothing with --gomocup: the manager says what is played, leave it out")
        if self.trust:
            trust_files()
        seed = int(np.random.default_rng().integers(SEEDS)) if self.seed is None else self.seed
        check_seed(seed)
        serve(spec, seed)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command ``ttt-play``."""
    run_command(lambda: _main(words_of(arguments)))


def _main(words: list[str]) -> None:
    if "--web" in words:
        from ttt_apps.explorer.command import main as serve

        serve(words)
        return
    options = parse(Play, words, as_called("play.py"))
    for stream in (sys.stdin, sys.stdout):
        if hasattr(stream, "reconfigure"):  # what is typed may be no text, and a terminal may lack letters
            stream.reconfigure(errors="replace")
    options.run(new_console(), sys.stdin)


def new_console(**settings: Any) -> Console:
    """A console that prints what it is given: names may hold anything."""
    return Console(markup=False, highlight=False, emoji=False, **settings)


if __name__ == "__main__":
    main()
