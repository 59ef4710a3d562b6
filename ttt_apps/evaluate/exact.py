"""``evaluate.py exact A B``: the exact result of two policies, without playing a game."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from rich.table import Table

from evaluation.exact.dynamic_programming import CHUNK, OutcomeProbabilities, make_pure, outcome
from evaluation.exact.estimate import check_fits
from evaluation.exact.forward_backward import Players
from ttt_apps.cli import Count, ExactOptions, ThreadOptions, new_table, print_table, share_bar, warn
from ttt_envs.agents.specs import make_policy
from ttt_envs.game.rules import Game

LONG = 10.0
"""Minimum estimated seconds for which an estimate is printed."""


@dataclass(frozen=True)
class Exact(ThreadOptions, ExactOptions):
    """Compute the exact probabilities that A wins, draws and loses against B, in either seat."""

    a: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="A")] = tyro.MISSING
    """a policy, such as random, optimal or run:PATH"""
    b: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="B")] = tyro.MISSING
    """another policy"""
    chunk: Count = CHUNK
    """maximum number of positions per query of a policy: affects memory and speed, never the result"""

    def run(self) -> None:
        """Compute and print."""
        game = self.game_for(self.a, self.b, phantom=True)
        a, b = make_policy(self.a, game), make_policy(self.b, game)
        memory, threads = self.memory_bytes(), self.num_threads()
        announce(game, (a, b), self.chunk, memory, walks=2)
        with share_bar("moving first") as progress:
            first = outcome(game, a, b, chunk=self.chunk, memory=memory, progress=progress, threads=threads)
        with share_bar("moving second") as progress:
            found = outcome(game, b, a, chunk=self.chunk, memory=memory, progress=progress, threads=threads)
        second = found.reversed()
        mean = first.mean(second)
        rows = {"first": first, "second": second, "mean": mean}
        if self.json:
            results = {name: as_dict(row) for name, row in rows.items()}
            print(json.dumps({"game": game.to_dict(), "a": self.a, "b": self.b, **results}))
            return
        title = f"{self.a} against {self.b}, exactly, {game}"
        print_table(outcomes_table(title, self.a, {"moving first": first, "moving second": second, "mean": mean}))


def announce(
    game: Game, players: Players, chunk: int, memory: int | None, *, walks: int, backward: bool = False
) -> None:
    """Check the players of an exact computation, and print its estimated cost if it is large.

    Raises:
        ValueError: a policy that is not pure.
        MemoryError: the computation will not fit.
    """
    for player in players:
        if player is not None:
            make_pure(player, game)
    found = check_fits(game, players, chunk, backward=backward, memory=memory)
    if found is not None and walks * found.seconds > LONG:
        warn(f"this takes {found._replace(seconds=walks * found.seconds)}")


def as_dict(result: OutcomeProbabilities) -> dict[str, Any]:
    """Return JSON-ready data; docs/files.md documents the keys."""
    return {**result._asdict(), "value": result.value}


def outcomes_table(title: str, whose: str, rows: dict[str, OutcomeProbabilities]) -> Table:
    """Return a table of outcomes."""
    table = new_table(whose, "win", "draw", "loss", "value", title=title)
    for name, result in rows.items():
        table.add_row(name, *(f"{share:.9f}" for share in result), f"{result.value:+.9f}")
    return table
