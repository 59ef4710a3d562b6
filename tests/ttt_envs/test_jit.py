"""Kernels: when they are compiled, where machine code is cached, and the notice of a long
compilation.
"""

import os
import sys
from pathlib import Path

import pytest
from processes import run_python

from ttt_envs.core import jit

ROOT = Path(jit.__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="runs compiled"),
]

MODULE = """
from ttt_envs.core.jit import inlined, kernel
FACTOR = 2

@inlined
def double(x):
    return FACTOR * x

@kernel(interpreted=False)
def caller(x):
    return double(x) + 1

@kernel
def small(x):
    return x.size
"""
LISTEN = """
from numba.core import event
compiled = []
class Listener(event.Listener):
    def on_start(self, started):
        compiled.append(started.data["dispatcher"].py_func.__name__)
    def on_end(self, ended):
        pass
event.register("numba:compile", Listener())
"""


@pytest.fixture
def run(tmp_path):
    """Lines of Python in a process of their own, with an empty cache of machine code; returns
    (stdout, stderr).
    """
    (tmp_path / "mine.py").write_text(MODULE)

    def run(*lines, **environment):
        variables = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith("TTT_ENVS_")
            },
            "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
            "PYTHONDONTWRITEBYTECODE": "1",  # edits within a second are edits
            **environment,
        }
        result = run_python("-c", "\n".join(lines), cwd=tmp_path, env=variables)
        return result.stdout, result.stderr

    return run


def test_machine_code_is_cached_until_the_source_changes_and_compiling_is_announced(run, tmp_path):
    lines = (LISTEN, "import mine", "result = mine.caller(5)", "print(sorted(compiled), result)")
    lines += (
        "import numba",
        f"assert numba.config.CACHE_DIR == {str(tmp_path / 'cache')!r}",
    )  # for kernels of others
    notice = f"compiling for this processor; machine code is cached in {tmp_path / 'cache'}\n"
    assert run(*lines) == ("['caller', 'double'] 11\n", notice)
    files = (tmp_path / "cache").rglob("*.nbi")
    assert [file.name.partition("-")[0] for file in files] == ["mine.caller"]  # not `double`
    assert run(*lines) == ("[] 11\n", "")
    (tmp_path / "mine.py").write_text(MODULE.replace("FACTOR * x", "FACTOR + x + 0"))
    assert run(*lines, TTT_ENVS_COMPILE_NOTICE="0") == ("['caller', 'double'] 8\n", "")


def test_a_source_newer_than_the_process_is_the_reason_for_no_cache(run):
    edit = "jit._start = 0"
    notice = run("import mine, ttt_envs.core.jit as jit", edit, "mine.caller(5)")[1]
    assert "a source file is newer than this process" in notice
    assert "NUMBA_CACHE_DIR" not in notice


def test_compiling_at_once_ends_when_all_have_left(monkeypatch):
    """Also if they leave in the order in which they came."""
    for before in ("", "1"):
        monkeypatch.setenv(jit.INTERPRET, before)
        contexts = [jit.compile_at_once() for _ in range(2)]
        for context in contexts:
            context.__enter__()
        values = []
        for context in contexts:
            values.append(os.environ[jit.INTERPRET])
            context.__exit__(None, None, None)
        assert [*values, os.environ[jit.INTERPRET]] == ["0", "0", before]


def test_an_edit_of_a_package_makes_a_new_folder_for_it_and_those_above(monkeypatch, tmp_path):
    """The oldest folders are removed; sources that are newer than this process are not those that
    it runs.
    """
    for package in jit.PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "module.py").write_text("")
        os.utime(tmp_path / package / "module.py", (1e9, 1e9))
    monkeypatch.setattr(jit, "ROOT", tmp_path)
    monkeypatch.setattr(jit, "kernel_folder", lambda: tmp_path / "cache")

    def folders(text):
        (tmp_path / "learners" / "module.py").write_text(text)
        os.utime(tmp_path / "learners" / "module.py", (1e9, 1e9))
        jit.package_folder.cache_clear()
        return [jit.package_folder(package) for package in jit.PACKAGES]

    try:
        edits = [folders(text) for text in "1234567891"]
        assert [folder == other for folder, other in zip(*edits[:2], strict=True)] == [
            True,
            True,
            False,
            False,
            False,
        ]
        assert edits[0] == edits[-1]
        assert len(list((tmp_path / "cache").glob("learners-*"))) == jit.MAX_FOLDERS
        (tmp_path / "learners" / "module.py").touch()
        jit.package_folder.cache_clear()
        assert [jit.package_folder(package) is None for package in jit.PACKAGES] == [
            False,
            False,
            True,
            True,
            True,
        ]
    finally:
        jit.package_folder.cache_clear()


@pytest.mark.skipif(
    sys.platform == "win32", reason="a limit on the size of files stands for a full disk"
)
def test_without_a_place_for_machine_code_every_process_compiles(run, tmp_path):
    """On a full disk, and where the folder is a file; after a crash has cut off files, they are
    made again.
    """
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)"
    lines = (
        limit,
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))",
        "import mine",
        "print(mine.caller(5))",
    )
    assert run(*lines, TTT_ENVS_COMPILE_NOTICE="0") == ("11\n", "")
    (tmp_path / "file").touch()
    call = "import mine; print(mine.caller(5))"
    output, notice = run(call, NUMBA_CACHE_DIR=str(tmp_path / "file"))
    assert [output, run(call)[0], "set NUMBA_CACHE_DIR" in notice] == ["11\n", "11\n", True]
    for file in (tmp_path / "cache").rglob("*.nb[ic]"):
        file.write_bytes(file.read_bytes()[:100])
    assert [run(LISTEN, call, "print(len(compiled))")[0] for _ in range(2)] == [
        "11\n2\n",
        "11\n0\n",
    ]


def test_small_work_is_interpreted_until_compiling_pays(run, tmp_path):
    lines = (
        "import sys, mine, numpy as np, ttt_envs.core.jit as jit",
        "small = mine.small",
        "x = np.zeros(3)",
    )
    report = "print('numba' in sys.modules, small(x))"
    assert run(*lines, "small(x)", report)[0] == "False 3\n"
    assert run(*lines, "small(x)", report, TTT_ENVS_INTERPRET="0")[0] == "True 3\n"
    new = {"NUMBA_CACHE_DIR": str(tmp_path / "new")}
    assert (
        run(*lines, "small(np.zeros(jit.MAX_INTERPRETED_ELEMENTS + 1))", report, **new)[0]
        == "True 3\n"
    )
    new = {"NUMBA_CACHE_DIR": str(tmp_path / "newer")}
    assert run(*lines, "while mine.small is small: small(x)", report, **new)[0] == "True 3\n"
    assert run(*lines, "small(x)", report, **new)[0] == "True 3\n"  # machine code is there


def test_a_first_game_compiles_nothing_and_is_that_of_machine_code(run, tmp_path):
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


def test_an_interrupt_of_the_first_call_leaves_kernels_that_can_be_called(run):
    text_output = run(
        "import mine, numba",
        "make, made = numba.njit, []",
        "def interrupted(*source, **options):",
        # numba makes functions, too
        "    made.extend(name for name in options if name == 'error_model')",
        "    if len(made) == 2:",
        "        made.append('interrupt')",
        "        raise KeyboardInterrupt",
        "    return make(*source, **options)",
        "numba.njit = interrupted",
        "try:",
        "    mine.caller(5)",
        "except KeyboardInterrupt:",
        "    print('interrupted')",
        "print(mine.caller(5))",
        TTT_ENVS_COMPILE_NOTICE="0",
    )
    assert text_output == ("interrupted\n11\n", "")


@pytest.mark.needs("pydantic", "starlette")
def test_a_move_on_the_page_does_not_wait_for_numba(run):
    """Another thread imports it, which takes seconds; here nobody can."""
    game = "{'rows': 3, 'columns': 3, 'win_length': 3, 'skip_chance': 0.25}"
    text_output = run(
        "import sys",
        "class Refusing:",
        "    def find_spec(self, name, path=None, target=None):",
        "        if name == 'numba': raise ImportError",
        "sys.meta_path.insert(0, Refusing())",
        "from pathlib import Path",
        "from ttt_apps.explorer.api import ExplorerApi",
        "from ttt_apps.explorer.root import Root",
        "from ttt_apps.explorer.schemas import MoveRequest, ReviewRequest",
        "api = ExplorerApi(Root(Path('.')))",
        f"reviewed = api.review(ReviewRequest.model_validate({{'game': {game}, 'moves': 'b2'}}))",
        "moved = "
        f"api.move(MoveRequest.model_validate({{'game': {game}, 'seed': 0, 'policy': 'random'}}))",
        "print(reviewed['exact'], 'cell' in moved)",
    )
    assert text_output == ("soon True\n", "")
