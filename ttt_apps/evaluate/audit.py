"""``evaluate.py audit NAME``: bias and variance of an advantage estimator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from rich.table import Table

from ttt_apps.cli import options as cli
from ttt_eval.audit import ESTIMATORS, Auditor, AuditSettings, TooManyGroups, make_estimator

ALL = "all"
"""Name of all built-in estimators."""


@dataclass(frozen=True)
class AuditEstimator(cli.TrustOptions, cli.JsonOptions, cli.GameOptions):
    """Measure bias, variance and mean squared error of an advantage estimator against exact
    advantages.

    A policy plays a fixed opponent. The estimator computes advantages from the rewards and from a
    critic's values. The errors are those of the advantages, and those of the policy gradients that
    they give.
    """

    names: Annotated[cli.Names, tyro.conf.arg(metavar="NAME...")] = tyro.MISSING
    """estimators: monte-carlo, return-minus-value, n-step, td-lambda, gae:lam=0.9, gae-finite,
    v-trace, importance-sampling, rloo, grpo, per-turn, per-turn-return, or all of these; or
    module:function of your own"""
    policy: str = "random"
    """the audited policy, such as run:PATH"""
    opponent: str = "random"
    """its fixed opponent"""
    seat: int = 0
    """seat of the audited policy: 0 moves first, 1 second"""
    critic: str = "exact"
    """values that the estimator is given: exact, zero, learned:N (mean returns of N other episodes,
    by position), or those of a policy, such as run:PATH"""
    behaviour: cli.TextOption = ""
    """policy that plays in place of the audited one, for off-policy estimators"""
    discount: float = 1.0
    """weight of a later decision"""
    max_steps: cli.Positive | None = None
    """number of decisions after which an episode is truncated"""
    position: cli.TextOption = ""
    """first position, such as "x.o/.../..o x"; default: the empty board"""
    group_size: cli.Positive = 8
    """episodes in a group, for estimators that compare them"""
    episodes: cli.Positive = 20_000
    """number of sampled episodes"""
    enumerate: cli.Flag = False
    """compute exact numbers from all episodes that can occur; for small boards and late positions
    """
    seed: cli.Natural = 0
    """seed of all random numbers"""

    def run(self) -> None:
        """Audit and print."""
        game = self.game_for(self.policy, self.opponent, self.behaviour, self.critic)
        names: list[str] = []
        for name in self.names:
            names += ESTIMATORS if name == ALL else [name]
        estimators = [*map(make_estimator, names)]
        options = {name: getattr(self, name) for name in SETTINGS}
        settings = AuditSettings(
            **options,
            behaviour=self.behaviour or None,
            episodes=None if self.enumerate else self.episodes,
        )
        auditor = Auditor(game, self.policy, self.opponent, settings)
        audits = []
        with cli.bar("auditing") as progress:
            for index, estimator in enumerate(estimators):
                try:
                    audits.append(auditor.audit(estimator))
                except TooManyGroups as problem:
                    if ALL not in self.names:
                        raise
                    cli.warn(f"{estimator.name} is left out: {problem}")
                progress((index + 1) / len(estimators))
        data = [audit.to_dict() for audit in audits]
        result = {
            "game": game.to_dict(),
            "policy": self.policy,
            "opponent": self.opponent,
            "behaviour": self.behaviour,
            **options,
            "estimators": data,
        }
        title = (
            f"{self.policy} against {self.opponent}, {game}, critic {self.critic}, "
            f"{audits[0].episodes:,} episodes"
        )
        self.show(result, *_tables(title, data))


def _tables(title: str, audits: Sequence[Mapping[str, Any]]) -> Iterator[Table | str]:
    """Yield tables and sentences on audits of one policy, as JSON-ready data."""
    yield cli.rows_table(map(_advantage_row, audits), title)
    yield cli.rows_table(map(_gradient_row, audits))
    first = audits[0]
    limits = "All numbers are exact."
    if not first["exact"]:
        limits = (
            "Intervals are 95%. Bias and variance of advantages are those of "
            f"{first['coverage']:.1%} of the decisions, whose position and action occurred at "
            "least twice."
        )
    yield (
        f"exact gradient: squared length {cli.format_value(first['exact_gradient_squared'])}. "
        f"Errors are sums of squares over all logits, of the gradient of one episode. {limits}"
    )


def _advantage_row(audit: Mapping[str, Any]) -> dict[str, object]:
    return {
        "advantages": audit["name"],
        **audit["advantage"],
        "biased": _verdict(audit["biased_advantage"]),
    }


def _gradient_row(audit: Mapping[str, Any]) -> dict[str, object]:
    return {
        "policy gradients": audit["name"],
        **audit["gradient"],
        "cosine": audit["cosine"],
        "biased": _verdict(audit["biased"]),
    }


def _verdict(is_biased: bool | None) -> str:
    """Return a verdict, which a sample may leave open, as text."""
    return "undecided" if is_biased is None else cli.format_value(is_biased)


SETTINGS = ("seat", "discount", "critic", "position", "max_steps", "group_size", "seed")
"""Options that are settings of an audit, and are printed with ``--json``."""
