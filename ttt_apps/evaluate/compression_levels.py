"""``evaluate.py compression-levels METHOD``: opponents of graded strength, from a table compressed at every rank."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.table import Table as Shown

from baselines.compression import Method, decomposition
from baselines.exact import MAX_SOLVER_CELLS
from baselines.tables import Softmax, Table, Terminal, source_values
from ttt_apps.cli import Counts, ExactOptions, new_table, print_table, progress_bar
from ttt_envs.game.game import Game
from ttt_eval.exact.compression_quality import CompressionQuality, compression_quality

NUM_RANKS = 12
"""Default number of measured ranks."""


@dataclass(frozen=True)
class CompressionLevels(ExactOptions):
    """Show exact results, exploitability and regret of a compressed table at several ranks, as opponents of graded
    strength.

    Each line is an opponent, used as the policy METHOD:rank=N, as in svd:rank=18.
    """

    method: Annotated[Method, tyro.conf.Positional, tyro.conf.arg(metavar="METHOD")] = "svd"
    """svd, hosvd, hosvd2, hooi or tt"""
    ranks: Counts = ()
    """ranks to measure, as in 0,18,81; default: a dozen from 0 to the largest"""
    w: float = 10.0
    """weight of the table: a move has probability proportional to exp(w f), f the value after it"""
    split: str | None = None
    """groups of cells, as in 012/345/678, 4, rows or columns"""
    terminal: Terminal = "equation"
    """values of won boards: their result, or 0 as in the paper's program"""
    source: str = "random"
    """random, optimal, or the spec string of a policy with values, as in (run:PATH)"""

    def run(self) -> None:
        """Measure and print."""
        game = self.game_for(self.source)
        _check_size(game)
        parts = decomposition(game, self.method, split=self.split, terminal=self.terminal, source=self.source)
        full = Softmax(Table(game, source_values(game, self.source, self.terminal)), self.w)
        ranks = self.ranks or spread_ranks(parts.largest)
        compressed = [parts.at(rank) for rank in ranks]  # reports an invalid rank before anything is measured
        found = []
        with progress_bar() as bar:
            for one in bar.track(compressed, description=f"{self.method} of {game}"):
                found.append(compression_quality(full, one))
        if self.json:
            settings = {name: getattr(self, name) for name in ("method", "w", "split", "terminal", "source")}
            print(json.dumps({"game": game.to_dict(), **settings, "ranks": [one._asdict() for one in found]}))
            return
        print_table(_table(self, game, found))


def spread_ranks(largest: int) -> list[int]:
    """Return up to ``NUM_RANKS`` ranks from 0 to the largest, denser at small ranks."""
    return sorted({round(largest * (index / (NUM_RANKS - 1)) ** 1.7) for index in range(NUM_RANKS)})


def _check_size(game: Game) -> None:
    if game.cells > MAX_SOLVER_CELLS:
        raise ValueError(
            f"compressed tables are measured exactly, up to {MAX_SOLVER_CELLS} cells: {game} has {game.cells}"
        )


def _table(dial: CompressionLevels, game: Game, found: Sequence[CompressionQuality]) -> Shown:
    changed = [
        f"{field.name}={getattr(dial, field.name)}"
        for field in dataclasses.fields(dial)
        if field.name in ("w", "split", "terminal", "source") and getattr(dial, field.name) != field.default
    ]
    title = f"{dial.method} of {game}{''.join(', ' + text for text in changed)}; results against the whole table"
    table = new_table(
        "rank", "numbers", "ratio", "error", "win", "draw", "loss", "exploitability", "regret", title=title
    )
    for one in found:
        rates = (f"{rate:.4f}" for rate in one[2:])
        table.add_row(str(one.rank), f"{one.stored_numbers:,}", *rates)
    return table
