"""``evaluate.py ladder POLICY``: rate a policy against opponents of known strength."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ttt_apps.cli import options as cli
from ttt_envs.agents.specs import make_policy
from ttt_eval.matches import ladder as ladders
from ttt_eval.reports.matches import ladder_report
from ttt_eval.store.metrics import LOSSES, METRICS
from ttt_eval.store.policy_identity import policy_identity
from ttt_eval.store.versions import make_provenance


@dataclass(frozen=True)
class PlaceOnLadder(cli.TrustOptions, cli.ReportOptions, cli.WorkOptions, cli.GameOptions):
    """Place a policy on a ladder: its rating among a dozen opponents of known strength, and the
    cost of its moves.

    Without a policy, show the ladder itself. On small boards results of pure policies are exact.
    """

    policy: Annotated[cli.TextOption, tyro.conf.Positional, tyro.conf.arg(metavar="[POLICY]")] = ""
    """policy to place, such as run:PATH or mcts:simulations=50"""
    ladder: Annotated[cli.TextOption, tyro.conf.arg(metavar="NAME|FILE")] = ""
    """3x3, 3x3-skip, 4x4-skip, 5x5-skip or a .json file; default: that of the game, or of the run's
    own game
    """
    games: cli.Even = ladders.GAMES
    """number of games against each reference policy where results are not exact, an even number"""
    seed: cli.Natural = 0
    """seed of all random numbers"""
    out: Path | None = None
    """folder for result.json and report.html, which also stores the games played"""

    def run(self) -> None:
        """Place or show.

        Raises:
            ValueError: no such ladder, an unknown policy, an invalid number of games.
            Stopped: an interrupt; with a folder, completed work is stored.
        """
        workers = self.workers()
        if self.ladder:
            cli.check_no_effect(self, "with --ladder, which has a game", *cli.GAME_FIELDS)
        if self.out is None:
            cli.check_no_effect(self, "without --out", "no_report", "overwrite")
        ladder = ladders.read_ladder(self.ladder or ladders.ladder_name(self.game_for(self.policy)))
        if not self.policy:
            cli.check_no_effect(self, "without a POLICY", "games", "seed", "out", "jobs", "cluster")
            rows = map(rung_row, reversed(ladder.rungs))
            method = "exact results"
            if not ladder.exact:
                method = f"{ladder.data['games']:,} games in each pairing"
            title = f"the ladder {ladder.name}, {ladder.game}: {method}"
            self.show(ladder.data, cli.rows_table(rows, title))
            return
        make_policy(self.policy, ladder.game)  # reports a wrong name before a bar is drawn
        if self.out is not None:
            settings = {
                "kind": "ladder",
                "policy": self.policy,
                "identity": policy_identity(self.policy),
                "game": ladder.game.to_dict(),
                "ladder": {"sha256": ladder.data["sha256"]},
                "settings": {"seed": self.seed},
            }
            self.check_folder(self.out, settings, {"settings": {"games": self.games}})
        with cli.bar("placing", self.out) as progress:
            result = ladders.rate_policy(
                self.policy,
                ladder,
                make_provenance(),
                games=self.games,
                seed=self.seed,
                jobs=workers,
                folder=self.out,
                progress=progress,
            )
        report = ladder_report(result)
        headings = ("The ladder", "Against each reference policy")
        verdict = f"on the ladder {ladder.name}, {report.verdict}."
        tables = cli.report_tables(report, *headings)
        if self.out is None:
            self.show(result.to_dict(), verdict, *tables)
        else:
            self.show_folder(self.out, verdict, *tables)


def rung_row(rung: ladders.Rung) -> dict[str, object]:
    """Return the cells of a rung in the table of a ladder."""
    losses = {METRICS[name].label: getattr(rung, name) for name in LOSSES}
    interval = f"{rung.low:.0f} to {rung.high:.0f}"
    return {
        "reference policy": rung.spec,
        "rating": f"{rung.rating:.0f}",
        "95%": "exact" if rung.low == rung.high else interval,
        **{name: None if loss is None else f"{loss:.4f}" for name, loss in losses.items()},
        "CPU, us a move": f"{1e6 * rung.cost.cpu_s_per_move:,.3g}",
        "memory, MiB": f"{rung.cost.own_bytes / 2**20:,.0f}",
    }
