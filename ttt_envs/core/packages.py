"""Packages and processes of Python: what hides our packages, how to install optional ones, how processes end.

``baselines`` and ``learners`` are also other projects' distributions on the package index, and an installer overwrites
files of the same name without a warning. So each package of this project marks itself in its ``__init__``.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

PACKAGES = ("ttt_envs", "baselines", "learners", "ttt_eval", "ttt_apps")
MARKER = b"__ttt_envs__ = True"
ROOT = Path(__file__).resolve().parents[2]
"""Folder of the imported packages: a checkout, or ``site-packages``."""


def find_conflict() -> str | None:
    """Return a sentence on the first package that is not this project's, with the remedy; None if all are."""
    for package in PACKAGES:
        spec, own = importlib.util.find_spec(package), ROOT / package / "__init__.py"
        place = own if spec is None else spec.origin or next(iter(spec.submodule_search_locations or ()), "")
        if Path(place).resolve() != own or MARKER not in own.read_bytes():
            return (
                f"{place} is not the package {package} of ttt_envs: run from another folder, or install ttt_envs in an "
                f"environment of its own"
            )
    return None


def install_command(extra: str) -> str:
    """Return the command that installs an extra: from the checkout, if the packages are imported from one."""
    return f'pip install -e "{ROOT}[{extra}]"' if (ROOT / "setup.cfg").is_file() else f'pip install "ttt_envs[{extra}]"'


def subprocess_environment() -> dict[str, str]:
    """Return the environment of a process of Python that imports the same packages, installed or in a checkout."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


@contextmanager
def environment_variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within this context, for this process and those that it starts.

    Variables that were not set are empty afterwards.
    """
    before = {name: os.environ.get(name, "") for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.update(before)


def end_with_stdin() -> None:
    """From now on, end this process when its standard input ends.

    A process whose input is a pipe from its parent does not outlive it, however the parent ends.
    """
    threading.Thread(target=_exit_after_stdin, name="stdin", daemon=True).start()


def _exit_after_stdin() -> None:
    with suppress(OSError):
        while os.read(0, 1 << 16):  # sys.stdin has a lock, and Python aborts at its end if a thread still holds it
            pass
    os._exit(1)


def avoid_triton_crash() -> None:
    """Make TensorFlow and torch safe in one process; call it before importing either. TensorFlow logs errors only.

    torch's packages for Linux bring triton, which torch imports when it makes the first optimizer. TensorFlow and
    triton each contain LLVM. A process that loads triton after TensorFlow ends by a segmentation fault (TensorFlow
    2.21, triton 3.7); the other order works. So triton is imported here. If TensorFlow is loaded already, triton is
    instead marked as not installed: torch needs it only to compile code for GPUs.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if "triton" in sys.modules or importlib.util.find_spec("tensorflow") is None:
        return
    if "tensorflow" in sys.modules:
        sys.modules["triton"] = None  # type: ignore[assignment]  # an import of it raises ImportError
    else:
        with suppress(ImportError):  # torch's CPU builds have no triton, and nothing crashes
            importlib.import_module("triton")
