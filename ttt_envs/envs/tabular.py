"""The transition table of a small environment, as Gymnasium's toy-text environments have it."""

from __future__ import annotations

from ttt_envs.arrays import DecisionProcess, against, game_arrays
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Int8Array
from ttt_envs.envs.config import EnvConfig
from ttt_envs.game.game import Game
from ttt_envs.game.rules import DRAW
from ttt_envs.graph.estimate import is_measured_at_once

NEEDED = {
    "symmetry": "none",
    "openings": None,
    "first_player": "player_0",
    "illegal_action": "lose",
}
"""Arguments, and the values with which an environment has a table."""


class Tabular:
    """The decision process of a configuration of :class:`ttt_envs.envs.single_env.SingleEnv`.

    Args:
        config: the environment's.

    Attributes:
        process: as sparse matrices.
        table: as ``P`` of Gymnasium's toy-text environments.

    Raises:
        ValueError: the game is too large, the opponent is not one pure policy, the seat is drawn,
            or the environment is more than a decision process over positions.
    """

    def __init__(self, config: EnvConfig) -> None:
        for name, value in NEEDED.items():
            if getattr(config, name) != value:
                raise Refusal(
                    f"an environment with {name}={getattr(config, name)!r} has no table P: make it "
                    f"with {name}={value!r}"
                )
        if config.seat not in ("first", "second"):
            raise Refusal(
                f"seat={config.seat!r} has two tables P: make the environment with seat='first' or "
                "'second'"
            )
        if [len(stage) for stage in config.opponents] != [1]:
            raise Refusal("P needs one opponent and one skip chance: name a policy and a number")
        game = config.game
        if not isinstance(game, Game) or not is_measured_at_once(game):
            raise Refusal(
                f"P of {game} would be too large, or has hidden stones: choose 3 x 3, or take "
                "matrices from ttt_envs.arrays.against"
            )
        arrays = game_arrays(game)
        seat = ("first", "second").index(config.seat)
        self.process: DecisionProcess = against(arrays, config.opponents[0][0], seat)
        self.table = self.process.table()
        observations = arrays.observations[self.process.rows]
        self._states = {row.tobytes(): state for state, row in enumerate(observations)}

    def state(self, observation: Int8Array, winner: int, seat: int, is_over: bool) -> int:
        """Return the state of a game.

        Args:
            observation: int8[2 * cells], of the caller.
            winner: 0 or 1, ``DRAW``, or -1 while the game goes on.
            seat: the caller's.
            is_over: whether the end has been returned by a step; else the next one returns it.
        """
        if winner < 0:
            return self._states[observation.tobytes()]
        result = 1
        if winner != DRAW:
            result = 0 if winner == seat else 2
        return self.process.final - 3 * (not is_over) + result
