"""Settings of every learner: data, with the learner's name, and checked."""

import dataclasses
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

import pytest
import tiny

from learners import LEARNERS
from ttt_envs import Game, PhantomGame
from ttt_envs.agents.specs import load_object


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_settings_are_data_with_the_name_of_their_learner(name):
    kind = load_object(LEARNERS[name])
    config = kind()
    assert config.name == name
    stored = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in vars(config).items()
    }
    assert kind(**stored) == config  # JSON has no tuples


def cases_of_limits():
    """Values just out of range, and of other types, of every setting whose type has limits."""
    wrong = {int: (16.5, True, "16", [16]), float: ("fast", True, float("nan")), bool: (1, "yes")}
    for name in sorted(LEARNERS):
        for setting, hint in get_type_hints(
            type(load_object(LEARNERS[name])()), include_extras=True
        ).items():
            if get_origin(hint) is Literal:
                yield name, setting, "some"
            kind, *limits = get_args(hint) if get_origin(hint) is Annotated else (hint,)
            for value in wrong.get(kind, ()):
                if limits or value == value:
                    yield name, setting, value
            for limit in limits:
                ends = (limit.ge, -1), (limit.gt, 0), (limit.le, 1)
                yield from (
                    (name, setting, end + step)
                    for end, step in ends
                    if end is not None and end < 1e300
                )


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        *cases_of_limits(),
        *(("alpha-zero", "hidden", value) for value in ((), (0,), (8.5,), (8193,), (1,) * 9)),
        ("alpha-zero", "value_scale", -1),
        ("exact-pg", "learning_rate", 0),
    ],
)
def test_settings_of_other_types_or_out_of_range_are_refused(name, setting, value):
    config = load_object(LEARNERS[name])()
    with pytest.raises(
        ValueError, match=rf"^{setting}=.* (does not work for {name}|is not known): choose "
    ):
        dataclasses.replace(config, **{setting: value})


PHANTOM = PhantomGame(Game(2, 3, 2), "classic")
TEACHER = {"teacher": "expectiminimax:depth=2"}
REFUSED = [
    (
        "q-learning",
        {"rewards": "report", "backup": "negamax"},
        {},
        'rewards="unit" or backup="agent"',
    ),
    ("q-learning", {"backup": "negamax"}, {"game": PHANTOM}, 'choose backup="agent"'),
    ("q-learning", {"backup": "negamax"}, {"opponent": "random"}, "self-play"),
    ("q-learning", {"values": "afterstate"}, {"game": PHANTOM}, "needs to know what a move does"),
    ("q-learning", {}, {"opponent": "pool:every=0"}, "every"),
    ("q-learning", {}, {"opponent": "pool:age=3"}, "age"),
    ("q-learning", {}, {"opponent": "randm"}, "'randm'"),
    ("q-learning", {}, {"seat": "frist"}, "seat='frist'"),
    ("q-learning", {}, {"games": -1}, "games=-1"),
    ("q-learning", {}, {"batch": 0}, "batch=0"),
    ("value-net", {"hidden": (3,)}, {"opponent": "teacher"}, "activations=.* choose one for each"),
    ("value-net", {}, {"opponent": "random"}, "leave opponent=random out"),
    ("value-net", {"teacher": "random"}, {"opponent": "teacher"}, "teacher=random"),
    ("value-net", TEACHER, {"opponent": "teacher", "games": 0}, "games=0"),
    ("value-net", {"jobs": 0}, {"opponent": "teacher"}, "^jobs=0"),
    ("alpha-zero", {"jobs": 0}, {}, "^jobs=0"),
    ("alpha-zero", {}, {"opponent": "pool:every=5"}, "alpha-zero learns from games of"),
    ("exact-pg", {}, {"opponent": "pool:every=5"}, "exact-pg trains in a loop of its own"),
    (
        "exact-pg",
        {"method": "fictitious-play"},
        {"game": PHANTOM},
        "needs best responses over views",
    ),
    ("exact-pg", {}, {"game": Game(2, 2, 2), "opponent": "mcts:simulations=2"}, "is no function"),
    ("q-net", {"buffer_size": 10**12}, {}, "^buffer_size=1,000,000,000,000 takes "),
    ("sb3-dqn", {"buffer_size": 10**12}, {}, "^buffer_size=1,000,000,000,000 takes "),
    (
        "alpha-zero",
        {"simulations": 10**9},
        {},
        "^simulations=1,000,000,000 in 1 games at a time takes ",
    ),
    ("sb3-dqn", {}, {"game": PHANTOM}, "see different boards: choose a policy as opponent$"),
    # which diverge
    (
        "value-net",
        {**TEACHER, "learning_rate": 1e30, "activations": ("relu", "relu")},
        {"opponent": "teacher"},
        r"value-net has diverged after \d+ updates",
    ),
    (
        "alpha-zero",
        {"hidden": (4,), "simulations": 4, "learning_rate": 1e30, "gradient_steps": 1},
        {"games": 64, "batch": 8},
        r"has diverged after \d+ updates",
    ),
    ("exact-pg", {"learning_rate": 1e12}, {"games": 50}, "choose a learning_rate below 10$"),
    (
        "exact-pg",
        {"method": "r-nad", "temperature": 1e9},
        {"games": 50},
        "choose a temperature of at most 1$",
    ),
    tiny.case(
        "q-net",
        "q-net",
        {"optimizer": "sgd", "learning_rate": 1e30},
        {"games": 50},
        "has diverged .* choose a learning_rate below 0.1$",
    ),
]
"""learner, settings, options of its training, message"""


@pytest.mark.parametrize(("name", "settings", "options", "message"), REFUSED)
def test_trainings_that_cannot_be_or_diverge_are_refused(name, settings, options, message):
    usual = {"game": Game(), "games": 5, "batch": 1, "seed": 0, "opponent": "self"}
    with pytest.raises(ValueError, match=message):
        load_object(LEARNERS[name])(**settings).training(**{**usual, **options}).run()


@pytest.mark.parametrize("name", [tiny.case(name) for name in sorted(LEARNERS)])
def test_openings_are_passed_on_or_refused(name):
    kind = load_object(LEARNERS[name])
    options = {"batch": 64, "seed": 0, "openings": "random:2-2"}
    if name in ("alpha-zero", "exact-pg", "value-net"):
        with pytest.raises(ValueError, match=f"^{name} plays no games from openings"):
            kind().training(Game(), 100, **options)
        return
    training = kind().training(Game(), 100, **options)
    if "sb3" in name:
        assert (training.model.env.reset().sum(axis=1) == 2).all()
        return
    assert (training.board["stones"] == 2).all()


@pytest.mark.parametrize("name", ["alpha-zero", "exact-pg", "sb3-dqn", "value-net"])
def test_a_misspelt_option_of_a_loop_is_refused(name):
    loop = load_object(load_object(LEARNERS[name]).loop)
    with pytest.raises(TypeError, match="oponent"):
        loop(None, 5, oponent="random")
