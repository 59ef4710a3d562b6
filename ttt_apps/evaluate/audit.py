"""``evaluate.py audit NAME``: bias and variance of an advantage estimator."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ttt_apps.cli import Count, ExactOptions, check_seed, new_table, print_output, print_table, share_bar, warn

if TYPE_CHECKING:  # compiled code is imported where it is used, not where help is written
    from ttt_envs.game.game import Game
    from ttt_eval.audit import Audit, AuditSettings
    from ttt_eval.statistics import Interval

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
        from ttt_eval.audit import ESTIMATORS, Auditor, TooManyGroups, make_estimator

        if not self.names:
            self._list()
            return
        check_seed(self.seed)
        if self.worst < 0:
            raise ValueError(f"--worst {self.worst} is no number of positions: choose 0 or more")
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
        if self.json:
            data = [{**one.to_dict(), "positions": _worst(one, self.worst, game)} for one in audits]
            settings = {name: getattr(self, name) for name in SETTINGS}
            print(json.dumps({"game": game.to_dict(), **settings, "estimators": data}))
            return
        self._print(audits, game)

    def _settings(self) -> AuditSettings:
        from ttt_eval.audit import AuditSettings

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
        from ttt_eval.audit import ESTIMATORS

        if self.json:
            print(
                json.dumps({name: {"estimates": one.estimates, "about": one.about} for name, one in ESTIMATORS.items()})
            )
            return
        table = new_table("estimator", "estimates")
        table.columns[1].justify, table.columns[1].no_wrap = "left", False
        for name, one in ESTIMATORS.items():
            table.add_row(name, f"{one.estimates}: {one.about}")
        print_table(table)

    def _print(self, audits: list[Audit], game: Game) -> None:
        title = f"{self.policy} against {self.opponent}, {game}, critic {self.critic}, {audits[0].episodes:,} episodes"
        columns = ("bias^2", "variance", "mean squared error")
        advantages = new_table("advantages", *columns, "biased", title=title)
        gradients = new_table("policy gradients", *columns, "cosine", "biased")
        for one in audits:
            advantages.add_row(one.estimator.name, *map(_format, one.advantage.errors), _word(one.biased_advantage))
            errors, cosine = one.gradient.errors, _format(one.gradient.cosine)
            gradients.add_row(one.estimator.name, *map(_format, errors), cosine, _word(one.biased))
        print_table(advantages)
        print_table(gradients)
        length = _format(audits[0].gradient.exact)
        coverage = (
            f"Bias and variance of advantages are those of {audits[0].advantage.coverage:.1%} of the decisions, whose "
            f"position and action occurred at least twice."
        )
        print_output(
            f"exact gradient: squared length {length}. Errors are sums of squares over all logits, of the gradient of "
            f"one episode. "
            + (
                "All numbers are exact."
                if audits[0].exact
                else f"Intervals are 95%; biased is empty if undecided. {coverage}"
            )
        )
        for one in audits if self.worst else []:
            table = new_table("position", "visits", "bias", "mean squared error", title=f"{one.estimator.name}: worst")
            for row in _worst(one, self.worst, game):
                table.add_row(row["position"], f"{row['visits']:.6f}", f"{row['bias']:+.6f}", f"{row['mse']:.6f}")
            print_table(table)


SETTINGS = (
    "policy", "opponent", "seat", "critic", "behaviour", "discount", "max_steps", "position", "group_size", "seed",
)  # fmt: skip
"""Options that are printed with ``--json``."""


def _format(one: Interval) -> str:
    if one.low == one.high:
        return f"{one.mean:.4g}"
    return f"{one.mean:.3g} ({one.low:.3g} to {one.high:.3g})"


def _word(biased: bool | None) -> str:
    return {True: "yes", False: "no", None: ""}[biased]


def _worst(one: Audit, count: int, game: Game) -> list[dict[str, Any]]:
    """Return the positions that add most to the mean squared error."""
    import numpy as np

    from ttt_envs.game.boards import to_text
    from ttt_eval.statistics import finite_or_none

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
