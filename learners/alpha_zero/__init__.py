"""Gumbel AlphaZero with chance nodes: a policy-value net trained by its own search in self-play.

The net maps a position to move probabilities and a value. It plays many games against itself in
parallel and chooses each move by a search that it guides (Silver et al., "A general reinforcement
learning algorithm that masters chess, shogi, and Go through self-play", 2018), after random opening
moves and with random moves in between.

The policy target is the policy improved by the search, by default that of Gumbel search, which
needs few simulations (Danihelka et al., "Policy improvement by planning with Gumbel", 2022). The
value target is the TD(lambda) return (Sutton, "Learning to predict by the methods of temporal
differences", 1988) over the part of a game that the search played: with the default ``td_lambda``
of 0.1 mostly the search's own value of the position; with 1 the result of the game, as in the paper
of 2018. Turns that may be skipped are chance nodes behind afterstates (Antonoglou et al., "Planning
in stochastic environments with a learned model", 2022); chance is averaged, not sampled.
"""

from __future__ import annotations

from learners.alpha_zero.net import AlphaZeroConfig
from learners.alpha_zero.policy import AlphaZeroSearch

__all__ = ["AlphaZeroConfig", "AlphaZeroSearch"]
