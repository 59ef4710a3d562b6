"""Kernels: functions that numba compiles at their first call, and the types that they share.

The machine code is kept beside the package or in the user's cache, else in a folder of the user's own among the
temporary ones, else nowhere; ``NUMBA_DISABLE_JIT=1`` runs the same source as plain Python. numba looks for edits in the
file of a kernel, not in those of the kernels that it calls: where the sources may be edited, in a checkout, the machine
code of each state of them has a folder of its own, unless ``NUMBA_CACHE_DIR`` names one.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import njit
from numba.core import config as numba_config
from numpy.typing import NDArray

Cells = NDArray[np.int8]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]
Reals = NDArray[np.float64]
Parameters = tuple[int, int, int, float, int, int, int]
"""``Game.parameters``"""
Function = TypeVar("Function", bound=Callable[..., Any])


def _folder_of_checkout() -> str | None:
    """Where machine code is kept, a folder for each state of the sources; None where nobody edits them."""
    root = Path(__file__).resolve().parents[1]
    if not (root / "setup.cfg").is_file():
        return None
    digest = hashlib.sha256(numba.__version__.encode())
    for package in ("ttt_envs", "baselines", "learners", "evaluation"):
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.read_bytes())
    return str(root / ".cache" / "numba" / digest.hexdigest()[:16])


def _private_folder() -> str | None:
    """A folder of this user alone for machine code, which numba reads back with pickle; None where there is none."""
    if not hasattr(os, "getuid"):
        return None
    try:
        folder = Path(tempfile.gettempdir()) / f"ttt_envs-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    return str(folder) if is_ours else None


config: Any = numba_config  # it has no types
if not config.CACHE_DIR:
    config.CACHE_DIR = _folder_of_checkout() or ""


def kernel(function: Function, **options: Any) -> Function:
    """``function`` compiled at its first call with more ``options`` of numba's, and kept where it can be."""
    made = functools.partial(njit, error_model="numpy", **options)
    try:
        return cast(Function, made(cache=True)(function))
    except RuntimeError:  # numba found no place: neither the package's folder nor the user's can be written to
        folder, before = _private_folder(), config.CACHE_DIR
        if folder is None:
            return cast(Function, made()(function))
        config.CACHE_DIR = folder
        try:
            return cast(Function, made(cache=True)(function))
        except RuntimeError:
            return cast(Function, made()(function))
        finally:
            config.CACHE_DIR = before


def compiled(function: Function) -> Function:
    """Compile a kernel at its first call and keep the machine code on disk."""
    return kernel(function)


def inlined(function: Function) -> Function:
    """The same for what kernels call at every move."""
    return kernel(function, forceinline=True)


def bare(function: Function) -> Function:
    """Compile a kernel that makes no arrays, and so need not count references to those that it is handed.

    numba counts them at every call, even of what is inlined, and for all that is taken out of a tuple or an array. For
    functions of a few nanoseconds that would be most of the work; and a search could not be written as small functions
    that take its parts as they are. Other threads of Python run beside it.
    """
    return kernel(function, _nrt=False, nogil=True)


def bare_inlined(function: Function) -> Function:
    """The same for what these kernels call at every move."""
    return kernel(function, _nrt=False, forceinline=True)


wide = cast(Callable[[Any], int], np.int64)
"""in kernels: one type of number for all callers, so that what they call is compiled once"""
stone_of = cast(Callable[[Any], int], np.int8)
"""in kernels: a stone as cells hold it"""
