"""The checkers of Gymnasium, Stable-Baselines3 and PettingZoo pass, whatever the settings."""

import warnings

import gymnasium
import pytest
from environment_contract import OPENINGS, SEVERAL
from gymnasium.utils.env_checker import check_env
from pettingzoo.utils.conversions import turn_based_aec_to_parallel

from ttt_envs import mnk_v0
from ttt_envs.envs.registration import PRESETS
from ttt_envs.envs.single_env import SingleEnv

with (
    warnings.catch_warnings()
):  # PettingZoo's tests import one of its games as it deprecates, and pygame
    warnings.simplefilter("ignore", DeprecationWarning)
    pytest.importorskip(
        "pygame"
    )  # Gymnasium's checker makes one environment for each render mode, too
    from pettingzoo.test import api_test, parallel_api_test, render_test, seed_test

BOARDS = [
    {"size": 3, "skip_chance": 0.25},
    {"size": (4, 6), "win_length": 4, "symmetry": "random"},
    {"size": 15, "win_length": 5},
    {"size": (6, 7), "win_length": 4, "gravity": True},
    {"phantom": "classic", "skip_chance": (0.0, 0.3), "symmetry": "random"},
    {"phantom": "abrupt"},
    SEVERAL,
    {"openings": OPENINGS, "skip_chance": (0, 0.5)},
    {"first_player": "random"},
]
OPPONENTS = [
    {"opponent": "self"},
    {"opponent": "random", "seat": "random"},
    {"opponent": [("random", 0), ("win-or-block", 9)]},
]
OBSERVATIONS = ("flat", "planes", "channels", "dict")
PLAYED = [
    board | OPPONENTS[n % 2 if "phantom" in board else n % 3] for n, board in enumerate(BOARDS)
]


@pytest.fixture(autouse=True)
def _fast_pictures(monkeypatch):
    monkeypatch.setattr("ttt_envs.envs.render.FPS", 1000)


@pytest.mark.filterwarnings("ignore::UserWarning:pettingzoo")
@pytest.mark.parametrize("settings", BOARDS, ids=str)
def test_pettingzoos_checkers_pass(settings, capsys):
    api_test(mnk_v0.env(**settings), num_cycles=100)
    assert "Passed" in capsys.readouterr().out
    seed_test(lambda: mnk_v0.env(**settings), num_cycles=100)
    parallel_api_test(turn_based_aec_to_parallel(mnk_v0.env(**settings)), num_cycles=50)


@pytest.mark.parametrize("settings", BOARDS[:4], ids=str)
def test_pettingzoos_render_test_passes(settings):
    render_test(lambda **more: mnk_v0.env(**settings, **more))


@pytest.mark.parametrize("observation", OBSERVATIONS)
@pytest.mark.parametrize("settings", PLAYED, ids=str)
def test_gymnasiums_checker_passes(settings, observation):
    env = gymnasium.make("ttt/MNK-v0", observation=observation, **settings)
    check_env(env.unwrapped, skip_render_check=observation != "dict")


@pytest.mark.parametrize(
    "settings",
    [
        {"presentation": "words", "skip_chance": 0.5, "seat": "alternate"},
        {"opponent": "self", "illegal": "random", "size": (4, 5), "win_length": 4},
        {"illegal": "lose", "rules": True, "show_legal": False, "seat": "second"},
    ],
    ids=str,
)
def test_gymnasiums_checker_passes_for_text(settings):
    check_env(gymnasium.make("ttt_envs:ttt/Text-v0", render_mode="ansi", **settings).unwrapped)


@pytest.mark.needs("stable_baselines3")
@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_stable_baselines_checker_passes(observation):
    from stable_baselines3.common.env_checker import check_env

    for settings in [*PLAYED, *PRESETS.values()]:
        with warnings.catch_warnings():
            if observation != "flat":  # it takes three axes for an image
                warnings.filterwarnings("ignore", category=UserWarning, module="stable_baselines3")
            check_env(SingleEnv(observation=observation, **settings))
