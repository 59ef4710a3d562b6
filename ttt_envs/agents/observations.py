"""Observation and action spaces, and observations built from planes."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from gymnasium import spaces

from ttt_envs.core.checks import check_choice
from ttt_envs.core.jit import Int8Array
from ttt_envs.game.rules import Game

Observation = Literal["flat", "planes", "channels", "dict"]
DType = Literal["int8", "float32"]


class Views:
    """Builds the spaces, and observations from planes int8[B, 2, cells] and masks int8[B, cells]."""

    def __init__(self, game: Game, observation: Observation, dtype: DType) -> None:
        check_choice("observation", observation, get_args(Observation))
        check_choice("dtype", dtype, get_args(DType))
        self.kind = observation
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.shape = (2, game.rows, game.columns) if observation == "channels" else (game.rows, game.columns, 2)
        self.action_space = spaces.Discrete(game.cells)
        self.observation_space: spaces.Space[Any]
        if observation == "flat":
            self.observation_space = spaces.Box(0, 1, (2 * game.cells,), self.dtype)
        else:
            planes = spaces.Box(0, 1, self.shape, self.dtype)
            mask = spaces.Box(0, 1, (game.cells,), np.int8)
            both: dict[str, spaces.Space[Any]] = {"observation": planes, "action_mask": mask}
            self.observation_space = spaces.Dict(both) if observation == "dict" else planes

    def show(self, planes: Int8Array, mask: Int8Array) -> Any:
        """Return the batched observation; it shares no memory with ``mask``."""
        count = len(planes)
        shown: np.ndarray[Any, Any]
        if self.kind == "flat":
            shown = planes.reshape(count, -1)
        elif self.kind == "channels":
            shown = planes.reshape(count, *self.shape)
        else:
            shown = np.ascontiguousarray(planes.transpose(0, 2, 1)).reshape(count, *self.shape)
        if self.dtype != np.int8:
            shown = shown.astype(self.dtype)
        return {"observation": shown, "action_mask": mask.copy()} if self.kind == "dict" else shown
