"""Fixtures and hooks of all tests, and what belongs to which tier. The environment is set before
numba is imported.

Three tiers, by two markers. Tests without one are those of ``make test``: they tell whether the
project works, in this process, within seconds a file. ``more``, run by ``make test-more``:
browsers, kills, fuzzing, other processes, blocks of documents, other libraries, and TensorFlow and
torch beyond a smoke test. ``slow``, run by ``make slow``: studies and full sizes. A marker stands
in a file for all its tests, or on a test or case. What needs a large package is ``more`` without
one, unless it is marked ``smoke``.
"""

import gc
import importlib.util
import json
import os
import re
import signal
import sys
import threading
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from filelock import FileLock
from hypothesis import settings
from processes import python_path, run_python

ROOT = Path(__file__).resolve().parents[1]
FIRST = (
    "tests/ttt_envs/test_kernels.py",
    "tensorflow",
    "torch",
    "large",
    "tests/ttt_eval/test_grading.py",
    "tests/ttt_eval/test_comparison_pages.py",
    "tests/test_documents.py",
    "tests/studies/test_studies.py",
    "tests/test_conformance.py",
    "tests/ttt_eval/test_check_learner.py",
)
"""groups of tests that begin first, before the others in order. Where nothing is compiled yet, one
worker compiles many kernels for everybody. The longest groups follow, so that nobody is left alone
with one in the end"""

TIMEOUT_S = {"slow": 3600, "more": 1200}
"""s of a test, against hanging, for its cores may be shared; all others have that of setup.cfg"""

TESTS = ("", "ttt_envs", "baselines", "learners", "ttt_eval", "ttt_apps")
FOLDERS = [ROOT, *(ROOT / "tests" / name for name in TESTS)]
"""where other processes look for our packages and for files of tests"""

LIGHT = {
    "axe_playwright_python",
    "fastapi",
    "httpx",
    "mkdocstrings",
    "playwright",
    "uvicorn",
    "xdist",
    "zensical",
}
"""packages that a test may need and that any worker imports in a moment"""

ALL_MORE = re.compile(r"^pytestmark = \[?pytest\.mark\.more\b", re.MULTILINE)
"""the line of a file whose tests are all ``more``"""

DEAD_WORKERS = pytest.StashKey[bool]()

os.environ.setdefault("TTT_ENVS_CACHE", str(ROOT / ".cache" / "tables"))
os.environ["TTT_ENVS_COMPILE_NOTICE"] = "0"
os.environ.pop(
    "COLUMNS", None
)  # readline, which pytest imports, writes it for pytest-xdist's workers to find
os.environ["SDL_VIDEODRIVER"] = "dummy"
os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "1"

# The same examples in every run, and no deadline: the first call of a kernel compiles it
settings.register_profile(
    "reproducible", deadline=None, derandomize=True, database=None, max_examples=60
)
settings.load_profile("reproducible")


def pytest_addoption(parser):
    parser.addoption(
        "--write-goldens", action="store_true", help="write tests/goldens: make goldens"
    )


@cache
def is_here(package):
    return importlib.util.find_spec(package) is not None


def pytest_ignore_collect(collection_path, config):
    """Files that mark all their tests as ``more`` are not even imported for the others: they import
    much.
    """
    if "not more" not in config.option.markexpr:
        return None
    is_left_out = collection_path.name == "clients"
    if collection_path.suffix == ".py":
        is_left_out = bool(ALL_MORE.search(collection_path.read_text("utf-8")))
    return True if is_left_out else None


def tier_of(item, needs_large):
    """Return the marker of the tier of a test, None for ``make test``."""
    for marker in ("slow", "more"):
        if item.get_closest_marker(marker):
            return marker
    return "more" if needs_large and not item.get_closest_marker("smoke") else None


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before pytest-xdist reads the groups, and after
def pytest_collection_modifyitems(config, items):
    """Give every test its tier, and leave out what needs a package that is not here; one worker has
    all that needs TensorFlow, torch or other large packages, or a whole file."""
    for item in items:
        needed = {name for mark in item.iter_markers("needs") for name in mark.args}
        if needed & {"stable_baselines3", "sb3_contrib"}:
            needed.add("torch")
        missing = sorted(name for name in needed if not is_here(name))
        if missing:
            item.add_marker(pytest.mark.skip(reason=f"{' and '.join(missing)} not installed"))
        large = needed - LIGHT
        marker = tier_of(item, bool(large))
        if marker is not None:
            item.add_marker(marker)
            item.add_marker(pytest.mark.timeout(TIMEOUT_S[marker]))
        if large or item.get_closest_marker("xdist_group") is None:
            apart = next((name for name in ("tensorflow", "torch") if name in large), "large")
            item.add_marker(pytest.mark.xdist_group(apart if large else item.location[0]))
    if hasattr(config, "workerinput"):
        places = {group: place for place, group in enumerate(FIRST)}
        items.sort(
            key=lambda item: places.get(item.get_closest_marker("xdist_group").args[0], len(places))
        )
    yield
    if getattr(config.option, "loadgroup", False):
        for item in items:
            # pytest-xdist 3.8 writes the group where pytest 9.2 looks no more: each test would go
            # alone
            node_id = getattr(item, "_nodeid", item.nodeid)
            if node_id != item.nodeid:
                item._id = type(item._id).parse(node_id)  # noqa: SLF001
            told_to_all = item.nodeid.endswith("@" + item.get_closest_marker("xdist_group").args[0])
            assert told_to_all, (
                "pytest-xdist tells groups in another way now: see whether they stay together"
            )


def pytest_configure(config):
    config.option.loadscopereorder = False  # groups are handed out in our order, see FIRST
    if getattr(config.option, "maxworkerrestart", None) is None:
        # pytest-xdist 3.8 gives the worker that replaces a dead one all groups of that, finished
        # ones too. A worker is given more when a test of it ends; in a finished group none does, so
        # everybody waits for ever
        config.option.maxworkerrestart = "0"
    config.addinivalue_line(
        "markers", "needs(*packages): large packages, imported by the test and by no test file"
    )
    config.addinivalue_line(
        "markers", "xdist_group(name): tests for one worker of pytest-xdist, which may be absent"
    )
    if (
        os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
    ):  # kernels count modulo 2**64, of which numpy's scalars warn
        config.addinivalue_line("filterwarnings", "ignore:overflow encountered:RuntimeWarning")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Remember a worker that died, for between two tests none of them fails by it."""
    if error:
        node.config.stash[DEAD_WORKERS] = True


def pytest_sessionfinish(session):
    if session.config.stash.get(DEAD_WORKERS, False) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk():
    """Files need not outlive a power cut; tests of that replace ``os.fsync`` by their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def tensorflow_and_torch_in_any_order():
    """A worker may have tests of both. Stable-Baselines3 imports TensorBoard, which imports
    TensorFlow, for seconds, unless there is a module of this name.
    """
    from ttt_envs.core.packages import avoid_triton_crash

    avoid_triton_crash()
    sys.modules["tensorboard.compat.notf"] = ModuleType("notf")


@pytest.fixture(scope="session", autouse=True)
def machine_code():
    """Tests are of machine code, and test_kernels.py compares both; what is called in order to
    collect them is interpreted. While one worker compiles a kernel, the others wait for it, and
    then have it from the cache."""
    from numba.core.dispatcher import Dispatcher

    from ttt_envs.core.jit import kernel_folder

    compile_kernel = Dispatcher.compile
    state = threading.local()

    def compile_alone(dispatcher, signature):
        if getattr(state, "is_locked", False):  # a part of another kernel
            return compile_kernel(dispatcher, signature)
        kernel_folder().mkdir(parents=True, exist_ok=True)
        name = f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__qualname__}"
        with FileLock(kernel_folder() / f"{name}.lock"):
            state.is_locked = True
            try:
                return compile_kernel(dispatcher, signature)
            finally:
                state.is_locked = False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dispatcher, "compile", compile_alone)
        os.environ.setdefault("TTT_ENVS_INTERPRET", "0")
        yield


@pytest.fixture(scope="module", autouse=True)
def nothing_old_is_garbage():
    """Where TensorFlow and torch are imported, to look for garbage among all that they hold takes
    half a second.
    """
    gc.freeze()


@pytest.fixture(scope="module")
def private_cache(tmp_path_factory):
    """A file of tests has a cache of tables of its own, of the default size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TTT_ENVS_CACHE", str(tmp_path_factory.mktemp("tables")))
        patch.delenv("TTT_ENVS_CACHE_BYTES", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def heard_signals():
    """Processes begun by tests hear SIGINT and SIGHUP, which they would ignore where a shell runs
    the tests in its background, or ``nohup`` does. The tests themselves still outlive a closed
    terminal under ``nohup``."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.fixture(scope="session")
def known_values():
    """Facts known without us: tests/data/known-values.json."""
    return json.loads((ROOT / "tests" / "data" / "known-values.json").read_text())


@pytest.fixture
def evaluate_py(capsys):
    """``evaluate.py``, called in this process."""
    from commands import Program

    from ttt_apps import evaluate

    return Program(evaluate.main, capsys)


@pytest.fixture
def train_py(capsys):
    """``train.py``, called in this process."""
    from commands import Program

    from ttt_apps.training import command

    return Program(command.main, capsys)


@pytest.fixture(params=["classic", "abrupt"])
def hidden(request):
    """The rule of a phantom game."""
    return request.param


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory):
    """The folder of a tiny run of the learner of a name, made when it is asked for; to be read
    only.
    """
    import tiny

    @cache
    def run(name):
        return tiny.train_run(name, tmp_path_factory.mktemp("runs") / name)

    return run


@pytest.fixture(scope="module")
def quick_ladders():
    """No processes measure the costs of policies: longer specs take longer; and few samples are
    drawn for intervals.
    """
    from ttt_eval.matches import ladder
    from ttt_eval.matches.move_cost import MoveCost

    def cost(game, *specs):
        return [MoveCost(1e-6 * len(str(spec)), 0.1, 1 << 27, 1 << 20) for spec in specs]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ladder, "DRAWS", 100)
        patch.setattr(ladder, "measure_move_costs", cost)
        yield cost


@pytest.fixture(scope="module")  # for while it idles it takes the time of other tests
def cluster():
    """A cluster of Ray on this machine, which is stopped again: for tests that say
    ``needs("ray")``.
    """
    import ray
    from ray import cluster_utils

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, FOLDERS)))
        small = {"num_cpus": 2, "include_dashboard": False, "include_log_monitor": False}
        machines = cluster_utils.Cluster(True, head_node_args=small)
    yield machines.address
    ray.shutdown()
    machines.shutdown()


@pytest.fixture(scope="module")
def browser():
    """Chromium without a window, for tests marked by ``pages.in_browser``."""
    from pages import CHROMIUM
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=30_000)  # ms, as for all else that a page is waited for
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(
    params=[2, pytest.param("cluster", marks=[pytest.mark.slow, pytest.mark.needs("ray")])]
)
def more_workers(request):
    """Two processes, and a cluster; by default only the test of ttt_envs/core/parallel.py works on
    a cluster.
    """
    return request.getfixturevalue("cluster") if request.param == "cluster" else request.param


@pytest.fixture(scope="session")
def fresh():
    """Run lines of Python in a process of its own and return what they print."""

    def run(*lines):
        return run_python("-c", "\n".join(lines), PYTHONPATH=python_path(*FOLDERS)).stdout

    return run
