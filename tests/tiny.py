"""Learners by name, the packages that they need, and tiny runs of them."""

import pytest
from small_games import TINY_GAME as GAME

from learners import LEARNERS
from learners.config import load_learner
from ttt_apps.training import command as train
from ttt_envs import Game

OURS = tuple(name for name in sorted(LEARNERS) if not load_learner(name).loop)
"""learners trained by our loops; the others have loops of their own"""
PACKAGES = {name: load_learner(name).needs for name in LEARNERS if load_learner(name).needs}
GAMES = {"games": 200}
"""Settings of a short training where a learner has none."""
OPTIONS = {
    name: tuple(
        f"--{setting.replace('_', '-')}={value}"
        for setting, value in (load_learner(name).test_settings or GAMES).items()
    )
    for name in LEARNERS
}
FORMS = {
    "naive-mc": ({}, {"symmetries": "all", "rewards": "unit"}),
    "q-learning": (
        {},
        {"backup": "negamax", "symmetries": "rotations"},
        {"values": "afterstate", "rewards": "report", "epsilon_decay": 0.01},
        {"values": "afterstate", "backup": "negamax", "target": "sarsa", "symmetries": "all"},
    ),
    "q-net": (
        {},
        {
            "hidden": 8,
            "buffer_size": 64,
            "batch_size": 16,
            "gradient_steps": 2,
            "optimizer": "sgd",
            "backup": "negamax",
            "symmetries": "rotations",
        },
    ),
}
"""name -> the settings with which learners are tested"""


def case(name, *values, id=None, slow=False, more=False):
    """A case of a test for a learner: ``values``, or its name; left out where its packages are not
    installed.
    """
    marks = [pytest.mark.needs(*PACKAGES[name])] if name in PACKAGES else []
    marks += [pytest.mark.slow] if slow else []
    marks += [pytest.mark.more] if more else []
    return pytest.param(*(values or (name,)), id=id or name, marks=marks)


def cases_of_rules(rule):
    """A case for each of the learners that supports this rule, slow for those of
    Stable-Baselines3, and ``more`` for the one of TensorFlow.
    """
    return [
        case(name, slow="stable_baselines3" in load_learner(name).needs, more=name == "q-net")
        for name in sorted(LEARNERS)
        if rule in load_learner(name).variants
    ]


def fit(config, game=Game(), games=200, *, every=50, callbacks=(), log=None, **options):  # noqa: B008
    """The progress and the learner of a finished training, against random play by default."""
    training = config.training(
        game, games, **{"batch": 16, "seed": 1, "opponent": "random", **options}
    )
    return training.run(every=every, callbacks=callbacks, log=log), training.learner


def train_run(name, folder, *more):
    """A run on ``GAME`` that takes a fraction of a second."""
    board = ("--size=2x3", "--win-length=2", f"--skip-chance={GAME.skip_chance}")
    brief = ("--batch=4", "--log-every=10", "--no-report")
    train.main(["--learner", name, *OPTIONS[name], *board, *brief, *more, "--out", str(folder)])
    return folder
