"""Settings of every learner: frozen, with the learner's name, and checked."""

import dataclasses
from typing import get_args, get_type_hints

import pytest

from learners import LEARNERS
from learners.config import LearnerConfig
from ttt_apps.train_options import parse_options
from ttt_envs.agents.specs import load_object

NAN, INF = float("nan"), float("inf")
FRACTION = (-0.1, 1.5, NAN)
NETS = {"learning_rate": (0, NAN), "batch_size": (0,)}
PPO = {"rollout": (1,), "batch_size": (1,), "n_epochs": (0,), "gae_lambda": FRACTION, "clip_range": (0,),
       "ent_coef": (-1,), "vf_coef": (-1,)}  # fmt: skip
SB3 = {"learning_rate": (0.0, 1.5), "gamma": FRACTION, "hidden": ((), (16, 0), [16, 0], 16, (8193,), (1,) * 9),
       "threads": (0,), "symmetry": ("some",)}  # fmt: skip
REFUSED = {
    "alpha-zero": NETS | {
        "hidden": ((), (0,), (8.0,), (8193,), (1,) * 9), "simulations": (0,), "search": ("uct",),
        "max_num_considered_actions": (1,), "maxvisit_init": (-1,), "value_scale": (NAN,), "c": (INF,),
        "opening": (-1,), "epsilon": FRACTION, "td_lambda": FRACTION, "learning_rate_decay": (-1,),
        "weight_decay": (-1,), "value_weight": (0,), "buffer_size": (0,), "gradient_steps": (0,),
        "symmetries": ("some",), "jobs": (-2,),
    },
    "exact-pg": {
        "method": ("adam",), "learning_rate": (0, INF), "temperature": (-1, NAN), "anneal": (1,),
        "reference_interval": (0,), "initial_std": (-1,),
    },
    "naive-mc": {"epsilon": FRACTION, "epsilon_decay": FRACTION, "memory": (0, 2**20 + 1)},
    "q-learning": {
        "step_size": (0, 1.5), "step_size_power": FRACTION, "gamma": FRACTION, "epsilon": FRACTION,
        "epsilon_decay": FRACTION, "memory": (0, INF), "backup": ("turn",), "target": ("mean",),
    },
    "q-net": NETS | {
        "hidden": (0, 65537), "learning_rate_decay": (-1,), "gamma": FRACTION, "epsilon": FRACTION,
        "epsilon_decay": FRACTION, "buffer_size": (-1,), "gradient_steps": (0,), "target_update_interval": (-1,),
        "optimizer": ("rmsprop",),
    },
    "sb3-dqn": SB3 | {
        "illegal_action": ("raise",), "positions_per_update": (0,), "batch_size": (0,), "buffer_size": (0,),
        "learning_starts": (0,), "target_update_interval": (0,), "exploration_initial_eps": FRACTION,
        "exploration_final_eps": FRACTION, "exploration_fraction": FRACTION,
    },
    "sb3-ppo": SB3 | PPO | {"illegal_action": ("raise",)},
    "sb3-maskable-ppo": SB3 | PPO,
    "value-net": {
        "preset": ("50",), "hidden": ((),), "epsilon": FRACTION, "iterations": (-1,), "learning_rate": (0, INF),
        "batch_size": (-1,), "held_out": (1.0,), "keep": ("first",), "log_iterations": (0,), "jobs": (-2,),
    },
}  # fmt: skip
"""name -> setting -> values out of range"""


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_settings_are_frozen_data_with_the_name_of_their_learner(name):
    kind = load_object(LEARNERS[name])
    config = kind()
    assert config.name == name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(config, dataclasses.fields(config)[0].name, 0)
    stored = {key: list(value) if isinstance(value, tuple) else value for key, value in vars(config).items()}
    assert kind(**stored) == config  # JSON has no tuples
    assert isinstance(config, LearnerConfig)


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_settings_of_another_type_are_refused(name):
    config = load_object(LEARNERS[name])()
    wrong = {int: (16.0, True, "16", [16]), float: ("fast", True), bool: (1, "yes")}
    refused = 0
    for setting, hint in get_type_hints(type(config)).items():
        for kind in set(wrong) & ({hint, *get_args(hint)} if type(None) in get_args(hint) else {hint}):
            for value in (*wrong[kind], *([None] if hint == kind else [])):
                with pytest.raises(ValueError, match=rf"^{setting}=.* does not work for {name}: choose "):
                    dataclasses.replace(config, **{setting: value})
                refused += 1
    assert refused


@pytest.mark.parametrize("name", REFUSED)
def test_settings_out_of_range_are_refused(name):
    config = load_object(LEARNERS[name])()
    for setting, values in REFUSED[name].items():
        for value in values:
            with pytest.raises(
                ValueError, match=rf"^{setting}=.* (does not work for {name}|is not known): choose "
            ) as caught:
                dataclasses.replace(config, **{setting: value})
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("q-net", {"gradient_steps": 2}, "gradient_steps=2 would .* choose gradient_steps=1, or a buffer_size above 0"),
        *((name, {"rewards": "report", "backup": "negamax"}, 'choose rewards="unit" or backup="agent"')
          for name in ("q-learning", "q-net")),
        ("value-net", {"hidden": (3,)}, "activations=.* one of linear, relu, tanh, sigmoid for each of the 1 hidden"),
        ("value-net", {"keep": "best", "held_out": 0.0}, "choose a held_out above 0"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_together_are_refused(name, settings, message):
    with pytest.raises(ValueError, match=message):
        load_object(LEARNERS[name])(**settings)


def test_settings_of_the_report_and_changes_of_them():
    options, settings = parse_options(["--settings=report", "--epsilon-decay=0.01", "--opponent=self"], "train.py")
    assert (options.batch, settings.gamma, settings.backup, settings.symmetries) == (1, 1.0, "agent", "none")
    assert (settings.step_size, settings.step_size_power, settings.rewards) == (1.0, 0.0, "report")
    assert (settings.values, settings.target, settings.epsilon_decay) == ("afterstate", "sarsa", 0.01)
