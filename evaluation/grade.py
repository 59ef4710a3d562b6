"""What a compressed table is worth: what it keeps, and how well it plays, exactly."""

from __future__ import annotations

from typing import NamedTuple

from baselines.compression import Compressed
from baselines.tables import Softmax, Table
from evaluation.asking import kept
from evaluation.exact import exploitability, match_outcome, regret


class Grade(NamedTuple):
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

    @property
    def result(self) -> tuple[float, float, float]:
        """Wins, draws and losses."""
        return self.win, self.draw, self.loss


def grade(full: Softmax, compressed: Compressed, *, made_again: bool = False) -> Grade:
    """Measure a compressed table at the weight of the whole one.

    Args:
        full: plays by the whole table.
        compressed: what is measured.
        made_again: play by the approximated table and not by the factors: the same, faster where a board is large.
    """
    game = compressed.game
    policy = kept(Softmax(Table(game, compressed.table()) if made_again else compressed, full.w), game)
    return Grade(
        compressed.rank,
        compressed.stored_numbers,
        compressed.compression_ratio,
        compressed.relative_error,
        *match_outcome(game, policy, full),
        exploitability(game, policy),
        regret(game, policy),
    )
