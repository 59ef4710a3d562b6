"""m,n,k tic-tac-toe with skipped turns, small enough to be solved exactly.

Importing this package registers the Gymnasium ids of ``ttt_envs.envs.registration.PRESETS``, such
as ``ttt/MNK-v0``, ``ttt/TicTacToe-v0`` and ``ttt/ConnectFour-v0``, and the same in small letters,
as ``ttt/mnk-v0``, where PettingZoo has a registry.
"""

from __future__ import annotations

import lazy_loader

from ttt_envs.envs import registration as registration
from ttt_envs.version import __version__ as __version__

__ttt_envs__ = True  # marks our package among others of this name: ttt_envs/core/packages.py

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
