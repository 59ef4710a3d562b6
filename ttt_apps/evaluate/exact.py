"""``evaluate.py exact A B`` and ``exploitability A``: exact results, without playing a game."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.table import Table

from ttt_apps.cli import options as cli
from ttt_envs.agents.specs import make_pure
from ttt_envs.game.game import Game
from ttt_eval.exact import dynamic_programming
from ttt_eval.exact.measurement import Measurement
from ttt_eval.exact.policy_cache import cached


@dataclass(frozen=True)
class Exact(cli.TrustOptions, cli.PhantomOptions, cli.ExactOptions):
    """Compute the exact probabilities that A wins, draws and loses against B, in either seat."""

    a: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="A")] = tyro.MISSING
    """a policy, such as random, optimal or run:PATH"""
    b: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="B")] = tyro.MISSING
    """another policy"""

    def run(self) -> None:
        """Compute and print."""
        game = self.any_game_for(self.a, self.b)
        a = make_pure(self.a, game)
        b = make_pure(self.b, game)
        with cli.bar("results in both seats") as progress:
            first, second = Measurement(game, a, self.work(progress)).outcomes(b)
        results = {
            "first": as_dict(first),
            "second": as_dict(second),
            "mean": as_dict(first.mean(second)),
        }
        table = _outcomes_table(f"{self.a} against {self.b}, exactly, {game}", "moving", results)
        self.show({"game": game.to_dict(), "a": self.a, "b": self.b, **results}, table)


@dataclass(frozen=True)
class Exploitability(cli.TrustOptions, cli.PhantomOptions, cli.ExactOptions):
    """Measure the distance of A from perfect play: best responders' exact results, exploitability,
    and regret.
    """

    a: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="A")] = tyro.MISSING
    """a policy, such as random, optimal:epsilon=0.1 or run:PATH"""

    def run(self) -> None:
        """Compute and print."""
        game = self.any_game_for(self.a)
        policy = make_pure(self.a, game)
        policy = cached(policy, game) if isinstance(game, Game) else policy
        with cli.bar("best responses") as progress:
            best = dynamic_programming.exploitation(game, policy, work=self.work(progress))
        losses: list[dict[str, float]] = []
        regret = None
        if dynamic_programming.has_regret(game):
            with cli.bar("regret") as progress:
                table = dynamic_programming.regret_table(game, policy, work=self.work(progress))
            regret = dynamic_programming.mean_regret(table)
            losses = [row._asdict() for row in table]
        mean_loss = None
        if dynamic_programming.has_mean_loss(game):
            with cli.bar("mean loss") as progress:
                mean_loss = dynamic_programming.mean_loss(game, policy, work=self.work(progress))
        responses = {"first": as_dict(best.first), "second": as_dict(best.second)}
        gains = None
        if best.gains is not None:
            gains = dict(zip(("first", "second"), best.gains, strict=True))
        data = {
            "game": game.to_dict(),
            "policy": self.a,
            "exploitability": best.exploitability,
            "best_response": responses,
            "game_value": best.game_value,
            "gains": gains,
            "regret": regret,
            "regret_by_stones": losses,
            "mean_loss": mean_loss,
        }
        facts: dict[str, object] = {
            "exploitability (NashConv / 2)": _format(best.exploitability),
            "gain of a responder beyond perfect play": gains,
        }
        if regret is not None:
            facts["regret, the value lost by an average move playing itself"] = _format(regret)
        if mean_loss is not None:
            facts["mean loss, the value lost by a move in all positions"] = _format(mean_loss)
        title = f"best responses to {self.a}, exactly, {game}"
        rows = [row for row in losses if row["loss"] > 0]
        self.show(
            data,
            _outcomes_table(title, "the responder moves", responses),
            cli.facts_table(facts),
            cli.rows_table(rows, "regret by stones on the board"),
        )


def as_dict(result: dynamic_programming.OutcomeProbabilities) -> dict[str, float]:
    """Return JSON-ready data; docs/files.md documents the keys."""
    return {**result._asdict(), "value": result.value}


def _format(number: float) -> str:
    """Format with six decimal places, and with an exponent where they would show a number that is
    not 0 as 0.
    """
    return f"{number:.6f}" if number == 0 or round(number, 6) else f"{number:.1e}"


def _outcomes_table(title: str, name: str, outcomes: Mapping[str, Mapping[str, float]]) -> Table:
    rows = [
        {name: seat} | {key: _format(share) for key, share in row.items()}
        for seat, row in outcomes.items()
    ]
    return cli.rows_table(rows, title)
