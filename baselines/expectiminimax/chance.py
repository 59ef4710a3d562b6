"""The chance node after a move: bounds on the values of its two turns, and the window of each.

A chance node is a record. All its values are for the player who made the move, and so is the turn
``OWN``, after a skip; the turn ``OTHER`` is that of the other player.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ttt_envs.core.jit import Float64Array, inlined, int64

OTHER, OWN = range(2)


class Chance:
    """A chance node, as a record."""

    share: Annotated[Float64Array, np.float64, (2,)]
    """the probability of each turn"""
    low: Annotated[Float64Array, np.float64, (2,)]
    """lower bound on the value of each turn"""
    high: Annotated[Float64Array, np.float64, (2,)]
    """upper bound"""
    alpha: float
    """the value of the node matters only above this"""
    beta: float
    """and only below this"""
    side: int
    """where the value of the last turn lies: 1 at the upper end of its window or above, -1 at the
    lower end or below, else 0
    """
    num_replies: int
    """number of moves of the last ply that are written, 0 before they are"""


@inlined
def begin(skip: float, alpha: float, beta: float, chance: Chance) -> None:
    """Begin a chance node with the window ``alpha`` to ``beta``, without bounds on its turns.

    A turn that cannot come has the value -0.0: added, it changes no number.
    """
    chance.share[OTHER] = 1.0 - skip
    chance.share[OWN] = skip
    for turn in range(2):
        is_possible = turn == OTHER or skip > 0
        chance.low[turn] = -np.inf if is_possible else -0.0
        chance.high[turn] = np.inf if is_possible else -0.0
    chance.alpha = alpha
    chance.beta = beta
    chance.side = 0
    chance.num_replies = 0


@inlined
def for_mover(turn: int, low: float, high: float) -> tuple[float, float]:
    """Convert bounds for the player who made the move to bounds for the mover of a turn, or
    back.
    """
    return (low, high) if turn == OWN else (-high, -low)


@inlined
def window(turn: int, chance: Chance) -> tuple[float, float]:
    """Return the window of a turn: outside of it, the node is at most alpha, or at least beta, for
    any value of the other turn.
    """
    share = chance.share
    other = 1 - turn
    low = (chance.alpha - share[other] * chance.high[other]) / share[turn]
    high = (chance.beta - share[other] * chance.low[other]) / share[turn]
    return low, high


@inlined
def add(turn: int, value: float, low: float, high: float, chance: Chance) -> None:
    """Add the value of a turn, which is exact between ``low`` and ``high``, the window that was
    searched, else a bound beyond them.
    """
    if value > low:
        chance.low[turn] = max(chance.low[turn], value)
    if value < high:
        chance.high[turn] = min(chance.high[turn], value)
    chance.side = int64(value >= high) - int64(value <= low)


@inlined
def bounds(chance: Chance) -> tuple[float, float]:
    """Return the bounds on the value that follow from those of the turns."""
    share = chance.share
    low = share[OTHER] * chance.low[OTHER] + share[OWN] * chance.low[OWN]
    high = share[OTHER] * chance.high[OTHER] + share[OWN] * chance.high[OWN]
    return low, high


@inlined
def is_solved(chance: Chance) -> bool:
    """Return whether no search is needed; a turn outside of its window solves the node, whatever
    rounding says.
    """
    low, high = bounds(chance)
    return chance.side != 0 or low >= chance.beta or high <= chance.alpha or low >= high


@inlined
def value_of(chance: Chance) -> float:
    """Return the value of a solved node: exact between alpha and beta, else a bound beyond
    them.
    """
    low, high = bounds(chance)
    is_low = chance.side < 0 or (chance.side == 0 and high <= chance.alpha)
    return high if is_low else low
