"""Search by the clock: iterative deepening and simulations for as long as there is time, and pondering.

The rules are those of Hsu's lecture (Theory of Computer Games, concluding remarks): wall clock and not CPU time; shares
of a game's time by the moves that are still to come; no new depth that is predicted not to fit, by
``t(i + 1) = t(i) * t(i) / t(i - 1)``; no thinking about a single legal move; an early end where depths agree or nothing
can change, more time where they do not; and never a move that the clock cannot pay.

- :mod:`baselines.timed.clock`: clocks, and the moves to come.
- :mod:`baselines.timed.searches`: what a search must offer, and the two that do.
- :mod:`baselines.timed.thinking`: how long to think about a move.
- :mod:`baselines.timed.pondering`: the second thread.
- :mod:`baselines.timed.policy`: the policy and its player.
"""

from __future__ import annotations

from baselines.timed.clock import Clock as Clock
from baselines.timed.clock import estimated_moves_left as estimated_moves_left
from baselines.timed.clock import read_moves_left as read_moves_left
from baselines.timed.clock import usual_moves_left as usual_moves_left
from baselines.timed.clock import write_moves_left as write_moves_left
from baselines.timed.policy import Timed as Timed
from baselines.timed.policy import TimedPlayer as TimedPlayer
from baselines.timed.searches import CanBeTimed as CanBeTimed
from baselines.timed.searches import TimedSearch as TimedSearch
from baselines.timed.thinking import Plan as Plan
from baselines.timed.thinking import think as think
