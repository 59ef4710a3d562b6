"""Estimates of positions, seconds and bytes of an exact computation, made before it runs.

A traversal visits at most as many boards with s stones as there are arrangements of them. The first layers show the
ratio of visited boards to this bound and its decrease per ply. The estimate extrapolates both to the last layer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import psutil

from baselines.joint_view_graph import MAX_EMPTY, check_listed
from evaluation.exact.forward_backward import MAX_POSITIONS_PER_LAYER, Players, TraversalSpec, forward_layers
from evaluation.exact.symmetry_classes import counts_by_stones
from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit_settings import compile_at_once
from ttt_envs.game.rules import Game

MAX_BOARDS_WITHOUT_ESTIMATE = 1 << 21
"""Total number of boards up to which no estimate is needed: they take seconds and some hundred MiB."""
MOVES, SECONDS = 1 << 21, 3.0
"""Limits of the partial traversal that the estimate is based on: moves and seconds."""
ENOUGH = 16
"""Minimum size of a layer whose time is informative, in boards."""
POSITION_SECONDS, AFFORDABLE_SECONDS = 5e-6, 5.0
"""Assumed cost of a position of a trained policy, and the maximum cost of strength that is computed unasked."""


class Estimate(NamedTuple):
    """Estimated cost of a traversal."""

    positions: float
    """number of boards visited"""
    largest: float
    """number of boards in the largest layer"""
    seconds: float
    bytes: float

    def __str__(self) -> str:
        return f"about {_format_number(self.positions)} positions, {duration(self.seconds)} and {gib(self.bytes)}"


def boards_by_stones(game: Game) -> list[int]:
    """Return the numbers of arrangements of 0, 1, ... stones; without skips, equally many per player, or one more."""
    return list(counts_by_stones(game, classes=False))


@compile_at_once()
def estimate(
    game: Game,
    players: Players,
    chunk: int,
    *,
    backward: bool,
    traversal: TraversalSpec | None = None,
    bytes_per_position: float = 0.0,
) -> Estimate:
    """Estimate the cost of a traversal from its first layers.

    Args:
        game: the game.
        players: the players, None for a best responder.
        chunk: maximum number of positions per query.
        backward: whether a backward pass follows, for which all layers are stored.
        traversal: the traversal, if it differs from :meth:`TraversalSpec.from_players` of these players.
        bytes_per_position: what is stored of every board besides the layers.
    """
    traversal = TraversalSpec.from_players(game, players) if traversal is None else traversal
    bound = counts_by_stones(game, traversal.classes)
    sizes: list[float] = []
    moves, each = 0, math.inf
    last = time.perf_counter()
    for layer in forward_layers(traversal, chunk):
        now = time.perf_counter()
        sizes.append(layer.index.size)
        each = min(each, (now - last) / layer.index.size)  # the first layers load compiled code, or solve a game
        last = now
        moves += layer.index.size * (game.cells - layer.stones)
        if layer.following == 0:
            break
        slow = layer.index.size >= ENOUGH and each * layer.following > SECONDS
        if slow or moves + layer.following * (game.cells - layer.stones) > MOVES:
            sizes.append(layer.following)
            sizes += _extrapolate(sizes, bound)
            break
    words = traversal.words
    peak = max(sizes) * (16 * words + 160)  # keys, masses, hash table, and values of the backward pass
    stored = sum(sizes) * (8 * words + 2) if backward else peak / 2
    stored += sum(sizes) * bytes_per_position
    return Estimate(sum(sizes), max(sizes), each * sum(sizes) * (2 if backward else 1), peak + stored)


def _extrapolate(sizes: list[float], bound: Sequence[int]) -> list[float]:
    """Extrapolate the sizes of the remaining layers from the decrease of the ratio to the bound in the last two
    plies.
    """
    shares = [math.log(size / most) for size, most in zip(sizes, bound, strict=False)]
    back = min(2, len(shares) - 1)
    fall = min(0.0, (shares[-1] - shares[-1 - back]) / back)
    ahead = range(1, len(bound) - len(sizes) + 1)
    return [most * math.exp(shares[-1] + fall * ply) for ply, most in zip(ahead, bound[len(sizes) :], strict=True)]


def free_bytes() -> int:
    """Return the available memory in bytes."""
    return int(psutil.virtual_memory().available)


def check_fits(
    game: Game,
    players: Players,
    chunk: int,
    *,
    backward: bool,
    memory: int | None = None,
    traversal: TraversalSpec | None = None,
    bytes_per_position: float = 0.0,
) -> Estimate | None:
    """Check that a traversal fits into memory.

    Args:
        game, players, chunk, backward: of the traversal, see :func:`estimate`.
        memory: bytes that may be used; by default the available memory.
        traversal: the traversal, if it differs from :meth:`TraversalSpec.from_players` of these players.
        bytes_per_position: what is stored of every board besides the layers.

    Returns:
        The estimate; None if it is negligible.

    Raises:
        MemoryError: it will not fit.
    """
    if game.hidden != "no":
        check_listed(game)
        return None
    traversal = TraversalSpec.from_players(game, players) if traversal is None else traversal
    if sum(counts_by_stones(game, traversal.classes)) <= MAX_BOARDS_WITHOUT_ESTIMATE:
        return None
    found = estimate(
        game, players, chunk, backward=backward, traversal=traversal, bytes_per_position=bytes_per_position
    )
    allowed = free_bytes() if memory is None else memory
    if found.bytes > allowed or found.largest > MAX_POSITIONS_PER_LAYER:
        raise MemoryError(
            f"exact numbers of {game} would take {found}, and {gib(allowed)} may be used: sample them with evaluate.py "
            f"match, take a smaller board or players with fewer moves, or allow more with memory="
        )
    return found


def affordable(game: Game, policy: Policy) -> bool:
    """Return whether exploitability, regret and exact results of a trained policy take some seconds.

    The decision is a count with a fixed cost for each position, so that every machine decides alike, busy or idle.
    """
    if game.hidden != "no":
        return policy.pure and game.cells <= MAX_EMPTY
    positions = sum(boards_by_stones(game)) * (2 if game.skip_chance else 1)
    # two best responses, regret, and a result in each seat
    return policy.pure and 5 * positions * POSITION_SECONDS <= AFFORDABLE_SECONDS


def duration(seconds: float) -> str:
    """Format a duration in words."""
    if seconds > 100 * 365 * 86400:
        return "more than a century"
    for size, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{_format_number(seconds / size)} {name}"
    return f"{_format_number(seconds)} seconds"


def gib(amount: float) -> str:
    """Format a number of bytes in GiB."""
    return f"{_format_number(amount / 2**30)} GiB"


def _format_number(number: float) -> str:
    """Format a number with two significant digits."""
    if number >= 1e15:
        return f"{number:.0e}"
    digits = max(0, int(math.log10(max(number, 1))) - 1)
    return f"{round(number, -digits):,.0f}" if number >= 10 else f"{number:.2g}"
