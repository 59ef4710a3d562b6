"""A worker of pytest-xdist that dies ends a run of the tests as failed; nobody waits for it."""

import pytest
from processes import ROOT, python_path, run_python

pytestmark = pytest.mark.needs("xdist")
# A group that a worker has finished before it dies is what a new worker waits at, where one is started
PASS = "import time, pytest\n@pytest.mark.parametrize('n', range(3))\ndef test_passes(n): time.sleep(0.05)\n"
DIE = "import os, signal\ndef test_passes(): pass\ndef test_dies(): os.kill(os.getpid(), signal.SIGSEGV)\n"
DIE_LAST = """import os, signal
def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput"):
        os.kill(os.getpid(), signal.SIGSEGV)
"""


def run_tests(folder, plugin="", **files):
    """Return pytest's output for these files with the hooks of our tests, and its exit code."""
    for name, text in {"plugin": plugin, **files}.items():
        (folder / f"{name}.py").write_text(text)
    plugins = ("-p", "conftest", "-p", "plugin", "-p", "no:faulthandler", "-p", "no:cacheprovider")
    settings = ("-c", ROOT / "setup.cfg", "--rootdir", folder)
    words = ("-m", "pytest", *plugins, *settings, "-n", "2", "--dist", "loadgroup", folder)
    done = run_python(*words, cwd=folder, code=None, PYTHONPATH=python_path(ROOT, ROOT / "tests", folder))
    return done.stdout, done.returncode


def test_a_worker_that_dies_in_a_test_ends_the_run(tmp_path):
    passing = {f"test_{letter}": PASS for letter in "abce"}
    said, code = run_tests(tmp_path, **passing, test_d=DIE)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "crashed while running 'test_d.py::test_dies@test_d.py'" in said
    assert "crashed and worker restarting disabled" in said


def test_a_worker_that_dies_after_its_tests_fails_the_run(tmp_path):
    said, code = run_tests(tmp_path, test_a=PASS, test_b=PASS, plugin=DIE_LAST)
    assert "6 passed" in said
    assert code == pytest.ExitCode.TESTS_FAILED
