"""How fast the environments and the kernel are, each beside a peer that does the same.

Ours and the peer take turns in one process on one core, several rounds; the ratio is taken round by round, so that a
slow moment of the machine hits both. A rate is moves (stones on boards) per second of CPU time of the whole process,
threads included. Where an opponent inside an environment moves too, its stones count; steps that only begin a game
do not. Compiling and first calls stay outside the clock. Our guards against illegal moves, actions off the board and
calls out of order are on, as they always are.

Single games are played at random within the clock, with the moves of one loop for both sides where the interfaces are
the same. For batches the moves are drawn outside the clock, by one sampler for both sides; what it takes is printed.

    python benchmarks/environments.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import ctypes
import gc
import importlib.metadata
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import random
from time import process_time
from typing import Any, NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")
if hasattr(os, "sched_setaffinity"):  # before the imports: libraries look at it when they make their threads
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import gymnasium
import numpy as np
import tyro

import ttt_envs  # noqa: F401  # registers the environments
from ttt_envs import mnk_v0, rules

PACKAGES = ("ttt_envs", "numpy", "numba", "gymnasium", "pettingzoo", "open_spiel", "pgx", "jax", "envpool")
GAMES_AT_ONCE = 1024
INSTALL = 'pip install "ttt_envs[bench]"'


class Count(NamedTuple):
    """What a stretch of play amounts to."""

    moves: int
    seconds: float
    """CPU time of the moves"""
    drawing: float = 0.0
    """CPU time of drawing them, where it is not part of ``seconds``"""


Play = Callable[[], Count]
"""plays for some milliseconds, going on where the last call stopped"""


class MissingError(Exception):
    """The peer cannot be measured here; the message says why."""


# ---------------------------------------------------------------------------------------------------------------------
# One game at a time


def timed(play_game: Callable[[], int], games: int) -> Play:
    """``games`` games of ``play_game``, which returns its number of moves, as one stretch."""

    def play() -> Count:
        begin = process_time()
        moves = sum(play_game() for _ in range(games))
        return Count(moves, process_time() - begin)

    return play


def games_per_stretch(cells: int) -> int:
    return max(1, 400 // cells)


def aec(env: Any, cells: int = 9) -> Play:
    """PettingZoo's documented loop."""

    def play_game() -> int:
        moves = 0
        env.reset()
        for _ in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            if terminated or truncated:
                env.step(None)
                continue
            legal = np.flatnonzero(observation["action_mask"])
            env.step(legal[int(random() * len(legal))])
            moves += 1
        return moves

    env.reset(seed=0)
    return timed(play_game, games_per_stretch(cells))


def our_aec(size: int = 3, win_length: int = 3) -> Play:
    return aec(mnk_v0.env(size=size, win_length=win_length), size * size)


def our_raw_aec(size: int = 3, win_length: int = 3) -> Play:
    return aec(mnk_v0.raw_env(size=size, win_length=win_length), size * size)


def pettingzoo_aec() -> Play:
    from pettingzoo.classic import tictactoe_v3

    return aec(tictactoe_v3.env())


def pettingzoo_raw_aec() -> Play:
    from pettingzoo.classic import tictactoe_v3

    return aec(tictactoe_v3.raw_env())


def our_single(size: int = 3, win_length: int = 3) -> Play:
    env = gymnasium.make("ttt/MNK-v0", size=size, win_length=win_length, opponent="random")

    def play_game() -> int:
        _, info = env.reset()
        over = False
        while not over:
            legal = np.flatnonzero(info["action_mask"])
            observation, _, terminated, truncated, info = env.step(legal[int(random() * len(legal))])
            over = terminated or truncated
        return np.count_nonzero(observation)  # the stones of both

    env.reset(seed=0)
    return timed(play_game, games_per_stretch(size * size))


def open_spiel_environment() -> Play:
    from open_spiel.python import rl_environment

    env = rl_environment.Environment("tic_tac_toe")

    def play_game() -> int:
        moves = 0
        time_step = env.reset()
        while not time_step.last():
            observations = time_step.observations
            legal = observations["legal_actions"][observations["current_player"]]
            time_step = env.step([legal[int(random() * len(legal))]])
            moves += 1
        return moves

    return timed(play_game, games_per_stretch(9))


def open_spiel_large() -> Play:
    import pyspiel

    game = pyspiel.load_game("mnk(m=15,n=15,k=5)")

    def play_game() -> int:
        moves = 0
        state = game.new_initial_state()
        while not state.is_terminal():
            np.array(state.observation_tensor(), np.float32)
            legal = np.flatnonzero(state.legal_actions_mask())
            state.apply_action(legal[int(random() * len(legal))])
            moves += 1
        return moves

    return timed(play_game, games_per_stretch(225))


# ---------------------------------------------------------------------------------------------------------------------
# Many games at once


class Batch:
    """Games side by side with moves drawn outside the clock; a subclass has ``mask`` bool or int8[B, cells]."""

    mask: Any
    actions = np.int64

    def __init__(self, count: int, cells: int) -> None:
        self.rng = np.random.default_rng(0)
        self.steps = max(4, 50_000 // (count * cells))
        for _ in range(2 * cells):  # games that began together drift apart
            self.step(self.draw())

    def draw(self) -> Any:
        """One action for each game, all legal ones equally likely."""
        ranks = np.cumsum(self.mask, axis=1, dtype=np.int16)
        wanted = (self.rng.random(len(ranks)) * ranks[:, -1]).astype(np.int16)
        return np.argmax(ranks > wanted[:, None], axis=1).astype(self.actions)

    def prepare(self) -> None:
        """What else happens before a step and outside the clock."""

    def step(self, actions: Any) -> None:
        """Move in every game: what the clock measures."""
        raise NotImplementedError

    def moves(self) -> int:
        """How many moves the last step was, the opponent's included."""
        raise NotImplementedError

    def play(self) -> Count:
        moves, seconds, drawing = 0, 0.0, 0.0
        for _ in range(self.steps):
            begin = process_time()
            actions = self.draw()
            drawn = process_time()
            self.prepare()
            ready = process_time()
            self.step(actions)
            seconds += process_time() - ready
            drawing += drawn - begin
            moves += self.moves()
        return Count(moves, seconds, drawing)


class OurBatch(Batch):
    """Our vector environment in its default autoreset mode."""

    def __init__(self, opponent: str, count: int = GAMES_AT_ONCE, size: int = 3, win_length: int = 3) -> None:
        self.env = gymnasium.make_vec(
            "ttt/MNK-v0", num_envs=count, size=size, win_length=win_length, opponent=opponent
        )
        _, info = self.env.reset(seed=0)
        self.mask = info["action_mask"]
        self.stones = 0  # on the boards of all games that go on
        self.over = np.zeros(count, np.bool_)
        super().__init__(count, size * size)

    def step(self, actions: Any) -> None:
        self.shown = self.env.step(actions)
        self.mask = self.shown[4]["action_mask"]

    def moves(self) -> int:
        observations, _, terminated, truncated, _ = self.shown
        stones = np.count_nonzero(observations)
        moves = stones - self.stones
        self.stones = stones - np.count_nonzero(observations[terminated | truncated])  # the next step takes them away
        return moves
