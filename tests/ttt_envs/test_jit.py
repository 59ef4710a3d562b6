"""Kernels: when they are compiled, where machine code is cached, and the notice of a long compilation."""

import os
import sys
from pathlib import Path

import pytest
from processes import run_python

from ttt_envs.core import jit_settings

ROOT = Path(jit_settings.__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="runs compiled")

MODULE = """
from ttt_envs.core.jit import compiled, compiled_at_once, inlined
FACTOR = 2

@inlined
def double(x):
    return FACTOR * x

@compiled_at_once
def caller(x):
    return double(x) + 1

@compiled_at_once
def other(x):
    return x - 1
"""
CALLS = ("from numba.core import event", "import mine", "compiled = []")
LISTEN = """
class Listener(event.Listener):
    def on_start(self, started):
        compiled.append(started.data["dispatcher"].py_func.__name__)
    def on_end(self, ended):
        pass
event.register("numba:compile", Listener())
"""


@pytest.fixture
def run(tmp_path):
    """Lines of Python in a process of their own, with an empty cache of machine code; returns (stdout, stderr)."""

    def run(*lines, **environment):
        found = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TTT_ENVS_")},
            "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
            "PYTHONDONTWRITEBYTECODE": "1",  # edits within a second are edits
            **environment,
        }
        done = run_python("-c", "\n".join(lines), cwd=tmp_path, env=found)
        return done.stdout, done.stderr

    return run


def compiled_by(run, **environment):
    """Return the functions of ``mine`` that a new process compiles, and their results."""
    results = "results = mine.caller(5), mine.other(5)"
    return run(*CALLS, LISTEN, results, "print(sorted(compiled), *results)", **environment)[0].strip()


def test_an_edit_recompiles_a_kernel_and_its_callers_and_nothing_else(run, tmp_path):
    module = tmp_path / "mine.py"
    module.write_text(MODULE)
    assert compiled_by(run) == "['caller', 'double', 'other'] 11 4"
    assert compiled_by(run) == "[] 11 4"
    module.write_text(f"# a comment\n\n{MODULE.replace('def other(x):', 'def other(x):  # another')}")
    assert compiled_by(run) == "[] 11 4"
    module.write_text(MODULE.replace("FACTOR * x", "FACTOR + x"))
    assert compiled_by(run) == "['caller', 'double'] 8 4"
    module.write_text(MODULE.replace("FACTOR = 2", "FACTOR = 3"))
    assert compiled_by(run) == "['caller', 'double'] 16 4"
    module.write_text(MODULE.replace("FACTOR = 2", "FACTOR = 3").replace("x - 1", "x - 2"))
    assert compiled_by(run) == "['other'] 16 3"


def test_damaged_machine_code_is_compiled_again(run, tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    assert compiled_by(run) == "['caller', 'double', 'other'] 11 4"
    for kind in ("nbi", "nbc"):
        for file in (tmp_path / "cache").glob(f"mine.other*.{kind}"):
            file.write_bytes(file.read_bytes()[:20])
        assert compiled_by(run) == "['other'] 11 4"
        assert compiled_by(run) == "[] 11 4"


def test_without_a_writable_folder_every_process_compiles(run, tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "file").touch()
    for _ in range(2):
        assert compiled_by(run, NUMBA_CACHE_DIR=str(tmp_path / "file")) == "['caller', 'double', 'other'] 11 4"


def test_small_work_is_interpreted_until_compiling_pays(run, tmp_path):
    (tmp_path / "mine.py").write_text(MODULE.replace("@compiled_at_once\ndef caller", "@compiled\ndef caller"))
    lines = (*CALLS, LISTEN, "import ttt_envs.core.kernels as kernels, numpy as np")
    shown = "print(sorted(compiled), mine.caller(5), mine.caller(np.int64(5)))"
    assert run(*lines, "mine.caller(5)", shown)[0].strip() == "[] 11 11"
    assert not list((tmp_path / "cache").glob("mine.caller*"))
    enough = "while not mine.caller.overloads: mine.caller(5)"
    assert run(*lines, enough, shown)[0].strip() == "['caller', 'double'] 11 11"
    assert list((tmp_path / "cache").glob("mine.caller*"))
    assert run(*lines, shown)[0].strip() == "[] 11 11"  # machine code is there: nothing is interpreted
    assert run(*lines, "mine.caller(5)", "print(bool(mine.caller.overloads))")[0].strip() == "True"


def test_large_arrays_and_a_request_compile_at_once(run, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from ttt_envs.core.jit import compiled\n\n@compiled\ndef total(x):\n    return x.size\n"
    )
    lines = ("import mine, numpy as np, ttt_envs.core.interpreter as interpreter",)
    shown = "print(bool(mine.total.overloads))"
    large = "mine.total(np.zeros(interpreter.MAX_INTERPRETED_ELEMENTS + 1))"
    assert run(*lines, "mine.total(np.zeros(3))", shown)[0].strip() == "False"
    assert run(*lines, large, shown)[0].strip() == "True"
    (tmp_path / "mine.py").write_text((tmp_path / "mine.py").read_text().replace("x.size", "x.size + 1"))
    assert run(*lines, "mine.total(np.zeros(3))", shown, TTT_ENVS_INTERPRET="0")[0].strip() == "True"


def test_a_first_game_compiles_nothing(run, tmp_path):
    game = (
        "import gymnasium, ttt_envs",
        "env = gymnasium.make('ttt/TicTacToe-v0', opponent='win-or-block', seat='second')",
        "observation, info = env.reset(seed=1)",
        "done = False",
        "while not done:",
        "    observation, reward, done, _, info = env.step(int(info['action_mask'].argmax()))",
        "print(info['outcome'], reward)",
    )
    interpreted = run(*game)
    assert not list((tmp_path / "cache").glob("*"))
    of_all_tests = {"NUMBA_CACHE_DIR": str(jit_settings.kernel_folder()), "TTT_ENVS_COMPILE_NOTICE": "0"}
    assert run(*game, TTT_ENVS_INTERPRET="0", **of_all_tests) == interpreted


def test_compiling_is_announced_once_and_in_one_line(run, tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    lines = ("import ttt_envs.core.kernels as kernels, mine", "kernels.NOTICE_S = 0", "mine.caller(5), mine.other(5)")
    _, announced = run(*lines)
    assert announced == f"compiling for this processor, once: machine code is cached in {tmp_path / 'cache'}\n"
    assert run(*lines) == ("", "")  # nothing is left to compile
    assert run(*lines, NUMBA_CACHE_DIR=str(tmp_path / "new"), TTT_ENVS_COMPILE_NOTICE="0") == ("", "")


def test_machine_code_is_cached_in_the_first_folder_that_is_writable(monkeypatch, tmp_path):
    def folder():
        jit_settings.kernel_folder.cache_clear()
        return jit_settings.kernel_folder()

    try:
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "named"))
        assert folder() == tmp_path / "named"
        monkeypatch.delenv("NUMBA_CACHE_DIR")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "users"))
        assert folder() == ROOT / ".cache" / "numba"
        monkeypatch.setattr(jit_settings, "ROOT", tmp_path / "site-packages")
        if sys.platform == "linux":
            assert folder() == tmp_path / "users" / "ttt_envs" / "numba"
        monkeypatch.setattr(jit_settings, "_is_writable", lambda folder: False)
        monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
        private = folder()
        if hasattr(os, "getuid"):
            assert private == tmp_path / f"ttt_envs-{os.getuid()}"
            private.chmod(0o755)  # others can read it, or could have made it
            assert folder() is None
    finally:
        monkeypatch.undo()
        jit_settings.kernel_folder.cache_clear()


@pytest.mark.parametrize(
    "options", [{}, {"nrt": True}, {"nrt": False}, {"error_model": "numpy"}, {"nrt": True, "debuginfo": True}]
)
def test_flags_are_equal_where_those_of_numba_are(options):
    from numba.core.compiler import Flags

    from ttt_envs.core.kernels import _Flags

    def with_options(flags, values):
        for name, value in values.items():
            setattr(flags, name, value)
        return flags

    for others in ({}, {"nrt": False}, {"nrt": True}, {"error_model": "numpy"}):
        theirs, expected = with_options(Flags(), others), with_options(Flags(), options)
        ours = with_options(_Flags(), options)
        assert (ours == theirs) == (theirs == ours) == (ours == _Flags(theirs)) == (expected == theirs)
        assert hash(ours) == hash(expected)


WHILE_NUMBA_IS_IMPORTED = (
    "import os, sys, threading",
    "import numpy.ma",  # np.unique imports it at its first call; the finder below holds the lock of all imports
    "class Blocked:",
    "    begun, go_on = threading.Event(), threading.Event()",
    "    def find_spec(self, name, path=None, target=None):",
    "        if name == 'numba':",
    "            self.begun.set()",
    "            self.go_on.wait()",
    "sys.meta_path.insert(0, Blocked())",
)
"""Lines that stop the import of numba until ``Blocked.go_on`` is set; ``Blocked.begun`` tells that it has begun."""


def test_small_calls_are_interpreted_while_another_thread_imports_numba(run, tmp_path):
    (tmp_path / "mine.py").write_text(MODULE.replace("@compiled_at_once\ndef caller", "@compiled\ndef caller"))
    shown = run(
        *WHILE_NUMBA_IS_IMPORTED,
        "import mine",
        "thread = threading.Thread(target=mine.other, args=(1,))",
        "thread.start()",
        "Blocked.begun.wait()",
        "print(mine.caller(5), mine.double(4), 'numba' in sys.modules)",  # waits for ever if it needs numba
        "Blocked.go_on.set()",
        "thread.join()",
        "print(mine.caller(5), mine.other(5), type(mine.caller).__name__)",
        TTT_ENVS_COMPILE_NOTICE="0",
    )
    assert shown == ("11 8 False\n11 4 Kernel\n", "")


def test_an_interrupt_of_the_first_call_leaves_kernels_that_can_be_called(run, tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    shown = run(
        "from ttt_envs.core import kernels",
        "import mine",
        "make, made = kernels.make_kernel, []",
        "def interrupted(*arguments):",
        "    made.append(arguments)",
        "    if len(made) == 2:",
        "        raise KeyboardInterrupt",
        "    return make(*arguments)",
        "kernels.make_kernel = interrupted",
        "try:",
        "    mine.caller(5)",
        "except KeyboardInterrupt:",
        "    print('interrupted')",
        "print(mine.caller(5), mine.other(5), type(mine.caller).__name__)",
        TTT_ENVS_COMPILE_NOTICE="0",
    )
    assert shown == ("interrupted\n11 4 Kernel\n", "")


@pytest.mark.needs("pydantic", "starlette")
def test_a_move_on_the_page_is_answered_while_another_thread_imports_numba(run):
    game = "{'rows': 3, 'columns': 3, 'win_length': 3, 'skip_chance': 0.25}"
    shown = run(
        *WHILE_NUMBA_IS_IMPORTED,
        "from pathlib import Path",
        "from ttt_apps.explorer.api import ExplorerApi",
        "from ttt_apps.explorer.schemas import LineRequest, PlayRequest, Root",
        "api = ExplorerApi(Root(Path('.')))",
        "threading.Thread(target=api.warm).start()",
        "Blocked.begun.wait()",
        f"replayed = api.replay(LineRequest.model_validate({{'game': {game}, 'moves': 'b2'}}))",
        f"played = api.play(PlayRequest.model_validate({{'game': {game}, 'seed': 0, 'cell': 4}}))",
        "print(bool(replayed), bool(played), 'numba' in sys.modules, flush=True)",
        "os._exit(0)",  # leaves the warm-up undone
    )
    assert shown == ("True True False\n", "")
