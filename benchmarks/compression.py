"""Speed of table compression, and of play from compressed tables.

Decompositions are compared with those of other libraries, and policies that read factors with the one that reads the
whole table. Both sides alternate in one process on one core, for several rounds, and the ratio is taken within each
round. Times are CPU times; kernels are warm, and the disk cache is off. Work without a peer, above all that on 4 x 4,
runs in a process of its own, to measure its peak memory.

    python benchmarks/compression.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is there: two threads on one core wait for each other

import numpy as np
from measuring import US, Benchmark, Row, Stretch, alone_part, run, time_answers

from baselines.compression import decompose, make_grouping
from baselines.tables import random_play_values
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.rules import NOT_OVER, place

PACKAGES = ("numpy", "numba", "scipy", "tensorly")
os.environ["TTT_ENVS_CACHE_BYTES"] = "0"  # turns the disk cache off

Ask = Callable[[], Any]
"""Computes the answer once."""


# ---------------------------------------------------------------------------------------------------------------------
# Decompositions beside other libraries


def scipy_svd(rank: int) -> tuple[Ask, Ask]:
    """Return our decomposition and scipy's."""
    from scipy.sparse.linalg import svds

    values, grouping = random_play_values(Game()), make_grouping(Game(), "svd")
    matrix = grouping.tensor(values)
    return lambda: decompose("svd", values, grouping).at(rank), lambda: svds(matrix, rank)


def tensorly_tucker(rank: int) -> tuple[Ask, Ask]:
    from tensorly.decomposition import tucker

    values, grouping = random_play_values(Game()), make_grouping(Game(), "hooi")
    tensor = grouping.tensor(values)
    return (
        lambda: decompose("hooi", values, grouping).at(rank),
        lambda: tucker(tensor, [rank] * 3, init="svd", n_iter_max=1000, tol=1e-10),
    )


def tensorly_train(rank: int) -> tuple[Ask, Ask]:
    from tensorly.decomposition import tensor_train

    values, grouping = random_play_values(Game()), make_grouping(Game(), "tt")
    tensor = grouping.tensor(values)
    return lambda: decompose("tt", values, grouping).at(rank), lambda: tensor_train(tensor, rank)


def library_row(name: str, ours: str, beside: str, make: Callable[[], tuple[Ask, Ask]]) -> Row:
    return Row(name, ours, beside, None, lambda: time_answers(make()[0]), lambda: time_answers(make()[1]))


# ---------------------------------------------------------------------------------------------------------------------
# Policies beside the one that reads the whole table

GAMES = {"3x3": Game(), "3x3-skip": Game(skip_chance=0.25), "4x4": Game(4, 4, 4)}
POLICIES = ("svd:rank=18", "hosvd:rank=17", "hosvd2:rank=13", "hooi:rank=17", "tt:rank=12")
BATCHES = (1, 1024)


def positions(game: Game, count: int) -> Boards:
    """Return positions of random games, of all lengths."""
    rng = np.random.default_rng(0)
    cells, movers = [], []
    while len(cells) < count:
        board, mover = np.zeros(game.cells, np.int8), 0
        for stones, cell in enumerate(rng.permutation(game.cells)):
            cells.append(board.copy())
            movers.append(mover)
            if place(board, mover, int(cell), stones, game.parameters) != NOT_OVER:
                break
            mover = mover if rng.random() < game.skip_chance else 1 - mover
    chosen = rng.permutation(len(cells))[:count]
    return Boards(np.stack(cells)[chosen], np.array(movers, np.int8)[chosen])


def query_policy(policy: Policy, boards: Boards, batch: int) -> Ask:
    """Return a query of the moves in all positions, ``batch`` at once."""
    parts = [boards.take(np.arange(at, at + batch)) for at in range(0, len(boards.mover), batch)]

    def ask() -> None:
        for part in parts:
            policy.probabilities(part)

    return ask


POSITIONS = 1024


def play_policy(spec: str, game: Game, batch: int) -> Stretch:
    return time_answers(query_policy(make_policy(spec, game), positions(game, POSITIONS), batch), POSITIONS)


ROWS = (
    library_row("svd-3x3", "svd, all ranks", "scipy svds, rank 18", lambda: scipy_svd(18)),
    library_row("hooi-3x3", "hooi, rank 14", "tensorly tucker, rank 14", lambda: tensorly_tucker(14)),
    library_row("tt-3x3", "tt, rank 12", "tensorly tensor_train, rank 12", lambda: tensorly_train(12)),
    *(
        Row(
            f"play-{name}",
            f"{spec}, {batch} at once",
            "table",
            None,
            partial(play_policy, spec, game, batch),
            partial(play_policy, "table", game, batch),
        )
        for name, game in GAMES.items()
        for batch in BATCHES
        for spec in POLICIES
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# Without a peer

ALONE: dict[str, tuple[str, str]] = {
    "curve-3x3": ("figure 4, all ranks, both tables", "curve()"),
    "splits-3x3": ("errors of all 126 splits", "split_errors(random_play_values(Game()), Game(), 4)[1][:, 18].min()"),
    "table-4x4": ("random-play values of 4 x 4", "random_play_values(Game(4, 4, 4))[0]"),
    "table-4x4-skip": ("the same, skip .25", "random_play_values(Game(4, 4, 4, 0.25))[0, 0]"),
    "hosvd-4x4": ("table, HOSVD, rank 17", 'decomposition(Game(4, 4, 4), "hosvd").at(17).relative_error'),
    "hosvd-4x4-skip": ("the same, skip .25", 'decomposition(Game(4, 4, 4, 0.25), "hosvd").at(17).relative_error'),
    "tt-4x4": ("table, tensor train, rank 12", 'decomposition(Game(4, 4, 4), "tt").at(12).relative_error'),
    "svd-4x4": ("table, SVD up to rank 128", 'decomposition(Game(4, 4, 4), "svd").at(128).relative_error'),
    "svd-4x4-skip": ("the same, skip .25", 'decomposition(Game(4, 4, 4, 0.25), "svd").at(128).relative_error'),
}
"""Work by name: a description, and Python code."""
SLOW = ("play-4x4", "hosvd-4x4-skip", "svd-4x4-skip")
"""Rows omitted from the quick form, unless requested."""

BEFORE = """
from baselines.compression import decomposition, split_errors
from baselines.tables import Softmax, Table, random_play_values
from ttt_eval.exact.dynamic_programming import outcome
from ttt_envs.game.rules import Game

def curve(ranks=82):
    results = []
    for terminal in ("equation", "as_published"):
        table = Softmax(Table(Game(), random_play_values(Game(), terminal)))
        full = decomposition(Game(), "svd", terminal=terminal)
        for rank in range(ranks):
            compressed = Softmax(full.at(rank))
            results += [outcome(Game(), table, compressed), outcome(Game(), compressed, table)]
    return len(results), "exact results"

curve(1), decomposition(Game(), "hosvd").at(1)  # compiles
"""


BENCHMARK = Benchmark(
    about=str(__doc__),
    packages=PACKAGES,
    unit=US,
    rows=ROWS,
    parts=(alone_part(ALONE, BEFORE),),
    left_out=SLOW,
    seconds=(0.05, 0.2),
    note="Policies: per position.",
)


if __name__ == "__main__":
    run(BENCHMARK)
