"""Policies without learning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttt_envs.core.names import public_names

if TYPE_CHECKING:
    from baselines.tables import Softmax as Softmax
    from baselines.tables import Table as Table
    from baselines.tables import random_play_values as random_play_values
    from baselines.tables import source_values as source_values

__ttt_envs__ = True  # marks our package among others of this name: ttt_envs/core/packages.py

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
