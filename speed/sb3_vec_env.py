"""Training of Stable-Baselines3 on ``ttt_envs.sb3.make_vec_env``, beside its own vectors of single
environments.

Both sides have the same model, the same numbers of positions for an update, and the same opponent;
ours has 64 games, theirs 8, which is Stable-Baselines3's advice for such vectors. Both alternate in
one process on one core, for several rounds, and the ratio is taken within each round. A rate is
steps of all games per second of CPU time, that of ``SubprocVecEnv``'s processes included; learning
counts, except in the rows ``step`` and ``step-policy``. In the rows ``ppo`` and ``maskable-ppo``
all positions of a rollout are one minibatch, ten epochs long, so that learning hides the
environments less; ``ppo-4-epochs`` has four, and ``ppo-defaults`` the minibatches of
Stable-Baselines3, 64 positions.

    python speed/sb3_vec_env.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from time import process_time
from typing import Any

import psutil
from measuring import Benchmark, Done, Row, Stretch, rate, run

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

PACKAGES = ("numpy", "numba", "gymnasium", "torch", "stable-baselines3", "sb3-contrib")
ID = "ttt_envs:ttt/TicTacToe-v0"
GAMES = 64
THEIR_GAMES = 8
ROLLOUT = 2_048

MakeGames = Callable[[str, int], Any]
"""Makes a ``VecEnv`` against an opponent with a seed."""


def ours(opponent: str, seed: int) -> Any:
    from ttt_envs.sb3 import make_vec_env

    return make_vec_env(ID, GAMES, seed, opponent=opponent, seat="alternate", symmetry="random")


def sb3_env(processes: bool, opponent: str, seed: int) -> Any:
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    settings = {
        "opponent": opponent,
        "seat": "alternate",
        "symmetry": "random",
        "render_mode": None,
    }
    if not processes:
        return make_vec_env(ID, THEIR_GAMES, seed, env_kwargs=settings, vec_env_cls=DummyVecEnv)
    start = {"start_method": "fork"}  # other methods import this file again
    return make_vec_env(
        ID, THEIR_GAMES, seed, env_kwargs=settings, vec_env_cls=SubprocVecEnv, vec_env_kwargs=start
    )


DUMMY = functools.partial(sb3_env, False)
PROCESSES = functools.partial(sb3_env, True)


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its running children."""
    children = (child.cpu_times() for child in psutil.Process().children(recursive=True))
    return process_time() + sum(times.user + times.system for times in children)


def steps(make: MakeGames, opponent: str) -> Stretch:
    """Step with random actions."""
    games = make(opponent, 0)
    games.reset()
    actions = np.random.default_rng(0).integers(9, size=(64, games.num_envs))

    def stretch() -> Done:
        begin = cpu_seconds()
        for row in actions:
            games.step(row)
        return Done(actions.size, cpu_seconds() - begin)

    return stretch


def make_model(name: str, games: Any, **settings: Any) -> Any:
    """Return a model with the same update for any number of games."""
    import sb3_contrib
    import stable_baselines3
    import torch

    torch.set_num_threads(1)
    count = games.num_envs
    if name == "DQN":  # a step of Adam for every 16 positions
        train_freq = max(1, 16 // count)
        settings = {
            "learning_starts": 512,
            "batch_size": 256,
            "train_freq": train_freq,
            "gradient_steps": max(1, train_freq * count // 16),
            "buffer_size": 50_000,
            **settings,
        }
    else:
        settings = {"n_steps": ROLLOUT // count, "batch_size": ROLLOUT, **settings}
    kind = getattr(sb3_contrib if name == "MaskablePPO" else stable_baselines3, name)
    return kind("MlpPolicy", games, seed=0, device="cpu", **settings)


def learning(name: str, make: MakeGames, opponent: str = "random", **settings: Any) -> Stretch:
    """Learn from a rollout."""
    model = make_model(name, make(opponent, 0), **settings)

    def stretch() -> Done:
        begin = cpu_seconds()
        before = model.num_timesteps
        model.learn(ROLLOUT, reset_num_timesteps=False)
        return Done(model.num_timesteps - before, cpu_seconds() - begin)

    return stretch


def learning_row(
    name: str,
    model: str,
    peer: MakeGames,
    at_least: float | None,
    opponent: str = "random",
    **settings: Any,
) -> Row:
    kind = "SubprocVecEnv" if peer is PROCESSES else "DummyVecEnv"
    return Row(
        name,
        f"{model} against {opponent}, {GAMES} games",
        f"{kind}, {THEIR_GAMES} games",
        at_least,
        functools.partial(learning, model, ours, opponent, **settings),
        functools.partial(learning, model, peer, opponent, **settings),
    )


def step_row(name: str, opponent: str) -> Row:
    return Row(
        name,
        f"random actions against {opponent}, {GAMES} games",
        f"DummyVecEnv, {THEIR_GAMES} games",
        None,
        functools.partial(steps, ours, opponent),
        functools.partial(steps, DUMMY, opponent),
    )


ROWS = (
    step_row("step", "random"),
    step_row("step-policy", "win-or-block"),
    learning_row("ppo", "PPO", DUMMY, 3),
    learning_row("ppo-4-epochs", "PPO", DUMMY, 3, n_epochs=4),
    learning_row("ppo-processes", "PPO", PROCESSES, None),
    learning_row("ppo-policy", "PPO", DUMMY, None, "win-or-block"),
    learning_row("ppo-defaults", "PPO", DUMMY, None, batch_size=64),
    learning_row("maskable-ppo", "MaskablePPO", DUMMY, None),
    learning_row("dqn", "DQN", DUMMY, None),
)


BENCHMARK = Benchmark(
    about=str(__doc__),
    packages=PACKAGES,
    unit=rate("steps/s"),
    rows=ROWS,
    seconds=(0.2, 1.0),
    rounds=(2, 5),
)


if __name__ == "__main__":
    run(BENCHMARK)
