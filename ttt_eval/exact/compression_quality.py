"""Quality of a compressed table: its size and error, and its exact playing strength."""

from __future__ import annotations

from typing import NamedTuple

from baselines.compression import Compressed
from baselines.tables import Softmax, Table
from ttt_eval.exact.strength import strength

__all__ = ["compression_quality"]


class CompressionQuality(NamedTuple):
    """Size and error of a compressed table, and the exact strength of its softmax policy."""

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


def compression_quality(full: Softmax, compressed: Compressed, *, made_again: bool = False) -> CompressionQuality:
    """Evaluate a compressed table with the softmax weight of the whole one.

    Args:
        full: the policy of the whole table.
        compressed: the compressed table.
        made_again: play by the reconstructed table, not by the factors: the same policy, faster on large boards.
    """
    game = compressed.game
    policy = Softmax(Table(game, compressed.table()) if made_again else compressed, full.w)
    exact = strength(game, policy, (full,))
    assert exact.regret is not None  # tables have up to 16 cells
    return CompressionQuality(
        compressed.rank,
        compressed.stored_numbers,
        compressed.compression_ratio,
        compressed.relative_error,
        *exact.results[str(full)],
        exact.exploitability,
        exact.regret,
    )
