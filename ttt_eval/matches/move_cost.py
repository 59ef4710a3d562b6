"""Cost of a policy's moves, measured in a process of its own."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from itertools import product

import numpy as np
from joblib.externals.loky import ProcessPoolExecutor
from msgspec import Struct

from ttt_envs.agents.policy import act
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import compile_at_once
from ttt_envs.core.records import concatenate
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.openings import draw_openings
from ttt_eval.store.cost import Usage

OF_EACH_DEPTH = 4
"""Number of measured positions for each number of stones."""
ROUNDS = 25
"""Maximum number of rounds over all positions."""
ENOUGH_S = 1.0
"""CPU seconds after which no new round begins."""
MOST_S = 20.0
"""CPU seconds after which no new move begins."""


class MoveCost(Struct, frozen=True):
    """Cost of a move, for positions evaluated one at a time."""

    cpu_s_per_move: float
    """user and system, of all threads; the mean over positions of the median over rounds"""
    setup_cpu_s: float
    """making the policy and playing its first move, including one-time loading or solving"""
    peak_rss_bytes: int
    """of the process, imports included"""
    own_bytes: int
    """increase of peak memory while the policy was made and played"""


def measure_move_costs(game: Game, *specs: str) -> list[MoveCost]:
    """Measure the cost of policies' moves in a new process, one policy after the other.

    All policies see the same positions: four for every number of stones up to two thirds of the
    cells, after random plies that end no game, in an order that is drawn once. Memory is the
    policy's own only if it is the only policy.

    Args:
        game: the game.
        specs: specs of policies; that process makes them.

    Raises:
        ValueError: an unknown policy, a process that died.
    """
    try:
        with ProcessPoolExecutor(1) as pool:
            costs: list[MoveCost] = pool.submit(_time_policies, game, specs).result()
    except BrokenProcessPool:
        raise Refusal(
            f"the process that measures {', '.join(specs)} died, killed or out of memory: choose "
            "smaller policies, or more memory"
        ) from None
    return costs


def _time_policies(game: Game, specs: Sequence[str]) -> list[MoveCost]:
    """Measure policies in this process."""
    with compile_at_once():
        boards = draw_positions(game)  # also loads the compiler, which is no cost of a policy
        return [time_moves(game, spec, boards) for spec in specs]


def time_moves(game: Game, spec: str, boards: Boards) -> MoveCost:
    """Measure one policy as in :func:`measure_move_costs`, in this process.

    Args:
        game: the game.
        spec: of a policy.
        boards: positions that are not over; the first is evaluated once beforehand.
    """
    rng = np.random.default_rng(0)
    singles = list(boards.chunks(1))
    before = Usage.now().peak_rss_bytes
    start = time.process_time()
    policy = make_policy(spec, game)
    act(policy, singles[0], rng)
    setup = time.process_time() - start
    total = 0.0
    seconds: list[list[float]] = [[] for _ in singles]
    for number, row in product(range(ROUNDS), range(len(singles))):
        if total > MOST_S or (row == 0 and number and total > ENOUGH_S):
            break
        start = time.process_time()
        act(policy, singles[row], rng)
        seconds[row].append(time.process_time() - start)
        total += seconds[row][-1]
    peak = Usage.now().peak_rss_bytes
    mean = statistics.fmean(statistics.median(row) for row in seconds if row)
    return MoveCost(mean, setup, peak, peak - before)


def draw_positions(game: Game) -> Boards:
    """Return the positions of :func:`measure_move_costs`."""
    rng = np.random.default_rng(0)
    depths = range(max(1, 2 * game.cells // 3))
    parts = [
        draw_openings(game, plies, rng.integers(0, 2**64, OF_EACH_DEPTH, np.uint64))
        for plies in depths
    ]
    boards = concatenate(parts)
    return boards.take(rng.permutation(len(boards.mover)))
