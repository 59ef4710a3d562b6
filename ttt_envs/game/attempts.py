"""Attempts in phantom games: players do not see the opponent's stones, and learn of a stone only by
trying its cell.

The kinds are those of OpenSpiel's ``phantom_ttt``, ``PhantomGame.kind``. Positions, lines, results
and skips are those of :mod:`ttt_envs.game.rules`; this module defines what a player is told:

- The mover attempts a cell that is neither its own nor known to be taken. On an empty cell it puts
  a stone.
- If the opponent has a stone there, the mover is told so: it has *found* the stone, and no stone is
  put. In a ``"classic"`` game it attempts another cell; in an ``"abrupt"`` game its turn is over.
- The other player is told nothing of an attempt: neither its cell nor whether it failed.
- After a stone that does not end the game, a turn is skipped with the game's skip chance; never
  after a failed attempt. The mover is told at once that it moves again. The player whose turn was
  skipped is not told.
- Both players are told the result at the end.

A *view* is what a player has on the board without the order of events: the own stones and the found
ones. It is a row of ``Boards`` in which the other stones are missing, so any policy that is a
function of the board can play by views. A *joint view* is the position and both players' found
stones: the state of the game if both play by their views. An attempt adds a stone or a found one to
the mover's view. So no view occurs twice in a game, and the number of stones and found stones grows
by one with every attempt.
"""

from __future__ import annotations

import numpy as np

from ttt_envs.core.jit import Int8Array, inlined
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.rules import NOT_OVER, mover_after, place

VISIBLE, CLASSIC, ABRUPT = range(3)
"""whether stones are hidden, and the kind of the phantom game"""
FOUND = -3
"""Result of an attempt on a cell with a hidden stone, in addition to the outcomes of the rules."""


@inlined
def is_unknown(cells: Int8Array, found_stones: Int8Array, mover: int, cell: int) -> bool:
    """Return whether a cell may be attempted: it is neither the mover's own nor known to be
    taken.
    """
    return bool(cells[cell] != mover + 1 and found_stones[cell] == 0)


@inlined
def attempt(
    cells: Int8Array,
    found_stones: Int8Array,
    mover: int,
    cell: int,
    stones: int,
    episode_key: np.uint64,
    hidden: int,
    parameters: Parameters,
    skip_chance: float,
) -> tuple[int, int]:
    """Attempt a cell, in place: put a stone, or find the opponent's if stones are hidden.

    Args:
        cells: int8[rows * columns].
        found_stones: int8[rows * columns], 1 for a stone that the other player has found, else 0.
        mover: the player to move.
        cell: index of a cell.
        stones: number of stones before the attempt, which is the number of the skip's random
            number.
        episode_key: of the episode.
        hidden: ``VISIBLE``, ``CLASSIC``, or ``ABRUPT``: then a failed attempt ends the turn.
        parameters: of the visible game, ``PhantomGame.game``.
        skip_chance: of the episode.

    Returns:
        ``FOUND``, or the outcome of a stone (``ILLEGAL`` on a cell that the mover knows to be
        taken, and then nothing has changed); and the next mover.
    """
    is_on_board = cell >= 0 and cell < len(cells)
    if hidden != VISIBLE and is_on_board and cells[cell] == 2 - mover and found_stones[cell] == 0:
        found_stones[cell] = 1
        return FOUND, 1 - mover if hidden == ABRUPT else mover
    # not `play`, which expects as many stones of each player
    outcome = place(cells, mover, cell, stones, parameters)
    if outcome == NOT_OVER:
        mover = mover_after(mover, episode_key, stones, skip_chance)
    return outcome, mover
