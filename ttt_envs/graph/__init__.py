"""Exact work on the positions of a game: their numbering, and a layered graph with one pass forward and one back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttt_envs.core.names import public_names

if TYPE_CHECKING:
    from ttt_envs.graph.layers import Traversal as Traversal
    from ttt_envs.graph.numbering import Numbering as Numbering
    from ttt_envs.graph.passes import backward as backward
    from ttt_envs.graph.passes import forward as forward

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
