"""Numbers of positions, and what an exact computation may take: memory, positions per query, and
its progress.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import psutil

from ttt_envs.agents.policy import Policy
from ttt_envs.core.work import DEFAULT_WORK, Work
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, PhantomGame
from ttt_envs.graph.layers import KEPT_BYTES, MAX_PHANTOM_CELLS, Layer, check_cells

MIN_BOARDS = 1 << 17
"""Number of boards from which a traversal is checked: fewer take seconds and some hundred MiB."""
MAX_BOARDS_AT_ONCE = 20_000
"""Total number of boards up to which exact results take a moment: includes 3 x 3 with or without
skips.
"""
MAX_BOARDS_WITHOUT_ESTIMATE = 1 << 21
"""Total number of boards up to which exact results take seconds."""
BYTES_PER_BOARD, KEPT_BYTES_PER_BOARD = 176, 10
"""Size of a board in the layers that are computed, and in those that are kept for the backward
pass.
"""
POSITION_SECONDS, AFFORDABLE_SECONDS = 5e-6, 5.0
"""Assumed cost of a position of a trained policy, and the maximum cost of strength that is computed
unasked.
"""

Item = TypeVar("Item", bound=tuple[Any, ...])


def watch(work: Work, game: AnyGame, items: Iterator[Item], *, kept: float = 0) -> Iterator[Item]:
    """Yield items, tuples that begin with a layer, and report progress by the layers.

    Args:
        work: its memory and progress.
        game: the game.
        items: from the first layer to the last, or back.
        kept: bytes that are kept of each board.

    Raises:
        MemoryError: the layers will not fit into memory.
    """
    bound, sizes, layer, backward = boards_by_stones(game), [0.0], Layer(0), False
    for item in items:
        if item[0] is not layer:
            layer = item[0]
            backward = backward or (len(sizes) == 1 and layer.depth > 0)
            sizes.append(layer.index.size)
            if len(sizes) - 2 == layer.depth and sum(sizes) > MIN_BOARDS and isinstance(game, Game):
                _check(work, game, sizes[1:], bound, kept)
        yield item
        if work.progress is not None and isinstance(game, Game):
            share = sum(bound[: layer.depth + (not backward)]) / sum(bound)
            work.progress(1.0 - share if backward else share)
    if work.progress is not None:
        work.progress(1.0)


def _check(
    work: Work, game: AnyGame, sizes: Sequence[float], bound: Sequence[int], kept: float
) -> None:
    """Raise MemoryError if layers and what is ``kept`` of a board do not fit, if the first layers
    have these sizes.
    """
    shares = [math.log(size / limit) for size, limit in zip(sizes, bound, strict=False)]
    slope = min(0.0, (shares[-1] - shares[-3]) / 2)
    later = enumerate(bound[len(sizes) :], 1)
    sizes = [*sizes, *(limit * math.exp(shares[-1] + slope * ply) for ply, limit in later)]
    needed = max(sizes) * BYTES_PER_BOARD + (sum(sizes) * kept + KEPT_BYTES if kept else 0)
    allowed = int(psutil.virtual_memory().available) if work.memory is None else work.memory
    if needed > allowed:
        raise MemoryError(
            f"exact numbers of {game} would take {sum(sizes):.2g} boards and {gib(needed)}, and "
            f"{gib(allowed)} "
            "may be used: sample them with evaluate.py match, take a smaller board or players "
            "with fewer moves, "
            f"or allow more with --memory, in Python memory="
        )


def check_measurable(game: AnyGame) -> None:
    """Raise MemoryError if exploitability cannot be computed, even if a board stands for its
    symmetry class.
    """
    check_cells(game)
    classes = [1, 1, 1, *(count // 16 for count in boards_by_stones(game)[3:])]
    _check(DEFAULT_WORK, game, classes[:3], classes, KEPT_BYTES_PER_BOARD)


def boards_by_stones(game: AnyGame) -> list[int]:
    """Return the numbers of arrangements of 0, 1, ... stones, up to a board with one empty cell.

    Without skips the players have equally many stones, or player_0 one more. With gravity no stone
    is above an empty cell.
    """
    counts = [math.comb(game.cells, stones) for stones in range(game.cells + 1)]
    if game.gravity:
        counts = [1]
        for _ in range(game.columns):  # a column has 0 to all rows
            counts = [
                sum(counts[max(0, end - game.rows) : end + 1])
                for end in range(len(counts) + game.rows)
            ]
    return [
        count * (2**stones if game.skip_chance > 0 else math.comb(stones, stones // 2))
        for stones, count in enumerate(counts[:-1])
    ]


def is_measured_at_once(game: AnyGame) -> bool:
    """Return whether exact results of a game take a moment: by a count, so that every machine
    decides alike.
    """
    return sum(boards_by_stones(game)) <= MAX_BOARDS_AT_ONCE


def affordable(game: AnyGame, policy: Policy) -> bool:
    """Return whether exploitability, regret and exact results of a trained policy take some
    seconds.

    The decision is a count with a fixed cost for each position, so that every machine decides
    alike, busy or idle.
    """
    if isinstance(game, PhantomGame):
        return policy.pure and game.cells <= MAX_PHANTOM_CELLS
    positions = sum(boards_by_stones(game)) * (2 if game.skip_chance else 1)
    # two best responses, regret, and a result in each seat
    return policy.pure and 5 * positions * POSITION_SECONDS <= AFFORDABLE_SECONDS


def gib(amount: float) -> str:
    """Format a number of bytes in GiB."""
    return f"{_format_number(amount / 2**30)} GiB"


def _format_number(number: float) -> str:
    """Format a number with two significant digits."""
    if number >= 1e15:
        return f"{number:.0e}"
    digits = max(0, int(math.log10(max(number, 1))) - 1)
    return f"{round(number, -digits):,.0f}" if number >= 10 else f"{number:.2g}"
