"""PufferLib: the adapter of an example in its three vectors, and its emulation of the single
environment.
"""

import pytest

pytest.importorskip("pufferlib")

import gymnasium
import numpy as np
import pufferlib
import pufferlib.vector
import torch
from pufferlib.emulation import GymnasiumPufferEnv

ID = "ttt_envs:ttt/TicTacToe-v0"
SAME_STEP = gymnasium.vector.AutoresetMode.SAME_STEP
COUNT = 32
SETTINGS = {"opponent": "win-or-block", "seat": "alternate", "illegal_action": "raise"}


@pytest.fixture
def games(here, monkeypatch):
    """The adapter."""
    monkeypatch.syspath_prepend(here.parents[1] / "examples")
    from pufferlib_a2c import Games

    return Games


@pytest.mark.parametrize(
    ("backend", "number", "more"),
    [
        ("PufferEnv", 1, {}),
        ("Serial", 2, {}),
        ("Multiprocessing", 2, {"num_workers": 2, "overwork": True}),
    ],
)
def test_vectors(games, backend, number, more):
    """`Games` of the example in `pufferlib.vector.{backend}`: games of `make_vec`, in PufferLib's
    own memory
    """
    made = pufferlib.vector.make(
        games,
        env_kwargs={"count": COUNT, **SETTINGS},
        backend=pufferlib.PufferEnv if backend == "PufferEnv" else backend,
        num_envs=number,
        **more,
    )
    our_values = [
        gymnasium.make_vec(ID, COUNT, autoreset_mode=SAME_STEP, **SETTINGS) for _ in range(number)
    ]
    obs, _ = made.reset(seed=5)
    expected = np.concatenate(
        [env.reset(seed=(5 + i) * COUNT)[0] for i, env in enumerate(our_values)]
    )
    np.testing.assert_array_equal(obs, expected)
    memory = obs.ctypes.data
    tensor = torch.from_numpy(obs)
    rng = np.random.default_rng(0)
    ended = 0
    for _ in range(100):
        legal = obs.reshape(-1, 2, 9).sum(axis=1) == 0
        actions = (rng.random(legal.shape) * legal).argmax(axis=1).astype(made.action_space.dtype)
        obs, *columns, infos = made.step(actions)
        steps = [
            env.step(part) for env, part in zip(our_values, np.split(actions, number), strict=True)
        ]
        *expected, _ = zip(*steps, strict=True)
        for array, other in zip((obs, *columns), expected, strict=True):
            np.testing.assert_array_equal(array, np.concatenate(other))
        assert bool(infos) == columns[1].any()
        ended += columns[1].sum()
    assert ended > COUNT
    assert obs.ctypes.data == memory == tensor.data_ptr()
    made.close()


def test_emulation():
    """`GymnasiumPufferEnv` of the id, unmodified, 8 of them in `Serial`, random actions"""
    envs = pufferlib.vector.make(
        GymnasiumPufferEnv,
        env_kwargs={"env_creator": lambda: gymnasium.make(ID)},
        backend=pufferlib.vector.Serial,
        num_envs=8,
    )
    obs, _ = envs.reset(seed=0)
    assert obs.shape == (8, 18)
    ended = 0
    for _ in range(200):
        _, rewards, terminals, *_ = envs.step(envs.action_space.sample())
        assert set(rewards) <= {-1.0, 0.0, 1.0}
        ended += terminals.sum()
    assert ended > 200
    envs.close()


def test_example(example):
    """`examples/pufferlib_a2c.py --steps 20000`: masked actor-critic, to its exact number"""
    assert set(example("pufferlib_a2c.py", "--steps", 20_000).results) == {"random", "optimal"}
