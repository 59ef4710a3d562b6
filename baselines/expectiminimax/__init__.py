"""Expectiminimax: search to a fixed depth, with chance nodes for turns that may be skipped.

At a decision node the mover picks the best move. A move that does not end the game leads to a
chance node: the other player moves next with probability 1 - p, the same player with probability p,
the skip chance. There is no chance node above the root. A win at ply k scores depth - k + 1, where
moves at the root have ply 1; a loss scores the negative, a full board 0. At the horizon +1/2, 0 or
-1/2 compares the players' best open lines (`Heuristic`). player_0 maximises. So a node's value
depends only on its board, its mover and the plies left.

Without ``width`` the value is exact, and is computed with

- star1 pruning (`search`): a chance node has bounds on the value of either turn, and searches a
  turn only within the window that could still matter. Without skips this is alpha-beta;
- static bounds: a player cannot win in fewer plies than the missing stones of the best open line
  need;
- static bounds of the last ply from the tallies of open lines, which are its value most of the
  time;
- a table of bounds, one row for a position up to symmetry and the plies left (Veness and Blair,
  "Effective use of transposition tables in stochastic game tree search", 2007).

With ``width``, every decision node below the root tries this number of random moves. A width that
restricts no node is ignored.

The lines are those of the game (`lines`). In misère, lines count against the player who has them.
The bounds of a variant do not take a line with one missing stone for a win, and its last ply is
evaluated move by move.
"""

from __future__ import annotations

from baselines.expectiminimax.lines import Heuristic
from baselines.expectiminimax.policy import Analysis, Expectiminimax
from baselines.expectiminimax.search import Pruning, Search, check_settings

__all__ = ["Analysis", "Expectiminimax", "Heuristic", "Pruning", "Search", "check_settings"]
