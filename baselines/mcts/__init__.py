"""Monte Carlo tree search: UCT with chance nodes for the turns that may be skipped, compiled, many positions at once.

Every simulation goes down the tree from the position, adds one move, judges the position behind it and passes the
result back along its path (Kocsis and Szepesvari, "Bandit based Monte-Carlo planning", 2006; Browne et al., "A survey
of Monte Carlo tree search methods", 2012):

- *Down.* Where moves have not been tried, one of them is drawn and tried; else the move with the largest
  ``mean + c * sqrt(ln N / n)`` is followed, n its visits and N those of the position. A move that does not end the game
  leads to a chance node: the simulation draws whose turn is next, and either turn has a subtree and counts of its own.
- *Judge.* Random moves to the end of the game, or the values of another policy.
- *Back.* The result is kept for the player who made the move, whoever that was; after a skip the same player moves
  again, so no sign depends on the ply.

With ``decisive`` a player who can win with one stone does, and one who must stop a stone that wins tries that first,
and nothing else where no turn can be skipped (Teytaud and Teytaud, "On the huge benefit of decisive moves in
Monte-Carlo tree search algorithms", 2010). And results that are certain are passed on as such (Winands, Bjornsson and
Saito, "Monte-Carlo tree search solver", 2008): a position is *known* where a move surely wins or all moves are known, a
move where it ends the game or both turns after it are known, and then it is worth (1 - p) of one and p of the other.
What is known takes the place of what was sampled.

A rollout that also says how likely moves are guides the search: see :mod:`baselines.mcts.guided`.

Simulation s of a position with a 64-bit key draws from ``splitmix64(key, s)`` alone. So a search is the same in one run
or in many, alone or beside others.
"""

from __future__ import annotations

from baselines.mcts.guided import Forest as Forest
from baselines.mcts.guided import Rule as Rule
from baselines.mcts.guided import go_back as go_back
from baselines.mcts.guided import go_down as go_down
from baselines.mcts.guided import pressing_rows as pressing_rows
from baselines.mcts.gumbel import GumbelSearch as GumbelSearch
from baselines.mcts.gumbel import check_gumbel as check_gumbel
from baselines.mcts.policy import MCTS as MCTS
from baselines.mcts.policy import MCTSAnalysis as MCTSAnalysis
from baselines.mcts.policy import MCTSPlayer as MCTSPlayer
from baselines.mcts.policy import drawn_keys as drawn_keys
from baselines.mcts.search import MCTSSearch as MCTSSearch
from baselines.mcts.search import check_settings as check_settings
from baselines.mcts.tree import KeptTree as KeptTree
from baselines.mcts.tree import Trees as Trees
