"""The rules of a game as kernels take them: one named tuple of fixed length, with the variants as a
set of bits.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ttt_envs.core.jit import Int64Array, inlined

GRAVITY: Final = 1
NO_OVERLINES: Final = 2
MISERE: Final = 4
TORUS: Final = 8


class Parameters(NamedTuple):
    """The rules of a game for kernels, ``Game.parameters``.

    Kernels are compiled twice at most: for games in which every run of ``win_length`` stones is a
    line, and for games whose lines are listed.
    """

    rows: int
    columns: int
    win_length: int
    skip_chance: float
    variants: int
    """set of ``GRAVITY``, ``NO_OVERLINES``, ``MISERE`` and ``TORUS``"""
    row_starts: int
    """cells, as bits, from which a line along a row may begin; 0 on boards too large for bits, as
    the next two
    """
    falling_starts: int
    """the same for a diagonal that falls to the right"""
    rising_starts: int
    """the same for a diagonal that rises to the right"""
    lines: Int64Array | None
    """None, or int64[2, W] where not every run is a line, see
    :func:`ttt_envs.game.lines.line_masks`
    """


@inlined
def has_gravity(parameters: Parameters) -> bool:
    """Return whether stones fall to the lowest empty cell of their column."""
    return parameters.variants & GRAVITY != 0


@inlined
def line_sign(parameters: Parameters) -> int:
    """Return the result, 1 or -1, of a player who completes a line."""
    return 1 - 2 * (parameters.variants // MISERE & 1)
