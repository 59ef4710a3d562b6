"""Star1 and star2: alpha-beta with chance nodes (Ballard, "The *-minimax search procedure for trees containing chance
nodes", 1983; Hauk, Buro and Schaeffer, "Rediscovering *-minimax search", 2004).

The value of a chance node is ``(1 - p) v + p w``: v of the other player's turn, w of the maker's own after a skip.
Bounds on both turns, L <= v, w <= U, give bounds on the node. If these show that it is at most alpha or at least beta,
no search is needed. Else a turn is searched, but only in the window that still matters: if v lies outside of

    (alpha - p U_w) / (1 - p)  to  (beta - p L_w) / (1 - p)

the node is at most alpha, or at least beta, for any w. That is star1; the result for one turn narrows the window of the
other. Star2 first probes the maker's own turn with one move, whose value is a lower bound L_w.
"""

from __future__ import annotations

import typing
from typing import Literal

import numpy as np

from baselines.expectiminimax.search_stack import DONE, PROBE, TURN, Chance, Decision, Turn
from ttt_envs.core.jit import inlined, int64

Pruning = Literal["none", "alpha-beta", "star1", "star2"]
"""``"none"`` tries everything; ``"alpha-beta"`` prunes at decision nodes, and through chance nodes only without skips;
``"star1"`` through all chance nodes; ``"star2"`` first probes one move of the turn after a skip"""
NO_PRUNING, ALPHA_BETA, STAR1, STAR2 = range(len(typing.get_args(Pruning)))


@inlined
def is_decided(chance: Chance, least: float, most: float) -> bool:
    """Return whether a chance node with bounds ``least`` and ``most`` needs no further search.

    This includes a turn whose value was outside its window, because rounding must not trigger a second search.
    """
    outside = least >= chance.beta or most <= chance.alpha or least >= most
    return bool(chance.beyond != 0 or chance.stage == DONE or outside)


@inlined
def decided_value(chance: Chance, least: float, most: float) -> float:
    """Return the value of a decided node if within alpha and beta, else a bound at or beyond one of them."""
    is_low = chance.beyond < 0 or (chance.beyond == 0 and most <= chance.alpha)
    return most if is_low else least


@inlined
def can_prune(chance: Chance, turn: Turn, most: float, skip: float) -> bool:
    """Return whether a stage can be skipped: its turn is solved, cannot occur, or a probe would be useless."""
    own = chance.stage != TURN
    probes_in_vain = chance.stage == PROBE and chance.beta >= most
    return bool(turn.low == turn.high or (own and skip == 0) or probes_in_vain)


@inlined
def child_window(chance: Chance, other: Turn, own: Turn, skip: float, pruning: int) -> tuple[float, float]:
    """Return the window, for the maker, in which the value of this stage's turn matters."""
    if skip == 0:
        return chance.alpha, chance.beta
    if pruning < STAR1:
        return -np.inf, np.inf
    if chance.stage == TURN:
        return star1_window(chance, 1.0 - skip, skip, own)
    return star1_window(chance, skip, 1.0 - skip, other)


@inlined
def star1_window(chance: Chance, probability: float, rest: float, turn: Turn) -> tuple[float, float]:
    """Return the window of a turn with ``probability``, given the bounds of the other turn, of probability ``rest``."""
    return (chance.alpha - rest * turn.high) / probability, (chance.beta - rest * turn.low) / probability


@inlined
def learn(chance: Chance, turn: Turn, decision: Decision) -> None:
    """Update the bounds of a turn after its search: exact within the window, else an upper or a lower bound."""
    best, alpha, beta = decision.best, decision.alpha, decision.beta
    probing, own = chance.stage == PROBE, chance.stage != TURN
    low = best if probing or best > alpha else -np.inf
    high = np.inf if probing or best >= beta else best
    if not own:  # the other player's value has the opposite sign
        low, high = -high, -low
    turn.low = max(turn.low, low)
    turn.high = min(turn.high, high)
    turn.move = decision.chosen
    if not probing and (best >= beta or best <= alpha):
        chance.beyond = 1 if (best >= beta) == own else -1
    chance.changed = 1
    chance.stage = int64(chance.stage + 1)
