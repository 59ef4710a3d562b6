"""Star1 and star2: alpha-beta where chance has a part (Ballard, "The *-minimax search procedure for trees containing
chance nodes", 1983; Hauk, Buro and Schaeffer, "Rediscovering *-minimax search", 2004).

A chance node is worth ``(1 - p) v + p w``: v the other player's turn, w the maker's own after a skip. Bounds on both
turns, L <= v, w <= U, are bounds on the node. Where they show that it is worth at most alpha or at least beta, nothing
needs to be searched. Else a turn is searched, but only in the window in which it still matters: where v lies outside of

    (alpha - p U_w) / (1 - p)  to  (beta - p L_w) / (1 - p)

the node is at most alpha, or at least beta, whatever w is. That is star1; what a turn was found to be narrows the
window of the other. Star2 has the maker's own turn probed before, by one move: what it is worth is a lower bound, L_w.
"""

from __future__ import annotations

import typing
from typing import Literal

import numpy as np

from baselines.expectiminimax.path import DONE, PROBE, TURN, Chance, Decision, Turn
from ttt_envs.compiling import inlined, wide

Pruning = Literal["none", "alpha-beta", "star1", "star2"]
"""``"none"`` tries everything; ``"alpha-beta"`` prunes at decision nodes, and through chance nodes only where nothing
is skipped; ``"star1"`` through all chance nodes; ``"star2"`` probes one move of the turn after a skip before that"""
NO_PRUNING, ALPHA_BETA, STAR1, STAR2 = range(len(typing.get_args(Pruning)))


@inlined
def expected(other: float, own: float, skip: float) -> float:
    """What a chance node is worth whose turns are worth so much; without skips the own turn may be worth anything."""
    return (1.0 - skip) * other + skip * own if skip > 0 else other


@inlined
def is_decided(chance: Chance, least: float, most: float) -> bool:
    """Whether a chance node that is worth ``least`` to ``most`` needs no further search.

    It also is where a turn was worth less or more than its window: rounding must not ask again.
    """
    outside = least >= chance.beta or most <= chance.alpha or least >= most
    return bool(chance.beyond != 0 or chance.stage == DONE or outside)


@inlined
def value_of(chance: Chance, least: float, most: float) -> float:
    """Of a node that is decided: its value within alpha and beta, else a bound that is as far as one of them."""
    is_low = chance.beyond < 0 or (chance.beyond == 0 and most <= chance.alpha)
    return most if is_low else least


@inlined
def need_not_be_searched(chance: Chance, turn: Turn, most: float, skip: float) -> bool:
    """Whether the stage of a chance node has nothing to search: a turn that is known, that never comes, or no probe."""
    own = chance.stage != TURN
    probes_in_vain = chance.stage == PROBE and chance.beta >= most
    return bool(turn.low == turn.high or (own and skip == 0) or probes_in_vain)


@inlined
def window_of(chance: Chance, other: Turn, own: Turn, skip: float, pruning: int) -> tuple[float, float]:
    """The window, to the maker, in which the turn of this stage matters."""
    if skip == 0:
        return chance.alpha, chance.beta
    if pruning < STAR1:
        return -np.inf, np.inf
    if chance.stage == TURN:
        return star1_window(chance, 1.0 - skip, skip, own)
    return star1_window(chance, skip, 1.0 - skip, other)


@inlined
def star1_window(chance: Chance, probability: float, rest: float, turn: Turn) -> tuple[float, float]:
    """The window of a turn that comes with ``probability``, with what is known of the other one, the ``rest``."""
    return (chance.alpha - rest * turn.high) / probability, (chance.beta - rest * turn.low) / probability


@inlined
def learn(chance: Chance, turn: Turn, decision: Decision) -> None:
    """A turn has been searched: all moves tried give its value, or what it is at most; some, what it is at least."""
    best, alpha, beta = decision.best, decision.alpha, decision.beta
    probing, own = chance.stage == PROBE, chance.stage != TURN
    low = best if probing or best > alpha else -np.inf
    high = np.inf if probing or best >= beta else best
    if not own:  # the other player's value is the maker's with a minus
        low, high = -high, -low
    turn.low = max(turn.low, low)
    turn.high = min(turn.high, high)
    turn.move = decision.chosen
    if not probing and (best >= beta or best <= alpha):
        chance.beyond = 1 if (best >= beta) == own else -1
    chance.changed = 1
    chance.stage = wide(chance.stage + 1)
