"""Learners by name, the packages that they need, and tiny runs of them."""

import dataclasses
from collections import defaultdict

import numpy as np
import pytest

from learners import LEARNERS
from learners.config import load_learner
from learners.training import Task
from ttt_apps import train
from ttt_envs import Game

GAME = Game(2, 3, 2, 0.25)
OURS = tuple(name for name in sorted(LEARNERS) if not load_learner(name).own_loop)
"""learners trained by our loops; the others have loops of their own"""
PACKAGES = {
    "alpha-zero": ("tensorflow",),
    "q-net": ("tensorflow",),
    "value-net": ("tensorflow",),
    "sb3-dqn": ("torch", "stable_baselines3"),
    "sb3-ppo": ("torch", "stable_baselines3"),
    "sb3-maskable-ppo": ("torch", "stable_baselines3", "sb3_contrib"),
}
OPTIONS = defaultdict(lambda: ("--games=200",)) | {
    "alpha-zero": ("--games=40", "--hidden=4", "--simulations=4", "--gradient-steps=2", "--batch-size=8"),
    "exact-pg": ("--games=40", "--initial-std=0.1"),
    "q-net": ("--games=40", "--hidden=4"),
    "value-net": ("--games=6", "--teacher=expectiminimax:depth=2", "--preset=20", "--iterations=10", "--jobs=1"),
    "sb3-dqn": ("--games=60", "--hidden=4", "--learning-starts=20"),
    "sb3-ppo": ("--games=60", "--hidden=4", "--rollout=16", "--batch-size=16"),
    "sb3-maskable-ppo": ("--games=60", "--hidden=4", "--rollout=16", "--batch-size=16"),
}


def case(name, *values, id=None, slow=False):
    """A case of a test for a learner: ``values``, or its name; left out where its packages are not installed."""
    marks = [pytest.mark.needs(*PACKAGES[name])] if name in PACKAGES else []
    marks += [pytest.mark.slow] if slow else []
    return pytest.param(*(values or (name,)), id=id or name, marks=marks)


def cases_of_rules(*rules, names=LEARNERS, slow="sb3"):
    """A case for each of the learners that supports these rules; slow ones by a part of their names."""
    return [case(name, slow=slow in name) for name in sorted(names) if {*rules} <= {*load_learner(name).variants}]


def task(run, game=Game(), **changed):  # noqa: B008  # frozen
    """A task of 200 games against random play, for a learner with a loop of its own."""
    settings = {
        "opponent": "random",
        "seat": "alternate",
        "games": 200,
        "batch": 16,
        "seed": 1,
        "every": 50,
        "callbacks": (),
        "log": lambda games, measured: None,
        "progress": lambda done: None,
        "save": lambda done, net: None,
    }
    return Task(game=game, run=run, **settings | changed)


def fit(config, task):
    """The progress of a task, and the policy built from the last state that it saved."""
    states, net = [], config.build(task.game, np.random.default_rng(0))
    done = config.fit(dataclasses.replace(task, save=lambda done, learner: states.append(learner.state)))
    net.state = states[-1]
    return done, net


def train_run(name, folder, *more):
    """A run on ``GAME`` that takes a fraction of a second."""
    board = ("--size=2x3", "--win-length=2", f"--skip-chance={GAME.skip_chance}")
    brief = ("--batch=4", "--log-every=10", "--no-report")
    train.main(["--learner", name, *OPTIONS[name], *board, *brief, *more, "--out", str(folder)])
    return folder
