"""Messages for mistaken calls: what is wrong, and what to write."""

import ast
import re
from configparser import ConfigParser
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from ttt_envs import Game, as_policy, make_policy
from ttt_envs.core import packages
from ttt_envs.core.checks import closest_name
from ttt_eval.exact import exploitability

ROOT = Path(__file__).resolve().parents[2]
SWAPPED = "as_policy takes the function first and the game second: write as_policy(function, game)"
WRAP = "ttt_envs.as_policy(function, game)"


def greedy(observation, mask):
    return int(np.argmax(mask))


CALLS = [
    (lambda: as_policy(Game(), greedy), SWAPPED),
    (lambda: as_policy(greedy, "3 x 3"), SWAPPED),
    (lambda: exploitability(Game(), greedy), WRAP),
    (lambda: exploitability("random", Game()), "3 x 3, 3 to win is no policy"),
    (lambda: gymnasium.make("ttt/TicTacToe-v0", oponent="random"), "unexpected keyword argument 'oponent'"),
    (lambda: gymnasium.make_vec("ttt/MNK-v0", 2, columns=4), "unexpected keyword argument 'columns'"),
    (lambda: make_policy("optimal epsilon=0.1", Game()), "did you mean 'optimal'?"),
    (lambda: make_policy("no_such_file:Class", Game()), "there is no policy and no module 'no_such_file'"),
]


@pytest.mark.parametrize(("call", "message"), CALLS, ids=[message[:40] for _, message in CALLS])
def test_a_mistaken_call_says_what_to_write(call, message):
    with pytest.raises((TypeError, ValueError, MemoryError)) as problem:
        call()
    assert message in str(problem.value)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Q_Learning", "q-learning"),
        ("q-lerning", "q-learning"),
        ("OPTIMAL", "optimal"),
        ("zzz", None),
        ("opti", "optimal"),
    ],
)
def test_closest_name(name, near):
    assert closest_name(name, ["optimal", "q-learning"]) == near


def test_messages_of_packages_name_no_options():
    """Options belong to commands: a package names arguments, or a whole command."""
    found = []
    for package in ("ttt_envs", "baselines", "learners", "ttt_eval"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Raise):
                    texts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
                    message = " ".join(text for text in texts if isinstance(text, str))
                    if re.search(r"(?<!\w)--[a-z]", re.sub(r"(\w+\.py|ray start) [^:;,]*", "", message)):
                        found.append(f"{path.name}:{node.lineno}")
    assert found == []


def test_the_command_that_installs_an_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(packages, "ROOT", tmp_path)
    assert packages.install_command("tf") == 'pip install "ttt_envs[tf]"'
    (tmp_path / "setup.cfg").touch()
    assert packages.install_command("tf") == f'pip install -e "{tmp_path}[tf]"'


def test_extras_of_messages_exist():
    named = set()
    for package in ("ttt_envs", "baselines", "learners", "ttt_eval", "ttt_apps"):
        for path in (ROOT / package).rglob("*.py"):
            named |= set(re.findall(r"""install_command\(["'](\w+)["']\)""", path.read_text()))
    settings = ConfigParser()
    settings.read(ROOT / "setup.cfg")  # which setuptools formats anew for a source distribution
    assert named
    assert named <= set(settings["options.extras_require"])
