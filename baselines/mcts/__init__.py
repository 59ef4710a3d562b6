"""Monte Carlo tree search: UCT with chance nodes for turns that may be skipped, compiled, for batches of positions.

Every simulation descends the tree from the position, expands one move, evaluates the new position and backs the result
up along its path (Kocsis and Szepesvari, "Bandit based Monte-Carlo planning", 2006; Browne et al., "A survey of Monte
Carlo tree search methods", 2012):

- *Selection.* At a node with untried moves, one of them is drawn and expanded; else the move with the largest
  ``mean + c * sqrt(ln N / n)`` is followed, n its visits and N those of the position. A move that does not end the game
  leads to a chance node: the simulation draws the next mover, and each turn has its own subtree and counts.
- *Evaluation.* Random moves to the end of the game, or the values of another policy.
- *Backup.* The result is stored for the player who made the move; after a skip the same player moves again, so no sign
  depends on the ply.

With ``decisive``, a player with a winning stone plays it, and a player who must block a winning stone tries that first,
and nothing else if turns are never skipped (Teytaud and Teytaud, "On the huge benefit of decisive moves in Monte-Carlo
tree search algorithms", 2010). And solved values are propagated (Winands, Bjornsson and Saito, "Monte-Carlo tree search
solver", 2008): a position is *solved* if a move surely wins or all moves are solved, a move if it ends the game or both
turns after it are solved, and then its value is (1 - p) of one and p of the other, p the skip chance. Solved values
replace sampled ones.

A rollout policy with priors, such as a network, guides the search: it evaluates positions, and moves are selected by
one of two rules:

- *PUCT* (Silver et al., "A general reinforcement learning algorithm that masters chess, shogi, and Go through
  self-play", 2018): the largest ``q + c * p * sqrt(1 + N) / (1 + n)``, p the prior, N the simulations of all moves and
  n those of the move;
- *Gumbel* (Danihelka et al., "Policy improvement by planning with Gumbel", 2022, section 5): the largest
  ``p' - n / (1 + N)``, where ``p' = softmax(log p + (maxvisit_init + max n) * value_scale * q)``. At the root, moves
  are considered by sequential halving: among those with the scheduled number of visits, the one with the largest
  ``g + log p + (maxvisit_init + max n) * value_scale * q``, g the Gumbel noise.

The q of an unvisited move is the mixed value: the mean of the position's raw value and its moves' values weighted by
their priors (appendix D there). A move that does not end the game leads to an afterstate, a chance node (Antonoglou et
al., "Planning in stochastic environments with a learned model", 2022): both turns are evaluated, and the move's value
is ``(1 - p)`` of one and ``p`` of the other. Chance is averaged, never sampled, so values have no chance noise. A
simulation continues in the turn with the smallest share of its visits. A player with a winning stone plays it and, if
turns are never skipped, a player who must block a winning stone does.

Simulation s of UCT at a position with a 64-bit key draws from ``splitmix64(key, s)`` alone. So a search is the same in
one run or in many, alone or in a batch.
"""

from __future__ import annotations

from baselines.mcts.expand import forced_moves_of_rows as forced_moves_of_rows
from baselines.mcts.gumbel import GumbelSearch as GumbelSearch
from baselines.mcts.gumbel import check_gumbel as check_gumbel
from baselines.mcts.policy import MCTS as MCTS
from baselines.mcts.policy import MCTSAnalysis as MCTSAnalysis
from baselines.mcts.policy import MCTSPlayer as MCTSPlayer
from baselines.mcts.policy import drawn_keys as drawn_keys
from baselines.mcts.search import FusedEvaluator as FusedEvaluator
from baselines.mcts.search import MCTSSearch as MCTSSearch
from baselines.mcts.search import check_settings as check_settings
from baselines.mcts.select import SelectionParams as SelectionParams
from baselines.mcts.simulate import backup as backup
from baselines.mcts.simulate import simulate as simulate
from baselines.mcts.tree import SavedSubtree as SavedSubtree
from baselines.mcts.tree import SearchBatch as SearchBatch
from baselines.mcts.tree import Tree as Tree
