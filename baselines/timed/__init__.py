"""Search by the clock: iterative deepening or more simulations within a time limit, and pondering.

The rules are those of Hsu's lecture (Theory of Computer Games, concluding remarks): use wall-clock
time, not CPU time; divide a game's time by the expected number of moves left; start no new depth
that will not fit; do not search with a single legal move; stop early if nothing can change; and
never exceed the time on the clock.

- :mod:`baselines.timed.clock`: clocks, players with clocks, and the number of moves left.
- :mod:`baselines.timed.search`: searches that can be interrupted, of expectiminimax and of MCTS,
  and the second thread.
- :mod:`baselines.timed.policy`: the time planned for a move, the policy and its player.
"""

from __future__ import annotations

from baselines.timed.clock import Clock, expected_moves_left
from baselines.timed.policy import Timed

__all__ = ["Clock", "Timed", "expected_moves_left"]
