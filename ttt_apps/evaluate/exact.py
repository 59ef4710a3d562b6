"""``evaluate.py exact A B``: the exact result of two policies, without playing a game."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from rich.table import Table

from ttt_apps.cli import Count, ExactOptions, new_table, print_table, share_bar
from ttt_envs.core.work import Work
from ttt_envs.graph.layers import QUERY_SIZE
from ttt_eval.exact.dynamic_programming import OutcomeProbabilities, make_pure, outcome


@dataclass(frozen=True)
class Exact(ExactOptions):
    """Compute the exact probabilities that A wins, draws and loses against B, in either seat."""

    a: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="A")] = tyro.MISSING
    """a policy, such as random, optimal or run:PATH"""
    b: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="B")] = tyro.MISSING
    """another policy"""
    chunk: Count = QUERY_SIZE
    """maximum number of positions per query of a policy: affects memory and speed, never the result"""

    def run(self) -> None:
        """Compute and print."""
        game = self.any_game_for(self.a, self.b)
        a, b = make_pure(self.a, game), make_pure(self.b, game)
        work = Work(memory=self.memory_bytes(), chunk=self.chunk)
        with share_bar("moving first") as progress:
            first = outcome(game, a, b, work=work._replace(progress=progress))
        with share_bar("moving second") as progress:
            second = outcome(game, b, a, work=work._replace(progress=progress)).reversed()
        mean = first.mean(second)
        rows = {"first": first, "second": second, "mean": mean}
        if self.json:
            results = {name: as_dict(row) for name, row in rows.items()}
            print(json.dumps({"game": game.to_dict(), "a": self.a, "b": self.b, **results}))
            return
        title = f"{self.a} against {self.b}, exactly, {game}"
        print_table(outcomes_table(title, self.a, {"moving first": first, "moving second": second, "mean": mean}))


def as_dict(result: OutcomeProbabilities) -> dict[str, Any]:
    """Return JSON-ready data; docs/files.md documents the keys."""
    return {**result._asdict(), "value": result.value}


def outcomes_table(title: str, whose: str, rows: dict[str, OutcomeProbabilities]) -> Table:
    """Return a table of outcomes."""
    table = new_table(whose, "win", "draw", "loss", "value", title=title)
    for name, result in rows.items():
        table.add_row(name, *(f"{share:.9f}" for share in result), f"{result.value:+.9f}")
    return table
