"""Our games for Stable-Baselines3: a vector environment, and buffers that handle alternating turns in self-play."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from learners.training import SPAWN_EXPLORATION, Progress, Task
from ttt_envs.core.jit import Int64Array
from ttt_envs.envs.config import SELF, IllegalAction, Symmetry, game_keywords
from ttt_envs.envs.vector_env import MNKVectorEnv


def make_sb3_games(task: Task, symmetry: Symmetry, illegal_action: IllegalAction, done: Progress) -> Any:
    """Wrap ``MNKVectorEnv`` as a vector environment of Stable-Baselines3; finished games are added to ``done``.

    Its ``discount`` float32[B] describes the last step as in ``learners.base.Transition``: 0 if the game is over, +1 if
    the mover moves again, -1 if the opponent is next (in self-play only).
    """
    from ttt_envs.sb3 import MNKVecEnv

    env = MNKVectorEnv(
        task.batch,
        **game_keywords(task.game),
        opponent=task.opponent,
        seat=task.seat,
        illegal_action=illegal_action,
        symmetry=symmetry,
        dtype="int8",  # the dtype of the buffers
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    both = task.opponent == SELF
    sequence = np.random.SeedSequence(task.seed, spawn_key=(SPAWN_EXPLORATION,))
    seeds: list[int] = sequence.generate_state(task.batch, np.uint64).tolist()

    class Games(MNKVecEnv):
        def __init__(self) -> None:
            super().__init__(env)
            self.discount = np.ones(env.num_envs, np.float32)

        def reset(self) -> Any:
            self._seeds = [*seeds]  # in place of those that the model has drawn
            observation = super().reset()
            self._mover = _movers(self.reset_infos)
            return observation

        def step_wait(self) -> Any:
            observation, rewards, over, infos = super().step_wait()
            rows = np.flatnonzero(over)
            begun = list(infos)
            for row in rows:
                begun[row] = self.reset_infos[row]
            mover = _movers(begun)
            self.discount = np.where(over, 0, np.where(both & (mover != self._mover), -1, 1)).astype(np.float32)
            self._mover = mover
            if len(rows):
                ended = rewards[rows].astype(np.float64)
                if both:  # results are counted for player_0
                    ended = np.where([infos[row]["seat"] == 1 for row in rows], -ended, ended)
                done.count(ended)
            return observation, rewards, over, infos

    return Games()


def _movers(infos: list[dict[str, Any]]) -> Int64Array:
    """Return the mover int64[B] in each info."""
    return np.array([info["mover"] for info in infos])


# In self-play the next position is mostly the opponent's, and its value has the opposite sign (if the players see the
# same board: `check_opponent` refuses self-play in phantom games). Both buffers below know
# the end of a game as a number, 1 or 0, and multiply what comes after by 1 - end: with `1 - discount` for that number
# they compute with the discount, which is -1 before the opponent's turn.


def signed_replay(games: Any) -> Any:
    """Return a replay buffer class for self-play."""
    from stable_baselines3.common.buffers import ReplayBuffer

    class SignedReplay(ReplayBuffer):
        def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any) -> None:
            super().add(obs, next_obs, action, reward, 1 - games.discount, infos)

    return SignedReplay


def signed_rollout(games: Any, buffer: Any) -> Any:
    """Return a rollout buffer for self-play, of the same kind and size as ``buffer``."""

    class SignedRollout(type(buffer)):  # type: ignore[misc]
        before = games.discount

        def add(self, obs: Any, action: Any, reward: Any, episode_start: Any, *rest: Any, **masks: Any) -> None:
            super().add(obs, action, reward, 1 - self.before, *rest, **masks)
            self.before = games.discount

        def compute_returns_and_advantage(self, last_values: Any, dones: Any) -> None:
            super().compute_returns_and_advantage(last_values, 1 - games.discount)

    return SignedRollout(
        buffer.buffer_size,
        buffer.observation_space,
        buffer.action_space,
        buffer.device,
        gae_lambda=buffer.gae_lambda,
        gamma=buffer.gamma,
        n_envs=buffer.n_envs,
    )
