"""The vector environment as a ``VecEnv`` of Stable-Baselines3: all games are stepped by one kernel.

``make_vec_env`` takes the place of the function of that name in
``stable_baselines3.common.env_util``. Games, observations, rewards and infos are those of its
``DummyVecEnv`` over ``Monitor(gymnasium.make(...))``.

Importing this imports Stable-Baselines3: the extra ``[sb3]``.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ttt_envs.core.checks import Refusal, TypeRefusal, check_choice
from ttt_envs.core.packages import avoid_triton_crash, install_command
from ttt_envs.envs.config import Info
from ttt_envs.envs.registration import PRESETS
from ttt_envs.envs.single_env import SingleEnv, parse_reset_options
from ttt_envs.envs.vector_env import MNKVectorEnv

avoid_triton_crash()  # Stable-Baselines3 imports TensorFlow where it is installed

try:
    from stable_baselines3.common.monitor import Monitor, ResultsWriter
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError as problem:
    package = (problem.name or "").partition(".")[0]
    raise ModuleNotFoundError(
        f"ttt_envs.sb3 needs {package}, which is not installed: {install_command('sb3')}",
        name=problem.name,
    ) from None

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env.base_vec_env import (
        VecEnvIndices,
        VecEnvObs,
        VecEnvStepReturn,
    )

__all__ = ["MNKVecEnv", "make_vec_env"]

_NUMBERS = ("seat", "mover", "result", "winner")  # the entries of an info that are integers


def make_vec_env(
    env_id: str = "ttt/MNK-v0",
    n_envs: int = 1,
    seed: int | None = None,
    *,
    monitor_file: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> MNKVecEnv:
    """Make ``n_envs`` simultaneous games for a model of Stable-Baselines3 or sb3-contrib.

    Args:
        env_id: a Gymnasium id of this package, such as ``"ttt/TicTacToe-v0"``; for another
            environment that is a ``MNKVectorEnv``, call :class:`MNKVecEnv`.
        n_envs: number of games, at least 1.
        seed: game i is seeded ``seed + i`` at the first reset. Models with a seed of their own
            replace it.
        monitor_file: see :class:`MNKVecEnv`.
        settings: arguments of :class:`ttt_envs.envs.vector_env.MNKVectorEnv` other than
            ``autoreset_mode``.

    Raises:
        TypeError: the id is no text.
        ValueError: the id is of another package, or a setting is invalid.
    """
    if not isinstance(env_id, str):
        raise TypeRefusal(
            f"env_id={env_id!r} is no id: write for example make_vec_env('ttt/TicTacToe-v0', "
            "n_envs=4)"
        )
    name = env_id.rpartition(":")[2]  # a module may stand before the id
    if name not in PRESETS:
        raise Refusal(
            f"{env_id} is no environment of ttt_envs: choose one of {', '.join(PRESETS)}, or take "
            f"stable_baselines3.common.env_util.make_vec_env"
        )
    env = gymnasium.make_vec(
        name, n_envs, "vector_entry_point", autoreset_mode=AutoresetMode.SAME_STEP, **settings
    )
    assert isinstance(env, MNKVectorEnv)
    games = MNKVecEnv(env, monitor_file)
    if seed is not None:
        games.seed(seed)
        games.action_space.seed(seed)
    return games


class MNKVecEnv(VecEnv):
    """``MNKVectorEnv`` as a ``VecEnv``; game i is the ``SingleEnv`` seeded ``seed + i``.

    ``step`` returns observations in new arrays, rewards float32[B], dones bool[B], and a list of
    infos. These are the infos of ``SingleEnv`` with ``TimeLimit.truncated``. At the end of an
    episode they also have ``terminal_observation`` and, as ``Monitor`` writes it, ``episode``: the
    return ``r``, the length ``l`` in steps, and the time ``t`` in seconds since the environment was
    made. ``reset_infos`` has the infos of each game's last reset.

    The games are no environments of their own: ``get_attr`` returns attributes that all share, and
    ``env_method`` calls ``action_masks`` only, as sb3-contrib does.

    Args:
        env: with ``autoreset_mode=AutoresetMode.SAME_STEP``.
        monitor_file: file for the episodes of all games, as ``VecMonitor`` writes it; its name gets
            the ending ``monitor.csv``, by which ``load_results`` finds it. None for no file.

    Attributes:
        env: the vector environment.

    Raises:
        ValueError: another ``autoreset_mode``.
    """

    def __init__(
        self, env: MNKVectorEnv, monitor_file: str | os.PathLike[str] | None = None
    ) -> None:
        if env.autoreset_mode is not AutoresetMode.SAME_STEP:
            raise Refusal(
                f"autoreset_mode={env.autoreset_mode.name} does not fit Stable-Baselines3, whose "
                "environments begin "
                f"the next game in the same step: choose AutoresetMode.SAME_STEP"
            )
        self.env = env
        self._began = False
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)
        self.metadata = env.metadata
        self._start = time.time()
        self._writer: ResultsWriter | None = None
        if monitor_file is not None:
            env_id = str(env.spec.id if env.spec is not None else None)
            self._writer = ResultsWriter(
                os.fspath(monitor_file), {"t_start": self._start, "env_id": env_id}
            )
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, np.int64)

    def reset(self) -> VecEnvObs:
        """Begin new episodes, with the seeds and options that were set before, which are used once.

        Raises:
            TypeError, ValueError: an option is invalid; no game has changed then.
        """
        for options in self._options:
            parse_reset_options(self.env.config, options)
        groups = [
            [row for row in range(self.num_envs) if self._options[row] == options]
            for options in self._options
        ]
        groups = [rows for index, rows in enumerate(groups) if rows[0] == index]  # each once
        observation: VecEnvObs
        if len(groups) > 1 and not self._began:
            self.env.reset(seed=self._seeds)  # the first reset is of all games
        for rows in groups:
            options = {
                **self._options[rows[0]],
                "reset_mask": np.isin(np.arange(self.num_envs), rows),
            }
            observation, info = self.env.reset(seed=self._seeds, options=options)
            for row, row_info in zip(rows, _split(info, rows), strict=True):
                self.reset_infos[row] = row_info
        self._began = True
        self._returns[:] = 0
        self._lengths[:] = 0
        self._reset_seeds()
        self._reset_options()
        return observation

    def step_async(self, actions: NDArray[Any]) -> None:
        """Store the actions int[B]."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Make the moves; see the class and ``MNKVectorEnv.step``."""
        observation, rewards, terminated, truncated, info = self.env.step(self._actions)
        dones = terminated | truncated
        self._returns += rewards
        self._lengths += 1
        infos = _split(info)
        rows = np.flatnonzero(dones).tolist()
        final_infos = _split(info["final_info"], rows) if rows else []
        now = round(time.time() - self._start, 6)
        for row, row_info in zip(rows, final_infos, strict=True):
            self.reset_infos[row] = infos[row]
            infos[row] = row_info
            row_info["terminal_observation"] = info["final_obs"][row]
            row_info["episode"] = {
                "r": round(float(self._returns[row]), 6),
                "l": int(self._lengths[row]),
                "t": now,
            }
            if self._writer is not None:
                self._writer.write_row(row_info["episode"])
        self._returns[rows] = 0
        self._lengths[rows] = 0
        for row_info, is_cut in zip(infos, (truncated & ~terminated).tolist(), strict=True):
            row_info["TimeLimit.truncated"] = is_cut
        return observation, rewards.astype(np.float32), dones, infos

    def close(self) -> None:
        """Close the file, if any."""
        if self._writer is not None:
            self._writer.close()
        self.env.close()

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """Return a picture uint8[height, width, 3] of each game with ``render_mode="rgb_array"``,
        else None.
        """
        if self.render_mode != "rgb_array":
            warnings.warn(
                f"render_mode={self.render_mode!r} makes no pictures: choose 'rgb_array'",
                stacklevel=2,
            )
            return [None] * self.num_envs
        return list(self.env.render() or ())

    def has_attr(self, attr_name: str) -> bool:
        """Return whether single environments have an attribute; sb3-contrib asks at every
        rollout.
        """
        # not super's, which Stable-Baselines3 has only from 2.6 on
        return hasattr(SingleEnv, attr_name) or hasattr(self.env, attr_name)

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of the vector environment, which all games share.

        Raises:
            AttributeError: it has no such attribute.
        """
        return [getattr(self.env, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: object, indices: VecEnvIndices = None) -> None:
        """Refuse: see the class.

        Raises:
            ValueError: always.
        """
        raise Refusal(
            f"{attr_name} cannot be set, for the games share it: make another environment"
        )

    def env_method(
        self,
        method_name: str,
        *method_args: object,
        indices: VecEnvIndices = None,
        **method_kwargs: object,
    ) -> list[Any]:
        """Return the ``action_masks`` of each game.

        Raises:
            ValueError: another method.
        """
        check_choice("method_name", method_name, ("action_masks",))
        masks = self.env.action_masks()
        return [masks[index] for index in self._get_indices(indices)]

    def env_is_wrapped(
        self,
        wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]],
        indices: VecEnvIndices = None,
    ) -> list[bool]:
        """Return whether ``wrapper_class`` is ``Monitor``, whose statistics the infos have; no game
        has a wrapper.
        """
        return [issubclass(Monitor, wrapper_class) for _ in self._get_indices(indices)]


def _split(info: Info, rows: Sequence[int] | None = None) -> list[Info]:
    """Return the infos of ``SingleEnv`` of some games, by default all, from the info of
    ``MNKVectorEnv``.
    """
    selection = slice(None) if rows is None else rows
    columns = (info[name][selection].tolist() for name in _NUMBERS)
    infos: list[Info] = [  # written out, which takes half the time of a loop over names
        {"action_mask": mask, "seat": seat, "mover": mover, "result": result, "winner": winner}
        for mask, seat, mover, result, winner in zip(
            info["action_mask"][selection], *columns, strict=True
        )
    ]
    if "skip_chance" in info:
        for row_info, skip_chance in zip(
            infos, info["skip_chance"][selection].tolist(), strict=True
        ):
            row_info["skip_chance"] = skip_chance
    return infos
