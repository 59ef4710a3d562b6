"""Monte Carlo tree search with chance nodes for turns that may be skipped, compiled, for batches of
positions.

There is one search. Every simulation *selects* moves from the position down to a new one, *expands*
it, *evaluates* it, and *backs up* the values along its path (Silver et al., "A general
reinforcement learning algorithm that masters chess, shogi, and Go through self-play", 2018). What
differs is the evaluator and the rule of selection.

The evaluator gives the value of a position, and may give priors of its moves: a network does
(:class:`~ttt_envs.agents.policy.Evaluator`). Others give a value alone: random moves to the end of
the game, which make the search UCT (Kocsis and Szepesvari, "Bandit based Monte-Carlo planning",
2006), or the values of another policy. Then all moves are equal, and are tried in random order.

The rules of selection are:

- *PUCT*: the largest ``Q + c * P * sqrt(1 + N) / (1 + n)``, Q the value of the move, P its prior, N
  the simulations of all moves and n those of the move. Equal priors are ``1 / sqrt(k)`` with k
  moves, so that exploration depends on the mean number of simulations of a move, ``N / k``, and not
  on the size of the board;
- *Gumbel* (Danihelka et al., "Policy improvement by planning with Gumbel", 2022, section 5): the
  largest ``p' - n / (1 + N)``, where ``p' = softmax(log P + (maxvisit_init + max n) * value_scale *
  Q)``. At the root, moves are considered by sequential halving: among those with the scheduled
  number of visits, the one with the largest ``g + log P + (maxvisit_init + max n) * value_scale *
  Q``, g the Gumbel noise (:func:`gumbel_search`).

The Q of an unvisited move is the mixed value: the mean of the position's raw value and its moves'
values weighted by their priors (appendix D there). A move that does not end the game leads to an
afterstate, a chance node (Antonoglou et al., "Planning in stochastic environments with a learned
model", 2022): both turns are evaluated, and the move's value is ``(1 - p)`` of one and ``p`` of the
other, p the skip chance. Chance is averaged, never sampled, so values have no chance noise. A
simulation continues in the turn with the smallest share of its visits. After a skip the same player
moves again, so no sign depends on the ply.

With ``decisive``, a player with a winning stone plays it and, if turns are never skipped, a player
who must block a winning stone does (Teytaud and Teytaud, "On the huge benefit of decisive moves in
Monte-Carlo tree search algorithms", 2010). And solved values are propagated (Winands, Bjornsson and
Saito, "Monte-Carlo tree search solver", 2008): a position is *solved* if a move surely wins or all
moves are solved, a move if it ends the game or both turns after it are solved. Solved values
replace estimates, and a solved position is not searched any further.

Edge i of the tree of a position with a 64-bit key draws from ``splitmix64(key, 2 * i)`` and the
next number alone. So a search is the same in one run or in many, alone or in a batch.
"""

from __future__ import annotations

from baselines.mcts.gumbel import GumbelResult as GumbelResult
from baselines.mcts.gumbel import check_gumbel as check_gumbel
from baselines.mcts.gumbel import gumbel_search
from baselines.mcts.policy import MCTS
from baselines.mcts.search import FusedEvaluator as FusedEvaluator
from baselines.mcts.search import MCTSSearch
from baselines.mcts.select import SelectionParams as SelectionParams
from baselines.mcts.simulate import backup as backup
from baselines.mcts.simulate import forced_moves_of_rows as forced_moves_of_rows
from baselines.mcts.simulate import simulate as simulate
from baselines.mcts.tree import Tree as Tree

__all__ = ["MCTS", "MCTSSearch", "gumbel_search"]
