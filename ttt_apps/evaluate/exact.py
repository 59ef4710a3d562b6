"""``evaluate.py exact A B`` and ``exploitability A``: exact results, without playing a game."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import tyro
from rich.table import Table

from ttt_apps.cli import options as cli
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_pure
from ttt_envs.core.checks import Refusal
from ttt_envs.game.phantom import AnyGame, visible
from ttt_eval.exact.measurement import Measurement
from ttt_eval.exact.results import OutcomeProbabilities
from ttt_eval.exact.strength import strength
from ttt_eval.matches.move_cost import draw_positions
from ttt_eval.store.metrics import LOSSES, METRICS


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
        _warn_of_draws(game, a, b)
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
        with cli.bar("exact measures") as progress:
            exact = strength(game, policy, (), work=self.work(progress))
        best = exact.responders
        responses = {"first": as_dict(best.first), "second": as_dict(best.second)}
        gains = None
        if best.gains is not None:
            gains = dict(zip(("first", "second"), best.gains, strict=True))
        losses = [row._asdict() for row in exact.regret_by_stones]
        data = {
            "game": game.to_dict(),
            "policy": self.a,
            **dict.fromkeys(LOSSES),
            **exact.measures,
            "best_response": responses,
            "game_value": best.game_value,
            "gains": gains,
            "regret_by_stones": losses,
        }
        facts: dict[str, object] = {
            METRICS[name].long_label or METRICS[name].label: _format(value)
            for name, value in exact.measures.items()
        }
        facts["gain of a responder beyond perfect play"] = gains
        title = f"best responses to {self.a}, exactly, {game}"
        rows = [row for row in losses if row["loss"] > 0]
        _warn_of_draws(game, policy)
        self.show(
            data,
            _outcomes_table(title, "the responder moves", responses),
            cli.facts_table(facts),
            cli.rows_table(rows, "regret by stones on the board"),
        )


def _warn_of_draws(game: AnyGame, *policies: Policy) -> None:
    """Warn of policies that answer differently when they are asked about positions again."""
    with suppress(Refusal):  # a game that is over so soon has no such positions
        boards = draw_positions(visible(game))
        for policy in policies:
            if not np.allclose(policy.probabilities(boards), policy.probabilities(boards)):
                cli.warn(
                    f"{policy} answers differently when it is asked again: the results are of one "
                    "draw of its answers, and file:agent:samples=20 measures their frequencies"
                )


def as_dict(result: OutcomeProbabilities) -> dict[str, float]:
    """Return JSON-ready data; docs/files.md documents the keys."""
    return {**result._asdict(), "value": result.value}


def _format(number: float | None) -> str | None:
    """Format a known number with six decimal places, and with an exponent where they would show one
    that is not 0 as 0.
    """
    if number is None:
        return None
    return f"{number:.6f}" if number == 0 or round(number, 6) else f"{number:.1e}"


def _outcomes_table(title: str, name: str, outcomes: Mapping[str, Mapping[str, float]]) -> Table:
    rows: list[dict[str, object]] = [
        {name: seat, **{key: _format(share) for key, share in row.items()}}
        for seat, row in outcomes.items()
    ]
    return cli.rows_table(rows, title)
