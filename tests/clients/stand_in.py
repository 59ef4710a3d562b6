"""Our environments in the place of those that other people's tests and tutorials name.

A plugin for pytest (``pytest -p stand_in``), and a way to run a script: ``python stand_in.py SCRIPT
[arguments]``. The tests and scripts stay as they are; what changes is the list of environments that
the tests of PettingZoo and Gymnasium go through, and what ``pettingzoo.classic`` has for
tic-tac-toe.
"""

import runpy
import sys
import types
from functools import partial

import gymnasium

from ttt_envs import mnk_v0
from ttt_envs.envs.registration import PETTINGZOO_PRESETS, PRESETS

TICTACTOE = "tictactoe_v3"
ABSENT = {
    "pettingzoo.classic": ("texas_holdem_no_limit_v6",),
    "pettingzoo.butterfly": ("pistonball_v6",),
}
"""named at the head of files whose other tests are run"""


class Module(types.ModuleType):
    """A module of PettingZoo with an environment of ours."""

    def __init__(self, name, **kwargs):
        super().__init__(name)
        self.env = partial(mnk_v0.env, **kwargs)
        self.raw_env = partial(mnk_v0.raw_env, **kwargs)


def put(name, **attributes):
    """A module of these attributes and no others, found by its name."""
    module = sys.modules[name] = types.ModuleType(name)
    vars(module).update(attributes)
    return module


def pettingzoo():
    """PettingZoo's list of all environments, and tic-tac-toe by import and by id."""
    from pettingzoo import butterfly, classic

    stand_in = Module(f"pettingzoo.classic.{TICTACTOE}")
    modules = {name: Module(name, **kwargs) for name, kwargs in PETTINGZOO_PRESETS.items()}
    put(
        "pettingzoo.utils.all_modules",
        all_environments={**modules, f"classic/{TICTACTOE}": stand_in},
    )
    sys.modules[stand_in.__name__] = stand_in
    setattr(classic, TICTACTOE, stand_in)
    for package in (classic, butterfly):
        for name in ABSENT[package.__name__]:
            setattr(package, name, None)
    try:
        from pettingzoo import register
    except ImportError:  # before 1.27 there is no registry
        return
    register("aec", "classic/tictactoe-v3", entry_point="ttt_envs.mnk_v0:env")


def gymnasiums_tests():
    """The list of environments that Gymnasium's own tests go through: all our ids."""
    envs = [gymnasium.make(name, disable_env_checker=True).unwrapped for name in PRESETS]
    specs = [env.spec for env in envs]
    put(
        "tests.envs.utils",
        all_testing_initialised_envs=envs,
        all_testing_env_specs=specs,
        mujoco_testing_env_specs=[],
        gym_testing_env_specs=specs,
    )


pettingzoo()
gymnasiums_tests()

if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
