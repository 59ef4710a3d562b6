"""Infrastructure without knowledge of the game: compiled kernels, files, caches, and parallel work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttt_envs.core.names import public_names

if TYPE_CHECKING:
    from ttt_envs.core.jit import Float64Array as Float64Array
    from ttt_envs.core.jit import Int8Array as Int8Array
    from ttt_envs.core.jit import Int64Array as Int64Array
    from ttt_envs.core.work import Work as Work

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
