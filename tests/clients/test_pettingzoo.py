"""PettingZoo: its checkers, and its own test suite with our environment in its list."""

import shutil
from pathlib import Path

import pytest

import ttt_envs
from ttt_envs import mnk_v0
from ttt_envs.envs.registration import PETTINGZOO_PRESETS

PRESETS = pytest.mark.parametrize(
    "kwargs", PETTINGZOO_PRESETS.values(), ids=list(PETTINGZOO_PRESETS)
)


@PRESETS
def test_checkers(kwargs):
    """`api_test`, `seed_test`, `render_test`, and `parallel_api_test` of a conversion, on all
    ids
    """
    from pettingzoo.test import api_test, parallel_api_test, render_test, seed_test
    from pettingzoo.utils.conversions import turn_based_aec_to_parallel

    api_test(mnk_v0.env(**kwargs), num_cycles=300)
    seed_test(lambda: mnk_v0.env(**kwargs), num_cycles=100)
    render_test(lambda render_mode: mnk_v0.env(**kwargs, render_mode=render_mode))
    parallel_api_test(turn_based_aec_to_parallel(mnk_v0.env(**kwargs)), num_cycles=100)


def test_its_own_suite(checkout, their_tests, tmp_path):
    """its `test/`: `pickle_test`, `unwrapped_test` on all ids, `wrapper_test` of the illegal move,
    unchanged
    """
    shutil.copytree(checkout("PettingZoo") / "test", tmp_path / "test")
    their_tests(tmp_path, "test/pickle_test.py", "test/unwrapped_test.py")
    their_tests(tmp_path, "test/wrapper_test.py", "-k", "terminate_illegal")


def test_nothing_is_printed(checkout, their_tests, tmp_path):
    """its `test/print_test`, unchanged, on the modules of `ttt_envs` but for its command, in the
    place of `butterfly`'s
    """
    shutil.copytree(checkout("PettingZoo") / "test", tmp_path / "test")
    command = shutil.ignore_patterns("__main__.py")
    shutil.copytree(
        Path(ttt_envs.__file__).parent, tmp_path / "pettingzoo" / "butterfly", ignore=command
    )
    their_tests(tmp_path, "test/print_test.py")
