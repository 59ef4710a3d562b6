"""Speed of exact computations, each beside a peer with the same results.

Both sides alternate in one process on one core, for several rounds. The ratio is taken within each
round, so that a slow moment of the machine affects both. Times are CPU times; kernels are warm, and
the disk cache is off. Both results are compared before the timing. Work without a peer runs in a
process of its own, to measure its peak memory.

    python speed/exact.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from measuring import MS, Benchmark, Row, alone_part, compile_c, run, time_answers

from baselines.exact import build, solve
from ttt_envs.agents.softmax_table import PositionIndex, SoftmaxTable
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.rules import winner
from ttt_envs.game.symmetry import symmetries
from ttt_eval.exact.dynamic_programming import evaluate_policy, exploitability

PACKAGES = ("numpy", "numba", "open_spiel")
os.environ["TTT_ENVS_CACHE_BYTES"] = "0"  # turns the disk cache off

Ask = Callable[[], Any]
"""Computes the answer once."""

SKIP_3 = Game(skip_chance=0.25)
SKIP_4 = Game(4, 4, 4, 0.25)


def close(value: float, other: float) -> None:
    """Raise AssertionError if two answers differ."""
    assert abs(value - other) < 1e-9, f"two answers: {value} and {other}"


# --------------------------------------------------------------------------------------------------
# Peers


def open_spiel_values() -> Ask:
    """Return value iteration over all states of tic-tac-toe; it has no skips, so ours without skips
    are compared.
    """
    import pyspiel
    from open_spiel.python.algorithms import value_iteration

    game = pyspiel.load_game("tic_tac_toe")

    def ask() -> Any:
        return value_iteration.value_iteration(game, depth_limit=-1, threshold=1e-9)

    close(solve(Game(), cache=False).value, ask()[str(game.new_initial_state())])
    return ask


def open_spiel_nash_conv() -> Ask:
    """Return NashConv of the uniform policy, by OpenSpiel's Python."""
    import pyspiel
    from open_spiel.python import policy
    from open_spiel.python.algorithms import exploitability as peer

    game = pyspiel.load_game("tic_tac_toe")
    uniform = policy.UniformRandomPolicy(game)

    def ask() -> Any:
        return peer.nash_conv(game, uniform)

    close(exploitability(Game(), "random"), ask() / 2)
    return ask


def open_spiel_nash_conv_cpp() -> Ask:
    """Return the same by OpenSpiel's C++."""
    import pyspiel

    game = pyspiel.load_game("tic_tac_toe")
    uniform = pyspiel.UniformRandomPolicy(game)

    def ask() -> Any:
        return pyspiel.nash_conv(game, uniform, True)

    close(exploitability(Game(), "random"), ask() / 2)
    return ask


def random_table(game: Game) -> SoftmaxTable:
    """Return a softmax table with random logits for all positions in which player_0 moves."""
    boards = evaluate_policy(game, "random", "random", seat=0).boards
    return SoftmaxTable(
        PositionIndex(game, boards), np.random.default_rng(0).normal(size=boards.cells.shape)
    )


def open_spiel_policy_value() -> Ask:
    """Return the value of the same policy at the start alone, by OpenSpiel's Python."""
    import pyspiel
    from open_spiel.python import policy
    from open_spiel.python.algorithms import expected_game_score

    game = pyspiel.load_game("tic_tac_toe")
    uniform = policy.UniformRandomPolicy(game)

    def ask() -> Any:
        return expected_game_score.policy_value(game.new_initial_state(), [uniform, uniform])

    close(evaluate_policy(Game(), "random", "random", seat=0).value, float(ask()[0]))
    return ask


@cache
def load_c_layers() -> ctypes.CDLL:
    loaded = compile_c("layers.c")
    loaded.layers.argtypes = [ctypes.c_int64] * 2 + [ctypes.c_void_p] * 2 + [ctypes.c_double]
    loaded.layers.restype = None
    loaded.value.argtypes = [ctypes.c_int64] * 2
    loaded.value.restype = ctypes.c_double
    return loaded


def c_layers() -> Ask:
    """Return the layers in C: classes of the mover's sets by ranks of the other's, in float64 as
    ours.
    """
    masks = np.array(
        [sum(1 << cell for cell in line) for line in SKIP_4.line_cells.tolist()], np.int64
    )
    moves = np.ascontiguousarray(symmetries(SKIP_4))

    def ask() -> None:
        load_c_layers().layers(
            SKIP_4.cells, len(masks), masks.ctypes.data, moves.ctypes.data, SKIP_4.skip_chance
        )

    ask()
    rng = np.random.default_rng(0)
    cells = rng.choice(3, (10_000, SKIP_4.cells), p=(0.4, 0.3, 0.3)).astype(np.int8)
    cells = cells[[winner(SKIP_4, row) is None for row in cells]]
    boards = Boards(cells, rng.integers(0, 2, len(cells), np.int8))
    sets = [(boards.own_first() == stone) @ (1 << np.arange(SKIP_4.cells)) for stone in (1, 2)]
    c_values = [
        load_c_layers().value(own, other)
        for own, other in zip(*(bits.tolist() for bits in sets), strict=True)
    ]
    assert np.allclose(build(SKIP_4).values(boards), c_values, rtol=0, atol=1e-12), (
        "C found other values"
    )
    return ask


# --------------------------------------------------------------------------------------------------
# Rows


def time_table(game: Game) -> Any:
    """Time the evaluation of a table against a random player."""
    table = random_table(game)
    return time_answers(lambda: evaluate_policy(game, table, "random", seat=0))


ROWS = (
    Row(
        "solve-3x3",
        "solve, 3 x 3, skip .25",
        "OpenSpiel value_iteration, no skips",
        300,
        lambda: time_answers(lambda: solve(SKIP_3, cache=False)),
        lambda: time_answers(open_spiel_values()),
    ),
    Row(
        "exploitability-3x3",
        "exploitability of random, 3 x 3",
        "OpenSpiel nash_conv, Python",
        1000,
        lambda: time_answers(lambda: exploitability(Game(), "random")),
        lambda: time_answers(open_spiel_nash_conv()),
    ),
    Row(
        "exploitability-3x3-cpp",
        "exploitability of random, 3 x 3",
        "OpenSpiel nash_conv, C++",
        1500,
        lambda: time_answers(lambda: exploitability(Game(), "random")),
        lambda: time_answers(open_spiel_nash_conv_cpp()),
    ),
    Row(
        "evaluate-3x3",
        "all values, advantages, occupancy of a table, 3 x 3",
        "OpenSpiel policy_value, Python: one value",
        300,
        lambda: time_table(Game()),
        lambda: time_answers(open_spiel_policy_value()),
    ),
    Row(
        "layers-4x4-c",
        "solve by layers, 4 x 4, skip .25",
        "the same layers, gcc -O3",
        0.4,
        lambda: time_answers(lambda: build(SKIP_4)),
        lambda: time_answers(c_layers()),
    ),
)

PROOFS = ((5, 5, 4), (5, 6, 4), (6, 6, 5), (7, 7, 5))
ALONE = {
    "exploitability-4x4-alone": 'exploitability(Game(4, 4, 4, 0.25), "win-or-block")',
    "solve-4x4-alone": "solve(Game(4, 4, 4, 0.25)).value",
    "layers-3x7-alone": "layers(Game(3, 7, 3, 0.25), Path(folder.name))",
    "layers-4x5-alone": "layers(Game(4, 5, 4, 0.25), Path(folder.name))",
    "evaluate-4x4": (
        "evaluate_policy("
        "Game(4, 4, 4, 0.25), 'random', 'random', seat=0, merge_symmetries=True).value"
    ),
    "phantom-classic": 'exploitability(PhantomGame(kind="classic"), "random")',
    "phantom-abrupt": 'exploitability(PhantomGame(kind="abrupt"), "random")',
    "outcome-4x4": 'outcome(Game(4, 4, 4), "optimal", "random")',
    **{f"prove-{m}x{n}-{k}": f"prove(Game({m}, {n}, {k}))" for m, n, k in PROOFS},
}
"""Work without a peer, as Python code."""

BEFORE = """
from pathlib import Path
from tempfile import TemporaryDirectory
from baselines.exact import build, solve
from baselines.proof_number import prove
from ttt_eval.exact.dynamic_programming import exploitability, outcome
from ttt_eval.exact.dynamic_programming import evaluate_policy
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import PhantomGame

def layers(game, *folder):
    return float(build(game, *folder).values(Boards.start(game))[0])

folder = TemporaryDirectory()
# compiles
layers(Game())
layers(Game(1, 17, 2, 0.25))
evaluate_policy(Game(), "random", "random")
exploitability(PhantomGame(Game(2, 2, 2), "abrupt"), "random")
solve(Game())
outcome(Game(), "optimal", "random")
prove(Game())
"""


BENCHMARK = Benchmark(
    about=str(__doc__),
    packages=PACKAGES,
    unit=MS,
    rows=ROWS,
    left_out=("layers-3x7-alone", "layers-4x5-alone"),
    parts=(alone_part({name: (work, work) for name, work in ALONE.items()}, BEFORE),),
)


if __name__ == "__main__":
    run(BENCHMARK)
