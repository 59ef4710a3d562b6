"""Kernels: all of them work in one process, as all their callers call them, and each is compiled once."""

import ast
import copy
import ctypes
import os
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from itertools import product

import numpy as np
import plain
import pytest
from environment_contract import SEATS
from gymnasium.vector import AutoresetMode

from baselines.exact import solve
from baselines.expectiminimax import Search
from baselines.mcts import MCTS, MCTSSearch, gumbel_search
from baselines.proof_number import prove
from baselines.search.transpositions import MIN_ROWS
from learners import LEARNERS
from learners.training import Trainer
from ttt_envs import Boards, Game, act, chance_outcomes, make_policy, mnk_v0
from ttt_envs.agents.specs import load_object
from ttt_envs.core.jit import MAX_INTERPRETED_ELEMENTS, Kernel, count_elements, interpret
from ttt_envs.core.work import Work
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.envs.vector_env import MNKVectorEnv
from ttt_eval import exact
from ttt_eval.exact.strength import strength
from ttt_eval.matches.match import play_pairs

PACKAGES = ("ttt_envs", "baselines", "learners", "ttt_eval")
TAUGHT = (
    ("naive-mc", {}),
    ("naive-mc", {"symmetries": "all", "rewards": "unit"}),
    ("q-learning", {}),
    ("q-learning", {"backup": "negamax", "symmetries": "rotations"}),
    ("q-learning", {"values": "afterstate", "rewards": "report", "epsilon_decay": 0.01}),
    ("q-learning", {"values": "afterstate", "backup": "negamax", "target": "sarsa", "symmetries": "all"}),
)
"""learners with a table, and settings"""
SEARCHES = (
    {"pruning": "none"},
    {"pruning": "alpha-beta", "memory": 0},
    {"pruning": "star1", "memory": 64 * MIN_ROWS},
    {"pruning": "star1", "every_move": False},
    {"width": 2},
)
"""settings of a search of positions"""


def play_games():
    """A bit of everything that is played, by the environments, by policies and as matches do it; and exact values."""
    rng = np.random.default_rng(0)
    for size, win_length, skip_chance in ((3, 3, 0.25), ((5, 6), 4, 0)):
        game, rules_of = Game.of_size(size, win_length, skip_chance), {"size": size, "win_length": win_length}
        rules_of["skip_chance"] = skip_chance
        for symmetry in ("none", "random"):
            env = mnk_v0.env(symmetry=symmetry, **rules_of)
            for numbers in (int, np.int64):
                env.reset(seed=0)
                for _ in env.agent_iter():
                    observation, _, terminated, _, _ = env.last()
                    env.step(None if terminated else numbers(rng.choice(np.flatnonzero(observation["action_mask"]))))
            for opponent, seat, illegal in product(("random", "win-or-block", "self"), SEATS, ("lose", "penalize")):
                settings = {"opponent": opponent, "seat": seat, "illegal_action": illegal, "symmetry": symmetry}
                single = SingleEnv(**settings, **rules_of)
                single.reset(seed=0)
                while not any(single.step(int(rng.integers(game.cells)))[2:4]):
                    pass
                single.restore_state(single.clone_state(), seed=1)
                for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
                    vector = MNKVectorEnv(7, autoreset_mode=mode, **settings, **rules_of)
                    vector.reset(seed=0)
                    for _ in range(20):
                        vector.step(rng.integers(game.cells, size=7))
                    vector.restore_state(vector.clone_state(True))
        for name in ("random", "win-or-block"):
            play_pairs(game, name, "random", 8, seed=1)
            act(make_policy(name, game), Boards.start(game, 8), rng)
        start = Boards.start(game).position(0)
        chance_outcomes(game, chance_outcomes(game, start, 0)[0].position, 1)
    for game in (Game(skip_chance=0.25), Game(2, 4, 3)):
        solution = solve(game)
        for many in (Boards.start(game), Boards.start(game, 8)):
            solution.values(many)
            solution.action_values(many)
        for name in ("optimal", "win-or-block"):
            exact.match_outcome(game, name, "random", work=Work(chunk=50))
            strength(game, name, ["random"])


def search_everything():
    """Searches of every kind, of one position and of many, from the start and from what is kept."""
    rng, skips = np.random.default_rng(0), Game(skip_chance=0.25)
    for game in (Game(), skips, Game(6, 6, 4)):
        batch, keys = plain.positions_of_random_play(game, 5), np.arange(5, dtype=np.uint64)
        for heuristic, settings in product(("count", "consecutive", "all-diagonals"), SEARCHES):
            search = Search(game, batch, heuristic=heuristic, **settings, random_keys=keys)
            for depth in (1, 2):
                search.run(depth)
        net = load_object(LEARNERS["alpha-zero"])(hidden=(4,)).build(game, rng)
        net.probabilities(batch)
        gumbel_search(game, batch, net, simulations=20)
        for rollout, settings in product(("random", MCTS(game, simulations=2), net), ({}, {"decisive": False})):
            player = MCTS(game, simulations=20, rollout=rollout, **settings).player()
            for _ in range(2):
                player.act(batch, np.arange(5), rng)
        MCTS(game, simulations=20).action_values(batch)
        search = MCTSSearch(game, batch, keys)
        search.run(20)
        search.variation(0)
    for spec in ("depth=4", "depth=3,width=2", "depth=2,leaf=optimal", "depth=2,width=2,leaf=optimal"):
        policy, batch = make_policy(f"expectiminimax:{spec}", skips), plain.positions_of_random_play(skips, 5)
        policy.analyse(batch.position(0), rng)
        policy.probabilities(batch, rng)
    for game in (Game(), Game(4, 5, 4), Game(5, 6, 3)):
        prove(game)


def teach_everything():
    """Learners with a table, and what was learned read again."""
    for (name, settings), game in product(TAUGHT, (Game(skip_chance=0.25), Game(7, 7, 5))):
        made = [load_object(LEARNERS[name])(**settings).build(game, np.random.default_rng(0)) for _ in range(2)]
        Trainer(made[0], "self", 4, batch=2).run()
        made[1].state = {name: array.copy() for name, array in made[0].state.items()}
        for one in made:
            one.probabilities(Boards.start(game, 3))
            for values in {"values", "action_values"} & set(dir(one)):
                getattr(one, values)(Boards.start(game, 3))
            Trainer(one, "self", 4, batch=1).run()


@contextmanager
def both_tiers(calls):
    """Make the first ``calls`` calls of each interpretable kernel twice, interpreted and by machine code.

    Yields:
        How often each kernel was called so far, and which of them gave different results.
    """
    counts, different, call = Counter(), set(), Kernel.__call__

    def call_both(kernel, *args):
        name = f"{kernel.__module__}.{kernel.__name__}"
        small = count_elements(args) <= MAX_INTERPRETED_ELEMENTS
        if not (kernel.interpreted and kernel.has_wrapper and small and counts[name] < calls):
            return call(kernel, *args)
        copies = copy.deepcopy(args)
        interpreted, result = interpret(kernel.py_func, copies), kernel.dispatcher(*args)
        counts[name] += 1
        if repr(interpreted) != repr(result) or not all(map(is_same, copies, args)):
            different.add(name)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "__call__", call_both)
        yield counts, different


def is_same(a, b):
    """Return whether two arguments are the same bit for bit."""
    if isinstance(a, np.ndarray) and a.dtype.names:  # the padding between fields is not copied
        return a.dtype == b.dtype and all(is_same(a[name], b[name]) for name in a.dtype.names)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return all(map(is_same, a, b)) if isinstance(a, tuple) else repr(a) == repr(b)


def compare_tiers():
    """Print which kernels were compared, and which of them differ."""
    with both_tiers(calls=8) as (counts, different):
        play_games()
        teach_everything()
    print((sorted(counts), sorted(different)))


def signatures_of_kernels():
    """Return the number of signatures of each loaded kernel that is called from Python."""
    from numba.core.dispatcher import Dispatcher
    from numba.types import unliteral

    dispatchers = [
        value.dispatcher if isinstance(value, Kernel) else value
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in PACKAGES
        for value in vars(module).values()
        if isinstance(value, Kernel | Dispatcher) and not value.targetoptions.get("no_cpython_wrapper")
    ]
    return {
        f"{kernel.__module__}.{kernel.__name__}": len({tuple(map(unliteral, types)) for types in kernel.signatures})
        for kernel in dispatchers
        if kernel.signatures
    }


def counted_after(fresh, *parts):
    """Return each kernel's number of signatures after functions of this file, in a process of its own."""
    printed = fresh(
        "import test_kernels",
        *(f"test_kernels.{part.__name__}()" for part in parts),
        "print(test_kernels.signatures_of_kernels())",
    )
    return ast.literal_eval(printed)


needs_numpy_2 = pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="numpy 1 interprets nothing")
pytestmark = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="runs compiled")


OF_STORED_VALUES = {
    "baselines.exact.count._count_layer",
    *(f"baselines.exact.solution.{name}" for name in ("_look_up", "entry_value", "write_move_values")),
    "ttt_envs.graph.numbering.sweep",
    "ttt_eval.exact.dynamic_programming._write_losses",
}
OF_WORDS = {
    *(f"learners.{name}" for name in ("naive_mc.mc_update", "q_learning.q_update")),
    *(f"learners.q_table.{name}" for name in ("explore_rows", "insert_all", "write_action_values")),
}
"""kernels that are compiled for each number of words of a key"""
TWICE = (
    OF_STORED_VALUES
    | OF_WORDS
    | {
        "baselines.mcts.select.select_move",
        "baselines.mcts.simulate.simulate",
        "learners.alpha_zero.net._run_simulations",
        "ttt_envs.envs.kernels.write_bytes",
        "ttt_envs.game.rules.play_rows",
    }
)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((play_games,), marks=pytest.mark.xdist_group("kernels of play")),
        pytest.param((search_everything,), marks=pytest.mark.xdist_group("kernels of search")),
        pytest.param((play_games, search_everything, teach_everything), marks=pytest.mark.more),
    ],
    ids=lambda parts: parts[-1].__name__,
)
def test_every_kernel_is_compiled_for_one_type_of_arguments(fresh, parts):
    """Two halves first, so that two workers compile them at once, for all other tests.

    A kernel with two signatures was called with two kinds of numbers, and is compiled twice. What reads values is, that
    are stored as bytes or floats, or for boards of any size; so is what selects moves with or without Gumbel noise,
    and what writes one plane or two.
    """
    counts = counted_after(fresh, *parts)
    assert len(counts) > 10
    assert {name for name, count in counts.items() if count > 1} <= TWICE


@needs_numpy_2
def test_interpreted_kernels_give_the_results_of_machine_code_bit_for_bit(fresh):
    compared, different = ast.literal_eval(fresh("import test_kernels", "test_kernels.compare_tiers()"))
    assert different == []
    assert len(compared) >= 30, compared


def test_an_interrupt_while_a_kernel_is_compiled_is_raised_at_its_end(monkeypatch, capsys):
    """LLVM calls Python from C, as here, where an exception would be printed and dropped."""
    ends, interrupt = [], ctypes.CFUNCTYPE(None)(lambda: os.kill(os.getpid(), signal.SIGINT))

    def compile_interrupted(kernel, signature):
        while sys._current_frames()[threading.main_thread().ident].f_back.f_code.co_name != "result":
            time.sleep(0.01)  # until the caller waits
        interrupt()
        time.sleep(0.1)
        ends.append("compiled")

    monkeypatch.setattr(Kernel, "compile_for", compile_interrupted)
    with pytest.raises(KeyboardInterrupt):
        Kernel(lambda: 0, False, {})()
    assert ends == ["compiled"]
    assert capsys.readouterr().err == ""
