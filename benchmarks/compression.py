"""How fast tables are compressed, and how fast they are played by.

Decompositions stand beside those of other libraries, and policies that read a position from factors beside the one
that reads it from the whole table. Ours and the peer take turns in one process on one core, for several rounds, and the
ratio is taken within each round. What is measured is CPU time; kernels are warm, and nothing is kept on disk or read
from there. Work without a peer, above all that on 4 x 4, runs in a process of its own, for the sake of its peak memory.

    python benchmarks/compression.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is there: two threads on one core wait for each other

import numpy as np
import tyro
from measuring import (
    Alone,
    Arguments,
    SkipRow,
    Spread,
    cpu,
    measure_alone,
    not_installed,
    seconds_of,
    table_of_alone,
    versions,
)
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table as Rows

from baselines.compression import decompose, grouping_of
from baselines.tables import random_play_values
from ttt_envs.boards import Boards
from ttt_envs.policy import Policy, make_policy
from ttt_envs.rules import NOT_OVER, Game, place

PACKAGES = ("numpy", "numba", "scipy", "tensorly")
os.environ["TTT_ENVS_CACHE_BYTES"] = "0"  # nothing is kept or read

Ask = Callable[[], Any]
"""computes the answer once"""


# ---------------------------------------------------------------------------------------------------------------------
# Decompositions beside other libraries


def svd_of_scipy(rank: int) -> tuple[Ask, Ask]:
    """Ours first."""
    from scipy.sparse.linalg import svds

    values, grouping = random_play_values(Game()), grouping_of(Game(), "svd")
    matrix = grouping.tensor(values)
    return lambda: decompose("svd", values, grouping).at(rank), lambda: svds(matrix, rank)


def tucker_of_tensorly(rank: int) -> tuple[Ask, Ask]:
    from tensorly.decomposition import tucker

    values, grouping = random_play_values(Game()), grouping_of(Game(), "hooi")
    tensor = grouping.tensor(values)
    return (
        lambda: decompose("hooi", values, grouping).at(rank),
        lambda: tucker(tensor, [rank] * 3, init="svd", n_iter_max=1000, tol=1e-10),
    )


def train_of_tensorly(rank: int) -> tuple[Ask, Ask]:
    from tensorly.decomposition import tensor_train

    values, grouping = random_play_values(Game()), grouping_of(Game(), "tt")
    tensor = grouping.tensor(values)
    return lambda: decompose("tt", values, grouping).at(rank), lambda: tensor_train(tensor, rank)


PEERS: dict[str, tuple[str, str, Callable[[], tuple[Ask, Ask]]]] = {
    "svd-3x3": ("svd, all ranks", "scipy svds, rank 18", lambda: svd_of_scipy(18)),
    "hooi-3x3": ("hooi, rank 14", "tensorly tucker, rank 14", lambda: tucker_of_tensorly(14)),
    "tt-3x3": ("tt, rank 12", "tensorly tensor_train, rank 12", lambda: train_of_tensorly(12)),
}
"""by name: ours, the peer, and both"""


# ---------------------------------------------------------------------------------------------------------------------
# Policies beside the one that reads the whole table

GAMES = {"3x3": Game(), "3x3-skip": Game(skip_chance=0.25), "4x4": Game(4, 4, 4)}
POLICIES = ("svd:rank=18", "hosvd:rank=17", "hosvd2:rank=13", "hooi:rank=17", "tt:rank=12")
BATCHES = (1, 1024)
PLAY = {f"play-{game}": game for game in GAMES}


def positions(game: Game, count: int) -> Boards:
    """Of random games, of all lengths."""
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


def asking(policy: Policy, boards: Boards, batch: int) -> Ask:
    """Ask for the moves in all positions, ``batch`` at once."""
    parts = [boards.take(np.arange(at, at + batch)) for at in range(0, len(boards.mover), batch)]

    def ask() -> None:
        for part in parts:
            policy.probabilities(part)

    return ask


# ---------------------------------------------------------------------------------------------------------------------
# Alone

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
"""by name: what is done, as Python"""
SLOW = ("play-4x4", "hosvd-4x4-skip", "svd-4x4-skip")
"""left out of the quick form, unless asked for"""

BEFORE = """
from baselines.compression import decomposition, split_errors
from baselines.tables import Softmax, Table, random_play_values
from evaluation.exact import outcome
from ttt_envs.rules import Game

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


# ---------------------------------------------------------------------------------------------------------------------
# Measuring


@dataclass(frozen=True)
class Comparison:
    """A measured row; times in microseconds of CPU."""

    name: str
    ours: str
    beside: str
    batch: int | None
    our_us: Spread
    peer_us: Spread
    ratio: Spread
    """the peer's time over ours"""


def measured(asks: dict[str, Ask], rounds: int, least: float) -> dict[str, list[float]]:
    """Seconds of each, taking turns."""
    for ask in asks.values():
        ask()
    times: dict[str, list[float]] = {name: [] for name in asks}
    for _ in range(rounds):
        for name, ask in asks.items():
            times[name].append(seconds_of(ask, least))
    return times


def comparison(
    name: str, ours: str, beside: str, batch: int | None, our_times: list[float], peer_times: list[float], per: int
) -> Comparison:
    """Of times of ``per`` answers each."""
    of_ours, of_peer = (Spread.of(1e6 * time / per for time in times) for times in (our_times, peer_times))
    ratio = Spread.of(peer / our for our, peer in zip(our_times, peer_times, strict=True))
    return Comparison(name, ours, beside, batch, of_ours, of_peer, ratio)


def beside_libraries(name: str, rounds: int, least: float) -> Comparison:
    """Measure a decomposition.

    Raises:
        SkipRow: the peer is not there.
    """
    ours, beside, make = PEERS[name]
    try:
        our_ask, peer_ask = make()
    except ImportError as problem:
        raise not_installed(problem) from None
    times = measured({"ours": our_ask, "peer": peer_ask}, rounds, least)
    return comparison(name, ours, beside, None, times["ours"], times["peer"], 1)


def beside_the_table(name: str, rounds: int, least: float) -> list[Comparison]:
    """Measure the policies on a board."""
    game = GAMES[PLAY[name]]
    policies = {spec: make_policy(spec, game) for spec in ("table", *POLICIES)}
    found = []
    for batch in BATCHES:
        boards = positions(game, 1024)
        asks = {spec: asking(policy, boards, batch) for spec, policy in policies.items()}
        times = measured(asks, rounds, least)
        found += [comparison(name, spec, "table", batch, times[spec], times["table"], 1024) for spec in POLICIES]
    return found


def table_of(comparisons: list[Comparison]) -> Rows:
    table = Rows(box=MARKDOWN)
    for header in ("row", "ours", "beside"):
        table.add_column(header, no_wrap=True)
    for header in ("batch", "ours, us", "beside, us", "ours per s", "ratio"):
        table.add_column(header, justify="right", no_wrap=True)
    for c in comparisons:
        rate = f"{1e6 / c.our_us.median:,.0f}"
        table.add_row(c.name, c.ours, c.beside, str(c.batch or ""), str(c.our_us), str(c.peer_us), rate, str(c.ratio))
    return table


def main(arguments: Arguments) -> None:
    known = [*PEERS, *PLAY, *ALONE]
    left_out = SLOW if arguments.quick and not arguments.only else ()
    chosen = [name for name in arguments.chosen(known) if name not in left_out]
    rounds = arguments.rounds or (2 if arguments.quick else 5)
    least = 0.05 if arguments.quick else 0.2
    console = Console()
    console.width = max(console.width, 200)  # a row is a line, in a file too
    comparisons: list[Comparison] = []
    by_itself: list[Alone] = []
    skipped = {}
    for name in chosen:
        with console.status(name):
            try:
                if name in PEERS:
                    comparisons.append(beside_libraries(name, rounds, least))
                elif name in PLAY:
                    comparisons += beside_the_table(name, rounds, least)
                else:
                    work, expression = ALONE[name]
                    by_itself.append(measure_alone(name, work, BEFORE, expression))
            except SkipRow as reason:
                skipped[name] = str(reason)

    here = versions(PACKAGES)
    console.print(f"{cpu()}, one core; " + ", ".join(" ".join(pair) for pair in here.items()))
    console.print(
        f"Medians (min - max) of {rounds} rounds; ratios are taken within each round. Policies: per position."
    )
    if comparisons:
        console.print(table_of(comparisons))
    if by_itself:
        console.print(table_of_alone(by_itself))
    for name, reason in skipped.items():
        console.print(f"{name} is skipped, {reason}", markup=False)
    if arguments.json is not None:
        rows = {"rows": list(map(dataclasses.asdict, comparisons)), "alone": list(map(dataclasses.asdict, by_itself))}
        data = {"cpu": cpu(), "versions": here, "rounds": rounds, **rows, "skipped": skipped}
        arguments.json.write_text(json.dumps(data, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
