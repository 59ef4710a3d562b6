"""Decorators of kernels, functions that numba compiles, and the types that kernels share.

numba is imported at the first call of a kernel, see :mod:`ttt_envs.kernels`; ``NUMBA_DISABLE_JIT=1`` runs the same
source as plain Python.
"""

from __future__ import annotations

import functools
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import platformdirs
from numpy.typing import NDArray

from ttt_envs.hidden import PACKAGES

Cells = NDArray[np.int8]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]
Reals = NDArray[np.float64]
Parameters = tuple[int, int, int, float, int, int, int]
"""``Game.parameters``"""
Function = TypeVar("Function", bound=Callable[..., Any])

Interpretable = bool | Callable[..., int]
"""see :func:`kernel`"""

INTERPRET, NOTICE = "TTT_ENVS_INTERPRET", "TTT_ENVS_COMPILE_NOTICE"
"""Environment variables. 0 compiles every kernel at its first call, however small; 0 announces no compilation."""


def may_interpret() -> bool:
    """Whether calls on small arrays may be interpreted."""
    return os.environ.get(INTERPRET, "1") != "0"


@contextmanager
def compile_at_once() -> Iterator[None]:
    """Inside, here and in processes that are started, kernels are compiled at their first call.

    For work that is known to be worth compiling for, and for work that is measured.
    """
    before = os.environ.get(INTERPRET)
    os.environ[INTERPRET] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[INTERPRET]
        else:
            os.environ[INTERPRET] = before


@functools.cache
def kernel_folder() -> Path | None:
    """The folder of machine code: the first that can be written to; None where none can.

    ``NUMBA_CACHE_DIR``, where it is set; in a checkout ``.cache/numba``; the user's cache folder; a private temporary
    folder.
    """
    named, checkout = os.environ.get("NUMBA_CACHE_DIR"), Path(__file__).resolve().parents[1]
    if named:
        return Path(named)
    if (checkout / "setup.cfg").is_file() and _is_writable(checkout / ".cache" / "numba"):
        return checkout / ".cache" / "numba"
    users = Path(platformdirs.user_cache_dir("ttt_envs", appauthor=False)) / "numba"
    return users if _is_writable(users) else _private_folder()


def _is_writable(folder: Path) -> bool:
    """Whether files can be written into a folder, which is made where it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _private_folder() -> Path | None:
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
    return folder if is_ours else None


class _Deferred:
    """Stands for a kernel until any kernel is called: then numba is imported, and modules get the kernels."""

    pending: list[_Deferred] | None = []  # noqa: RUF012  # shared on purpose; None once numba is imported
    lock = threading.RLock()

    def __init__(self, function: Callable[..., Any], interpretable: Interpretable, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self._make = (function, interpretable, options)
        self._kernel: Callable[..., Any] | None = None
        assert self.pending is not None
        self.pending.append(self)

    def load(self) -> Callable[..., Any]:
        """The kernel; all others are made as well, for kernels call each other."""
        if self._kernel is None:
            _load_kernels()
        assert self._kernel is not None
        return self._kernel

    def __call__(self, *args: Any) -> Any:
        return self.load()(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.load(), name)

    def __reduce__(self) -> Any:
        return self.load().__reduce__()


def _load_kernels() -> None:
    """Import numba, make all kernels, and put them where modules hold what stands for them."""
    from ttt_envs.kernels import make_kernel

    with _Deferred.lock:
        pending, _Deferred.pending = _Deferred.pending or [], None
        for deferred in pending:
            deferred._kernel = make_kernel(*deferred._make)
        packages = {deferred.__module__.partition(".")[0] for deferred in pending}.union(PACKAGES)
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in packages:
                for key, value in list(vars(module).items()):
                    if isinstance(value, _Deferred):
                        setattr(module, key, value._kernel)


def kernel(function: Function, interpretable: Interpretable = False, **options: Any) -> Function:
    """A function that is compiled with more ``options`` of numba's, or interpreted, see :mod:`ttt_envs.kernels`.

    Args:
        function: the source; in plain Python it gives the same results bit for bit where it is ``interpretable``.
        interpretable: whether the time of a call is bounded by the size of its arrays, so that calls on small arrays
            may be interpreted; or a function of the arguments of a call that returns a bound of its elementary steps.
        options: of ``numba.njit``.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return function
    if _Deferred.pending is not None:
        return cast(Function, _Deferred(function, interpretable, options))
    from ttt_envs.kernels import make_kernel

    return cast(Function, make_kernel(function, interpretable, options))


def compiled(function: Function) -> Function:
    """A kernel for callers in Python: calls on small arrays are interpreted until compiling pays.

    Like all kernels that are not called *allocating* it makes no arrays, and is compiled without numba's reference
    counts: otherwise numba counts at every call, even of what is inlined, and for all that is taken out of a tuple or
    an array, which takes longer than a function of a few nanoseconds, and as long to compile.
    """
    return kernel(function, interpretable=True)


def compiled_allocating(function: Function) -> Function:
    """As :func:`compiled`, for a kernel that makes arrays."""
    return kernel(function, interpretable=True, _nrt=True)


def compiled_at_once(function: Function) -> Function:
    """A kernel that may take long on small arrays, and is compiled at its first call."""
    return kernel(function)


def compiled_at_once_allocating(function: Function) -> Function:
    """As :func:`compiled_at_once`, for a kernel that makes arrays."""
    return kernel(function, _nrt=True)


def compiled_nogil(function: Function) -> Function:
    """As :func:`compiled_at_once`; other threads of Python run beside it."""
    return kernel(function, nogil=True)


def compiled_nogil_bounded(count_steps: Callable[..., int]) -> Callable[[Function], Function]:
    """As :func:`compiled_nogil`; ``count_steps`` bounds the elementary steps of a call: few are interpreted."""
    return functools.partial(kernel, interpretable=count_steps, nogil=True)


def inlined(function: Function) -> Function:
    """A kernel for other kernels, inlined where they call it. A call from Python is always interpreted.

    It has no wrapper for callers in Python: that would take a sixth of the time to compile.
    """
    return kernel(function, forceinline=True, no_cpython_wrapper=True)


def inlined_allocating(function: Function) -> Function:
    """As :func:`inlined`, for a kernel that makes arrays; so must do those that call it."""
    return kernel(function, forceinline=True, no_cpython_wrapper=True, _nrt=True)


def inlined_public(function: Function) -> Function:
    """A kernel for other kernels, inlined where they call it, and for callers in Python."""
    return kernel(function, interpretable=True, forceinline=True)


wide = cast(Callable[[Any], int], np.int64)
"""in kernels: one type of number for all callers, so that what they call is compiled once"""
stone_of = cast(Callable[[Any], int], np.int8)
"""in kernels: a stone as cells hold it"""
