"""Search by the clock: iterative deepening or more simulations within a time limit, and pondering.

The rules are those of Hsu's lecture (Theory of Computer Games, concluding remarks): use wall-clock time, not CPU time;
divide a game's time by the expected number of moves left; start no new depth that is predicted not to fit, by
``t(i + 1) = t(i) * t(i) / t(i - 1)``; do not search with a single legal move; stop early if depths agree or nothing can
change, and take more time if they disagree; and never exceed the time on the clock.

- :mod:`baselines.timed.clock`: clocks, players with clocks, and the number of moves left.
- :mod:`baselines.timed.search`: searches that can be interrupted, of expectiminimax and of MCTS.
- :mod:`baselines.timed.time_management`: time management for a move.
- :mod:`baselines.timed.pondering`: the second thread.
- :mod:`baselines.timed.policy`: the policy and its player.
"""

from __future__ import annotations

from baselines.timed.clock import Clock as Clock
from baselines.timed.clock import default_moves_left as default_moves_left
from baselines.timed.clock import estimate_moves_left as estimate_moves_left
from baselines.timed.clock import read_moves_left as read_moves_left
from baselines.timed.clock import write_moves_left as write_moves_left
from baselines.timed.policy import Timed as Timed
from baselines.timed.policy import TimedPlayer as TimedPlayer
from baselines.timed.search import TimedSearch as TimedSearch
from baselines.timed.time_management import TimePlan as TimePlan
from baselines.timed.time_management import run_until as run_until
