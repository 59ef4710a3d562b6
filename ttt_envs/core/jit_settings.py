"""Settings of kernels by environment variables, and the folder of their machine code."""

from __future__ import annotations

import functools
import gc
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from ttt_envs.core.package_conflicts import ROOT
from ttt_envs.core.subprocesses import environment_variables

Interpretable = bool | Callable[..., int]
"""see :func:`ttt_envs.core.jit.kernel`"""

INTERPRET, NOTICE = "TTT_ENVS_INTERPRET", "TTT_ENVS_COMPILE_NOTICE"
"""Environment variables. 0 compiles every kernel at its first call, however small; 0 disables compile notices."""


_thread = threading.local()


def may_interpret() -> bool:
    """Return whether calls on small arrays may be interpreted, in this thread."""
    return not getattr(_thread, "compiles_at_once", False) and os.environ.get(INTERPRET, "1") != "0"


@contextmanager
def compile_at_once_in_thread() -> Iterator[None]:
    """Compile kernels at their first call within this context, in this thread only: others may still interpret."""
    before = getattr(_thread, "compiles_at_once", False)
    _thread.compiles_at_once = True
    try:
        yield
    finally:
        _thread.compiles_at_once = before


@contextmanager
def compile_at_once() -> Iterator[None]:
    """Compile kernels at their first call within this context, in this process and in child processes.

    For workloads long enough to repay compilation, and for measurements.
    """
    with environment_variables({INTERPRET: "0"}):
        yield


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Pause garbage collection within this context: compiling makes millions of objects, and little garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@functools.cache
def kernel_folder() -> Path | None:
    """Return the cache folder for machine code: the first writable one, None if there is none.

    In order: ``NUMBA_CACHE_DIR``, if set; in a checkout ``.cache/numba``; the user's cache folder; a private temporary
    folder.
    """
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named:
        return Path(named)
    if (ROOT / "setup.cfg").is_file() and _is_writable(ROOT / ".cache" / "numba"):
        return ROOT / ".cache" / "numba"
    users = Path(platformdirs.user_cache_dir("ttt_envs", appauthor=False)) / "numba"
    return users if _is_writable(users) else _private_folder()


def _is_writable(folder: Path) -> bool:
    """Return whether files can be written into a folder, which is created if missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _private_folder() -> Path | None:
    """Return a folder private to this user, because numba unpickles its cache; None if there is none."""
    if not hasattr(os, "getuid"):
        return None
    try:
        folder = Path(tempfile.gettempdir()) / f"ttt_envs-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    return folder if is_ours else None
