"""Measure what plays: one file for each command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import tyro

from ttt_apps.cli import run_command
from ttt_apps.evaluate.cost import Cost
from ttt_apps.evaluate.dial import Dial
from ttt_apps.evaluate.exact import Exact
from ttt_apps.evaluate.exploitability import Exploitability
from ttt_apps.evaluate.ground_truth import GroundTruth
from ttt_apps.evaluate.match import Match
from ttt_apps.evaluate.policies import Policies
from ttt_apps.evaluate.prove import Prove
from ttt_apps.evaluate.reproduce import Reproduce
from ttt_apps.evaluate.solve import Solve

COMMANDS: dict[str, Callable[..., Any]] = {
    "match": Match,
    "exact": Exact,
    "exploitability": Exploitability,
    "solve": Solve,
    "prove": Prove,
    "cost": Cost,
    "dial": Dial,
    "reproduce": Reproduce,
    "ground-truth": GroundTruth,
    "policies": Policies,
}


def main(arguments: list[str] | None = None) -> None:
    """The command ``ttt-evaluate``."""
    arguments = sys.argv[1:] if arguments is None else arguments

    def command() -> None:
        chosen = tyro.extras.subcommand_cli_from_dict(
            COMMANDS,
            args=arguments,
            prog="evaluate.py",
            description="Measure what plays.",
            config=(tyro.conf.OmitArgPrefixes,),
        )
        chosen.run()

    run_command(command)
