"""The game: rules, boards, bitboards, symmetries, and random games."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttt_envs.core.names import public_names

if TYPE_CHECKING:
    from ttt_envs.game.boards import cell_at as cell_at
    from ttt_envs.game.boards import coordinate as coordinate

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
