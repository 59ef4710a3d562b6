"""Fixtures of the tests of clients: checkouts, and runs of external code."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clients.endings import ending

HERE = Path(__file__).resolve().parent
SOURCES = "TTT_CLIENTS_SOURCES"
"""Variable with the folder that contains the checkouts, by the names of their repositories."""

os.environ["SDL_VIDEODRIVER"] = "dummy"
os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "1"
for threads in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
):  # nets here are small: threads only wait for each other
    os.environ.setdefault(threads, "1")


def pytest_configure(config):
    config.addinivalue_line("markers", "more: tests of other libraries")


@pytest.hookimpl(tryfirst=True)  # before those that are more are chosen or left out
def pytest_collection_modifyitems(items):
    """Mark all tests of clients as ``more``; warnings of other libraries are no errors."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.more)
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture
def checkout():
    """``checkout("PettingZoo")`` is the folder of that repository; without one the test is
    skipped.
    """

    def folder(name):
        place = Path(os.environ.get(SOURCES, "no folder"), name)
        if not place.is_dir():
            pytest.skip(
                f"no checkout of {name}: `make clients` makes one, and {SOURCES} names a folder "
                "that has it"
            )
        return place.resolve()

    return folder


@pytest.fixture
def here():
    """The folder of these tests, where stand_in.py lies."""
    return HERE


@pytest.fixture
def python(tmp_path):
    """Run Python with some arguments in an empty folder, and return what it prints; nothing of ours
    is on its path.
    """

    def run(*arguments, path=(), cwd=tmp_path):
        result = subprocess.run(
            [sys.executable, "-P", *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "MPLBACKEND": "agg"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        output = result.stdout + result.stderr
        assert result.returncode == 0, (
            f"{arguments} ended with {result.returncode}:\n{output[-6000:]}"
        )
        return output

    return run


@pytest.fixture
def example(python):
    """Run one of examples/ with some arguments, and return its final results."""

    def run(name, *arguments):
        return ending(python("-W", "ignore", HERE.parents[1] / "examples" / name, *arguments))

    return run


@pytest.fixture
def adapter(monkeypatch):
    """Import one of examples/checks by its name."""
    monkeypatch.syspath_prepend(HERE.parents[1] / "examples" / "checks")
    return importlib.import_module


@pytest.fixture
def their_tests(python, record_property):
    """Run test files of other projects, unchanged, with our environments instead of theirs: see
    stand_in.py.
    """

    def run(cwd, *arguments, path=()):
        command = ("-m", "pytest", "-q", "-p", "stand_in", "-c", os.devnull, *arguments)
        output = python(*command, path=[HERE, *path], cwd=cwd)
        passed = re.search(r"(\d+) passed", output)
        assert passed is not None, output
        assert " skipped" not in output, output
        record_property("tests", int(passed[1]))

    return run
