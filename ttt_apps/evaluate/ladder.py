"""``evaluate.py ladder POLICY``: rate a policy against opponents of known strength."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.table import Table

from ttt_apps.cli import (
    Count,
    GameOptions,
    ReportOptions,
    WorkOptions,
    check_no_effect,
    check_seed,
    count_bar,
    new_table,
    num_pairs,
    print_output,
    print_status,
    print_table,
    report_interrupt,
    write_folder_report,
)
from ttt_apps.versions import make_provenance
from ttt_envs.agents.specs import make_policy
from ttt_eval.metrics import LOSS_LABELS, LOSSES, describe_losses

if TYPE_CHECKING:  # compiled code and scipy are imported where a game is played, not where help is written
    from ttt_eval.matches.ladder import Ladder


@dataclass(frozen=True)
class PlaceOnLadder(ReportOptions, GameOptions, WorkOptions):
    """Place a policy on a ladder: its rating among a dozen opponents of known strength, and the cost of its moves.

    Without a policy, show the ladder itself. On small boards results of pure policies are exact.
    """

    policy: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="[POLICY]")] = ""
    """policy to place, such as run:PATH or mcts:simulations=50"""
    ladder: Annotated[str, tyro.conf.arg(metavar="NAME|FILE")] = ""
    """3x3, 3x3-skip, 4x4-skip, 5x5-skip or a .json file; default: that of the game, or of the run's own game"""
    games: Count | None = None
    """number of games against each rung where results are not exact, an even number; default: 500"""
    seed: Count = 0
    """seed of all random numbers"""
    out: Path | None = None
    """folder for result.json and report.html, which also stores the games played"""

    def run(self) -> None:
        """Place or show.

        Raises:
            ValueError: no such ladder, an unknown policy, an invalid number of games.
            Stopped: an interrupt; with a folder, completed work is stored.
        """
        from ttt_eval.matches.ladder import GAMES, MAX_GAMES, rate_policy
        from ttt_eval.matches.match_blocks import RESULT

        if self.games is not None:
            num_pairs(self.games, MAX_GAMES)
        check_seed(self.seed)
        workers = self.workers()
        ladder = self._load_ladder()
        if not self.policy:
            check_no_effect(self, "without a POLICY", "games", "seed", "out")
            self._print_ladder(ladder)
            return
        make_policy(self.policy, ladder.game)  # reports a wrong name before a bar is drawn
        provenance = make_provenance()
        with report_interrupt(self.out), count_bar("placing") as progress:
            found = rate_policy(
                self.policy,
                ladder,
                provenance,
                games=self.games or GAMES,
                seed=self.seed,
                jobs=workers,
                folder=self.out,
                progress=progress,
            )
        page = "" if self.out is None else write_folder_report(self.out, self.no_report)
        if self.json:
            print(json.dumps(found))
            return
        _print_place(ladder, found)
        if self.out is not None:
            print_status(f"written: {self.out / RESULT}{page}")

    def _load_ladder(self) -> Ladder:
        """Return the selected ladder."""
        from ttt_eval.matches.ladder import ladder_name, read_ladder

        if not self.ladder:
            return read_ladder(ladder_name(self.game_for(self.policy)))
        ladder = read_ladder(self.ladder)
        if self.is_given() and (game := self.game_for(self.policy)) != ladder.game:
            raise ValueError(f"--ladder {self.ladder} is of {ladder.game}, not of {game}: choose one of the two")
        return ladder

    def _print_ladder(self, ladder: Ladder) -> None:
        if self.json:
            print(json.dumps(ladder.data))
        else:
            print_table(_ladder_table(ladder))


def _title(ladder: Ladder) -> str:
    how = "exact results" if ladder.exact else f"{ladder.data['games']:,} games in each pairing"
    return f"the ladder {ladder.name}, {ladder.game}: {how}"


RUNG_COLUMNS = ("rating", "95%", *LOSS_LABELS, "CPU, us a move", "memory, MiB")
"""Headers of the columns of :func:`format_rung`."""


def format_rung(ladder: Ladder, rung: Mapping[str, Any]) -> list[str]:
    """Format rating, interval, losses, microseconds per move and MiB of a rung."""
    return [
        f"{rung['rating']:.0f}",
        _format_interval(ladder, rung),
        *("" if rung[key] is None else f"{rung[key]:.4f}" for key in LOSSES),
        _microseconds(rung["cost"]["cpu_s_per_move"]),
        f"{rung['cost']['own_bytes'] / 2**20:,.0f}",
    ]


def _format_interval(ladder: Ladder, rung: Mapping[str, Any]) -> str:
    """Format the interval of a rung's rating; that of the anchor is 0 by definition."""
    if ladder.exact:
        return "exact"
    return "0" if rung["spec"] == ladder.data["anchor"] else f"{rung['low']:.0f} to {rung['high']:.0f}"


def _ladder_table(ladder: Ladder) -> Table:
    table = new_table("rung", *RUNG_COLUMNS, title=_title(ladder))
    for rung in reversed(ladder.rungs):
        table.add_row(rung["spec"], *format_rung(ladder, rung))
    return table


def _print_place(ladder: Ladder, found: Mapping[str, Any]) -> None:
    rating = found["rating"]
    interval = "exact" if found["exact"] else f"{rating['low']:.0f} to {rating['high']:.0f}"
    rows = [
        (
            rung["rating"],
            rung["spec"],
            f"{rung['rating']:.0f}",
            _format_interval(ladder, rung),
            *(f"{result[name]:.3f}" for name in ("win", "draw", "loss")),
            f"{result['score']['mean']:.3f}",
            f"{result['expected']:.3f}",
            _microseconds(rung["cpu_s_per_move_here"]),
            "yes" if rung["front"] else "",
        )
        for rung, result in zip(found["rungs"], found["results"], strict=True)
    ]
    shown, no_results = f"{rating['mean']:.0f}", [""] * 5
    cost = _microseconds(found["cost"] and found["cost"]["cpu_s_per_move"])
    front = "yes" if found["front"] else ""
    rows.append((rating["mean"], f"> {found['policy']}", shown, interval, *no_results, cost, front))
    columns = ("Elo", "95%", "win", "draw", "loss", "score", "expected", "us a move", "front")
    table = new_table("rung", *columns, title=f"{found['policy']} against {_title(ladder)}")
    for _, *cells in sorted(rows, key=lambda row: -row[0]):
        table.add_row(*cells)
    print_table(table)
    for line in _sentences(found, shown, interval):
        print_output(line)


def _sentences(found: Mapping[str, Any], shown: str, interval: str) -> Iterator[str]:
    below, above = found["between"]["below"], found["between"]["above"]
    if below and above:
        where = f"between {below} and {above}"
    else:
        where = f"above {below}, the highest rung" if below else f"below {above}, the lowest rung"
    yield f"{found['policy']}: {shown} ({interval}), {where}"
    if found["exploitability"] is not None:
        yield f"exactly: {describe_losses(found)}"
    cost = found["cost"]
    if cost is not None:
        yield (
            f"a move takes {_microseconds(cost['cpu_s_per_move'])} us of CPU, for one position at a time; set up in "
            f"{cost['setup_cpu_s']:.2f} s, with {cost['own_bytes'] / 2**20:,.0f} MiB of its own"
        )
    training = found["training"]
    if training is not None and training["cost"]:
        phases = training["cost"]
        seconds = {name: phase["cpu_user_s"] + phase["cpu_system_s"] for name, phase in phases.items()}
        parts = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
        yield f"learned from {training.get('games', 0):,} games in CPU {parts}"


def _microseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e6 * seconds:,.3g}"
