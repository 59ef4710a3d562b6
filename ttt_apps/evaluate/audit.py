"""``evaluate.py audit NAME``: bias and variance of an advantage estimator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import tyro
from rich.table import Table

from ttt_apps.cli import Count, ExactOptions, UsageError, check_seed, new_table, share_bar, show, warn
from ttt_envs.game.boards import to_text
from ttt_envs.game.game import Game
from ttt_eval.audit import ESTIMATORS, Audit, Auditor, AuditSettings, TooManyGroups, make_estimator
from ttt_eval.statistics import Interval, finite_or_none

ALL = "all"
"""Name of all built-in estimators."""


@dataclass(frozen=True)
class AuditEstimator(ExactOptions):
    """Measure bias, variance and mean squared error of an advantage estimator against exact advantages.

    A policy plays a fixed opponent. The estimator computes advantages from the rewards and from a critic's values. The
    errors are those of the advantages, and those of the policy gradients that they give.
    """

    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME...")] = ()
    """estimators, such as gae:lam=0.9; all for all built-in ones; or module:function of your own. Without one, list
    the built-in ones"""
    policy: str = "random"
    """the audited policy, such as run:PATH"""
    opponent: str = "random"
    """its fixed opponent"""
    seat: int = 0
    """seat of the audited policy: 0 moves first, 1 second"""
    critic: str = "exact"
    """values that the estimator is given: exact, zero, learned:N (mean returns of N other episodes, by position), or
    those of a policy, such as run:PATH"""
    behaviour: str = ""
    """policy that plays in place of the audited one, for off-policy estimators"""
    discount: float = 1.0
    """weight of a later decision"""
    max_steps: Count | None = None
    """number of decisions after which an episode is truncated"""
    position: str = ""
    """first position, such as "x.o/.../..o x"; default: the empty board"""
    group_size: Count = 8
    """episodes in a group, for estimators that compare them"""
    episodes: Count = 20_000
    """number of sampled episodes"""
    enumerate: tyro.conf.FlagCreatePairsOff[bool] = False
    """compute exact numbers from all episodes that can occur; for small boards and late positions"""
    seed: Count = 0
    """seed of all random numbers"""
    worst: Count = 0
    """number of positions to show, those that add most to the mean squared error"""

    def run(self) -> None:
        """Audit and print; without a name, list the built-in estimators."""
        if not self.names:
            self._list()
            return
        check_seed(self.seed)
        if self.worst < 0:
            raise UsageError(f"--worst {self.worst} is no number of positions: choose 0 or more")
        game = self.game_for(self.policy, self.opponent, self.behaviour, self.critic)
        names = [one for name in self.names for one in (ESTIMATORS if name == ALL else [name])]
        estimators = [make_estimator(name) for name in names]
        auditor = Auditor(game, self.policy, self.opponent, self._settings())
        audits = []
        with share_bar("auditing") as progress:
            for index, estimator in enumerate(estimators):
                try:
                    audits.append(auditor.audit(estimator))
                except TooManyGroups as problem:
                    if ALL not in self.names:
                        raise
                    warn(f"{estimator.name} is left out: {problem}")
                progress((index + 1) / len(estimators))
        data = [{**audit.to_dict(), "positions": _worst(audit, self.worst, game)} for audit in audits]
        settings = {name: getattr(self, name) for name in SETTINGS}
        parts = self._describe(audits, game)
        show({"game": game.to_dict(), **settings, "estimators": data}, *parts, json=self.json)

    def _settings(self) -> AuditSettings:
        return AuditSettings(
            seat=self.seat,
            discount=self.discount,
            critic=self.critic,
            behaviour=self.behaviour or None,
            position=self.position,
            max_steps=self.max_steps,
            group_size=self.group_size,
            episodes=None if self.enumerate else self.episodes,
            seed=self.seed,
        )

    def _list(self) -> None:
        facts = {name: {"estimates": one.estimates, "about": one.about} for name, one in ESTIMATORS.items()}
        table = new_table("estimator")
        table.add_column("estimates")
        for name, fact in facts.items():
            table.add_row(name, f"{fact['estimates']}: {fact['about']}")
        show(facts, table, json=self.json)

    def _describe(self, audits: list[Audit], game: Game) -> Iterator[Table | str]:
        """Yield tables and sentences on audits of one policy."""
        title = f"{self.policy} against {self.opponent}, {game}, critic {self.critic}, {audits[0].episodes:,} episodes"
        columns = ("bias^2", "variance", "mean squared error")
        advantages = new_table("advantages", *columns, "biased", title=title)
        gradients = new_table("policy gradients", *columns, "cosine", "biased")
        for audit in audits:
            errors, cosine = audit.gradient.errors, _format(audit.gradient.cosine)
            name = audit.estimator.name
            advantages.add_row(name, *map(_format, audit.advantage.errors), BIASED[audit.biased_advantage])
            gradients.add_row(name, *map(_format, errors), cosine, BIASED[audit.biased])
        yield advantages
        yield gradients
        intervals = (
            "All numbers are exact."
            if audits[0].exact
            else f"Intervals are 95%; biased is empty if undecided. Bias and variance of advantages are those of "
            f"{audits[0].advantage.coverage:.1%} of the decisions, whose position and action occurred at least twice."
        )
        yield (
            f"exact gradient: squared length {_format(audits[0].gradient.exact)}. Errors are sums of squares over all "
            f"logits, of the gradient of one episode. {intervals}"
        )
        for audit in audits if self.worst else []:
            rows = [
                (row["position"], f"{row['visits']:.6f}", f"{row['bias']:+.6f}", f"{row['mse']:.6f}")
                for row in _worst(audit, self.worst, game)
            ]
            worst_columns = ("position", "visits", "bias", "mean squared error")
            yield new_table(*worst_columns, title=f"{audit.estimator.name}: worst", rows=rows)


BIASED = {True: "yes", False: "no", None: ""}
SETTINGS = (
    "policy", "opponent", "seat", "critic", "behaviour", "discount", "max_steps", "position", "group_size", "seed",
)  # fmt: skip
"""Options that are printed with ``--json``."""


def _format(one: Interval) -> str:
    if one.low == one.high:
        return f"{one.mean:.4g}"
    return f"{one.mean:.3g} ({one.low:.3g} to {one.high:.3g})"


def _worst(one: Audit, count: int, game: Game) -> list[dict[str, Any]]:
    """Return the positions that add most to the mean squared error."""
    found = one.positions
    order = np.argsort(-found.visits * found.mse, kind="stable")[:count]
    return [
        {
            "position": to_text(one.boards.position(int(index)), game),
            "visits": float(found.visits[index]),
            "bias": float(found.bias[index]),
            "standard_error": finite_or_none(found.standard_error[index]),
            "mse": float(found.mse[index]),
        }
        for index in order
    ]
