"""Side effects of imports, and the ids of environments."""

import gymnasium
import pytest
from small_games import SKIP_GAME

from ttt_envs.envs.registration import PETTINGZOO_PRESETS, PRESETS
from ttt_envs.envs.vector_env import MNKVectorEnv
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import PhantomGame

GAMES = {
    "ttt/MNK-v0": Game(),
    "ttt/TicTacToe-v0": Game(),
    "ttt/SkipTicTacToe-v0": SKIP_GAME,
    "ttt/Gomoku-v0": Game(15, 15, 5),
    "ttt/FreestyleGomoku-v0": Game(15, 15, 5),
    "ttt/StandardGomoku-v0": Game(15, 15, 5, overlines=False),
    "ttt/ConnectFour-v0": Game(6, 7, 4, gravity=True),
    "ttt/SkipConnectFour-v0": Game(6, 7, 4, 0.25, gravity=True),
    "ttt/Misere-v0": Game(misere=True),
    "ttt/Torus-v0": Game(4, 4, 4, torus=True),
    "ttt/PhantomTicTacToe-v0": PhantomGame(kind="classic"),
}


def test_large_libraries_are_imported_on_demand_and_an_id_needs_no_import(fresh):
    """Neither registering nor writing help needs numba or SciPy, which take longest to import."""
    output = fresh(
        "import sys, gymnasium",
        "print(gymnasium.make('ttt_envs:ttt/TicTacToe-v0').spec.id, 'ttt_envs' in sys.modules)",
        "import ttt_envs, ttt_apps.training.command, ttt_apps.evaluate, ttt_apps.terminal.command",
        "large = {'numba', 'scipy', 'matplotlib', 'tensorflow', 'torch', 'pygame'}",
        "print(large & set(sys.modules), ttt_envs.Game())",
    )
    assert output == f"ttt/TicTacToe-v0 True\nset() {Game()}\n"


@pytest.mark.parametrize("first", ["pettingzoo", "ttt_envs"])
def test_presets_are_registered_whatever_is_imported_first(fresh, first):
    output = fresh(
        f"import {first}, ttt_envs, gymnasium, pettingzoo",
        "print('ttt/Gomoku-v0' in gymnasium.registry)",
        "print('ttt/gomoku-v0' in getattr(pettingzoo, 'aec_registry', ['ttt/gomoku-v0']))",
    )
    assert output.split() == ["True", "True"]


@pytest.mark.parametrize("name", sorted(GAMES))
def test_every_id_is_made_alone_and_in_vectors(name):
    """All keywords stay open, and no game has a limit that it could reach."""
    assert set(PRESETS) == set(GAMES)
    env = gymnasium.make(
        name, opponent="win-or-block" if "Phantom" not in name else "random", observation="dict"
    )
    assert env.unwrapped.game == GAMES[name]
    assert env.spec.max_episode_steps > 4 * 19 * 19
    assert gymnasium.make(name, skip_chance=0.5).unwrapped.game.skip_chance == 0.5
    assert gymnasium.make(name, size=(19, 7), win_length=7).unwrapped.game.rows == 19
    many = gymnasium.make_vec(name, num_envs=3, seat="second")
    assert isinstance(many.unwrapped, MNKVectorEnv)
    assert many.unwrapped.game == GAMES[name]


def test_pettingzoo_makes_every_id():
    pettingzoo = pytest.importorskip("pettingzoo")
    if not hasattr(pettingzoo, "make"):
        pytest.skip("this PettingZoo has no registry")
    assert set(PETTINGZOO_PRESETS) <= set(pettingzoo.aec_registry)
    for preset, game in GAMES.items():
        for name in (
            preset.lower(),
            preset.lower().replace("-v0", "_v0"),
            preset.lower().removesuffix("-v0"),
        ):
            assert pettingzoo.make("aec", name).unwrapped.game == game
    env = pettingzoo.make("aec", "ttt/mnk-v0", size=(4, 6), win_length=4, skip_chance=0.1)
    assert env.unwrapped.game == Game(4, 6, 4, 0.1)
