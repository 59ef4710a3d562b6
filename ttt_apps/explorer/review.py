"""A game so far, of a request, and its review by exact values."""

from __future__ import annotations

import numpy as np

from baselines.exact import Solution
from ttt_apps.explorer.schemas import LineRequest
from ttt_envs.game.boards import Boards, check_opening, from_text
from ttt_envs.game.rules import Outcome, winner
from ttt_eval.matches.account import make_account
from ttt_eval.matches.games import Move, PlayedGame
from ttt_eval.matches.luck import LuckCorrection


def review_game(played_game: PlayedGame, solution: Solution) -> dict[str, object]:
    """Return the exact values of a game's positions and moves, JSON-ready.

    ``values`` has the value of every position for o. ``plies`` has of every move its ``loss``, the
    value of the best move minus that of this one for its mover; its ``luck``, what chance gave to o
    after it: the value when it has decided the next mover, minus its expectation before; and the
    ``best`` cells. The values of the first and the last position differ by the sum of ``luck``,
    minus o's losses, plus x's.

    Raises:
        ValueError: a position without a value, from no game without skips.
    """
    account = make_account(played_game, LuckCorrection(played_game.game, solution))
    values = [account.start]
    plies = []
    if account.moves:
        boards = Boards.from_positions([move.position for move in account.moves])
        for move, cells in zip(account.moves, solution.optimal_actions(boards), strict=True):
            loss = 0.0 if move.loss <= solution.tie else move.loss
            plies.append({"loss": loss, "luck": move.luck, "best": np.flatnonzero(cells).tolist()})
            values.append(values[-1] + move.change + move.luck)
    return {"values": values, "plies": plies}


def to_played_game(request: LineRequest) -> PlayedGame:
    """Return the unfinished or finished game of a request.

    Raises:
        ValueError: an opening that comes from no game, or an illegal move.
    """
    game = request.game
    start = Boards.start(game).position(0)
    if request.opening is not None:
        start = from_text(request.opening, game)
    check_opening(game, start, "the opening")
    cells = start.cells.copy()
    mover = start.mover
    moves = tuple(Move.from_text(word, game) for word in request.moves.split())
    for cell, is_skipped in moves:
        cells[cell] = mover + 1
        mover = mover if is_skipped else 1 - mover
    winning_mover = winner(game, cells)
    outcome = None if winning_mover is None else Outcome(winning_mover)
    return PlayedGame(game, ("o", "x"), moves, outcome, opening=request.opening)
