"""Packages and processes of Python: what hides our packages, how to install optional ones, how
processes end.

``baselines`` and ``learners`` are also other projects' distributions on the package index, and an
installer overwrites files of the same name without a warning. So each package of this project marks
itself in its ``__init__``.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PACKAGES = ("ttt_envs", "baselines", "learners", "ttt_eval", "ttt_apps")
ROOT = Path(__file__).resolve().parents[2]
"""Folder of the imported packages: a checkout, or ``site-packages``."""


def find_conflict() -> str | None:
    """Return a sentence on the first package that is not this project's, with the remedy; None if
    all are.
    """
    for package in PACKAGES:
        own = ROOT / package / "__init__.py"
        source: str | Path = own
        spec = importlib.util.find_spec(package)
        if spec is not None:
            source = spec.origin or next(iter(spec.submodule_search_locations or ()), "")
        if Path(source).resolve() != own or b"__ttt_envs__ = True" not in own.read_bytes():
            return (
                f"{source} is not our {package}: run from another folder, or install ttt_envs in "
                "its own environment"
            )
    return None


def install_command(extra: str) -> str:
    """Return the command that installs an extra: from the checkout, if the packages are imported
    from one.

    For installed packages pip installs what the extra names, and the package itself is there
    already.
    """
    if (ROOT / "setup.cfg").is_file():
        return f'pip install -e "{ROOT}[{extra}]"'
    return f'pip install "ttt_envs[{extra}]"'


_set_values: dict[
    str, list[str]
] = {}  # by variable: its value before all contexts, and those of the open contexts
_lock = threading.Lock()


@contextmanager
def environment_variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within this context, for this process and those that it starts.

    Contexts of several threads may overlap. After the last one, variables that were not set are
    empty.
    """
    with _lock:
        for name, value in values.items():
            _set_values.setdefault(name, [os.environ.get(name, "")]).append(value)
        os.environ.update(values)
    try:
        yield
    finally:
        with _lock:
            for name, value in values.items():
                _set_values[name].remove(value)
                os.environ[name] = _set_values[name][-1]
                if len(_set_values[name]) == 1:
                    del _set_values[name]


def end_with_process(parent: int) -> None:
    """From now on, end this process within half a second when the parent process of this id has
    ended in any way.

    Windows, which gives a process without a parent no other, lets it go on.
    """
    threading.Thread(target=_exit_after, args=(parent,), name="parent", daemon=True).start()


def _exit_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def avoid_triton_crash() -> None:
    """Make TensorFlow and torch safe in one process; call it before importing either. TensorFlow
    logs errors only.

    torch's packages for Linux bring triton, which torch imports when it makes the first optimizer.
    TensorFlow and triton each contain LLVM. A process that loads triton after TensorFlow ends by a
    segmentation fault (TensorFlow 2.21, triton 3.7). So triton counts as not installed where
    TensorFlow is, unless it is loaded already: torch needs it only to compile code for GPUs.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if importlib.util.find_spec("tensorflow") is not None:
        sys.modules.setdefault("triton", None)  # type: ignore[arg-type]  # an import of it raises ImportError


@contextmanager
def hide_native_log() -> Iterator[None]:
    """Discard what is written to the standard error within this context, unless it raises.

    TensorFlow's libraries report the processor and missing GPUs there while they are imported,
    whatever is set.
    """
    try:
        stderr = os.dup(2)
    except OSError:  # it is closed
        yield
        return
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        except BaseException:
            log.seek(0)
            os.write(stderr, log.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
