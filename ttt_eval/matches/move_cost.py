"""Cost of a policy's moves, measured in a process of its own."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ttt_envs.agents.policy import act
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.files import read_json, write_json
from ttt_envs.core.jit import compile_at_once
from ttt_envs.core.packages import end_with_stdin, subprocess_environment
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_eval.cost import Usage, measure_usage
from ttt_eval.matches.openings import draw_openings

OF_EACH_DEPTH = 4
"""Number of measured positions for each number of stones."""
ROUNDS, ENOUGH_S, MOST_S = 25, 1.0, 20.0
"""Maximum number of rounds over all positions; CPU seconds after which no new round begins, and no new move."""


class MoveCost(NamedTuple):
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
    """Measure the cost of policies' moves in a separate process, one policy after the other.

    All policies see the same positions: four for every number of stones up to two thirds of the cells, after random
    plies that end no game, in an order that is drawn once. Memory is the policy's own only if it is the only policy.

    Args:
        game: the game.
        specs: specs of policies; that process makes them, from the current folder.

    Raises:
        ValueError: the process failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "cost.json")
        measure_usage(
            [sys.executable, "-m", "ttt_eval.matches.move_cost", json.dumps(game.to_dict()), str(out), *specs],
            subprocess_environment(),
        )
        return [MoveCost(*one) for one in read_json(out)]


def time_moves(game: Game, spec: str, boards: Boards) -> MoveCost:
    """Measure one policy as in :func:`measure_move_costs`, in this process.

    Args:
        game: the game.
        spec: of a policy.
        boards: positions that are not over; the first is evaluated once beforehand.
    """
    rng = np.random.default_rng(0)
    singles = [boards.take(np.array([row])) for row in range(len(boards.mover))]
    before, start = Usage.now().peak_rss_bytes, time.process_time()
    policy = make_policy(spec, game)
    act(policy, singles[0], rng)
    setup = time.process_time() - start
    seconds: list[list[float]] = [[] for _ in singles]
    total = 0.0
    for number in range(ROUNDS):
        if number and total > ENOUGH_S:
            break
        for row, one in enumerate(singles):
            if total > MOST_S:
                break
            start = time.process_time()
            act(policy, one, rng)
            seconds[row].append(time.process_time() - start)
            total += seconds[row][-1]
    after = Usage.now().peak_rss_bytes
    mean = statistics.fmean(statistics.median(row) for row in seconds if row)
    return MoveCost(mean, setup, after, after - before)


def _positions(game: Game) -> Boards:
    """Return the positions of :func:`measure_move_costs`."""
    rng = np.random.default_rng(0)
    depths = range(max(1, 2 * game.cells // 3))
    parts = [draw_openings(game, plies, rng.integers(0, 2**64, OF_EACH_DEPTH, np.uint64)) for plies in depths]
    boards = Boards(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return boards.take(rng.permutation(len(boards.mover)))


def _main() -> None:
    described, out, *specs = sys.argv[1:]
    game = Game.from_dict(json.loads(described))
    with compile_at_once():
        boards = _positions(game)  # also loads the compiler, which is no cost of a policy
        write_json(Path(out), [time_moves(game, spec, boards) for spec in specs])


if __name__ == "__main__":
    end_with_stdin()
    try:
        _main()
    except (ValueError, TypeError, OSError, MemoryError) as problem:
        sys.exit(str(problem))
