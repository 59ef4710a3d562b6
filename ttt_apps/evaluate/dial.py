"""``evaluate.py dial METHOD``: opponents of graded strength, from a table compressed at every rank."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import tyro
from rich.table import Table as Shown

from baselines.compression import Compressed, Method, decomposition
from baselines.solver import LARGEST
from baselines.tables import Softmax, Table, Terminal, values_of
from evaluation.exact import CHUNK, exploitability, match_outcome, regret
from ttt_apps.cli import Counts, ExactOptions, new_table, progress_bar, show
from ttt_apps.evaluate.exact import announce
from ttt_envs.rules import Game


class Strength(NamedTuple):
    """A compressed table: what it keeps, and how well its softmax policy plays, exactly."""

    rank: int
    stored_numbers: int
    compression_ratio: float
    relative_error: float
    win: float
    """against the softmax of the whole table, the mean of both seats"""
    draw: float
    loss: float
    exploitability: float
    regret: float


def strength(full: Softmax, compressed: Compressed, *, made_again: bool = False) -> Strength:
    """Measure a compressed table at the weight of the whole one.

    Args:
        full: plays by the whole table.
        compressed: what is measured.
        made_again: play by the approximated table and not by the factors: the same, faster where a board is large.
    """
    game = compressed.game
    policy = Softmax(Table(game, compressed.table()) if made_again else compressed, full.w)
    return Strength(
        compressed.rank,
        compressed.stored_numbers,
        compressed.compression_ratio,
        compressed.relative_error,
        *match_outcome(game, policy, full),
        exploitability(game, policy),
        regret(game, policy),
    )


@dataclass(frozen=True)
class Dial(ExactOptions):
    """A dial of strength: tabulate a compressed table by rank, with exact results, exploitability and regret.

    Each line is an opponent: METHOD:rank=N wherever a policy is named, as in svd:rank=18.
    """

    method: Annotated[Method, tyro.conf.Positional, tyro.conf.arg(metavar="METHOD")] = "svd"
    """svd, hosvd, hosvd2, hooi or tt"""
    ranks: Counts = ()
    """which, as in 0,18,81; by default a dozen from 0 to the largest"""
    w: float = 10.0
    """how much the table weighs: exp(w f) after each move"""
    split: str | None = None
    """groups of cells, as in 012/345/678, 4, rows or columns"""
    terminal: Terminal = "equation"
    """what won boards hold: their result, or 0 as in the paper's program"""
    source: str = "random"
    """random, optimal, or the spec string of a policy that thinks in values, as in (run:PATH)"""

    def run(self) -> None:
        """Measure and print."""
        game = self.game()
        _check_size(game)
        parts = decomposition(game, self.method, split=self.split, terminal=self.terminal, source=self.source)
        full = Softmax(Table(game, values_of(game, self.source, self.terminal)), self.w)
        ranks = self.ranks or spread(parts.largest)
        compressed = [parts.at(rank) for rank in ranks]  # a rank that there is not is told before anything is measured
        announce(game, (full, full), CHUNK, self.memory_bytes(), walks=7 * len(compressed), backward=True)
        found = []
        with progress_bar() as bar:
            for one in bar.track(compressed, description=f"{self.method} of {game}"):
                found.append(strength(full, one))
        if self.json:
            settings = {name: getattr(self, name) for name in ("method", "w", "split", "terminal", "source")}
            print(json.dumps({"game": game.to_dict(), **settings, "ranks": [one._asdict() for one in found]}))
            return
        show(_table(self, game, found))


def spread(largest: int, count: int = 12) -> list[int]:
    """Ranks from 0 to the largest, denser where they are small."""
    return sorted({round(largest * (index / (count - 1)) ** 1.7) for index in range(count)})


def _check_size(game: Game) -> None:
    if game.cells > LARGEST:
        raise ValueError(f"a dial is measured exactly, up to {LARGEST} cells: {game} has {game.cells}")


def _table(dial: Dial, game: Game, found: Sequence[Strength]) -> Shown:
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
