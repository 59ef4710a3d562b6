"""Enumeration of the boards and positions reachable from the empty board."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.jit import (
    Int8Array,
    Int64Array,
    Parameters,
    UInt64Array,
    compiled_at_once_allocating,
    inlined,
    int64,
)
from ttt_envs.game.rules import NOT_OVER, Game, is_legal, skip_chance_of, terminal_outcome_inline
from ttt_envs.game.symmetry import symmetries

WON, DRAWN = 4, 16
"""codes of :func:`reached`: WON << m, player m has a line; DRAWN, the board is full without one"""


class Counts(NamedTuple):
    """Numbers of boards, positions and games reachable from the empty board."""

    positions_not_over: int
    """pairs of cells and mover of games in progress"""
    boards_not_over: int
    boards_over: int
    won_by_player_0: int
    """boards that are over because player_0 has a line"""
    won_by_player_1: int
    drawn: int
    by_stones: tuple[int, ...]
    """boards with 0, 1, ... stones, over or not"""
    classes: int
    """number of boards up to the symmetries of the board"""
    games: int | None
    """sequences of moves from the empty board to an end; None with skips, where play does not alternate, and for boards
    counted by sets"""

    @property
    def boards(self) -> int:
        """All boards, over or not."""
        return self.boards_not_over + self.boards_over


def reached(game: Game) -> NDArray[np.uint8]:
    """Return the status of every board, by its key: uint8[3**cells], 0 for unreachable boards.

    Bit m is set if player m may be the mover; a finished board has ``WON << winner`` or ``DRAWN``.
    """
    found = np.zeros(3**game.cells, np.uint8)
    none = np.zeros((0, game.cells), np.int64)
    scratch = np.zeros(game.cells + 1, np.int64), np.zeros(6, np.int64), np.zeros(1, np.int64)
    _count_all(found, np.zeros(0, np.uint64), none, game.parameters, *scratch)
    return found


def count(game: Game) -> Counts:
    """Count by one upward sweep that marks the successors of every position."""
    size = game.cells
    made = np.zeros(3**size, np.uint8)
    paths = np.zeros(3**size if game.skip_chance == 0 else 0, np.uint64)
    by_stones = np.zeros(size + 1, np.int64)
    totals = np.zeros(6, np.int64)
    fixed = np.zeros(1, np.int64)
    images = symmetries(game)
    games = _count_all(made, paths, images, game.parameters, by_stones, totals, fixed)
    won, lost, drawn, boards_not_over, positions, _ = map(int, totals)
    return Counts(
        positions_not_over=positions,
        boards_not_over=boards_not_over,
        boards_over=won + lost + drawn,
        won_by_player_0=won,
        won_by_player_1=lost,
        drawn=drawn,
        by_stones=tuple(map(int, by_stones)),
        classes=int(fixed[0]) // len(images),
        games=int(games) if game.skip_chance == 0 else None,
    )


@inlined
def count_up(cells: Int8Array) -> None:
    """Advance to the board with the next key, in place; there must be one."""
    cell = 0
    while cells[cell] == 2:
        cells[cell] = 0
        cell += 1
    cells[cell] += 1


@compiled_at_once_allocating
def _count_all(
    made: Int8Array,
    paths: UInt64Array,
    images: Int64Array,
    parameters: Parameters,
    by_stones: Int64Array,
    totals: Int64Array,
    fixed: Int64Array,
) -> int:
    """Visit every reachable board, lowest key first.

    Args:
        made: uint8[3**cells] of zeros: bit m is set if player m may have made the board, until it is visited; then it
            holds the code of :func:`reached`.
        paths: uint64[3**cells] of zeros: number of ways to reach a board; empty if not needed.
        images: int64[S, cells], the symmetries.
        parameters: ``Game.parameters``.
        by_stones: int64[cells + 1], written.
        totals: int64[6], written: boards won by player_0, by player_1, drawn, not over; positions not over.
        fixed: int64[1], written: pairs of a board and a symmetry that leaves it unchanged. Divided by the number of
            symmetries this is the number of classes (Burnside's lemma).

    Returns:
        The number of games, if ``paths`` is given.
    """
    size = images.shape[1]
    cells = np.zeros(size, np.int8)
    games = np.uint64(0)
    made[0] = 2  # as if player_1 had made the empty board: player_0 moves, and the first turn is never skipped
    if len(paths):
        paths[0] = 1
    for board in range(len(made)):
        if board > 0:
            count_up(cells)
        if made[board] == 0:
            continue
        stones = 0
        for cell in range(size):
            stones += cells[cell] != 0
        by_stones[stones] += 1
        for image in range(len(images)):
            same = True
            for cell in range(size):
                if cells[cell] != cells[images[image, cell]]:
                    same = False
                    break
            fixed[0] += same
        outcome = terminal_outcome_inline(cells, parameters)
        if outcome != NOT_OVER:
            totals[outcome] += 1
            if len(paths):
                games += paths[board]
            made[board] = WON << outcome
            continue
        totals[3] += 1
        movers = 0
        for mover in range(2):
            moves_on = skip_chance_of(parameters) > 0 and board > 0 and made[board] >> mover & 1
            if not moves_on and not made[board] >> (1 - mover) & 1:
                continue
            totals[4] += 1
            movers |= 1 << mover
            step = mover + 1
            for cell in range(size):
                if is_legal(cells, cell, parameters):
                    made[board + step] |= 1 << mover
                    if len(paths):
                        paths[board + step] += paths[board]
                step *= 3
        made[board] = movers
    return int64(games)
