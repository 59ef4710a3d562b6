"""The environments: single, vector and AEC share one step, its observations and its rendering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttt_envs.core.names import public_names

if TYPE_CHECKING:
    from ttt_envs.envs.render import Scene as Scene
    from ttt_envs.envs.render import text as text
    from ttt_envs.envs.single_env import SingleEnv as SingleEnv
    from ttt_envs.envs.vector_env import MNKVectorEnv as MNKVectorEnv

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
