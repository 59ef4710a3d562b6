"""A sample game with the loss of each move, as shown on the page of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from baselines.exact import Solution
from ttt_envs.agents.policy import Policy, act
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import Outcome, chance_outcomes


class Ply(NamedTuple):
    """A move of a game."""

    position: Position
    """position before it"""
    action: int
    loss: float | None
    """the value that it loses, 0 for a best move; None where the game is not solved"""
    skips: bool
    """whether the other player's turn is then skipped"""


class SampleGame(NamedTuple):
    """A game from its first move to its last."""

    plies: Sequence[Ply]
    last: Position
    """the finished board"""
    outcome: Outcome


def sample_game(game: Game, first: Policy, second: Policy, seed: int, *, solution: Solution | None) -> SampleGame:
    """Sample one game.

    Args:
        game: the game.
        first, second: the players.
        seed: of the players' draws and the skips.
        solution: of the game, if it is solved: then the losses of moves are known.
    """
    moves, skips = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2))
    position, plies = Boards.start(game).position(0), []
    while True:
        boards = Boards.from_positions([position])
        action = int(act((first, second)[position.mover], boards, moves)[0])
        loss = None
        if solution is not None:
            values = solution.action_values(boards)[0]
            loss = float(np.nanmax(values) - values[action])
        outcomes = chance_outcomes(game, position, action)
        chosen = outcomes[int(len(outcomes) > 1 and skips.random() < game.skip_chance)]
        goes_on = chosen.winner is None
        plies.append(Ply(position, action, loss, goes_on and chosen.position.mover == position.mover))
        position = chosen.position
        if chosen.winner is not None:
            return SampleGame(plies, position, Outcome(chosen.winner))
