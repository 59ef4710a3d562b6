"""The result of one game as a sum: the value of the start, the luck of skips, and what each player
gave away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ttt_envs.core.checks import Refusal
from ttt_envs.game.boards import Boards, coordinate
from ttt_envs.game.game import Position
from ttt_envs.game.rules import DRAW, winner
from ttt_eval.matches.games import PlayedGame, Ply
from ttt_eval.matches.luck import LuckCorrection
from ttt_eval.store.result_store import Data


class MoveAccount(NamedTuple):
    """A move and the chance event after it, in values for player_0."""

    position: Position
    action: int
    skipped: bool
    """whether the other player's turn was skipped after the move"""
    change: float
    """change of the value by the move: for exact values at most 0 for a move of player_0, at least
    0 for player_1
    """
    luck: float
    """change of the value by the chance event after the move"""

    @property
    def loss(self) -> float:
        """Value that the move loses, for its player."""
        return -self.change * (1 - 2 * self.position.mover)


class GameAccount(NamedTuple):
    """A game in values for player_0; ``start + luck + changes[0] + changes[1] + forfeit ==
    result``.
    """

    start: float
    """value of the first position"""
    moves: tuple[MoveAccount, ...]
    forfeit: float
    """change of the value by a forfeit or a loss on time"""
    result: float
    """1 if player_0 won, -1 if it lost, 0 for a draw; of an unfinished game the value of its last
    position
    """

    @property
    def luck(self) -> float:
        """Sum of the luck of chance events."""
        return sum(move.luck for move in self.moves)

    @property
    def changes(self) -> tuple[float, float]:
        """Sums of the changes by the moves of player_0 and of player_1."""
        sums = [0.0, 0.0]
        for move in self.moves:
            sums[move.position.mover] += move.change
        return sums[0], sums[1]

    @property
    def corrected(self) -> float:
        """The result without the luck of chance events."""
        return self.result - self.luck

    def to_dict(self, played_game: PlayedGame) -> Data:
        """Return JSON-ready data; docs/files.md documents the keys."""
        moves = [
            {
                "mover": move.position.mover,
                "move": coordinate(move.action, played_game.game),
                "skipped": move.skipped,
                "change": move.change,
                "luck": move.luck,
            }
            for move in self.moves
        ]
        return {
            "players": list(played_game.players),
            "start_value": self.start,
            "skip_luck": self.luck,
            "changes": list(self.changes),
            "forfeit": self.forfeit,
            "result": self.result,
            "moves": moves,
        }


def make_account(played_game: PlayedGame, correction: LuckCorrection) -> GameAccount:
    """Return the account of a game by a value function.

    Raises:
        ValueError: a game of another kind than the correction's.
    """
    game = played_game.game
    if game != correction.game:
        raise Refusal(
            f"a game of {game} is not explained by values of {correction.game}: choose values of "
            "that game"
        )
    steps = list(played_game.positions())
    start = last = float(correction.values(Boards.from_positions([played_game.start()]))[0])
    moves: tuple[MoveAccount, ...] = ()
    if steps:
        start, moves, last = account_moves(steps, correction)
    result = last
    if played_game.result is not None:
        result = _result_value(played_game.result)
    return GameAccount(start, moves, result - last, result)


def account_moves(
    steps: Sequence[Ply], correction: LuckCorrection
) -> tuple[float, tuple[MoveAccount, ...], float]:
    """Return the value before the first move, the accounts of moves, and the value after the last
    move.

    Args:
        steps: at least one, in order.
        correction: the correction.
    """
    boards = Boards.from_positions([step.position for step in steps])
    mover = boards.mover
    cells = boards.cells.copy()
    rows = np.arange(len(steps))
    cells[rows, [step.action for step in steps]] = mover + 1
    end = winner(correction.game, cells[-1])
    # no chance event follows the last move if it ends the game
    num_going = len(steps) - (end is not None)
    next_mover = np.where([step.skipped for step in steps], mover, 1 - mover)
    next_values = np.full(len(steps), _result_value(end or 0))
    expected_values = next_values.copy()
    next_values[:num_going], expected_values[:num_going] = correction.values_after(
        cells[:num_going], mover[:num_going], next_mover[:num_going]
    )
    values = correction.values(boards)
    changes = (expected_values - values).tolist()
    luck = (next_values - expected_values).tolist()
    moves = tuple(
        MoveAccount(step.position, step.action, step.skipped, *parts)
        for step, *parts in zip(steps, changes, luck, strict=True)
    )
    return float(values[0]), moves, float(next_values[-1])


def _result_value(result: int) -> float:
    """Return the value of a result for player_0: of the winner, or a draw."""
    return 0.0 if result == DRAW else 1.0 - 2.0 * result


def describe_account(
    account: GameAccount, seat: int, names: tuple[str, str, str], *, skips: bool = True
) -> str:
    """Return the account in a sentence, from the view of one player.

    Args:
        account: the account.
        seat: the player, 0 or 1.
        names: the player, its moves and the other's moves, such as ``("you", "your moves", "its
            moves")``.
        skips: whether turns can be skipped in the game.
    """
    sign = 1 - 2 * seat
    player, own_moves, other_moves = names
    own_loss = -sign * account.changes[seat]
    other_loss = sign * account.changes[1 - seat]
    parts = [f"the start is worth {sign * account.start:+z.2f} to {player}"]
    parts += [f"{own_moves} lose {own_loss:z.2f}", f"{other_moves} lose {other_loss:z.2f}"]
    if skips:
        parts.append(f"the skips are worth {sign * account.luck:+z.2f}")
    if account.forfeit:
        parts.append(f"the forfeit is worth {sign * account.forfeit:+z.2f}")
    return f"{', '.join(parts)}: {sign * account.result:+z.2g} in all"
