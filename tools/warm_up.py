"""Compiles the machine code of environments, opponents, exact values, learners and the explorer:
``tools/warm_up.py``.

It is cached on disk: run this once on each machine, or once with NUMBA_CACHE_DIR on a folder that
machines of the same kind share.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
from itertools import product
from tempfile import TemporaryDirectory

import gymnasium

from ttt_apps import evaluate
from ttt_apps.training import command as train
from ttt_envs import mnk_v0
from ttt_envs.core.jit import compile_at_once, kernel_folder

BOARDS = ({"size": 3}, {"size": 3, "skip_chance": 0.25}, {"size": 4}, {"size": 7, "win_length": 5})
"""Games that environments and policies play here: with and without skips, and a board too large to
solve.
"""
GAMES = (
    "--size 3",
    "--size 3 --skip-chance 0.25",
    "--size 4 --win-length 4",
    "--size 7 --win-length 5",
)
"""The same as options of commands."""
MATCHES = ("random win-or-block", "mcts:simulations=20 expectiminimax:depth=2")
COMMANDS = (
    *(f"match {players} --games 4 {game}" for game in GAMES for players in MATCHES),
    *(
        f"exploitability {policy} {game}"
        for game in GAMES[:2]
        for policy in ("random", "optimal", "table")
    ),
    "exact table svd:rank=18",
    "solve --size 1x3 --win-length 3",
    "solve --size 3 --gravity",
)
"""Commands of evaluate.py."""
TRAININGS = product(("naive-mc", "q-learning"), ("random", "self"))
"""Learners with a table, and their opponents."""


def play_environments() -> None:
    """Make some moves in each environment."""
    for rules in BOARDS:
        aec = mnk_v0.env(**rules)
        aec.reset(seed=0)
        aec.step(0)
        aec.last()
        for opponent in ("random", "win-or-block", "self"):
            env = gymnasium.make("ttt/MNK-v0", opponent=opponent, symmetry="random", **rules)
            _, info = env.reset(seed=0)
            env.step(info["action_mask"].argmax())
            vector = gymnasium.make_vec("ttt/MNK-v0", num_envs=4, opponent=opponent, **rules)
            vector.reset(seed=0)
            for _ in range(9):
                vector.step(vector.action_space.sample())


def run_commands() -> None:
    """Play matches, compute exact values, and train for some games."""
    for command in COMMANDS:
        evaluate.main(command.split())
    for learner, opponent in TRAININGS:
        with TemporaryDirectory() as folder:
            words = f"--learner {learner} --opponent {opponent} --games 8 --batch 4 --quiet --out"
            train.main([*words.split(), f"{folder}/run"])


def main() -> None:
    """Run a little of everything, compiled, and print where the machine code is."""
    with compile_at_once(), contextlib.redirect_stdout(io.StringIO()):
        play_environments()
        run_commands()
        if importlib.util.find_spec("fastapi") is not None:
            from ttt_apps.explorer.api import ExplorerApi
            from ttt_apps.explorer.root import Root

            ExplorerApi(Root(None)).warm()
    size = sum(file.stat().st_size for file in kernel_folder().rglob("*.nb[ic]"))
    print(f"machine code: {size / 1e6:.0f} MB in {kernel_folder()}")


if __name__ == "__main__":
    main()
