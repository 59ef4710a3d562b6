"""Node counts and results of searches equal those in tests/data/node-counts.json, and those of plain Python."""

import json

import golden
import numpy as np
import pytest
from numba import config

from baselines.mcts import MCTSSearch, gumbel_search
from learners.alpha_zero import AlphaZeroConfig
from ttt_envs import Boards, Game

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="too long in plain Python")
SKIPS = Game(skip_chance=0.25)


@pytest.mark.parametrize(
    "kind", [golden.search_counts, golden.proof_counts, golden.tree_counts], ids=lambda kind: kind.__name__
)
def test_node_counts_are_unchanged(kind):
    expected = json.loads(golden.FILE.read_text())[golden.KINDS[kind]]
    found = json.loads(json.dumps(kind()))
    assert found.keys() == expected.keys()
    changed = {name: (expected[name], found[name]) for name in expected if found[name] != expected[name]}
    assert not changed, "if it is meant: python tests/baselines/golden.py"


def guided_counts(games):
    """Searches guided by a net: visits and values, and the values of the net itself."""
    found = []
    for game in games:
        net, boards = AlphaZeroConfig(hidden=(4,)).build(game, np.random.default_rng(0)), Boards.start(game, 2)
        search = MCTSSearch(game, boards, np.zeros(2, np.uint64), leaf=net)
        search.run(20)
        gumbel = gumbel_search(game, boards, net, simulations=20)
        values = [*gumbel.improved_values.round(6).tolist(), *net.values(boards).round(6).tolist()]
        found.append([search.visits.tolist(), gumbel.search.visits.tolist(), values])
    return found


@pytest.mark.parametrize(
    ("kind", "games"),
    [
        (golden.search_counts, [(SKIPS, 2, 4)]),
        (golden.proof_counts, [Game(), Game(3, 4, 3), Game(4, 4, 4), Game(2, 2, 1)]),
        (golden.tree_counts, [(SKIPS, {"simulations": 30}), (Game(5, 6, 4), {"simulations": 30, "rollout": "mcts:2"})]),
        pytest.param(guided_counts, [SKIPS, Game(3, 4, 3)], marks=pytest.mark.slow),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_the_sources_run_as_plain_python(kind, games, fresh):
    printed = fresh(
        "import os; os.environ['NUMBA_DISABLE_JIT'] = '1'",
        "import warnings; warnings.simplefilter('ignore')",
        "import golden, test_golden",
        "from ttt_envs import Game",
        f"print({kind.__module__}.{kind.__name__}({games!r}))",
    )
    assert printed == f"{kind(games)}\n"
