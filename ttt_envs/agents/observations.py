"""Observation and action spaces, and observations built from planes."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from gymnasium import spaces

from ttt_envs.core.checks import check_choice
from ttt_envs.core.jit import Float64Array, Int8Array
from ttt_envs.game.actions import num_actions
from ttt_envs.game.phantom import AnyGame

Observation = Literal["flat", "planes", "channels", "dict"]
DType = Literal["int8", "float32"]
Context = Literal["hidden", "shown"]
"""whether observations show the skip chance of the episode"""

SKIP_CHANCE_SPACE = spaces.Box(0, 1, (1,), np.float32)
"""space of the skip chance in observations that are dicts"""


class ObservationBuilder:
    """Builds the spaces, and observations from planes int8[B, 2, cells] and masks int8[B, actions].

    With ``context="shown"`` an observation also holds the skip chance of the episode: ``"flat"`` as a last entry,
    ``"planes"`` and ``"channels"`` as a third plane, ``"dict"`` as ``skip_chance`` float32[1].

    Raises:
        ValueError: an argument is not known, or int8 observations cannot hold a skip chance.
    """

    def __init__(self, game: AnyGame, observation: Observation, dtype: DType, context: Context = "hidden") -> None:
        check_choice("observation", observation, get_args(Observation))
        check_choice("dtype", dtype, get_args(DType))
        check_choice("context", context, get_args(Context))
        self.kind = observation
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.shows_context = context == "shown"
        self._skip_chance = game.skip_chance
        self._appends = self.shows_context and observation != "dict"  # to the stones, as further numbers
        if self._appends and dtype == "int8":
            raise ValueError(
                "context='shown' needs dtype='float32', because a skip chance is not a whole number; "
                "or observation='dict', in which it stands apart from the stones"
            )
        num_planes = 3 if self._appends else 2
        self._shape = (2, game.rows, game.columns) if observation == "channels" else (game.rows, game.columns, 2)
        actions = num_actions(game)
        self.action_space = spaces.Discrete(actions)
        self.observation_space: spaces.Space[Any]
        if observation == "flat":
            self.observation_space = spaces.Box(0, 1, (2 * game.cells + self._appends,), self.dtype)
            return
        board = (game.rows, game.columns)
        shape = (num_planes, *board) if observation == "channels" else (*board, num_planes)
        planes = spaces.Box(0, 1, shape, self.dtype)
        self.observation_space = planes
        if observation == "dict":
            mask = spaces.Box(0, 1, (actions,), np.int8)
            parts: dict[str, spaces.Space[Any]] = {"observation": planes, "action_mask": mask}
            if self.shows_context:
                parts["skip_chance"] = SKIP_CHANCE_SPACE
            self.observation_space = spaces.Dict(parts)

    def build(self, planes: Int8Array, mask: Int8Array, skip_chances: Float64Array | None = None) -> Any:
        """Return the batched observation; it shares no memory with ``mask``.

        ``skip_chances`` are float64[B], by default those of the game; they are used with ``context="shown"`` only.
        """
        count = len(planes)
        shown: np.ndarray[Any, Any]
        if self.kind == "flat":
            shown = planes.reshape(count, -1)
        elif self.kind == "channels":
            shown = planes.reshape(count, *self._shape)
        else:
            shown = np.ascontiguousarray(planes.transpose(0, 2, 1)).reshape(count, *self._shape)
        if self.dtype != np.int8:
            shown = shown.astype(self.dtype)
        if self._appends:
            shown = self._with_context(shown, skip_chances)
        if self.kind != "dict":
            return shown
        observation = {"observation": shown, "action_mask": mask.copy()}
        if self.shows_context:
            observation["skip_chance"] = self._contexts(count, skip_chances).reshape(count, 1)
        return observation

    def _with_context(self, shown: np.ndarray[Any, Any], skip_chances: Float64Array | None) -> np.ndarray[Any, Any]:
        """Append the skip chances to stones [B, ...] as an entry or a plane."""
        axis = 1 if self.kind in ("flat", "channels") else 3
        shape = (*shown.shape[:axis], 1, *shown.shape[axis + 1 :])
        values = self._contexts(len(shown), skip_chances).reshape(-1, *[1] * (shown.ndim - 1))
        return np.concatenate([shown, np.broadcast_to(values, shape)], axis=axis)

    def _contexts(self, count: int, skip_chances: Float64Array | None) -> np.ndarray[Any, Any]:
        """Return float32[B]."""
        if skip_chances is None:
            return np.full(count, self._skip_chance, np.float32)
        return skip_chances.astype(np.float32)
