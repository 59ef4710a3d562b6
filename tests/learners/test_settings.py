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


@pytest.mark.parametrize(("name", "setting", "value"), [
    *cases_of_limits(),
    *(("alpha-zero", "hidden", value) for value in ((), (0,), (8.5,), (8193,), (1,) * 9)),
    ("alpha-zero", "value_scale", -1), ("exact-pg", "learning_rate", 0),
])  # fmt: skip
def test_settings_of_other_types_or_out_of_range_are_refused(name, setting, value):
    config = load_object(LEARNERS[name])()
    with pytest.raises(
        ValueError, match=rf"^{setting}=.* (does not work for {name}|is not known): choose "
    ):
        dataclasses.replace(config, **{setting: value})


PHANTOM = PhantomGame(Game(2, 3, 2), "classic")


@pytest.mark.parametrize(("name", "settings", "game", "opponent", "message"), [
    ("q-learning", {"rewards": "report", "backup": "negamax"}, Game(), "self",
     'rewards="unit" or backup="agent"'),
    ("value-net", {"hidden": (3,)}, Game(), "teacher", "activations=.* choose one for each"),
    ("value-net", {}, Game(), "random", "leave opponent=random out"),
    ("alpha-zero", {"jobs": 0}, Game(), "self", "^jobs=0"),
    ("alpha-zero", {}, Game(), "pool:every=5", "alpha-zero learns from games of"),
    ("exact-pg", {}, Game(), "pool:every=5", "exact-pg trains in a loop of its own"),
    ("exact-pg", {"method": "fictitious-play"}, PHANTOM, "self", "needs best responses over views"),
    ("exact-pg", {}, Game(2, 2, 2), "mcts:simulations=2", "is no function"),
    ("q-learning", {"backup": "negamax"}, PHANTOM, "self", 'choose backup="agent"'),
    ("q-learning", {"values": "afterstate"}, PHANTOM, "self", "needs to know what a move does"),
    ("q-net", {"buffer_size": 10**12}, Game(), "self",
     "^buffer_size=1,000,000,000,000 takes .* choose a lower number"),
    ("sb3-dqn", {"buffer_size": 10**12}, Game(), "self",
     "^buffer_size=1,000,000,000,000 takes .* choose a lower"),
    ("alpha-zero", {"simulations": 10**9}, Game(), "self",
     "^simulations=1,000,000,000 in 1 games at a time takes "),
    ("sb3-dqn", {}, PHANTOM, "self", "see different boards: choose a policy as opponent$"),
    ("q-learning", {}, Game(), "pool:every=0", "every"),
    ("q-learning", {}, Game(), "pool:age=3", "age"),
])  # fmt: skip
def test_trainings_that_do_not_fit_together_are_refused(name, settings, game, opponent, message):
    with pytest.raises(ValueError, match=message):
        load_object(LEARNERS[name])(**settings).training(
            game, 5, batch=1, seed=0, opponent=opponent
        )


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
