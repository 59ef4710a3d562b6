"""``evaluate.py exact A B`` and ``exploitability A``: exact results, without playing a game."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from rich.table import Table

from ttt_apps.cli import Count, ExactOptions, PhantomOptions, new_table, share_bar, show
from ttt_envs.core.work import Work
from ttt_envs.game.game import Game
from ttt_envs.graph.layers import QUERY_SIZE
from ttt_eval.exact.dynamic_programming import (
    OutcomeProbabilities,
    RegretRow,
    exploitation,
    has_regret,
    make_pure,
    mean_loss,
    outcome,
    regret_table,
)
from ttt_eval.exact.policy_cache import cached


@dataclass(frozen=True)
class ExactPolicyOptions(PhantomOptions, ExactOptions):
    """Options of exact results of policies."""

    chunk: Count = QUERY_SIZE
    """maximum number of positions per query of a policy: affects memory and speed, never the result"""

    def work(self) -> Work:
        """Return the limits of the work."""
        return Work(memory=self.memory_bytes(), chunk=self.chunk)


@dataclass(frozen=True)
class Exact(ExactPolicyOptions):
    """Compute the exact probabilities that A wins, draws and loses against B, in either seat."""

    a: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="A")] = tyro.MISSING
    """a policy, such as random, optimal or run:PATH"""
    b: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="B")] = tyro.MISSING
    """another policy"""

    def run(self) -> None:
        """Compute and print."""
        game = self.any_game_for(self.a, self.b)
        a, b = make_pure(self.a, game), make_pure(self.b, game)
        with share_bar("moving first") as progress:
            first = outcome(game, a, b, work=self.work()._replace(progress=progress))
        with share_bar("moving second") as progress:
            second = outcome(game, b, a, work=self.work()._replace(progress=progress)).reversed()
        rows = {"first": first, "second": second, "mean": first.mean(second)}
        results = {name: as_dict(row) for name, row in rows.items()}
        named = {"moving first": first, "moving second": second, "mean": rows["mean"]}
        table = _outcomes_table(f"{self.a} against {self.b}, exactly, {game}", self.a, named)
        show({"game": game.to_dict(), "a": self.a, "b": self.b, **results}, table, json=self.json)


@dataclass(frozen=True)
class Exploitability(ExactPolicyOptions):
    """Measure the distance of A from perfect play: best responders' exact results, exploitability, and regret."""

    a: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="A")] = tyro.MISSING
    """a policy, such as random, optimal:epsilon=0.1 or run:PATH"""

    def run(self) -> None:
        """Compute and print."""
        game = self.any_game_for(self.a)
        policy = make_pure(self.a, game)
        policy = cached(policy, game) if isinstance(game, Game) else policy
        with share_bar("best responses") as progress:
            best = exploitation(game, policy, work=self.work()._replace(progress=progress))
        rows: list[RegretRow] = []
        if has_regret(game):
            with share_bar("regret") as progress:
                rows = regret_table(game, policy, work=self.work()._replace(progress=progress))
        regret = mean_loss(rows) if rows else None
        data = {
            "game": game.to_dict(),
            "policy": self.a,
            "exploitability": best.exploitability,
            "best_response": {"first": as_dict(best.first), "second": as_dict(best.second)},
            "game_value": best.game_value,
            "gains": None if best.gains is None else dict(zip(("first", "second"), best.gains, strict=True)),
            "regret": regret,
            "regret_by_stones": [row._asdict() for row in rows],
        }
        title = f"best responses to {self.a}, exactly, {game}"
        table = _outcomes_table(title, "the responder", {"moves first": best.first, "moves second": best.second})
        sentence = f"exploitability (NashConv / 2) {best.exploitability:.6f}"
        if best.gains is None or regret is None:
            why = "the board is too large to solve" if isinstance(game, Game) else "perfect play is not known"
            show(data, table, sentence, f"{why}: no gains over perfect play, no regret", json=self.json)
            return
        first, second = best.gains
        losses = [(str(row.stones), f"{row.moves:.6f}", f"{row.loss:.6f}") for row in rows if row.loss > 0]
        columns = ("stones", "moves", "lost by them")
        show(
            data,
            table,
            sentence,
            f"beyond perfect play a responder gains {first:.6f} moving first, {second:.6f} moving second",
            f"regret, the value lost by an average move playing itself: {regret:.6f}",
            *([new_table(*columns, title="regret by stones on the board", rows=losses)] if losses else []),
            json=self.json,
        )


def as_dict(result: OutcomeProbabilities) -> dict[str, Any]:
    """Return JSON-ready data; docs/files.md documents the keys."""
    return {**result._asdict(), "value": result.value}


def _outcomes_table(title: str, name: str, outcomes: dict[str, OutcomeProbabilities]) -> Table:
    rows = [(seat, *(f"{share:.6f}" for share in result), f"{result.value:+.6f}") for seat, result in outcomes.items()]
    return new_table(name, "win", "draw", "loss", "value", title=title, rows=rows)
