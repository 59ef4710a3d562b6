"""Compiles the machine code of environments, opponents, exact values, learners and the explorer: ``tools/warm_up.py``.

It is cached on disk: run this once on each machine, or once with NUMBA_CACHE_DIR on a folder that machines of the same
kind share.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import time
from tempfile import TemporaryDirectory

import gymnasium

from ttt_apps import evaluate, train
from ttt_envs import mnk_v0
from ttt_envs.core.jit import compile_at_once, kernel_folder

BOARDS = ({"size": 3}, {"size": 3, "skip_chance": 0.25}, {"size": 4}, {"size": 7, "win_length": 5})
"""Games that environments and policies play here: with and without skips, and a board too large to solve."""
GAMES = ("--size 3", "--size 3 --skip-chance 0.25", "--size 4 --win-length 4", "--size 7 --win-length 5")
"""The same as options of commands."""
MATCHES = ("random win-or-block", "mcts:simulations=20 expectiminimax:depth=2")
COMMANDS = (
    *(f"match {players} --games 4 {game}" for game in GAMES for players in MATCHES),
    *(f"exploitability {policy} {game}" for game in GAMES[:2] for policy in ("random", "optimal", "table")),
    "exact table svd:rank=18",
    "solve --size 1x3 --win-length 3",
    "solve --size 3 --gravity",
)
"""Commands of evaluate.py."""


def play_environments() -> None:
    """Play a game in each environment."""
    for rules in BOARDS:
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
            vector = gymnasium.make_vec("ttt/MNK-v0", num_envs=4, opponent=opponent, **rules)
            vector.reset(seed=0)
            for _ in range(9):
                vector.step(vector.action_space.sample())


def train_tables() -> None:
    """Train the learners with a table for some games."""
    for learner in ("naive-mc", "q-learning"):
        for opponent in ("random", "self"):
            with TemporaryDirectory() as folder:
                words = ["--learner", learner, "--opponent", opponent, "--games", "8", "--batch", "4", "--quiet"]
                train.main([*words, "--out", f"{folder}/run"])


def evaluate_policies() -> None:
    """Play matches and compute exact values."""
    for command in COMMANDS:
        evaluate.main(command.split())


def answer_explorer() -> None:
    """Answer all panels of the explorer."""
    from ttt_apps.explorer.api import ExplorerApi
    from ttt_apps.explorer.root import Root

    ExplorerApi(Root(None)).warm()


PARTS = {"environments": play_environments, "matches and exact values": evaluate_policies, "learners": train_tables}
"""Parts by name, in order; each compiles what the earlier ones have not."""
if importlib.util.find_spec("fastapi") is not None:
    PARTS["explorer"] = answer_explorer


def warm_up() -> dict[str, float]:
    """Run a little of everything, compiled, and return the seconds of each part."""
    seconds = {}
    with compile_at_once():
        for name, run in PARTS.items():
            start = time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()):
                run()
            seconds[name] = time.perf_counter() - start
            print(f"{name}: {seconds[name]:.1f} s")
    folder = kernel_folder()
    size = sum(file.stat().st_size for file in folder.rglob("*.nb[ic]"))
    print(f"machine code: {size / 1e6:.0f} MB in {folder}")
    return seconds


if __name__ == "__main__":
    warm_up()
