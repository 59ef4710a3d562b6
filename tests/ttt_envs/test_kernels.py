"""Kernels give the same results interpreted and by machine code, and hear interrupts while they are
compiled.
"""

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
import pytest
import tiny
from environment_contract import SEATS
from gymnasium.vector import AutoresetMode
from small_games import SKIP_GAME

from baselines.exact import solve
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

TAUGHT = [(name, form) for name in ("naive-mc", "q-learning") for form in tiny.FORMS[name]]
"""learners with a table, and settings"""


def play_games():
    """A bit of everything that is played, by the environments, by policies and as matches do it;
    and exact values.
    """
    rng = np.random.default_rng(0)
    for size, win_length, skip_chance in ((3, 3, 0.25), ((5, 6), 4, 0)):
        game = Game.of_size(size, win_length, skip_chance)
        rules_of = {"size": size, "win_length": win_length}
        rules_of["skip_chance"] = skip_chance
        for symmetry in ("none", "random"):
            env = mnk_v0.env(symmetry=symmetry, **rules_of)
            env.reset(seed=0)
            while env.legal_actions():
                env.step(rng.choice(env.legal_actions()))
            for opponent, seat, illegal in product(
                ("random", "win-or-block", "self"), SEATS, ("lose", "penalize")
            ):
                settings = {
                    "opponent": opponent,
                    "seat": seat,
                    "illegal_action": illegal,
                    "symmetry": symmetry,
                }
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
    for game in (SKIP_GAME, Game(2, 4, 3)):
        solution = solve(game)
        for many in (Boards.start(game), Boards.start(game, 8)):
            solution.values(many)
            solution.action_values(many)
        for name in ("optimal", "win-or-block"):
            exact.match_outcome(game, name, "random", work=Work(chunk=50))
            strength(game, name, ["random"])


def teach_everything():
    """Learners with a table, and what was learned read again."""
    for (name, settings), game in product(TAUGHT, (SKIP_GAME, Game(7, 7, 5))):
        made = [
            load_object(LEARNERS[name])(**settings).build(game, np.random.default_rng(0))
            for _ in range(2)
        ]
        Trainer(made[0], "self", 4, batch=2).run()
        made[1].state = {name: array.copy() for name, array in made[0].state.items()}
        for learner in made:
            learner.probabilities(Boards.start(game, 3))
            for values in {"values", "action_values"} & set(dir(learner)):
                getattr(learner, values)(Boards.start(game, 3))
            Trainer(learner, "self", 4, batch=1).run()


@contextmanager
def both_tiers(calls):
    """Make the first ``calls`` calls of each interpretable kernel twice, interpreted and by machine
    code.

    Yields:
        How often each kernel was called so far, and which of them gave different results.
    """
    counts = Counter()
    different = set()
    call = Kernel.__call__

    def call_both(kernel, *args):
        name = f"{kernel.__module__}.{kernel.__name__}"
        small = count_elements(args) <= MAX_INTERPRETED_ELEMENTS
        if not (kernel.interpreted and kernel.has_wrapper and small and counts[name] < calls):
            return call(kernel, *args)
        copies = copy.deepcopy(args)
        interpreted = interpret(kernel.py_func, copies)
        result = kernel.dispatcher(*args)
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


needs_numpy_2 = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="numpy 1 interprets nothing"
)
pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="runs compiled"
)


@pytest.mark.more
@needs_numpy_2
def test_interpreted_kernels_give_the_results_of_machine_code_bit_for_bit(fresh):
    compared, different = ast.literal_eval(
        fresh("import test_kernels", "test_kernels.compare_tiers()")
    )
    assert different == []
    assert len(compared) >= 30, compared


def test_an_interrupt_while_a_kernel_is_compiled_is_raised_at_its_end(monkeypatch, capsys):
    """LLVM calls Python from C, as here, where an exception would be printed and dropped."""
    ends = []
    interrupt = ctypes.CFUNCTYPE(None)(lambda: os.kill(os.getpid(), signal.SIGINT))

    def compile_interrupted(kernel, signature):
        main_thread = threading.main_thread().ident
        frames = sys._current_frames  # noqa: SLF001
        while frames()[main_thread].f_back.f_code.co_name != "result":
            time.sleep(0.01)  # until the caller waits
        interrupt()
        time.sleep(0.1)
        ends.append("compiled")

    monkeypatch.setattr(Kernel, "compile_for", compile_interrupted)
    with pytest.raises(KeyboardInterrupt):
        Kernel(lambda: 0, False, {})()
    assert ends == ["compiled"]
    assert capsys.readouterr().err == ""
