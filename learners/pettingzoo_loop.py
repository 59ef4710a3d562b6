"""A PettingZoo environment hosts a learner: one game after another, the learner in one seat or in
both.

With the same seed :class:`learners.training.Trainer`, with one game at a time, trains the same
learner, bit for bit.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from learners.base import AnyArray, Learner
from learners.training import (
    SPAWN_EXPLORATION,
    Decisions,
    Progress,
    check_backup,
    check_counts,
    make_rng,
    training_key,
)
from ttt_envs.agents.policy import Policy, act_in_episodes
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import Refusal, check_choice
from ttt_envs.core.random import splitmix64
from ttt_envs.envs.config import SELF
from ttt_envs.game.actions import cells_to_actions
from ttt_envs.game.boards import Boards
from ttt_envs.game.phantom import AnyGame

Seat = Literal["first", "second", "alternate"]
GAME_0 = np.zeros(1, np.int64)
"""Index of the only game."""


def train_in(
    env: Any,
    learner: Learner,
    opponent: str | Policy,
    games: int,
    *,
    seed: int = 0,
    seat: Seat = "alternate",
) -> Progress:
    """Train a learner in a PettingZoo AEC environment.

    Args:
        env: an environment with two agents, planes (rows, columns, 2) with own stones first, and
            one action per cell, with gravity per column. If it has an attribute ``game`` of this
            package, that must be the learner's.
        learner: the learner, trained in place; its game must be the environment's.
        opponent: a spec string, a policy, or ``"self"``.
        games: number of games.
        seed: seed of a single reset of the environment, of the opponent and of exploration.
        seat: the learner's.

    Raises:
        ValueError: numbers out of range, an unknown opponent, a learner of another game or one that
            cannot learn so.
    """
    game = getattr(env.unwrapped, "game", None)
    if isinstance(game, AnyGame) and game != learner.game:
        raise Refusal(
            f"the environment plays {game}, and {learner} plays {learner.game}: give both the same "
            "game"
        )
    check_counts(games, 1)
    check_choice("seat", seat, get_args(Seat))
    check_backup(learner, self_play=opponent == SELF)
    other = None if opponent == SELF else make_policy(opponent, learner.game)
    key = training_key(seed)
    progress = Progress()
    decisions = Decisions(learner, 1, make_rng(seed, SPAWN_EXPLORATION))
    for number in range(games):
        own_seat = 0
        if other is not None:
            own_seat = {"first": 0, "second": 1, "alternate": number % 2}[seat]
        env.reset(seed=seed if number == 0 else None)
        last = 0
        rewards = [0.0, 0.0]
        for agent in env.agent_iter():
            observation, reward, is_terminated, is_truncated, _ = env.last()
            player = env.possible_agents.index(agent)
            if is_terminated or is_truncated:
                rewards[player] = float(reward)
                env.step(None)
                continue
            boards = to_boards(observation["observation"], player)
            if other is None or player == own_seat:
                action = decisions.act(GAME_0, boards)  # and learns from the decision before
                last = player
            else:
                episode_key = np.uint64(splitmix64(key, number))
                keys = np.array([episode_key])
                action = act_in_episodes(other, boards, keys, boards.num_stones)
            env.step(int(cells_to_actions(learner.game, action)[0]))
        decisions.end(GAME_0, np.array([last], np.int8), np.array([rewards[last]]))
        progress.count(np.array([rewards[own_seat]]))
    return progress


def to_boards(planes: AnyArray, player: int) -> Boards:
    """Return the position that a player observes as planes, own stones first, as a batch of one."""
    own, other = np.moveaxis(np.asarray(planes), -1, 0).reshape(2, -1).astype(np.int8)
    cells = own * (player + 1) + other * (2 - player)
    return Boards(cells[None].astype(np.int8), np.array([player], np.int8))
