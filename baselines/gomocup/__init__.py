"""Engines with the Gomocup protocol as opponents: ``gomocup:/path/to/engine``.

The protocol is that of Petr Lastovicka's and Martin Petricek's "Gomoku AI protocol",
https://plastovicka.github.io/protocl2en.htm, in its version of 2023-03-20 ("the protocol" below). Where it leaves a
choice, this package follows piskvork, https://github.com/plastovicka/Piskvork, source/protocol.cpp. This is the
manager's side; ``play.py --gomocup`` is the engine's.

- :mod:`baselines.gomocup.program`: a subprocess with line-based communication that never outlives its parent.
- :mod:`baselines.gomocup.engine`: the protocol: games, moves and times; the policy and its player.
"""

from __future__ import annotations

from baselines.gomocup.engine import MAX_EDGE as MAX_EDGE
from baselines.gomocup.engine import MIN_EDGE as MIN_EDGE
from baselines.gomocup.engine import NO_LIMIT as NO_LIMIT
from baselines.gomocup.engine import WIN_LENGTH as WIN_LENGTH
from baselines.gomocup.engine import Gomocup as Gomocup
from baselines.gomocup.engine import GomocupPlayer as GomocupPlayer
from baselines.gomocup.engine import cell_from_text as cell_from_text
from baselines.gomocup.engine import cell_to_text as cell_to_text
from baselines.gomocup.engine import check_game as check_game
from baselines.gomocup.engine import parse_cell as parse_cell
from baselines.gomocup.program import read_lines as read_lines
