"""What all tests share. The environment is set before numba is imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]


os.environ.setdefault("TTT_ENVS_CACHE", str(ROOT / ".cache" / "tables"))
os.environ["SDL_VIDEODRIVER"] = "dummy"
os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "1"

# The same examples in every run, and no deadline: the first call of a kernel compiles it
settings.register_profile("reproducible", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("reproducible")


def pytest_configure(config):
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":  # kernels count modulo 2**64, of which numpy's scalars warn
        config.addinivalue_line("filterwarnings", "ignore:overflow encountered:RuntimeWarning")


@pytest.fixture(scope="session")
def known():
    """Facts known without us: tests/data/known-values.json."""
    return json.loads((ROOT / "tests" / "data" / "known-values.json").read_text())


@pytest.fixture(scope="session")
def fresh():
    """Run lines of Python in a process of its own and return what they print."""

    def run(*lines):
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(lines)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
