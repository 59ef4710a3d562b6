"""What moves are worth, from what positions are worth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ttt_envs.boards import Boards
from ttt_envs.compiling import Reals
from ttt_envs.rules import DRAW, NOT_OVER, Game, play_rows


def one_ply_ahead(game: Game, boards: Boards, values: Callable[[Boards], Reals]) -> Reals:
    """float64[B, cells], to the mover, NaN where illegal; a win at once is worth 1.

    A move is worth p V(after it, same mover) - (1 - p) V(after it, other mover), p the skip chance.

    Args:
        game: what is played.
        boards: B positions that are not over.
        values: of positions to their movers.
    """
    skip = game.skip_chance
    rows, cell = np.nonzero(boards.legal(game))
    after, mover = boards.cells[rows], boards.mover[rows]
    outcome = np.full(len(rows), NOT_OVER, np.int8)
    stones = np.count_nonzero(after, axis=1)
    each = np.arange(len(rows))
    # whose turn is skipped does not matter here: both turns are valued
    play_rows(after, mover.copy(), stones, np.zeros(len(rows), np.uint64), each, cell, game.parameters, outcome)
    going_on = outcome == NOT_OVER
    worth = np.where(outcome == DRAW, 0.0, 1.0)
    left = Boards(after[going_on], mover[going_on])
    worth[going_on] = -(1 - skip) * values(Boards(left.cells, 1 - left.mover))
    if skip > 0:
        worth[going_on] += skip * values(left)
    out = np.full(boards.cells.shape, np.nan)
    out[rows, cell] = worth
    return out
