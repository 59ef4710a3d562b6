"""Speed of self-play in batches of 3 x 3: our engine, and the game as arrays in NumPy, torch and
JAX, each beside pgx on the same CPU.

All sides make the same random moves, which are drawn before: every step returns observations (int8;
pgx bool), legal actions, rewards and ends, in the library's own arrays. A game that is over begins
again in its next step, in pgx it stays over, which costs less. Both sides alternate on one core,
and a rate is steps of games per second of CPU time. Compilation is not timed.

    python speed/arrays.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from measuring import Benchmark, Row, Stretch, rate, run, time_work

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import numpy as np

from ttt_envs import Game
from ttt_envs.arrays import GameArrays, game_arrays
from ttt_envs.core.jit import Int64Array
from ttt_envs.envs.config import EnvConfig
from ttt_envs.envs.engine import make_games
from ttt_envs.envs.game_batch import seed_games

sys.path.append(str(Path(__file__).parents[1] / "examples" / "arrays"))

PACKAGES = ("numpy", "numba", "torch", "jax", "pgx")
COUNTS = (1024, 32_768, 1_048_576)
GOALS = {"jax-32768": 5.0, "jax-1048576": 10.0}


@cache
def small_game() -> GameArrays:
    """Return 3 x 3 without skips as arrays."""
    return game_arrays(Game())


@cache
def draw_moves(count: int) -> list[Int64Array]:
    """Return random legal moves of ``count`` games, [steps][count]."""
    from numpy_env import NumpyEnv

    env = NumpyEnv(small_game(), count)
    rng = np.random.default_rng(0)
    moves = []
    for _ in range(max(6, min(60, 2_000_000 // count))):
        _, legal = env.observe()
        moves.append((rng.random(legal.shape, np.float32) * legal).argmax(axis=1))
        env.step(moves[-1])
    return moves


def time_steps(moves: list[Any], step: Callable[[Any], object], begin: Callable[[], object]) -> Any:
    """Time a step of all games for each of the moves, from the beginning."""

    def work() -> float:
        begin()
        for actions in moves:
            step(actions)
        return sum(map(len, moves))

    return time_work(work)


def engine(count: int) -> Stretch:
    """Run our engine, which writes into its own arrays."""
    games = make_games(EnvConfig(opponent="self"), count)
    output = games.output()
    rows = np.arange(count)
    seed_games(games, rows, rows.astype(np.uint64))
    begin = partial(games.reset, rows, output)
    step = partial(games.step, out=output, begin_over=True)
    return time_steps(draw_moves(count), step, begin)


def numpy_arrays(count: int) -> Stretch:
    """Run the arrays in NumPy."""
    from numpy_env import NumpyEnv

    env = NumpyEnv(small_game(), count)

    def step(actions: Any) -> object:
        return env.step(actions), env.observe()

    return time_steps(draw_moves(count), step, partial(env.state.fill, 0))


def torch_arrays(count: int) -> Stretch:
    """Run the arrays in torch, with one thread."""
    import torch
    from torch_env import TorchEnv

    torch.set_num_threads(1)
    env = TorchEnv(small_game(), count)

    def step(actions: Any) -> object:
        return env.step(actions), env.observe()

    return time_steps([torch.tensor(a) for a in draw_moves(count)], step, env.state.zero_)


def jax_arrays(count: int) -> Stretch:
    """Run the arrays in JAX, jitted."""
    import jax
    import jax.numpy as jnp
    from jax_env import make_step

    arrays = small_game()
    pure_step = make_step(arrays)
    observations = jnp.asarray(arrays.observations)
    legal = jnp.asarray(arrays.legal)

    @jax.jit
    def step_all(state: Any, actions: Any) -> Any:
        state, rewards, over = pure_step(state, actions, 0)
        return state, rewards, over, observations[state], legal[state]

    return jax_steps(jnp.zeros(count, jnp.int32), step_all, count)


def pgx_batch(count: int) -> Stretch:
    """Run pgx, jitted."""
    import jax
    import pgx

    env = pgx.make("tic_tac_toe")
    state = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), count))
    step = jax.jit(jax.vmap(env.step))
    return jax_steps(state, lambda state, actions: (step(state, actions),), count)


def jax_steps(start: Any, step_all: Callable[[Any, Any], Any], count: int) -> Stretch:
    """Time compiled steps of a state, each of which ends before the next begins."""
    import jax
    import jax.numpy as jnp

    state = start

    def begin() -> None:
        nonlocal state
        state = start

    def step(actions: Any) -> None:
        nonlocal state
        state = jax.block_until_ready(step_all(state, actions))[0]

    return time_steps([jnp.asarray(a, jnp.int32) for a in draw_moves(count)], step, begin)


SIDES = {
    "engine": ("our engine", engine),
    "numpy": ("arrays in NumPy", numpy_arrays),
    "torch": ("arrays in torch", torch_arrays),
    "jax": ("arrays in JAX", jax_arrays),
}
ROWS = tuple(
    Row(
        f"{name}-{count}",
        f"{title}, {count:,} games",
        f"pgx, {count:,}",
        GOALS.get(f"{name}-{count}"),
        partial(side, count),
        partial(pgx_batch, count),
    )
    for count in COUNTS
    for name, (title, side) in SIDES.items()
)

if __name__ == "__main__":
    run(
        Benchmark(
            "Speed of the game as arrays.",
            PACKAGES,
            rate("steps/s"),
            ROWS,
        )
    )
