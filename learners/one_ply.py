"""Action values from state values, one ply ahead."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import Boards, play_moves
from ttt_envs.game.game import Game
from ttt_envs.game.rules import DRAW, NOT_OVER, values_over_skip


def one_ply_ahead(game: Game, boards: Boards, values: Callable[[Boards], Float64Array]) -> Float64Array:
    """Return action values float64[B, cells] from the mover's view, NaN where illegal; a move that ends the game has
    the value of its result.

    Q(a) = p V(after a, same mover) - (1 - p) V(after a, other mover), where p is the skip chance.

    Args:
        game: the game.
        boards: B positions that are not over.
        values: function from positions to values, from their movers' view.
    """
    skip = game.skip_chance
    rows, cell = np.nonzero(boards.legal(game))
    mover = boards.mover[rows]
    after, outcome = play_moves(game, boards, rows, cell)
    continues = outcome == NOT_OVER
    action_values = np.where(outcome == DRAW, 0.0, np.where(outcome == mover, 1.0, -1.0))  # in misère a line loses
    left = Boards(after[continues], mover[continues])
    other = -values(Boards(left.cells, 1 - left.mover))
    own = values(left) if skip > 0 else other
    action_values[continues] = values_over_skip(own, other, skip)
    out = np.full(boards.cells.shape, np.nan)
    out[rows, cell] = action_values
    return out
