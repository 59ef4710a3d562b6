"""Base of commands that play pairs of games, store them in a folder, and show the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from ttt_apps.cli import (
    PairOptions,
    ReportOptions,
    check_seed,
    num_pairs,
    print_status,
    print_table,
    write_folder_report,
)
from ttt_envs.agents.specs import make_policy

if TYPE_CHECKING:  # compiled code is imported where a game is played, not where help is written
    from ttt_envs.core.parallel import Jobs
    from ttt_envs.game.game import Game


@dataclass(frozen=True)
class PairsCommand(ReportOptions, PairOptions):
    """Options of stored matches and of their output."""

    def validate(self, games: int, most: int, specs: Sequence[str]) -> tuple[int, Jobs, Game]:
        """Return the validated number of pairs, workers and game.

        Raises:
            ValueError: an odd number of games, or one out of range, an invalid seed, number of workers or game, an
                unknown policy.
        """
        pairs = num_pairs(games, most)
        check_seed(self.seed)
        workers, game = self.workers(), self.game_for(*specs)
        for spec in specs:
            make_policy(spec, game)  # reports a wrong name before a bar is drawn
        return pairs, workers, game

    def print_result(self, table: Table, *written: Path) -> None:
        """Write the report page, and print the result, the first written file, in the requested format."""
        result = written[0]
        page = write_folder_report(result.parent, self.no_report)
        if self.json:
            print(result.read_text("utf-8"), end="")
            return
        print_table(table)
        print_status(f"written: {', '.join(map(str, written))}{page}")
