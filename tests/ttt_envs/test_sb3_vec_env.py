"""The VecEnv of Stable-Baselines3 against its DummyVecEnv of single environments, and what its own
tests ask of one.
"""

import csv
import json

import gymnasium
import numpy as np
import pytest
from environment_contract import SCHEDULE, SEVERAL
from numpy.testing import assert_array_equal
from processes import run_python
from test_vector_env import assert_same

from ttt_envs import Game
from ttt_envs.envs.vector_env import MNKVectorEnv

pytestmark = pytest.mark.needs("torch", "stable_baselines3", "sb3_contrib")

ID = "ttt/MNK-v0"
FULL = {
    "size": (3, 4),
    "skip_chance": 0.25,
    "opponent": "win-or-block",
    "seat": "alternate",
    "symmetry": "random",
}


def make(n_envs=4, seed=0, env_id=ID, **settings):
    from ttt_envs.sb3 import make_vec_env  # which imports Stable-Baselines3

    return make_vec_env(env_id, n_envs, seed, **settings)


def make_peer(n_envs=4, seed=0, **settings):
    """The function of Stable-Baselines3, which by default makes pictures."""
    from stable_baselines3.common.env_util import make_vec_env

    return make_vec_env(ID, n_envs, seed, env_kwargs={"render_mode": None, **settings})


def untimed(infos):
    """Infos without the time of the clock, which must only be plausible."""
    for info in infos:
        assert 0 <= info.get("episode", {"t": 0})["t"] < 3600
    return [
        {**info, "episode": info["episode"] | {"t": None}} if "episode" in info else dict(info)
        for info in infos
    ]


def assert_same_step(ours, peer, actions):
    """Make one step in both and return the infos."""
    *our_step, our_infos = ours.step(actions)
    *peer_step, peer_infos = peer.step(actions)
    for pair in zip(our_step, peer_step, strict=True):
        assert_same(*pair)
    assert_same(untimed(our_infos), untimed(peer_infos))
    assert_same(ours.reset_infos, peer.reset_infos)
    return our_infos


@pytest.mark.parametrize(
    "settings",
    [
        FULL,
        {"observation": "dict", "illegal_action": "penalize", "dtype": "int8"},
        {"max_episode_steps": 2, "seat": "random", "observation": "planes"},
        {**SEVERAL, "opponent": SCHEDULE},
    ],
    ids=str,
)
def test_games_are_those_of_dummy_vec_env(settings):
    """Observations, rewards, dones and infos, with actions legal and not, at first and after
    another seeding.
    """
    ours = make(5, 7, **settings)
    peer = make_peer(5, 7, **settings)
    assert ours.observation_space == peer.observation_space
    assert [ours.action_space.sample() for _ in range(9)] == [
        peer.action_space.sample() for _ in range(9)
    ]
    rng = np.random.default_rng(0)
    ended = 0
    cut = 0
    for seed in (None, 3, None):
        if seed is not None:
            assert ours.seed(seed) == peer.seed(seed)
        assert_same(ours.reset(), peer.reset())
        for _ in range(25):
            masks = np.stack(ours.env_method("action_masks"))
            assert_array_equal(masks, np.stack(peer.env_method("action_masks")))
            infos = assert_same_step(
                ours, peer, (rng.random(masks.shape) * (masks + 0.05)).argmax(axis=1)
            )
            ended += sum("episode" in info for info in infos)
            cut += sum(info["TimeLimit.truncated"] for info in infos)
    assert ended > 20
    assert (cut > 0) == ("max_episode_steps" in settings)


def test_options_begin_games_in_positions_once():
    ours = make(4)
    peer = make_peer(4)
    for options in (
        {"seat": 1},
        [{"seat": 1}, {}, {"position": "x.o/.../..o x", "seat": 1}, {"seat": 1}],
    ):
        for envs in (ours, peer):
            envs.set_options(options)
        assert_same(ours.reset(), peer.reset())
        assert_same_step(ours, peer, np.array([3, 4, 5, 4]))
        assert_same(ours.reset(), peer.reset())
    ours.set_options([{"seat": 1}, {"reset_mask": True}, {}, {}])
    with pytest.raises(ValueError, match="reset_mask"):
        ours.reset()
    assert_same_step(ours, peer, np.array([0, 4, 0, 4]))


# --------------------------------------------------------------------------------------------------
# What the tests of Stable-Baselines3 ask of a VecEnv


@pytest.mark.parametrize("wrapper", [None, "VecNormalize", "VecCheckNan"])
def test_attributes_and_methods(wrapper):
    from sb3_contrib.common.maskable.utils import get_action_masks
    from stable_baselines3.common import vec_env
    from stable_baselines3.common.monitor import Monitor

    envs = make(3, render_mode="rgb_array")
    envs = envs if wrapper is None else getattr(vec_env, wrapper)(envs)
    envs.seed(0)
    envs.reset()
    picture = envs.render()
    assert picture.dtype == np.uint8
    assert_array_equal(envs.render(mode="rgb_array"), picture)
    assert len(envs.get_images()) == 3
    assert envs.env_is_wrapped(Monitor) == [True] * 3
    assert envs.env_is_wrapped(gymnasium.wrappers.TimeLimit, indices=[0, 2]) == [False] * 2
    assert [envs.has_attr(name) for name in ("dummy", "action_masks")] == [False, True]
    assert envs.get_attr("game", indices=[0, -1]) == [Game()] * 2
    envs.step(np.array([0, 4, 8]))
    masks = np.stack(envs.env_method("action_masks"))
    assert not masks[[0, 1, 2], [0, 4, 8]].any()
    assert_array_equal(get_action_masks(envs), masks)
    assert_array_equal(np.stack(envs.env_method("action_masks", indices=[2, 0])), masks[[2, 0]])
    envs.close()


def test_the_monitor_file_has_all_episodes(tmp_path):
    from stable_baselines3.common.monitor import get_monitor_files

    envs = make(3, monitor_file=tmp_path / "ours", opponent="self", illegal_action="penalize")
    envs.reset()
    rng = np.random.default_rng(0)
    episodes = []
    for _ in range(60):
        episodes += [
            info["episode"] for info in envs.step(rng.integers(9, size=3))[3] if "episode" in info
        ]
    envs.close()
    [path] = get_monitor_files(str(tmp_path))
    with open(path) as file:
        assert set(json.loads(file.readline()[1:])) == {"t_start", "env_id"}
        rows = list(csv.DictReader(file))
    assert len(episodes) > 5
    assert [{key: float(text) for key, text in row.items()} for row in rows] == episodes


# --------------------------------------------------------------------------------------------------
# Refusals


def test_what_it_cannot_do_is_refused():
    from ttt_envs.sb3 import MNKVecEnv, make_vec_env

    envs = make(2)
    envs.reset()
    for call in (
        lambda: make(2, env_id="CartPole-v1"),
        lambda: make_vec_env(2),
        lambda: make(0),
        lambda: make(2, opponnent="random"),
        lambda: MNKVecEnv(MNKVectorEnv(2)),  # another mode of reset
        lambda: envs.env_method("step"),
        lambda: envs.set_attr("game", None),
        lambda: envs.get_attr("nonsense"),
    ):
        with pytest.raises((TypeError, ValueError, AttributeError)):
            call()
    with pytest.warns(UserWarning, match="render_mode"):
        assert envs.render() is None
    envs = make(2, illegal_action="raise")
    peer = make_peer(2, illegal_action="raise")
    assert_same(envs.reset(), peer.reset())
    assert_same_step(envs, peer, np.array([0, 4]))
    legal = [int(np.flatnonzero(mask)[-1]) for mask in envs.env_method("action_masks")]
    with pytest.raises(ValueError, match="action 4 is illegal"):
        envs.step(np.array([legal[0], 4]))
    assert_same_step(envs, peer, np.array(legal))


def test_a_missing_package_is_named():
    code = "import sys; sys.modules['stable_baselines3'] = None; import ttt_envs.sb3"
    assert "[sb3]" in run_python("-c", code, code=None).stderr
