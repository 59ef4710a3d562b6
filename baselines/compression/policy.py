"""The softmax policies of compressed tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from baselines.compression.decomposition import Compressed, decomposition
from baselines.compression.grouping import Grouping, Method, make_grouping
from baselines.compression.ranks import (
    MAX_TRUNCATED_RANK,
    TRUNCATED,
    check_rank,
    default_rank,
    largest_rank,
)
from baselines.tables import EvaluationPolicy, Terminal, is_policy
from ttt_envs.game.game import Game


@dataclass(frozen=True)
class CompressedPolicy(EvaluationPolicy):
    """Base of the named policies, which differ in their method only.

    Raises:
        ValueError: the board is too large for a table, or the rank, groups, weight or terminal are
            invalid.
    """

    name: ClassVar[Method]

    game: Game
    rank: int | None = None
    """rank of the approximation, from 0; None: the largest that keeps at most 30% of the numbers,
    and at most 32
    """
    w: float = 10.0
    """weight of the table: exp(w f) after each move"""
    split: str | None = None
    """groups of cells, as in 012/345/678, 4, rows or columns"""
    terminal: Terminal = "equation"
    """value of won boards: their result, or 0 as in the paper's program"""
    source: str = "random"
    """random, optimal, or the spec string of a policy with values, as in (run:PATH)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        grouping = self._grouping
        if self.rank is not None:
            check_rank(self.name, grouping, self.rank, largest_rank(self.name, grouping))

    @property
    def _grouping(self) -> Grouping:
        return make_grouping(self.game, self.name, self.split, of_moves=is_policy(self.source))

    @cached_property
    def evaluation(self) -> Compressed:  # type: ignore[override]  # made when it is first used
        """The compressed table."""
        rank = default_rank(self.name, self._grouping) if self.rank is None else self.rank
        # a power of two, so that one decomposition serves many ranks
        bound = min(MAX_TRUNCATED_RANK, max(TRUNCATED, 1 << max(0, rank - 1).bit_length()))
        return decomposition(
            self.game,
            self.name,
            split=self.split,
            terminal=self.terminal,
            source=self.source,
            max_vectors=bound,
        ).at(rank)


class SVD(CompressedPolicy):
    """Softmax of a table compressed by the singular value decomposition of two groups of cells."""

    name: ClassVar[Method] = "svd"


class HOSVD(CompressedPolicy):
    """Softmax of a table compressed by higher-order singular value decomposition, rows of cells by
    default.
    """

    name: ClassVar[Method] = "hosvd"


class HOSVD2(CompressedPolicy):
    """Softmax of a table compressed like hosvd, along the first and last group only (the paper's
    older version).
    """

    name: ClassVar[Method] = "hosvd2"


class HOOI(CompressedPolicy):
    """Softmax of a table compressed by higher-order orthogonal iteration, with a lower error than
    hosvd.
    """

    name: ClassVar[Method] = "hooi"


class TT(CompressedPolicy):
    """Softmax of a table compressed into a tensor train."""

    name: ClassVar[Method] = "tt"
