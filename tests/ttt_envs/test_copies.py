"""A copy of an environment, made in the middle of a game, plays on as the original would have, luck included."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

from ttt_envs import mnk_v0
from ttt_envs.envs.registration import PRESETS
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.envs.vector_env import MNKVectorEnv

COPIES = [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))]
WAYS = pytest.mark.parametrize("copied", COPIES, ids=["deepcopy", "pickle"])
OPTIONS = [
    {"opponent": "random"},
    {"opponent": "win-or-block", "seat": "second", "observation": "dict"},
    {"opponent": "optimal", "seat": "alternate", "dtype": "float32"},
    {"opponent": "self", "observation": "planes"},
    {"opponent": "random", "symmetry": "random", "size": (3, 4)},
    {"opponent": "self", "size": 8, "win_length": 3},
]


def legal(rng, mask):
    return int(rng.choice(np.flatnonzero(mask)))


def steps_of_single(env, rng, count):
    """What some steps show, with resets where games end."""
    shown = []
    mask = env.action_masks()
    for _ in range(count):
        observation, reward, terminated, truncated, info = env.step(legal(rng, mask))
        shown.append((observation, reward, terminated, truncated, info, env.render()))
        if terminated or truncated:
            observation, info = env.reset()
            shown.append((observation, info))
        mask = info["action_mask"]
    return shown


@WAYS
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_single_environment(options, copied):
    env = SingleEnv(skip_chance=0.25, render_mode="ansi", **options)
    env.reset(seed=5)
    steps_of_single(env, np.random.default_rng(0), 2)
    before = env.clone_state(include_rng=True)
    twin = copied(env)
    alone = steps_of_single(twin, np.random.default_rng(1), 30)
    assert data_equivalence(before, env.clone_state(include_rng=True))  # the copy shares nothing
    assert data_equivalence(alone, steps_of_single(env, np.random.default_rng(1), 30))
    assert any(np.any(shown[0] if isinstance(shown[0], np.ndarray) else True) for shown in alone)


def steps_of_vector(env, rng, count):
    shown = []
    masks = env.action_masks()
    for _ in range(count):
        shown.append(env.step(np.array([legal(rng, mask) for mask in masks])))
        masks = env.action_masks()
    return shown


@WAYS
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_vector_environment(options, copied):
    env = MNKVectorEnv(7, skip_chance=0.25, **options)
    env.reset(seed=5)
    steps_of_vector(env, np.random.default_rng(0), 3)
    twin = copied(env)
    alone = steps_of_vector(twin, np.random.default_rng(1), 20)
    assert data_equivalence(alone, steps_of_vector(env, np.random.default_rng(1), 20))
    assert sum(rewards.any() for _, rewards, *_ in alone) > 3  # games end, and are won and lost


def test_a_copied_vector_environment_is_as_hard_as_the_original():
    env = copy.deepcopy(MNKVectorEnv(256, opponent="win-or-block"))
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    total, ended = 0.0, 0
    for _ in range(40):
        actions = np.array([legal(rng, mask) for mask in env.action_masks()])
        _, rewards, terminated, *_ = env.step(actions)
        total, ended = total + rewards.sum(), ended + terminated.sum()
    assert total / ended < -0.5


def plays_of_aec(env, rng, games):
    shown = []
    for _ in range(games):
        for agent in env.agent_iter():
            observation, reward, terminated, truncated, info = env.last()
            shown.append((agent, observation, reward, terminated, truncated, info, env.render()))
            env.step(None if terminated or truncated else legal(rng, observation["action_mask"]))
        env.reset()
    return shown


@WAYS
@pytest.mark.parametrize("symmetry", ["none", "random"])
def test_a_pettingzoo_environment(symmetry, copied):
    env = mnk_v0.env(size=(3, 4), skip_chance=0.25, symmetry=symmetry, render_mode="ansi")
    env.reset(seed=5)
    env.step(3)
    env.step(4)
    twin = copied(env)
    alone = plays_of_aec(twin, np.random.default_rng(1), 6)
    assert env.state()[..., :2].sum() == 2  # the copy shares nothing
    assert data_equivalence(alone, plays_of_aec(env, np.random.default_rng(1), 6))
    assert len(alone) > 30


@WAYS
def test_a_pettingzoo_environment_that_has_not_begun(copied):
    twin = copied(mnk_v0.env(size=4))
    twin.reset(seed=1)
    assert twin.observe("player_0")["action_mask"].sum() == 16


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_pickled_by_id(name):
    """As Gymnasium tests its own environments."""
    env = gymnasium.make(name)
    twin = pickle.loads(pickle.dumps(env))
    assert data_equivalence(env.reset(seed=3), twin.reset(seed=3))
    action = env.action_space.sample()
    assert data_equivalence(env.step(action), twin.step(action))
    env.close()
    twin.close()
