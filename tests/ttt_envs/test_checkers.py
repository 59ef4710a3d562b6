"""The checkers of Gymnasium, Stable-Baselines3 and PettingZoo pass, whatever the settings."""

import warnings
from itertools import product

import gymnasium
import pytest
from environment_contract import BOARDS, OPENINGS, SCHEDULE, SEVERAL
from gymnasium.utils.env_checker import check_env
from pettingzoo.utils.conversions import turn_based_aec_to_parallel

from ttt_envs import mnk_v0
from ttt_envs.envs.registration import PRESETS
from ttt_envs.envs.single_env import SingleEnv

with warnings.catch_warnings():  # PettingZoo's tests import one of its games as it deprecates, and pygame
    warnings.simplefilter("ignore", DeprecationWarning)
    pytest.importorskip("pygame")  # Gymnasium's checker makes one environment for each render mode, too
    from pettingzoo.test import api_test, parallel_api_test, render_test, seed_test

RULES = [settings for settings in PRESETS.values() if set(settings) & {"gravity", "overlines", "misere", "torus"}]
HIDDEN = [
    {"phantom": phantom, **settings}
    for phantom in ("classic", "abrupt")
    for settings in ({}, {"skip_chance": (0.0, 0.3), "symmetry": "random"})
]
DRAWN = [SEVERAL, {"openings": OPENINGS, "skip_chance": (0, 0.5)}, {"first_player": "random"}]
OBSERVATIONS = ("flat", "planes", "channels", "dict")
OPPONENTS = ({}, {"opponent": "self"}, {"opponent": "win-or-block", "seat": "random", "symmetry": "random"})
SINGLE = [{**SEVERAL, "opponent": SCHEDULE}, {"openings": OPENINGS}, *HIDDEN]


@pytest.mark.filterwarnings("ignore::UserWarning:pettingzoo")
@pytest.mark.parametrize(
    "settings", [*BOARDS, *({**board, "symmetry": "random"} for board in BOARDS), *RULES, *HIDDEN, *DRAWN], ids=str
)
def test_pettingzoos_checkers_pass(settings, capsys):
    api_test(mnk_v0.env(**settings), num_cycles=300)
    assert "Passed" in capsys.readouterr().out
    seed_test(lambda: mnk_v0.env(**settings), num_cycles=300)
    parallel_api_test(turn_based_aec_to_parallel(mnk_v0.env(**settings)), num_cycles=50)


@pytest.mark.parametrize("settings", BOARDS, ids=str)
def test_pettingzoos_render_test_passes(settings, monkeypatch):
    monkeypatch.setattr("ttt_envs.envs.render.FPS", 1000)
    render_test(lambda **more: mnk_v0.env(**settings, **more))


@pytest.mark.parametrize(
    "settings",
    [
        *(
            {**BOARDS[(n + n // 4) % 4], "observation": observation, "dtype": dtype, **opponent}  # every board twice
            for n, (dtype, observation) in enumerate(product(("int8", "float32"), OBSERVATIONS))
            for opponent in OPPONENTS
        ),
        *({**settings, "observation": observation} for settings in [*RULES, *SINGLE] for observation in OBSERVATIONS),
    ],
    ids=str,
)
def test_gymnasiums_checker_passes(settings, monkeypatch):
    monkeypatch.setattr("ttt_envs.envs.render.FPS", 1000)
    env = gymnasium.make("ttt/MNK-v0", **settings)
    check_env(env.unwrapped, skip_render_check="opponent" in settings)


@pytest.mark.needs("stable_baselines3")
@pytest.mark.parametrize("settings", [*BOARDS, *RULES, *SINGLE], ids=str)
@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_stable_baselines_checker_passes(settings, observation):
    from stable_baselines3.common.env_checker import check_env

    with warnings.catch_warnings():
        if observation != "flat":  # it takes three axes for an image
            warnings.filterwarnings("ignore", category=UserWarning, module="stable_baselines3")
        check_env(SingleEnv(observation=observation, **settings))
