"""Expectiminimax: search to a fixed depth, with chance nodes for the turns that may be skipped.

At a decision node the mover picks the best move. A move that does not end the game leads to a chance node: the other
player moves on with probability 1 - p, the same player with probability p, the skip chance. There is no chance node
above the root. A win at ply k scores depth - k + 1, the moves at the root having ply 1, a loss the same with a minus, a
full board 0; at the horizon +1/2, 0 or -1/2 says whose best line is the longer one (`Heuristic`). player_0 maximises.
So a node's value depends on its board, its mover and the plies left, and on nothing else.

Without ``width`` the value is exact, and is found with

- star1 and star2 pruning (Ballard, "The *-minimax search procedure for trees containing chance nodes", 1983; Hauk, Buro
  and Schaeffer, "Rediscovering *-minimax search", 2004): a chance node knows bounds on the value of either turn, and
  searches a turn only in the window in which it could still matter. Without skips this is alpha-beta;
- bounds that need no search: who lacks how many stones in an open window cannot win before so many plies (`bounds`);
- the last ply read off the tallies of open windows instead of being tried (`bounds.last_ply`);
- a table of bounds, one entry for a board up to symmetry and the plies left (Veness and Blair, "Effective use of
  transposition tables in stochastic game tree search", 2007). Entries hold the whole key, so that none is taken for
  another.

With ``width`` every decision node from the second layer on tries so many moves, drawn at random. A width that leaves
no node fewer moves than it has is none.

Lines are the windows of ``rules.windows`` (`windows`).
"""

from __future__ import annotations

from baselines.expectiminimax.policy import Analysis as Analysis
from baselines.expectiminimax.policy import Expectiminimax as Expectiminimax
from baselines.expectiminimax.search import Search as Search
from baselines.expectiminimax.search import check_settings as check_settings
from baselines.expectiminimax.star1 import Pruning as Pruning
from baselines.expectiminimax.windows import Heuristic as Heuristic
