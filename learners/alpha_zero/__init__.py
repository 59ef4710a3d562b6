"""AlphaZero with chance nodes: a policy-value net trained on the results of its own search.

The net maps a position to move probabilities and a value. It plays many games against itself in parallel and chooses
each move by a search that it guides. Its targets are the search's policy and the results of the games (Silver et al.,
"A general reinforcement learning algorithm that masters chess, shogi, and Go through self-play", 2018). Three parts are
from later papers. The search is Gumbel search, which improves the policy with few simulations (Danihelka et al.,
"Policy improvement by planning with Gumbel", 2022). Turns that may be skipped are chance nodes behind afterstates
(Antonoglou et al., "Planning in stochastic environments with a learned model", 2022); chance is averaged, not sampled.
Value targets are TD(lambda) returns (Sutton, "Learning to predict by the methods of temporal differences", 1988) over
the part of a game that the search played.
"""

from __future__ import annotations

from learners.alpha_zero.config import AlphaZeroConfig as AlphaZeroConfig
from learners.alpha_zero.policy import AlphaZeroSearch as AlphaZeroSearch
