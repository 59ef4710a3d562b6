"""Engines with the Gomocup protocol as opponents: ``gomocup:/path/to/engine``.

The protocol is that of Petr Lastovicka's and Martin Petricek's "Gomoku AI protocol",
https://plastovicka.github.io/protocl2en.htm, in its version of 2023-03-20 ("the protocol" below).
Where it leaves a choice, this package follows piskvork, https://github.com/plastovicka/Piskvork,
source/protocol.cpp. This is the manager's side; ``play.py --gomocup`` is the engine's.

- :mod:`baselines.gomocup.program`: a subprocess with line-based communication that never outlives
  its parent.
- :mod:`baselines.gomocup.engine`: the protocol: games, moves and times; the policy and its player.
"""

from __future__ import annotations

from baselines.gomocup.engine import Gomocup, GomocupPlayer

__all__ = ["Gomocup", "GomocupPlayer"]
