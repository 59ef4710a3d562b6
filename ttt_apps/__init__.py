"""Command-line and web applications: parse options, call the library, write results; nothing
else.
"""

import os
import sys
from contextlib import suppress

__all__: list[str] = []
__ttt_envs__ = True  # distinguishes our package from others of this name: ttt_envs/core/packages.py

# read when numpy is imported; in products of small matrices more threads wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _find_problem() -> str | None:
    """Return a sentence on what keeps the commands from importing all packages; None if there is
    nothing.
    """
    try:
        os.getcwd()
    except OSError:
        return "the current folder is gone: change to a folder that exists"
    with suppress(ValueError):
        threads = os.environ.get("NUMBA_NUM_THREADS", "1")
        if int(threads) < 1:
            return (
                f"NUMBA_NUM_THREADS={threads} is no number of threads: choose 1 or more, or unset "
                "it"
            )
    try:
        from ttt_envs.core.packages import find_conflict
    except ModuleNotFoundError as problem:
        if problem.name != "ttt_envs.core":
            return (
                f"this Python has no package {problem.name}: activate the environment of this "
                "project, as by `source .venv/bin/activate`"
            )
        place = next(iter(sys.modules["ttt_envs"].__path__))
        return (
            f"the folder {place} hides the package ttt_envs: run from another folder, or rename it"
        )
    return find_conflict()


PROBLEM = _find_problem()
if PROBLEM is not None:
    print(f"error: {PROBLEM}", file=sys.stderr)
    sys.exit(2)
