"""Examples in docstrings run and print what they show."""

import doctest
import importlib
import pkgutil

import pytest

SHOWN = (
    "ttt_envs.game.boards",
    "baselines.expectiminimax.search",
    "baselines.mcts.search",
    "ttt_eval.checks.check",
    "ttt_eval.checks.probes",
)


@pytest.mark.parametrize("name", SHOWN)
def test_what_a_docstring_shows_is_so(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_no_docstring_shows_what_is_not_tested():
    for package in ("ttt_envs", "baselines", "learners", "ttt_eval", "ttt_apps"):
        path = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(path, f"{package}."):
            source = module.module_finder.find_spec(module.name).loader.get_source(module.name)
            assert (">>> " in source) == (module.name in SHOWN), module.name
