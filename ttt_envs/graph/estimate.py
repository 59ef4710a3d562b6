"""Numbers of positions, and what an exact computation may take: cells, memory, positions per query,
and its progress.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

from ttt_envs.agents.policy import Policy
from ttt_envs.core.work import DEFAULT_WORK, Work, usable_memory
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame
from ttt_envs.game.symmetry import symmetries

MAX_CELLS = 31
"""Maximum number of cells: both players' stones are parts of one key of 64 bits."""
MAX_PHANTOM_CELLS = 9
"""The same with hidden stones: ten cells lead to millions of boards."""
MIN_BOARDS = 1 << 17
"""Number of boards from which a traversal is checked: fewer take seconds and some hundred MiB."""
MAX_BOARDS_AT_ONCE = 20_000
"""Total number of boards up to which exact results take a moment: includes 3 x 3 with or without
skips.
"""
MAX_BOARDS_WITHOUT_ESTIMATE = 1 << 21
"""Total number of boards up to which exact results take seconds."""
BYTES_PER_BOARD = 176
"""Size of a board in the layers that are computed."""
KEPT_BYTES_PER_BOARD = 10
"""Size of a board in the layers that are kept for the backward pass."""
KEPT_BYTES = 1 << 29
"""Size of the edges of a traversal in bytes beyond which those of further nodes are dropped, and
made again.
"""
POSITION_SECONDS = 5e-6
"""Assumed cost of a position of a trained policy."""
AFFORDABLE_SECONDS = 5.0
"""Maximum cost of strength that is computed unasked."""


class Monitor:
    """Watches the memory and the progress of passes over the layers of a game.

    Boards with hidden stones are few, and neither estimated nor reported by layers.

    Args:
        game: the game.
        work: its memory and progress.
        passes: number of passes; each is an equal part of the progress.
        row_bytes: bytes that the caller keeps of each board, where layers are kept.
    """

    def __init__(self, game: AnyGame, work: Work, passes: int, row_bytes: float) -> None:
        self._game = game
        self._work = work
        self._passes = passes
        self._kept = KEPT_BYTES_PER_BOARD + row_bytes
        self._finished = 0

    @cached_property
    def _limits(self) -> list[int]:
        """Maximum number of boards of each layer."""
        return boards_by_stones(self._game)

    def check_memory(self, sizes: Sequence[int], *, keep: bool) -> None:
        """Raise MemoryError if the layers will not fit into memory.

        Args:
            sizes: numbers of boards of the first layers.
            keep: whether layers are kept.
        """
        if isinstance(self._game, Game) and sum(sizes) > MIN_BOARDS:
            _check_memory(self._work, self._game, sizes, self._limits, self._kept if keep else 0.0)

    def report(self, depth: int, *, backward: bool = False) -> None:
        """Report the progress of a pass that has reached the layer ``depth``."""
        if self._work.progress is not None and isinstance(self._game, Game):
            share = sum(self._limits[: depth + (not backward)]) / sum(self._limits)
            self._report_share(1.0 - share if backward else share)

    def end_pass(self) -> None:
        """Report the end of a pass."""
        self._report_share(1.0)
        self._finished += 1

    def _report_share(self, share: float) -> None:
        """Report the progress of a pass, 0 to 1."""
        progress = self._work.part(self._finished, self._passes).progress
        if progress is not None:
            progress(share)


def _check_memory(
    work: Work, game: AnyGame, sizes: Sequence[float], limits: Sequence[int], kept: float
) -> None:
    """Raise MemoryError if layers and what is ``kept`` of a board do not fit, if the first layers
    have these sizes.
    """
    shares = [math.log(size / limit) for size, limit in zip(sizes, limits, strict=False)]
    slope = min(0.0, (shares[-1] - shares[-3]) / 2)
    later = enumerate(limits[len(sizes) :], 1)
    sizes = [*sizes, *(limit * math.exp(shares[-1] + slope * ply) for ply, limit in later)]
    needed = max(sizes) * BYTES_PER_BOARD
    if kept:
        needed += sum(sizes) * kept + KEPT_BYTES
    allowed = usable_memory(work.memory)
    if needed > allowed:
        raise MemoryError(
            f"exact numbers of {game} would take {sum(sizes):.2g} boards and {gib(needed)}, and "
            f"{gib(allowed)} may be used: sample them with evaluate.py match, take a smaller board "
            "or players with fewer moves, or allow more with --memory, in Python memory="
        )


def check_traversable(game: AnyGame) -> None:
    """Raise MemoryError if a board has too many cells for exact results."""
    limit = MAX_CELLS if isinstance(game, Game) else MAX_PHANTOM_CELLS
    if game.cells > limit:
        raise MemoryError(
            f"{game} has {game.cells} cells, too many for exact results: choose a board of up to "
            f"{limit}, or sample results with evaluate.py match"
        )


def check_measurable(game: AnyGame) -> None:
    """Raise MemoryError if exploitability cannot be computed, even if a board stands for its
    symmetry class.
    """
    check_traversable(game)
    classes = [1, 1, 1, *(count // 16 for count in boards_by_stones(game)[3:])]
    _check_memory(DEFAULT_WORK, game, classes[:3], classes, KEPT_BYTES_PER_BOARD)


def boards_by_stones(game: AnyGame) -> list[int]:
    """Return the numbers of arrangements of 0, 1, ... stones, up to a board with one empty cell.

    Without skips the players have equally many stones, or player_0 one more. With gravity no stone
    is above an empty cell.
    """
    counts = [math.comb(game.cells, stones) for stones in range(game.cells + 1)]
    if game.gravity:
        counts = [1]
        for _ in range(game.columns):  # a column has 0 to all rows
            ends = range(len(counts) + game.rows)
            counts = [sum(counts[max(0, end - game.rows) : end + 1]) for end in ends]
    return [
        count * (2**stones if game.skip_chance > 0 else math.comb(stones, stones // 2))
        for stones, count in enumerate(counts[:-1])
    ]


def is_measured_at_once(game: AnyGame) -> bool:
    """Return whether exact results of a game take a moment: by a count, so that every machine
    decides alike.
    """
    return sum(boards_by_stones(game)) <= MAX_BOARDS_AT_ONCE


def strength_seconds(game: AnyGame, policy: Policy) -> float:
    """Return the estimated seconds of exploitability, regret and exact results of a trained policy;
    infinite for one that is not pure, and where :func:`check_measurable` refuses the game.

    It is a count with a fixed cost for each position, so that all machines that have the memory
    decide alike, busy or idle.
    """
    try:
        check_measurable(game)
    except MemoryError:
        return math.inf
    if not policy.pure:
        return math.inf
    positions = sum(boards_by_stones(game)) * (2 if game.skip_chance else 1)
    merged = len(symmetries(game)) if policy.symmetric else 1
    # two best responses, regret, and a result in each seat
    return 5 * positions / merged * POSITION_SECONDS


def affordable(game: AnyGame, policy: Policy) -> bool:
    """Return whether :func:`strength_seconds` are a few."""
    return strength_seconds(game, policy) <= AFFORDABLE_SECONDS


def gib(amount: float) -> str:
    """Format a number of bytes in GiB."""
    return f"{_format_number(amount / 2**30)} GiB"


def _format_number(number: float) -> str:
    """Format a number with two significant digits."""
    if number >= 1e15:
        return f"{number:.0e}"
    digits = max(0, int(math.log10(max(number, 1))) - 1)
    return f"{round(number, -digits):,.0f}" if number >= 10 else f"{number:.2g}"
