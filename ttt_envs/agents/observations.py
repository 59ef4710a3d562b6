"""Observation and action spaces, and observations built from planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ttt_envs.core.checks import Refusal, check_choice
from ttt_envs.core.jit import Float64Array, Int8Array
from ttt_envs.game.actions import legal_actions, num_actions
from ttt_envs.game.boards import Boards
from ttt_envs.game.phantom import AnyGame

Observation = Literal["flat", "planes", "channels", "dict"]
DType = Literal["int8", "float32"]


def map_parts(function: Callable[[Any], Any], thing: Any) -> Any:
    """Return the function of observations or a space; of those that are dicts, a dict of the
    function of each part.
    """
    is_dict = isinstance(thing, (dict, spaces.Dict))
    return {name: function(part) for name, part in thing.items()} if is_dict else function(thing)


class ObservationBuilder:
    """Builds the spaces, and observations from planes int8[B, 2, cells] and masks int8[B, actions].

    With ``observe_skip_chance`` an observation also holds the skip chance of the episode:
    ``"flat"`` as a last entry, ``"planes"`` and ``"channels"`` as a third plane, ``"dict"`` as
    ``skip_chance`` float32[1].

    Raises:
        ValueError: an argument is not known, or int8 observations cannot hold a skip chance.
    """

    def __init__(
        self,
        game: AnyGame,
        observation: Observation,
        dtype: DType,
        observe_skip_chance: bool = False,
    ) -> None:
        check_choice("observation", observation, get_args(Observation))
        check_choice("dtype", dtype, get_args(DType))
        self.game = game
        self.kind = observation
        self.dtype = np.dtype(dtype)
        self.observe_skip_chance = observe_skip_chance
        # whether the skip chance follows the stones, as further numbers
        self._appends = observe_skip_chance and observation != "dict"
        if self._appends and dtype == "int8":
            raise Refusal(
                "observe_skip_chance is no whole number: write dtype='float32' or "
                "observation='dict'"
            )
        board = (game.rows, game.columns)
        num_planes = 2 + self._appends
        shapes = {"flat": (2 * game.cells + self._appends,), "channels": (num_planes, *board)}
        self.action_space = spaces.Discrete(num_actions(game))
        stones = spaces.Box(0, 1, shapes.get(observation, (*board, num_planes)), self.dtype)
        self.observation_space: spaces.Space[Any] = stones
        if observation == "dict":
            mask = spaces.Box(0, 1, (num_actions(game),), np.int8)
            skip_chance = (
                {"skip_chance": spaces.Box(0, 1, (1,), np.float32)} if observe_skip_chance else {}
            )
            self.observation_space = spaces.Dict(
                {"observation": stones, "action_mask": mask, **skip_chance}
            )

    def build(
        self, planes: Int8Array, mask: Int8Array, skip_chances: Float64Array | None = None
    ) -> Any:
        """Return the batched observation; it shares no memory with ``mask``.

        ``skip_chances`` are float64[B], by default those of the game; they are used with
        ``observe_skip_chance`` only.
        """
        count = len(planes)
        rows = self.game.rows
        columns = self.game.columns
        stones: NDArray[Any] = planes if self.dtype == np.int8 else planes.astype(self.dtype)
        if self.observe_skip_chance:
            values = np.full(count, self.game.skip_chance) if skip_chances is None else skip_chances
            chances = values.astype(np.float32).reshape(count, 1)
        if self.kind == "flat":
            stones = stones.reshape(count, 2 * rows * columns)
            return np.concatenate([stones, chances], axis=1) if self._appends else stones
        if self._appends:
            stones = np.concatenate(
                [stones, np.broadcast_to(chances[:, :, None], (count, 1, rows * columns))], axis=1
            )
        stones = stones.reshape(count, stones.shape[1], rows, columns)
        if self.kind == "channels":
            return stones
        stones = np.ascontiguousarray(stones.transpose(0, 2, 3, 1))
        if self.kind == "planes":
            return stones
        observation = {"observation": stones, "action_mask": mask.copy()}
        return observation | {"skip_chance": chances} if self.observe_skip_chance else observation

    def observe(self, boards: Boards) -> tuple[Any, Int8Array]:
        """Return what the movers see of positions: the batched observation, and the masks int8[B,
        actions].
        """
        stones = boards.own_first()
        mask = legal_actions(self.game, boards.cells).astype(np.int8)
        return self.build(np.stack([stones == 1, stones == 2], axis=1).astype(np.int8), mask), mask
