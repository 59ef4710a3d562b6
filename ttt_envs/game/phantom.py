"""Phantom games: players do not see the opponent's stones, and learn of a stone only by trying its cell.

The variants are those of OpenSpiel's ``phantom_ttt``, chosen by ``Game.hidden``. Positions, lines, results and skips
are those of :mod:`ttt_envs.game.rules`; this module defines what a player is told:

- The mover attempts a cell that is neither its own nor known to be taken. On an empty cell it puts a stone.
- If the opponent has a stone there, the mover is told so: it has *found* the stone, and no stone is put. In a
  ``"classic"`` game it attempts another cell; in an ``"abrupt"`` game its turn is over.
- The other player is told nothing of an attempt: neither its cell nor whether it failed.
- After a stone that does not end the game, a turn is skipped with the game's skip chance; never after a failed attempt.
  The mover is told at once that it moves again. The player whose turn was skipped is not told.
- Both players are told the result at the end.

A *view* is what a player has on the board without the order of events: the own stones and the found ones. It is a row
of ``Boards`` in which the other stones are missing, so any policy that is a function of the board can play by views. A
*joint view* is the position and both players' found stones: the state of the game if both play by their views. An
attempt adds a stone or a found one to the mover's view. So no view occurs twice in a game, and the number of stones and
found stones grows by one with every attempt.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ttt_envs.core.jit import Int8Array, Int64Array, UInt64Array, compiled, inlined, int64
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.rules import ILLEGAL, NOT_OVER, mover_after, place

FOUND = -3
"""Result of an attempt on a cell with a hidden stone, in addition to the outcomes of the rules."""
MAX_CELLS_BASE_5 = 27
"""Maximum number of cells for which a joint view and its mover fit into a key of 64 bits."""


class JointViews(NamedTuple):
    """A batch of B states of a phantom game."""

    cells: Int8Array
    """int8[B, rows * columns]: 0 empty, 1 a stone of player_0, 2 a stone of player_1"""
    found: Int8Array
    """int8[B, rows * columns]: 1 for a stone that the other player has found, else 0"""
    mover: Int8Array
    """int8[B]: player to move, 0 or 1"""

    @classmethod
    def start(cls, game: Game, count: int = 1) -> JointViews:
        """Return ``count`` empty boards, player_0 to move."""
        return cls.from_boards(Boards.start(game, count))

    @classmethod
    def from_boards(cls, boards: Boards, found: Int8Array | None = None) -> JointViews:
        """Return positions and the stones that have been found, int8[B, cells]; by default none."""
        return cls(boards.cells, np.zeros_like(boards.cells) if found is None else found, boards.mover)

    def take(self, rows: Int64Array) -> JointViews:
        """Return the selected rows, copied."""
        return JointViews(*(array[rows] for array in self))

    def views(self) -> Boards:
        """Return the movers' views: boards with their own stones and the stones that they have found."""
        return Boards(self.player_view(self.mover), self.mover)

    def player_view(self, player: int | Int8Array) -> Int8Array:
        """Return int8[B, cells]: the board as a player knows it; one player, or int8[B] one for each row."""
        own = self.cells == np.asarray(player, np.int8).reshape(-1, 1) + 1
        return np.where(own | (self.found == 1), self.cells, 0).astype(np.int8)

    def keys(self) -> UInt64Array:
        """Return uint64[B]: a key for each joint view and mover; every attempt increases ``key // 2``.

        Raises:
            ValueError: the board has more than ``MAX_CELLS_BASE_5`` cells.
        """
        size = self.cells.shape[1]
        if size > MAX_CELLS_BASE_5:
            raise ValueError(f"joint views of {size} cells have no key of 64 bits: choose up to {MAX_CELLS_BASE_5}")
        digits = (self.cells + 2 * self.found).astype(np.uint64)
        powers = np.uint64(5) ** np.arange(size, dtype=np.uint64)
        keys: UInt64Array = np.uint64(2) * (digits @ powers) + self.mover.astype(np.uint64)
        return keys

    @classmethod
    def from_keys(cls, keys: UInt64Array, game: Game) -> JointViews:
        """Return the joint views that have these keys, see :meth:`keys`."""
        powers = np.uint64(5) ** np.arange(game.cells, dtype=np.uint64)
        digits = ((keys // np.uint64(2))[:, None] // powers % np.uint64(5)).astype(np.int8)
        found = (digits > 2).astype(np.int8)
        return cls(digits - 2 * found, found, (keys % np.uint64(2)).astype(np.int8))


def check_phantom(game: Game) -> None:
    """Raise ValueError unless a game hides stones."""
    if game.hidden == "no":
        raise ValueError(f"{game} is no phantom game: choose hidden='classic' or hidden='abrupt'")


@inlined
def is_unknown(cells: Int8Array, found: Int8Array, mover: int, cell: int) -> bool:
    """Return whether a cell may be attempted: it is neither the mover's own nor known to be taken."""
    return bool(cells[cell] != mover + 1 and found[cell] == 0)


@inlined
def attempt(
    cells: Int8Array,
    found: Int8Array,
    mover: int,
    cell: int,
    stones: int,
    episode_key: np.uint64,
    abrupt: bool,
    parameters: Parameters,
) -> tuple[int, int]:
    """Attempt a cell, in place: put a stone, or find the opponent's.

    Args:
        cells: int8[rows * columns].
        found: int8[rows * columns], see :class:`JointViews`.
        mover: the player to move.
        cell: index of a cell.
        stones: number of stones before the attempt, which is the number of the skip's random number.
        episode_key: of the episode.
        abrupt: whether a failed attempt ends the turn.
        parameters: ``Game.visible.parameters``.

    Returns:
        ``FOUND``, or the outcome of a stone (``ILLEGAL`` on a cell that the mover knows to be taken, and then nothing
        has changed); and the next mover.
    """
    if cell >= 0 and cell < len(cells) and cells[cell] == 2 - mover and found[cell] == 0:
        found[cell] = 1
        return FOUND, 1 - mover if abrupt else mover
    outcome = place(cells, mover, cell, stones, parameters)  # not `play`, which expects as many stones of each player
    if outcome == NOT_OVER:
        mover = mover_after(mover, episode_key, stones, parameters)
    return outcome, mover


@compiled
def attempt_rows(
    cells: Int8Array,
    found: Int8Array,
    mover: Int8Array,
    stones: Int64Array,
    episode_keys: UInt64Array,
    actions: Int64Array,
    abrupt: bool,
    parameters: Parameters,
    outcomes: Int8Array,
) -> None:
    """Apply :func:`attempt` in each game of a batch, in place.

    Args:
        cells, found: int8[B, rows * columns]; mover: int8[B]; stones: int64[B]; episode_keys: uint64[B].
        actions: int64[B].
        abrupt, parameters: as of :func:`attempt`.
        outcomes: int8[B], written.
    """
    for b in range(len(cells)):
        outcome, after = attempt(
            cells[b], found[b], int64(mover[b]), actions[b], stones[b], episode_keys[b], abrupt, parameters
        )
        outcomes[b] = outcome
        if outcome != ILLEGAL:
            mover[b] = after
            stones[b] += int64(outcome != FOUND)
