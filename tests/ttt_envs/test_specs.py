"""The spec strings that name what plays."""

import copy
import itertools
import pickle
import sys
import types
from dataclasses import dataclass
from typing import ClassVar, Literal, Optional

import numpy as np
import pytest
from small_games import SKIP_GAME

from ttt_envs import Game, PhantomGame, make_policy
from ttt_envs.agents.specs import (
    MAX_SPEC_DEPTH,
    MAX_SPEC_LENGTH,
    POLICIES,
    TRUST,
    FromFile,
    Named,
    Spec,
    parse_spec,
)
from ttt_envs.envs.config import game_keywords
from ttt_envs.envs.single_env import SingleEnv

# What a user might write in a file of his own
MODULE = '''
import numpy as np

class Corner:
    """Prefers the first empty cell, to a degree."""

    pure = True

    def __init__(self, game, weight: float = 1.0, name: str = ""):
        self.weight, self.name = weight, name

    def probabilities(self, boards, rng=None):
        p = (boards.cells == 0) * np.exp(-self.weight * np.arange(boards.cells.shape[1]))
        return p / p.sum(axis=1, keepdims=True)

class MisereCorner(Corner):
    variants = frozenset({"misere"})
    plays_hidden = True

class Idle:
    def __init__(self, game): pass

number = 3

def first_legal(observation, mask, start=0):
    return start + int(mask[start:].argmax())

def of_function(game):
    from ttt_envs import as_policy
    return as_policy(first_legal, game)

def without_names(a, b):
    return int(b.argmax())

def of_observation(observation):
    return int(observation[0])
'''


@pytest.fixture
def user_package(tmp_path, monkeypatch):
    """A package of the user's: mine.policies."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").touch()
    (tmp_path / "mine" / "policies.py").write_text(MODULE)
    (tmp_path / "mine" / "broken.py").write_text("import a_module_that_nobody_has\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "mine"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("random", Spec("random", None, {})),
        ("sb3:model.zip,algorithm=dqn", Spec("sb3", "model.zip", {"algorithm": "dqn"})),
        (
            "book:path=b.npz,then=(expectiminimax:depth=4,width=3)",
            Spec("book", None, {"path": "b.npz", "then": "expectiminimax:depth=4,width=3"}),
        ),
        ("a:(b:(c:d,e),f=g)", Spec("a", "b:(c:d,e),f=g", {})),
        ("a:b=", Spec("a", None, {"b": ""})),
        ("a:b=(x=y)", Spec("a", None, {"b": "x=y"})),
        ("run:C:/runs/x", Spec("run", "C:/runs/x", {})),
        ("mine.policies:Corner:2,name=x", Spec("mine.policies:Corner", "2", {"name": "x"})),
    ],
)
def test_a_spec_is_a_name_and_arguments(text, spec):
    assert parse_spec(text) == spec


@pytest.mark.parametrize(
    ("problem", "texts"),
    [
        ("its name is missing", ["", ":x", " random", "(a):b=1"]),
        ("it has an empty argument", ["random:", "a:b=1,,c=2", "a:=1"]),
        ("only its first argument may omit the key", ["a:b=1,c"]),
        ("it gives a key twice", ["a:b=1,b=2"]),
        ("its parentheses do not match", ["a:(b", "a:)b("]),
        ("it has several lines", ["random\n", "run:a\nb", "\u2028"]),
    ],
)
def test_malformed_specs_are_rejected(problem, texts):
    for text, read in itertools.product(
        texts, (parse_spec, lambda text: make_policy(text, SKIP_GAME))
    ):
        with pytest.raises(ValueError, match=f"is no policy, {problem}") as refused:
            read(text)
        assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("randm", "did you mean 'random'"),
        ("perfect", "did you mean 'optimal'"),
        ("optimal epsilon=0.1", "did you mean 'optimal:epsilon=0.1'"),
        ("human", "in play.py, it is you"),
        ("C:\\runs\\x", r"'run:C:\\runs\\x'"),
        ("mcts:simulation=9", "did you mean 'simulations'"),
        ("mine.policies:Corner:wieght=2", "did you mean 'weight'"),
        ("mine.policies:Corner:2,weight=3", "weight"),
        ("mine.policies:Cornr", "did you mean 'Corner'"),
        ("mine.policies:Idle", "Idle"),
        ("mine.policies:number", "number"),
        ("mine.policies:without_names", r"def make\(game\): return as_policy\(agent, game\)"),
        ("mine.policies:of_observation", r"def agent\(observation, mask\)"),
        ("mine/policies.py:Corner", "write policies:Corner, without .py, in its folder"),
        ("C:\\mine\\policies.py", "write policies:NAME, without .py, in its folder"),
        ("nobodys.policies:Corner", "nobodys"),
        (".policies:Corner", "package.module:name"),
        ("importlib.util:find_spec", "find_spec"),  # a factory that fails
        ("ttt_envs:Game", "Game made no policy of 3 x 3"),  # its variants are a property
        ("x" * 999, "choose one of"),
        ("settings:depth=1.5", "depth"),
        ("settings:step-size=x", "step-size"),
        ("settings:fast=yes", "fast"),
        ("settings:mode=tow", "did you mean 'two'"),
    ],
)
@pytest.mark.usefixtures("user_package", "settings")
def test_unknown_names_and_invalid_values_are_refused_with_a_hint(spec, hint):
    with pytest.raises(ValueError, match=hint) as refused:
        make_policy(spec, SKIP_GAME)
    assert "\n" not in str(refused.value)


@pytest.mark.usefixtures("user_package")
def test_classes_of_users_are_policies(monkeypatch):
    policy = make_policy("mine.policies:Corner:2.5,name=(a:b,c)", SKIP_GAME)
    assert (policy.policy.weight, policy.policy.name) == (2.5, "a:b,c")
    script = types.ModuleType("script")  # without a specification, as the __main__ of a script
    script.Corner = type(policy.policy)
    monkeypatch.setitem(sys.modules, "script", script)
    assert make_policy("script:Corner:2.5", SKIP_GAME).policy.weight == 2.5
    with pytest.raises(
        ModuleNotFoundError, match="a_module_that_nobody_has"
    ):  # of an import inside a module
        make_policy("mine.broken:Corner", SKIP_GAME)


@pytest.mark.usefixtures("user_package")
def test_classes_of_users_play_the_rules_that_they_declare():
    loses = Game(misere=True)
    hides = PhantomGame(kind="classic")
    for name, game in (("Corner", loses), ("Corner", hides), ("MisereCorner", Game(torus=True))):
        with pytest.raises(ValueError, match=r"Corner does not support .* its class declares"):
            make_policy(f"mine.policies:{name}", game)
    for game, opponent in (
        (Game(3, 4, 3, gravity=True), "of_function"),
        (Game(overlines=False, misere=True, torus=True), "first_legal:returns=actions"),
        (hides, "of_function"),
    ):
        env = SingleEnv(opponent=f"mine.policies:{opponent}", seat="second", **game_keywords(game))
        env.reset(seed=0)
        assert np.flatnonzero(env.clone_state()["cells"][0]).tolist() == [8 if game.gravity else 0]
    assert (
        make_policy(
            "mine.policies:MisereCorner", PhantomGame(Game(misere=True), "classic")
        ).policy.weight
        == 1
    )


@dataclass(frozen=True)
class Settings(Named):
    """A policy with a setting of every kind."""

    name: ClassVar[str] = "settings"
    pure: ClassVar[bool] = True

    game: Game
    path: str = "runs/first"
    depth: int = 3
    step_size: float = 0.5
    fast: bool = False
    limit: int | None = 5
    other: Optional[int] = None  # noqa: UP045  # as a user may write it
    mode: Literal["one", "two"] = "one"

    def probabilities(self, boards, rng=None):
        return make_policy("random", self.game).probabilities(boards)


@pytest.fixture
def settings(monkeypatch):
    monkeypatch.setitem(sys.modules, "settings_of_a_test", sys.modules[__name__])
    monkeypatch.setitem(POLICIES, "settings", "settings_of_a_test:Settings")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"path": "a:b,c=d"},
        {"path": "f(x):g(y)"},
        {"depth": -4, "step_size": 1e-30, "fast": True},
        {"limit": 7, "mode": "two"},
        {"limit": None},
        {"path": "", "depth": 10**18},
    ],
    ids=str,
)
@pytest.mark.usefixtures("settings")
def test_the_text_of_a_policy_makes_it_again(changes):
    policy = Settings(SKIP_GAME, **changes)
    assert make_policy(str(policy), SKIP_GAME) == policy
    assert make_policy("settings:x,step_size=0.25,limit=none", SKIP_GAME) == make_policy(
        "settings:x,step-size=0.25,limit=none", SKIP_GAME
    )


# --------------------------------------------------------------------------------------------------
# Spec strings of others


def nested(depth):
    spec = "optimal"
    for _ in range(depth):
        spec = f"expectiminimax:depth=1,leaf=({spec})"
    return spec


def test_a_spec_is_bounded_in_length_and_in_depth():
    assert str(make_policy(nested(1), Game())) == "expectiminimax:depth=1,leaf=optimal"
    parse_spec(nested(MAX_SPEC_DEPTH))
    for spec in (nested(MAX_SPEC_DEPTH + 1), nested(80), "x" * (MAX_SPEC_LENGTH + 1)):
        with pytest.raises(ValueError, match="is no policy") as refused:
            make_policy(spec, Game())
        assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "sent", [pickle.dumps, copy.deepcopy, lambda spec: spec], ids=["pickle", "copy", "as it is"]
)
def test_a_spec_from_a_file_names_built_in_policies_only(sent, monkeypatch):
    monkeypatch.setenv(TRUST, "0")
    for text in ("uuid:uuid4", "expectiminimax:depth=1,leaf=(uuid:uuid4)", "xml.dom:minidom"):
        spec = sent(FromFile(text))
        spec = pickle.loads(spec) if isinstance(spec, bytes) else spec
        monkeypatch.delitem(sys.modules, "xml.dom", raising=False)
        with pytest.raises(
            ValueError, match="was read from a file, which may name built-in policies only"
        ):
            make_policy(spec, Game())
        assert "xml.dom" not in sys.modules
    assert str(make_policy(FromFile("optimal:epsilon=0.1"), Game())) == "optimal:epsilon=0.1"
