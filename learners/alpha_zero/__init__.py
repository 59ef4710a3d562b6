"""AlphaZero with chance: a net with two heads, taught by its own search.

A net says of a position how likely each move is and what the position is worth. It plays games against itself, many
side by side, in which each move is found by a search that the net guides; it learns to say at once what the search
found, and how the games ended (Silver et al., "A general reinforcement learning algorithm that masters chess, shogi,
and Go through self-play", 2018). Three things are of later papers: the search is the Gumbel one, which improves the
policy with few simulations (Danihelka et al., "Policy improvement by planning with Gumbel", 2022); turns that may be
skipped are chance nodes behind afterstates (Antonoglou et al., "Planning in stochastic environments with a learned
model", 2022), weighed and not drawn; and values are traced back through a game as TD(lambda) does (Sutton, "Learning to
predict by the methods of temporal differences", 1988), as far as the game was played by the search.
"""

from __future__ import annotations

from learners.alpha_zero.config import AlphaZeroConfig as AlphaZeroConfig
from learners.alpha_zero.policy import AlphaZeroSearch as AlphaZeroSearch
