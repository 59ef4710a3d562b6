"""Commands that play pairs of games, keep them in a folder, and show what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro
from rich.table import Table

from ttt_apps.cli import PairOptions, check_seed, pairs_of, show, tell, write_page_of
from ttt_envs.specs import make_policy

if TYPE_CHECKING:  # compiled code is imported where a game is played, not where help is written
    from ttt_envs.parallel import Jobs
    from ttt_envs.rules import Game


@dataclass(frozen=True)
class KeptPairs(PairOptions):
    """How such a command plays, and how it shows its result."""

    no_report: tyro.conf.FlagCreatePairsOff[bool] = False
    """write no report.html"""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """print JSON instead of tables"""

    def checked(self, games: int, most: int, specs: Sequence[str]) -> tuple[int, Jobs, Game]:
        """Pairs of games, who plays them, and what.

        Raises:
            ValueError: a number of games that makes no pairs or is more than ``most``, no seed, nobody to work, no
                game, an unknown policy.
        """
        pairs = pairs_of(games, most)
        check_seed(self.seed)
        workers, game = self.workers(), self.game()
        for spec in specs:
            make_policy(spec, game)  # a wrong name is told before a bar is drawn
        return pairs, workers, game

    def tell_result(self, table: Table, *written: Path) -> None:
        """Write the page beside what was written, of which the first is the result, and show that as asked for."""
        result = written[0]
        page = write_page_of(result.parent, self.no_report)
        if self.json:
            print(result.read_text("utf-8"), end="")
            return
        show(table)
        tell(f"written: {', '.join(map(str, written))}{page}")
