"""Kernels: when they are compiled, where machine code is cached, and the notice of a long compilation."""

import os
import sys
from pathlib import Path

import pytest
from processes import run_python

from ttt_envs.core import jit

ROOT = Path(jit.__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="runs compiled")

MODULE = """
from ttt_envs.core.jit import inlined, kernel
FACTOR = 2

@inlined
def double(x):
    return FACTOR * x

@kernel(interpreted=False)
def caller(x):
    return double(x) + 1

@kernel(interpreted=False)
def other(x):
    return x - 1
"""
SMALL = MODULE.replace("@kernel(interpreted=False)\ndef caller", "@kernel\ndef caller")
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


def test_machine_code_is_cached_until_the_source_changes(run, tmp_path):
    module = tmp_path / "mine.py"
    module.write_text(MODULE)
    assert compiled_by(run) == "['caller', 'double', 'other'] 11 4"
    assert compiled_by(run) == "[] 11 4"
    module.write_text(MODULE.replace("FACTOR * x", "FACTOR + x + 0"))
    assert compiled_by(run) == "['caller', 'double', 'other'] 8 4"


def test_an_edit_of_a_package_makes_a_new_folder_for_it_and_those_above(monkeypatch, tmp_path):
    """The oldest folders are removed; sources that are newer than this process are not those that it runs."""
    for package in jit.PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "module.py").write_text("")
    monkeypatch.setattr(jit, "ROOT", tmp_path)
    monkeypatch.setattr(jit, "kernel_folder", lambda: tmp_path / "cache")

    def folders(edited, text):
        (tmp_path / edited / "module.py").write_text(text)
        os.utime(tmp_path / edited / "module.py", (1e9, 1e9))
        jit._folder.cache_clear()
        return [jit._folder(package) for package in (*jit.PACKAGES, "mine")]

    for package in jit.PACKAGES:
        os.utime(tmp_path / package / "module.py", (1e9, 1e9))
    try:
        before = folders("learners", "1")
        after = folders("learners", "2")
        assert [one == other for one, other in zip(before, after, strict=True)] == [
            True,
            True,
            False,
            False,
            False,
            False,
        ]
        assert after[-1] == after[-2]
        assert folders("learners", "1") == before
        for text in "3456789":
            newest = folders("learners", text)
        assert len(list((tmp_path / "cache").glob("learners-*"))) == jit.MAX_FOLDERS
        assert newest[2].is_dir()
        (tmp_path / "learners" / "module.py").touch()
        jit._folder.cache_clear()
        assert [jit._folder(package) is None for package in jit.PACKAGES] == [False, False, True, True, True]
    finally:
        jit._folder.cache_clear()


@pytest.mark.skipif(sys.platform == "win32", reason="a limit on the size of files stands for a full disk")
def test_a_full_disk_stores_nothing_and_prints_nothing(run, tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)"
    lines = (limit, "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))", "import mine", "print(mine.caller(5))")
    assert run(*lines, TTT_ENVS_COMPILE_NOTICE="0") == ("11\n", "")


def test_without_a_writable_folder_every_process_compiles(run, tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "file").touch()
    for _ in range(2):
        assert compiled_by(run, NUMBA_CACHE_DIR=str(tmp_path / "file")) == "['caller', 'double', 'other'] 11 4"


def test_small_work_is_interpreted_until_compiling_pays(run, tmp_path):
    (tmp_path / "mine.py").write_text(SMALL)
    lines = ("import sys, mine, numpy as np", "caller = mine.caller")
    shown = "print('numba' in sys.modules, mine.caller is caller, mine.caller(5), mine.caller(np.int64(5)))"
    assert run(*lines, "mine.caller(5)", shown)[0].strip() == "False True 11 11"
    enough = "while mine.caller is caller: caller(5)"
    assert run(*lines, enough, shown)[0].strip() == "True False 11 11"
    assert list((tmp_path / "cache").rglob("mine.caller*"))
    assert run(*lines, "mine.caller(5)", shown)[0].strip() == "True False 11 11"  # machine code is there


def test_large_arrays_and_a_request_compile_at_once(run, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from ttt_envs.core.jit import kernel\n\n@kernel\ndef total(x):\n    return x.size\n"
    )
    lines = ("import sys, mine, numpy as np, ttt_envs.core.jit as jit",)
    shown = "print('numba' in sys.modules)"
    large = "mine.total(np.zeros(jit.MAX_INTERPRETED_ELEMENTS + 1))"
    assert run(*lines, "mine.total(np.zeros(3))", shown)[0].strip() == "False"
    assert run(*lines, "mine.total(np.zeros(3))", shown, TTT_ENVS_INTERPRET="0")[0].strip() == "True"
    assert run(*lines, large, shown, NUMBA_CACHE_DIR=str(tmp_path / "new"))[0].strip() == "True"


def test_a_first_game_compiles_nothing(run, tmp_path):
    game = (
        "import gymnasium, ttt_envs",
        "env = gymnasium.make('ttt/TicTacToe-v0', opponent='win-or-block', seat='second')",
        "observation, info = env.reset(seed=1)",
        "done = False",
        "while not done:",
        "    observation, reward, done, _, info = env.step(int(info['action_mask'].argmax()))",
        "print(info['result'], reward)",
    )
    interpreted = run(*game)
    assert not list((tmp_path / "cache").rglob("*.nb?"))
    of_all_tests = {"NUMBA_CACHE_DIR": str(jit.kernel_folder()), "TTT_ENVS_COMPILE_NOTICE": "0"}
    assert run(*game, TTT_ENVS_INTERPRET="0", **of_all_tests) == interpreted


def test_compiling_is_announced_once_and_in_one_line(run, tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    lines = ("import mine", "mine.caller(5), mine.other(5)")
    _, announced = run(*lines)
    assert announced == f"compiling for this processor; machine code is cached in {tmp_path / 'cache'}\n"
    assert run(*lines) == ("", "")  # nothing is left to compile
    assert run(*lines, NUMBA_CACHE_DIR=str(tmp_path / "new"), TTT_ENVS_COMPILE_NOTICE="0") == ("", "")


def test_the_folder_of_machine_code(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "named"))
    assert jit.kernel_folder() == tmp_path / "named"
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    assert jit.kernel_folder() == ROOT / ".cache" / "numba"
    monkeypatch.setattr(jit, "ROOT", tmp_path / "site-packages")
    monkeypatch.setattr(jit.platformdirs, "user_cache_path", lambda name: tmp_path / name)
    assert jit.kernel_folder() == tmp_path / "ttt_envs" / "numba"


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


def test_an_interrupt_of_the_first_call_leaves_kernels_that_can_be_called(run, tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    shown = run(
        "import mine, numba",
        "make, made = numba.njit, []",
        "def interrupted(*source, **options):",
        "    made.extend(name for name in options if name == 'error_model')",  # numba makes functions, too
        "    if len(made) == 2:",
        "        made.append('interrupt')",
        "        raise KeyboardInterrupt",
        "    return make(*source, **options)",
        "numba.njit = interrupted",
        "try:",
        "    mine.caller(5)",
        "except KeyboardInterrupt:",
        "    print('interrupted')",
        "print(mine.caller(5), mine.other(5))",
        TTT_ENVS_COMPILE_NOTICE="0",
    )
    assert shown == ("interrupted\n11 4\n", "")


@pytest.mark.needs("pydantic", "starlette")
def test_a_move_on_the_page_is_answered_while_another_thread_imports_numba(run):
    game = "{'rows': 3, 'columns': 3, 'win_length': 3, 'skip_chance': 0.25}"
    shown = run(
        *WHILE_NUMBA_IS_IMPORTED,
        "from pathlib import Path",
        "from ttt_apps.explorer.api import ExplorerApi",
        "from ttt_apps.explorer.root import Root",
        "from ttt_apps.explorer.schemas import MoveRequest, ReviewRequest",
        "api = ExplorerApi(Root(Path('.')))",
        "threading.Thread(target=api.warm).start()",
        "Blocked.begun.wait()",
        f"reviewed = api.review(ReviewRequest.model_validate({{'game': {game}, 'moves': 'b2'}}))",
        f"moved = api.move(MoveRequest.model_validate({{'game': {game}, 'seed': 0, 'policy': 'random'}}))",
        "print(reviewed['exact'], 'cell' in moved, 'numba' in sys.modules, flush=True)",
        "os._exit(0)",  # leaves the warm-up undone
    )
    assert shown == ("now True False\n", "")
