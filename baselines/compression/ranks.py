"""Ranks, and the number of stored values at each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from baselines.compression import singular_vectors
from baselines.compression.grouping import Grouping, Method, tensor_grouping
from ttt_envs.core.checks import check_range

TRUNCATED = 128
"""Default number of singular vectors of a truncated decomposition."""
MAX_TRUNCATED_RANK = 1024
"""Maximum number of singular vectors of a truncated decomposition."""
KEPT_SHARE = 0.3
"""Share of the numbers kept at the default rank, as by the paper's svd of rank 18."""
MAX_DEFAULT_RANK = 32
"""Maximum default rank."""


def _unfoldings(method: Method, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return rows and columns of the matrices whose ranks a method truncates."""
    num_entries = math.prod(sizes)
    if method in ("svd", "tt"):
        return [(math.prod(sizes[:cut]), math.prod(sizes[cut:])) for cut in range(1, len(sizes))]
    cut_sizes = (sizes[0], sizes[-1]) if method == "hosvd2" else sizes
    return [(size, num_entries // size) for size in cut_sizes]


def largest_rank(method: Method, grouping: Grouping, max_rank: int = MAX_TRUNCATED_RANK) -> int:
    """Return the largest rank that truncates anything; ``max_rank`` for groups with more than 3**7
    contents.
    """
    sizes = [min(unfolding) for unfolding in _unfoldings(method, grouping.sizes)]
    return max(size if size <= singular_vectors.GRAM else max_rank for size in sizes)


def stored_numbers(method: Method, grouping: Grouping, rank: int) -> int:
    """Return the number of values in all factors of one side.

    With groups of d contents: r (d_1 + d_2) for ``svd`` (Eq. 13), the sum of r d_k and the product
    of the r for ``hosvd`` and ``hooi`` (Eq. 15), r (d_first + r d_between + d_last) for ``hosvd2``
    (the older version's Eq. 14), the sum of r_k-1 d_k r_k for ``tt``. If an axis, or the rest of
    the tensor without it, is smaller than r, its r is that size.
    """
    sizes = tensor_grouping(method, grouping).sizes
    ranks = [min(rank, rows, columns) for rows, columns in _unfoldings(method, sizes)]
    if method in ("hosvd", "hooi"):
        return sum(size * r for size, r in zip(sizes, ranks, strict=True)) + math.prod(ranks)
    bonds = [1, *ranks, 1]
    return sum(bonds[i] * size * bonds[i + 1] for i, size in enumerate(sizes))


def default_rank(method: Method, grouping: Grouping) -> int:
    """Return the largest rank that keeps at most 30% of the numbers, as ``svd`` at rank 18 on 3 x 3
    does; 1 to 32.
    """
    limit = KEPT_SHARE * math.prod(grouping.sizes)
    ranks = range(1, min(largest_rank(method, grouping), MAX_DEFAULT_RANK) + 1)
    return max(
        (rank for rank in ranks if stored_numbers(method, grouping, rank) <= limit), default=1
    )


def check_rank(method: Method, grouping: Grouping, rank: int, largest: int) -> None:
    """Raise ValueError for a rank that is out of range."""
    sizes = " x ".join(map(str, grouping.sizes))
    check_range(
        "rank", rank, 0, largest, f"is no rank of {method} on a tensor of {sizes} ({grouping})"
    )
