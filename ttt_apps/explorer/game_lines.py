"""A game with all its positions as JSON, and its review by exact values."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from baselines.exact import Solution
from ttt_apps.explorer.panels import best_cells, cell_names, value_text
from ttt_envs.envs.config import FirstPlayer
from ttt_envs.game.boards import (
    MOVERS,
    Boards,
    cell_at,
    check_opening,
    coordinate,
    from_text,
    to_text,
    winning_line_cells,
)
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import DRAW, Outcome, legal, winner
from ttt_eval.matches.account import make_account
from ttt_eval.matches.games import AGAIN, Move, PlayedGame
from ttt_eval.matches.luck import LuckCorrection

RESULTS = ("o", "x", "draw")


class Review(NamedTuple):
    """The exact values of a game's positions and moves."""

    values: list[float]
    """of every position, for o"""
    losses: list[float]
    """of every move, for its mover: the value of the best move minus that of this one"""
    skips: list[float]
    """of every move, for o: the value after chance has decided the next mover, minus its expectation before"""
    best: list[list[int]]
    """best cells before every move"""
    tolerance: float

    @property
    def worst(self) -> int | None:
        """Number of the first of the moves that lost most; None if none lost anything."""
        return int(np.argmax(self.losses)) if max(self.losses, default=0) > self.tolerance else None


def review_game(played: PlayedGame, solution: Solution) -> Review:
    """Return the exact values of a game.

    The values of the first and the last position differ by ``sum(skips)``, minus o's losses, plus x's.

    Raises:
        ValueError: a position without a value, from no game without skips.
    """
    account = make_account(played, LuckCorrection(played.game, solution))
    values, losses, skips, best = [account.start], [], [], []
    if account.moves:
        moves = solution.action_values(Boards.from_positions([move.position for move in account.moves]))
        best = [best_cells(own, solution.tie) for own in moves]
    for move in account.moves:
        loss = -move.change * (1 - 2 * move.position.mover)
        losses.append(0.0 if loss <= solution.tie else loss)
        skips.append(move.luck)
        values.append(values[-1] + move.change + move.luck)
    return Review(values, losses, skips, best, solution.tie)


def line_json(played: PlayedGame, review: Review | None) -> dict[str, Any]:
    """Return every position and every move of a game, with exact values if there is a review."""
    game = played.game
    plies = list(played.positions())
    shown = []
    last: list[int] = []
    """stones that the last mover placed since the other player's last move"""
    for number, position in enumerate([position for position, _, _ in plies] + [played.end()]):
        if number:
            before, cell, _ = plies[number - 1]
            is_same = number > 1 and plies[number - 2][0].mover == before.mover
            last = [cell, *last] if is_same else [cell]
        result = played.result if number == len(plies) else None
        shown.append(
            {
                "position": to_text(position, game),
                "mover": MOVERS[position.mover],
                # without gravity, these are all empty cells
                "legal": np.flatnonzero(legal(game, position.cells)).tolist() if game.gravity else None,
                "last": last,
                "line": winning_line_cells(game, position.cells, result),
                "result": result_name(result),
                "value": None if review is None else review.values[number],
            }
        )
    return {
        "game": game.to_dict(),
        "opening": played.opening,
        "moves": " ".join(coordinate(cell, game) + AGAIN * skipped for cell, skipped in played.moves),
        "result": result_name(played.result),
        "worst": None if review is None else review.worst,
        "plies": [_move_json(game, number, ply, review) for number, ply in enumerate(plies)],
        "positions": shown,
        "summary": None if review is None or played.result is None else summary_json(played, review),
    }


def _move_json(game: Game, number: int, ply: tuple[Position, int, bool], review: Review | None) -> dict[str, Any]:
    position, cell, skipped = ply
    loss = None if review is None else review.losses[number]
    return {
        "cell": cell,
        "name": coordinate(cell, game),
        "mover": MOVERS[position.mover],
        "skipped": skipped,
        "loss": loss,
        "loss_text": None if loss is None else value_text(-loss) if loss else "best",
        "best": None if review is None else cell_names(review.best[number], game),
    }


def summary_json(played: PlayedGame, review: Review) -> dict[str, Any]:
    """Return what decided a finished game: the moves of both players, and the skips.

    ``result`` is that of the game for o, from -1 to 1, and ``start`` the value of its first position. ``skips`` is the
    value that chance gave to o, and ``without_skips`` the result minus that.
    """
    result = 0.0 if played.result == DRAW else 1.0 - 2.0 * float(played.result or 0)
    players = {}
    movers = [position.mover for position, _, _ in played.positions()]
    for seat, name in enumerate(MOVERS):
        losses = [loss for mover, loss in zip(movers, review.losses, strict=True) if mover == seat]
        best = losses.count(0.0)
        accuracy = best / len(losses) if losses else None
        players[name] = {"moves": len(losses), "best": best, "accuracy": accuracy, "loss": sum(losses)}
    skips = sum(review.skips)
    without = result - skips
    return {"result": result, "start": review.values[0], "players": players, "skips": skips, "without_skips": without}


def as_o_began(game: Game, position: Position, name: str, first: FirstPlayer) -> Position:
    """Return a position of a game that o began: the same, or with exchanged colours if only x can have begun.

    Both colours have the same rules, so that all values for the mover are the same.

    Args:
        game: the game.
        position: the position.
        name: of the position, in errors.
        first: ``"random"`` if either player may have moved first.

    Raises:
        ValueError: the position is over, or comes from no game.
    """
    try:
        check_opening(game, position, name)
    except ValueError:
        exchanged = Position(np.asarray((3 - position.cells) % 3, np.int8), 1 - position.mover)
        if first == "random":
            with suppress(ValueError):
                check_opening(game, exchanged, name)
                return exchanged
        raise
    return position


def to_played_game(game: Game, opening: str | None, moves: str, first: FirstPlayer = "player_0") -> PlayedGame:
    """Return an unfinished or finished game from its moves.

    Raises:
        ValueError: an opening that comes from no game, or an illegal move.
    """
    start = from_text(opening, game) if opening is not None else Boards.start(game).position(0)
    if opening is not None:
        as_o_began(game, start, "the opening", first)
    cells, mover = start.cells.copy(), start.mover
    made = [Move(cell_at(word.removesuffix(AGAIN), game), word.endswith(AGAIN)) for word in moves.split()]
    for cell, skipped in made:
        cells[cell] = mover + 1
        mover = mover if skipped else 1 - mover
    result = winner(game, cells)
    return PlayedGame(game, ("o", "x"), tuple(made), None if result is None else Outcome(result), opening=opening)


def result_name(result: int | None) -> str | None:
    """Return ``o``, ``x`` or ``draw``; None for an unfinished game."""
    return None if result is None else RESULTS[2 if result == DRAW else result]
