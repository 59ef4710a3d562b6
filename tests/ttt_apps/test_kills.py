"""Runs killed at every change of a file: once resumed, they end as runs that were never killed."""

import json
import shutil

import pytest
import tiny
from kills import train_until
from plain import assert_same_runs

from evaluation.run_files import read_state
from ttt_apps import train

LEARNERS = ["q-learning", "naive-mc", "q-net", "alpha-zero", "value-net", "sb3-dqn", "sb3-ppo", "sb3-maskable-ppo"]
GAMES = {"value-net": 6, "q-net": 24, "alpha-zero": 24}
SLOW = {"q-net", "alpha-zero", "sb3-ppo", "sb3-maskable-ppo"}
"""whose every start takes seconds, or that write as another one does"""


def arguments(name, folder, *more):
    """A tiny run with lines, checkpoints and a report."""
    games = GAMES.get(name, 60)
    board = ("--size=2x3", "--win-length=2", "--skip-chance=0.25")
    every = ("--batch=4", f"--log-every={games // 3}", f"--checkpoint-games={games // 2}")
    words = ("--learner", name, *tiny.OPTIONS[name], f"--games={games}", *board, *every, *more, "--out", str(folder))
    return [*words, "--quiet"]


def is_of(folder, games):
    """Whether the folder holds a run of so many games, begun or finished."""
    config = folder / "config.json"
    return config.exists() and json.loads(config.read_text())["games"] == games


def resume(folder, *more):
    return ["--resume", str(folder), "--quiet", *more]


@pytest.mark.parametrize("name", [tiny.case(name, slow=name in SLOW) for name in LEARNERS])
def test_a_run_killed_at_any_change_of_a_file_ends_as_one_never_killed(name, tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    changes = train_until(None, whole, arguments(name, whole))
    assert read_state(whole).is_trained()
    assert not read_state(whole).missing
    for kill_at in range(changes):
        shutil.rmtree(folder, ignore_errors=True)
        train_until(kill_at, folder, arguments(name, folder))
        train.main(resume(folder) if (folder / "config.json").exists() else arguments(name, folder))
        assert_same_runs(whole, folder)
