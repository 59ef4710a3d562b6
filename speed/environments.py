"""Speed of the environments, each beside a peer that does the same.

Both sides alternate in one process on one core, for several rounds. The ratio is taken within each
round, so that a slow moment of the machine affects both. A rate is moves (stones placed) per second
of the process's CPU time, including threads: an opponent's stones inside an environment count,
steps that only begin a game do not. Compilation and first calls are not timed. Our checks for
illegal moves, actions off the board and calls out of order are always on.

Single games draw their random moves within the timing. Batches draw them outside, by one sampler
for both sides; the last column has its cost.

    python speed/environments.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import partial
from random import random
from time import process_time
from typing import Any

from measuring import Benchmark, Done, Row, Stretch, rate, run, time_work, total

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import gymnasium
import numpy as np

from ttt_envs import mnk_v0

PACKAGES = ("numpy", "numba", "gymnasium", "pettingzoo", "open_spiel", "pgx", "jax", "envpool")


# --------------------------------------------------------------------------------------------------
# One game at a time


def single(play_game: Callable[[], int], cells: int) -> Stretch:
    """Time several games of ``play_game``, which returns its number of moves."""
    games = max(1, 400 // cells)

    return time_work(lambda: sum(play_game() for _ in range(games)))


def aec_games(env: Any, cells: int = 9) -> Stretch:
    """Run PettingZoo's loop."""

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

    return single(play_game, cells)


def our_aec() -> Stretch:
    return aec_games(mnk_v0.env())


def our_raw_aec(size: int = 3, win_length: int = 3) -> Stretch:
    return aec_games(mnk_v0.raw_env(size=size, win_length=win_length), size * size)


def pettingzoo_aec(name: str, kind: str = "env", cells: int = 9) -> Stretch:
    """Run PettingZoo's own environment, ``pettingzoo.classic.NAME``."""
    return aec_games(getattr(importlib.import_module(f"pettingzoo.classic.{name}"), kind)(), cells)


def our_single(dtype: str = "int8") -> Stretch:
    """Run Gymnasium's loop."""
    env = gymnasium.make("ttt/TicTacToe-v0", opponent="random", dtype=dtype)

    def play_game() -> int:
        _, info = env.reset()
        over = False
        while not over:
            legal = np.flatnonzero(info["action_mask"])
            observation, _, terminated, truncated, info = env.step(
                legal[int(random() * len(legal))]
            )
            over = terminated or truncated
        return int(np.count_nonzero(observation))  # the stones of both

    return single(play_game, 9)


def open_spiel_environment() -> Stretch:
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

    return single(play_game, 9)


def open_spiel_large() -> Stretch:
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

    return single(play_game, 225)


# --------------------------------------------------------------------------------------------------
# Many games at once


def batch_games(
    mask: Any,
    step: Callable[[Any], Any],
    read: Callable[[Any], tuple[Any, int]],
    action_type: Any = np.int64,
    prepare: Callable[[], None] = lambda: None,
    cells: int = 9,
) -> Stretch:
    """Time parallel games with moves drawn outside the timing.

    Args:
        mask: bool or int8[B, actions], the first legal actions.
        step: timed: takes actions [B], returns all data for a learner as numpy arrays.
        read: takes the result of ``step``; returns the legal actions and the number of moves made.
        action_type: dtype that ``step`` takes without conversion.
        prepare: called before each step, not timed.
        cells: number of cells of the board.
    """
    rng = np.random.default_rng(0)
    count = len(mask)

    def draw() -> Any:
        ranks = np.cumsum(mask, axis=1, dtype=np.int16)
        ranks_of_moves = (rng.random(count) * ranks[:, -1]).astype(np.int16)
        return np.argmax(ranks > ranks_of_moves[:, None], axis=1).astype(action_type)

    def turn() -> Done:
        nonlocal mask
        begin = process_time()
        actions = draw()
        drawn = process_time()
        prepare()
        ready = process_time()
        step_result = step(actions)
        done = process_time()
        mask, moves = read(step_result)
        return Done(moves, done - ready, drawn - begin)

    for _ in range(2 * cells):  # compiles, and desynchronizes games that began together
        turn()
    turns = max(2, 50_000 // (count * cells))
    return lambda: total(turn() for _ in range(turns))


def our_batch(
    opponent: str, count: int = 1024, dtype: str = "int8", name: str = "ttt/TicTacToe-v0"
) -> Stretch:
    """Run our vector environment, which begins the next game in a separate step."""
    env = gymnasium.make_vec(name, num_envs=count, opponent=opponent, dtype=dtype)
    cells = env.single_observation_space.shape[0] // 2
    going_on = 0  # stones in unfinished games

    def read(step_result: Any) -> tuple[Any, int]:
        nonlocal going_on
        observation, _, terminated, truncated, info = step_result
        before = going_on
        stones = np.count_nonzero(observation)
        going_on = stones - np.count_nonzero(observation[terminated | truncated])
        return info["action_mask"], stones - before

    return batch_games(env.reset(seed=0)[1]["action_mask"], env.step, read, cells=cells)


def pgx_batch(count: int = 1024, name: str = "tic_tac_toe", cells: int = 9) -> Stretch:
    """Run pgx, compiled, with its own autoreset, which begins the next game in the step that ends
    one.
    """
    import jax
    import pgx
    from pgx.experimental.wrappers import auto_reset

    env = pgx.make(name)
    compiled_step = jax.jit(jax.vmap(auto_reset(env.step, env.init)))
    split = jax.jit(lambda key: (jax.random.fold_in(key, 0), jax.random.split(key, count)))
    key, keys = split(jax.random.key(0))
    state = jax.jit(jax.vmap(env.init))(keys)

    def prepare() -> None:
        nonlocal key, keys
        key, keys = jax.block_until_ready(split(key))

    def step(actions: Any) -> Any:
        nonlocal state
        state = compiled_step(state, actions, keys)
        return tuple(
            map(
                np.asarray,
                (state.observation, state.legal_action_mask, state.rewards, state.terminated),
            )
        )

    mask = np.asarray(state.legal_action_mask)
    return batch_games(
        mask, step, lambda step_result: (step_result[1], count), np.int32, prepare, cells
    )


def envpool_batch(count: int, name: str = "TicTacToe-v1", cells: int = 9) -> Stretch:
    """Run EnvPool with one worker thread, which begins the next game in a separate step."""
    import envpool

    env = envpool.make(name, env_type="gymnasium", num_envs=count, num_threads=1, seed=0)

    def read(step_result: Any) -> tuple[Any, int]:
        info = step_result[4]
        return info["legal_action_mask"], np.count_nonzero(
            info["elapsed_step"]
        )  # 0 in a step that begins a game

    return batch_games(env.reset()[1]["legal_action_mask"], env.step, read, np.int32, cells=cells)


# --------------------------------------------------------------------------------------------------
# Rows


def vector_row(name: str, opponent: str, at_least: float, dtype: str = "int8") -> Row:
    ours = f"vector env, 1024, {opponent}" + (f", {dtype}" if dtype != "int8" else "")
    return Row(
        name, ours, "pgx, 1024", at_least, lambda: our_batch(opponent, dtype=dtype), pgx_batch
    )


ROWS = (
    Row(
        "aec",
        "mnk_v0.env()",
        "tictactoe_v3.env()",
        10,
        our_aec,
        partial(pettingzoo_aec, "tictactoe_v3"),
    ),
    Row(
        "aec-raw",
        "mnk_v0.raw_env()",
        "tictactoe_v3.raw_env()",
        2.5,
        our_raw_aec,
        partial(pettingzoo_aec, "tictactoe_v3", "raw_env"),
    ),
    Row(
        "aec-connect-four",
        "mnk_v0.env(), Connect Four",
        "connect_four_v3.env()",
        10,
        lambda: aec_games(mnk_v0.env(size=(6, 7), win_length=4, gravity=True), 42),
        partial(pettingzoo_aec, "connect_four_v3", cells=42),
    ),
    Row(
        "vector-connect-four",
        "vector env, 1024, Connect Four, self",
        "pgx, 1024",
        8,
        lambda: our_batch("self", name="ttt/ConnectFour-v0"),
        lambda: pgx_batch(name="connect_four", cells=42),
    ),
    Row(
        "vector-connect-four-envpool",
        "vector env, 1024, Connect Four, self",
        "EnvPool, 1024",
        4,
        lambda: our_batch("self", name="ttt/ConnectFour-v0"),
        lambda: envpool_batch(1024, "ConnectFour-v1", 42),
    ),
    Row(
        "single",
        "single env, random",
        "OpenSpiel rl_environment",
        2.3,
        our_single,
        open_spiel_environment,
    ),
    Row(
        "single-float32",
        "single env, random, float32",
        "OpenSpiel rl_environment",
        2,
        lambda: our_single(dtype="float32"),
        open_spiel_environment,
    ),
    vector_row("vector-random", "random", 7),
    vector_row("vector-random-float32", "random", 3, "float32"),
    vector_row("vector-self", "self", 5.5),
    vector_row("vector-win-or-block", "win-or-block", 2),
    *(
        Row(
            f"vector-{count}",
            f"vector env, {count}, random",
            f"EnvPool, {count}",
            at_least,
            partial(our_batch, "random", count),
            partial(envpool_batch, count),
        )
        for count, at_least in ((64, 30), (1024, 150))
    ),
    Row(
        "aec-large",
        "mnk_v0.raw_env(), 15 x 15",
        "OpenSpiel mnk",
        6,
        lambda: our_raw_aec(15, 5),
        open_spiel_large,
    ),
)

BENCHMARK = Benchmark(
    about=str(__doc__),
    packages=PACKAGES,
    unit=rate("moves/s"),
    rows=ROWS,
    rounds=(3, 5),
    aside="drawing, ns",
)


if __name__ == "__main__":
    run(BENCHMARK)
