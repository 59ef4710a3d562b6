"""Arrays of a checkpoint that are not what they should be: refused, or harmless, for kernels check
no index.

The cases run with kernels as plain Python, where an index out of range raises IndexError.
"""

import os
import warnings
from contextlib import suppress
from itertools import islice

import numpy as np
import pytest
import tiny
from processes import run_python
from small_games import TINY_GAME

from learners.config import load_learner
from learners.training import make_initial_rng
from ttt_envs import Boards, Game, PhantomGame

pytestmark = pytest.mark.more

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
CASES = [
    ("q-learning", {}, TINY_GAME, "random"),
    ("q-learning", {"backup": "negamax", "symmetries": "all"}, TINY_GAME, "self"),
    ("q-learning", {"values": "afterstate", "target": "sarsa"}, TINY_GAME, "pool:every=4,size=2"),
    ("q-learning", {}, Game(8, 8, 2), "win-or-block"),
    ("naive-mc", {"rewards": "report"}, Game(6, 7, 2), "random"),
    ("naive-mc", {}, PhantomGame(TINY_GAME, "classic"), "self"),
    ("q-net", {"hidden": 4, "buffer_size": 16, "batch_size": 4}, TINY_GAME, "random"),
    (
        "alpha-zero",
        {"hidden": (4,), "simulations": 4, "gradient_steps": 2, "batch_size": 8},
        TINY_GAME,
        "self",
    ),
    (
        "value-net",
        {"hidden": (4,), "activations": ("tanh",), "iterations": 10, "teacher": "optimal"},
        TINY_GAME,
        "teacher",
    ),
    ("ppo", {"hidden": (4,), "rollout": 12}, TINY_GAME, "pool:every=4,size=2"),
    ("ppo", {"hidden": (4,), "rollout": 12, "grouped": False}, TINY_GAME, "self"),
    ("exact-pg", {"method": "r-nad"}, TINY_GAME, "self"),
    ("exact-pg", {"method": "optimistic-mirror-descent"}, TINY_GAME, "random"),
]
GAMES = 12
BATCH = 4


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED, reason="begins the other tests")
def test_any_array_is_refused_or_harmless():
    run_python("-m", "pytest", "-q", "-m", "", __file__, NUMBA_DISABLE_JIT="1")


def mutations(array, rng):
    """Arrays of other shapes and dtypes, and with one or all numbers replaced."""
    yield from (
        array[None],
        array.reshape(-1)[:0],
        array.astype(complex),
        np.concatenate([array[None]] * 2),
    )
    if array.ndim:
        yield from (array[:-1], np.concatenate([array, array[:1]]), array[::-1])
    values = [0, 1, 3, 77]
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        values += [limits.max, limits.max // 2, limits.min, *([-1, -100] if limits.min else [])]
    if array.dtype.kind == "f":
        values += [
            np.nan,
            np.inf,
            -np.inf,
            -1,
            0.3,
            np.finfo(array.dtype).max,
            -np.finfo(array.dtype).max,
            1e8,
        ]
    for value in values:
        yield np.full_like(array, value)
        if array.size:
            changed = array.copy()
            changed.flat[rng.integers(array.size)] = value
            yield changed


@pytest.mark.skipif(not INTERPRETED, reason="machine code checks no index")
@pytest.mark.parametrize(
    ("name", "settings", "game", "opponent"),
    [
        tiny.case(
            name,
            name,
            settings,
            game,
            opponent,
            id=f"{name}-{game}-{opponent}-{[*settings.values()]}",
        )
        for name, settings, game, opponent in CASES
    ],
)
def test_mutations(name, settings, game, opponent):
    config = load_learner(name)(**settings)
    rng = np.random.default_rng(0)

    def make_training():
        return config.training(game, GAMES, batch=BATCH, seed=0, opponent=opponent)

    whole = make_training()
    whole.run(after_step=lambda training: training.done.games < GAMES // 2)
    assert whole.running
    parts = {"learner": whole.learner.state, "training": whole.state}
    training = make_training()
    step = 6 if name in tiny.PACKAGES else 1
    for part, arrays in parts.items():
        for array_name, array in arrays.items():
            for changed in islice(mutations(array, rng), int(rng.integers(step)), None, step):
                states = {**parts, part: {**arrays, array_name: changed}}
                try:
                    training.learner.state = states["learner"]
                    training.state = states["training"]
                except ValueError:
                    continue
                with warnings.catch_warnings(), suppress(ValueError, MemoryError):
                    warnings.simplefilter("ignore", RuntimeWarning)
                    training.run()
                    training.learner.probabilities(Boards.start(game))
                if name == "value-net":  # what it plays and learns is determined when it is made
                    training = make_training()


NETS = ["sb3-dqn", "sb3-maskable-ppo"]


@pytest.mark.skipif(not INTERPRETED, reason="machine code checks no index")
@pytest.mark.parametrize("name", [tiny.case(name) for name in NETS])
def test_mutated_nets(name):
    config = load_learner(name)(hidden=(4,))
    rng = np.random.default_rng(0)
    arrays = config.training(TINY_GAME, 10, batch=1, seed=0, opponent="random").learner.state
    for array_name, array in arrays.items():
        for changed in mutations(array, rng):
            learner = config.build(TINY_GAME, make_initial_rng(0))
            with suppress(ValueError):
                learner.state = {**arrays, array_name: changed}
                assert np.isclose(learner.probabilities(Boards.start(TINY_GAME)).sum(), 1)
