"""Compiles the machine code of environments, opponents, exact values, learners and the explorer: ``tools/warm_up.py``.

It is cached on disk: run this once on each machine, or once with NUMBA_CACHE_DIR on a folder that machines of the same
kind share.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ttt_envs.core.jit import compile_at_once, kernel_folder
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game

GAMES = (Game(), Game(3, 3, 3, 0.25), Game(4, 4, 4), Game(7, 7, 5))
"""Games that policies and environments play here: with and without skips, and a board too large to solve."""


def warm_up() -> dict[str, float]:
    """Run a little of everything, compiled, and return the seconds of each part."""
    seconds = {}
    with compile_at_once():
        for name, run in PARTS.items():
            start = time.perf_counter()
            run()
            seconds[name] = time.perf_counter() - start
            print(f"{name}: {seconds[name]:.1f} s")
    folder = kernel_folder()
    size = sum(file.stat().st_size for file in folder.rglob("*.nb[ic]"))
    print(f"machine code: {size / 1e6:.0f} MB in {folder}")
    return seconds


def _play_environments() -> None:
    import gymnasium

    from ttt_envs import mnk_v0

    for game in GAMES:
        rules: dict[str, Any] = {
            "size": (game.rows, game.columns),
            "win_length": game.win_length,
            "skip_chance": game.skip_chance,
        }
        aec = mnk_v0.env(**rules)
        aec.reset(seed=0)
        for agent in aec.agent_iter():
            observation, _, terminated, truncated, _ = aec.last()
            mask = observation["action_mask"]
            aec.step(None if terminated or truncated else aec.action_space(agent).sample(mask))
        for opponent in ("random", "win-or-block", "self"):
            env = gymnasium.make("ttt/MNK-v0", opponent=opponent, symmetry="random", **rules)
            _, info = env.reset(seed=0)
            done = False
            while not done:
                _, _, done, _, info = env.step(env.action_space.sample(info["action_mask"]))
            vector = gymnasium.make_vec(
                "ttt/MNK-v0", num_envs=4, vectorization_mode="vector_entry_point", opponent=opponent, **rules
            )
            vector.reset(seed=0)
            for _ in range(game.cells):
                vector.step(vector.action_space.sample())


def _play_matches() -> None:
    from ttt_eval.matches.match import play_pairs

    for game in GAMES:
        play_pairs(game, "random", "win-or-block", 2)
        play_pairs(game, "mcts:simulations=20", "expectiminimax:depth=2", 1)


def _compute_exactly() -> None:
    from baselines.connect_four import Solver
    from baselines.proof_number import prove
    from ttt_eval import exact
    from ttt_eval.exact.strength import strength

    for game in GAMES[:2]:
        strength(game, "random", ["random", "win-or-block"])
        strength(game, "optimal", ["random"])
        exact.match_outcome(game, "table", "svd:rank=18")
    prove(Game(1, 3, 3))
    connect = Game(3, 3, 3, gravity=True)
    Solver(connect).score(Boards.start(connect).position(0))


def _train_tables() -> None:
    from learners import LEARNERS
    from learners.training import Trainer
    from ttt_envs.agents.specs import load_object

    for name in ("naive-mc", "q-learning"):
        for opponent in ("random", "self"):
            config = load_object(LEARNERS[name])
            settings = config.self_play if opponent == "self" else {}
            Trainer(config(**settings).build(Game(), np.random.default_rng(0)), opponent, 8, batch=4).run()


def _answer_explorer() -> None:
    from ttt_apps.explorer.api import ExplorerApi
    from ttt_apps.explorer.root import Root

    ExplorerApi(Root(None)).warm()


PARTS: dict[str, Callable[[], None]] = {
    "environments": _play_environments,
    "opponents and matches": _play_matches,
    "exact values": _compute_exactly,
    "learners with a table": _train_tables,
}
"""Parts by name, in order; each compiles what the earlier ones have not."""
if importlib.util.find_spec("fastapi") is not None:
    PARTS["explorer"] = _answer_explorer

if __name__ == "__main__":
    warm_up()
