"""Gymnasium: its checker, its tests of environments on all our ids, and its vector environments."""

import shutil
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from ttt_envs.envs.registration import PRESETS

IDS = pytest.mark.parametrize("name", PRESETS)


@IDS
def test_checker(name):
    """`check_env` on all ids, without a warning"""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(f"ttt_envs:{name}", render_mode="rgb_array")
        check_env(env.unwrapped)
        env.close()


def test_its_own_suite(checkout, their_tests, tmp_path):
    """its `tests/envs/test_envs.py` (with `test_pickle_env`) and `test_rendering.py` on all ids,
    unchanged
    """
    shutil.copytree(checkout("Gymnasium") / "tests", tmp_path / "tests")
    their_tests(tmp_path, "tests/envs/test_envs.py")
    their_tests(tmp_path, "tests/envs/test_rendering.py", "-k", "not pygame")


@pytest.mark.parametrize("mode", ["sync", "async", "vector_entry_point"])
def test_vectors(mode):
    """`make_vec` of 8 games with `{mode}`, random legal moves"""
    envs = gymnasium.make_vec("ttt_envs:ttt/TicTacToe-v0", num_envs=8, vectorization_mode=mode)
    space = envs.single_action_space
    space.seed(0)
    _, infos = envs.reset(seed=0)
    for _ in range(2000):
        _, rewards, _, _, infos = envs.step(
            np.array([space.sample(mask) for mask in infos["action_mask"]])
        )
        assert set(rewards) <= {-1.0, 0.0, 1.0}
    envs.close()
