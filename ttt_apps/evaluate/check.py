"""``evaluate.py check search|agent|values|learner NAME``: is it right, by exact values?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from ttt_apps.cli import options as cli
from ttt_envs.agents.specs import load_object, make_values, parse_spec
from ttt_envs.core.checks import Refusal
from ttt_eval.checks import Check, check_agent, check_learner, check_search, check_values
from ttt_eval.checks.check import CheckRow
from ttt_eval.checks.tables import make_table
from ttt_eval.reports.checks import check_report
from ttt_eval.reports.formats import command
from ttt_eval.reports.page import write_report

NO_SETTINGS = ("name", "trust", "json", "overwrite", "out")
"""Options that are no settings of a check, but its subject and its output."""


@dataclass(frozen=True)
class NamedCheck(cli.JsonOptions):
    """A check of what a name stands for."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = tyro.MISSING
    """module:function"""

    def settings(self) -> dict[str, Any]:
        """Return the options that are arguments of the check."""
        return {key: value for key, value in vars(self).items() if key not in NO_SETTINGS}

    def check(self) -> Check:
        """Return the result."""
        raise NotImplementedError

    def write_page(self, check: Check) -> None:
        """Write the page of the check, if there is one."""

    def run(self) -> None:
        """Check, print, and write the page.

        Raises:
            ValueError: an unknown name or an invalid option; or, after the output, another verdict
                than that no error was found.
        """
        check = self.check()
        self.show({"name": self.name, **self.settings(), **check.to_dict()}, str(check))
        self.write_page(check)
        if not check.ok:
            raise Refusal(f"{self.name}: {check.verdict}")


@dataclass(frozen=True)
class CheckOptions(cli.TrustOptions, NamedCheck, cli.OutputOptions):
    """Options of checks by exact values."""

    kind: ClassVar[str]

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = tyro.MISSING
    """module:function; of agents and values also a policy by name, such as run:PATH"""
    game: Literal["plain", "turns", "skip"] = "plain"
    """plain: turns alternate; turns: a stone on some cells gives another turn; skip: chance gives
    another turn"""
    board: Literal["3x3", "4x4", "connect-four"] = "3x3"
    """the board: 3 x 3, 4 x 4 with four in a row, or Connect Four on 4 x 5, both with eight free
    cells"""
    seed: cli.Natural = 0
    """seed of positions, planted values and calls"""
    limit_s: float = 60.0
    """maximum s of a call, after which the check ends"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE.html")] = None
    """write a page too"""

    def run(self) -> None:
        """Check, print, and write the page; see :meth:`NamedCheck.run`."""
        cli.check_page(self.out)
        self.check_new_file(self.out)
        super().run()

    def write_page(self, check: Check) -> None:
        """Write the page, if it is asked for."""
        if self.out is not None:
            words = ("evaluate.py", "check", self.kind, self.name)
            line = command(*words, out=self.out, **self.settings())
            write_report(self.out, check_report(self.name, check, line))
            cli.print_status(f"a page to look at: {self.out}")


@dataclass(frozen=True)
class CheckSearch(CheckOptions):
    """Check a tree search in positions whose values are exact or planted; a wrong one ends with
    exit code 2.

    The function is called with game, board, evaluator, simulations and seed, and returns visits and
    the value of the root.
    """

    kind = "search"

    game: Literal["plain", "turns", "skip"] = "turns"
    """turns: a stone on some cells gives another turn; plain: turns alternate; skip: chance gives
    another turn"""
    evaluator: Literal["owned", "none"] = "owned"
    """owned: the search evaluates leaves with the evaluator of the check; none: it plays rollouts,
    or has an evaluation of its own"""
    no_priors: cli.Flag = False
    """the search does not use priors of the evaluator"""
    simulations: tuple[int, int] = (50, 500)
    """a small and a large number of simulations"""
    batch: cli.Flag = False
    """the search takes a batch of boards"""

    def check(self) -> Check:
        """Return the result."""
        settings = self.settings()
        priors = not settings.pop("no_priors")
        if self.evaluator == "none":
            settings["evaluator"] = None
        return check_search(_load(self.name), priors=priors, **settings)


@dataclass(frozen=True)
class CheckAgent(CheckOptions):
    """Check what an agent plays against exact values; a wrong one ends with exit code 2.

    A function is called with a board, and returns a move, probabilities or visits.
    """

    kind = "agent"

    own_play: cli.Flag = False
    """ask only in positions that its own play can reach"""

    def check(self) -> Check:
        """Return the result."""
        return check_agent(_load(self.name), **self.settings())


@dataclass(frozen=True)
class CheckValues(CheckOptions):
    """Check values of positions against exact values; wrong ones end with exit code 2.

    A function is called with a board, and returns the value for the player to move.
    """

    kind = "values"

    policy: str = "optimal"
    """whose values are right: optimal for best play, or a pure policy"""

    def check(self) -> Check:
        """Return the result."""
        values = _load(self.name)
        if isinstance(values, str):
            values = make_values("NAME", values, make_table(self.game, self.board).game)
        return check_values(values, **self.settings())


@dataclass(frozen=True)
class CheckLearner(NamedCheck):
    """Train a learner in probes with exact answers; a wrong one ends with exit code 2.

    The function is train(make_env, steps, seed), and returns an agent: a function of observations,
    which returns scores of actions.
    """

    probes: tuple[str, ...] = ("quick",)
    """names of probes; quick is all of them"""
    family: Literal["tabular", "dqn", "ppo"] | None = None
    """whose right runs set the limits; default: any, judged by its curve up to twice the budget"""
    seeds: cli.Positive = 2
    """maximum number of seeds of a probe, which fails only if all of them do"""
    gamma: float | None = None
    """the learner's discount, whose values are then judged too"""
    seed: cli.Natural = 0
    """the first seed"""

    def check(self) -> Check:
        """Return the result; print each row on standard error when it is known."""
        probes = "quick" if self.probes == ("quick",) else self.probes
        settings = {**self.settings(), "probes": probes}
        return check_learner(_load(self.name), **settings, on_row=_show_row)


def _show_row(row: CheckRow) -> None:
    cli.warn(f"{row.status}  {row.name}: {row.measured}")


def _load(name: str) -> Any:
    """Return the object that ``module:function`` names; the name itself if it is a policy's.

    Raises:
        ValueError: there is no such object.
    """
    path = parse_spec(name).name
    named = load_object(path) if ":" in path else name
    return name if isinstance(named, type) else named
