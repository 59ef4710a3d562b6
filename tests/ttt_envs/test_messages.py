"""Messages for mistaken calls: they name what to write, in the words of the package that says
them.
"""

import re
from configparser import ConfigParser
from pathlib import Path

import numpy as np
import pytest

from ttt_envs import Game, as_policy
from ttt_envs.core import packages
from ttt_envs.core.checks import closest_names
from ttt_eval.exact import exploitability

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ttt_envs", "baselines", "learners", "ttt_eval", "ttt_apps")


def test_a_function_in_the_place_of_a_policy_or_game_is_refused_with_the_way_to_wrap_it():
    def greedy(observation, mask):
        return int(np.argmax(mask))

    for call in (
        lambda: as_policy(Game(), greedy),
        lambda: as_policy(greedy, "3 x 3"),
        lambda: exploitability(Game(), greedy),
    ):
        with pytest.raises(TypeError, match=r"as_policy\(function, game\)"):
            call()


def test_the_closest_name_or_all():
    names = {"Q_Learning": ["q-learning"], "q-lerning": ["q-learning"], "OPTIMAL": ["optimal"]}
    for name, near in {**names, "zzz": ["optimal", "q-learning"]}.items():
        assert re.findall("'(.+?)'", closest_names(name, ["q-learning", "optimal"])) == near


def test_commands_that_install_extras(tmp_path, monkeypatch):
    named = set()
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        named |= set(re.findall(r"""install_command\(["'](\w+)["']\)""", path.read_text()))
    settings = ConfigParser()
    settings.read(ROOT / "setup.cfg")
    assert set() < named <= set(settings["options.extras_require"])
    monkeypatch.setattr(packages, "ROOT", tmp_path)
    assert packages.install_command("tf") == 'pip install "ttt_envs[tf]"'
    (tmp_path / "setup.cfg").touch()
    assert packages.install_command("tf") == f'pip install -e "{tmp_path}[tf]"'
