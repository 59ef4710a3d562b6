"""Decorators for numba kernels, and the types that kernels share.

numba is imported at the first call of a kernel, see :mod:`ttt_envs.core.kernels`; ``NUMBA_DISABLE_JIT=1`` runs the same
source as plain Python.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.interpreter import CAN_INTERPRET, add_source, interpret, is_small
from ttt_envs.core.jit_settings import Interpretable, may_interpret
from ttt_envs.core.package_conflicts import PACKAGES

Int8Array = NDArray[np.int8]
BoolArray = NDArray[np.bool_]
UInt8Array = NDArray[np.uint8]
Int32Array = NDArray[np.int32]
UInt32Array = NDArray[np.uint32]
Int64Array = NDArray[np.int64]
UInt64Array = NDArray[np.uint64]
Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
StandardParameters = tuple[int, int, int, float, int, int, int]
Parameters = (
    StandardParameters
    | tuple[int, int, int, float, int, int, int, int]
    | tuple[int, int, int, float, int, NDArray[np.int64]]
)
"""``Game.parameters``: of the standard game, of variants with the same lines, and of variants whose lines are listed"""
Function = TypeVar("Function", bound=Callable[..., Any])


class _Deferred:
    """Placeholder for a kernel until the first call of any kernel, which imports numba and replaces placeholders.

    While one thread imports numba, small calls in other threads are interpreted: the import takes up to seconds.
    """

    pending: list[_Deferred] | None = []  # noqa: RUF012  # shared on purpose; None once numba is imported
    lock = threading.RLock()
    loading_thread: int | None = None  # the thread that imports numba

    def __init__(self, function: Callable[..., Any], interpretable: Interpretable, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self._make = (function, interpretable, options)
        self._kernel: Callable[..., Any] | None = None
        assert self.pending is not None
        self.pending.append(self)

    def load(self) -> Callable[..., Any]:
        """Return the kernel; creates all other kernels too, because kernels call each other."""
        if self._kernel is None:
            _load_kernels()
        assert self._kernel is not None
        return self._kernel

    def __call__(self, *args: Any) -> Any:
        if self._kernel is None and self._can_interpret(args):
            return interpret(self._make[0], args)
        return self.load()(*args)

    def _can_interpret(self, args: tuple[Any, ...]) -> bool:
        """Return whether another thread imports numba, and the call need not wait for it."""
        if self.loading_thread in (None, threading.get_ident()) or not (CAN_INTERPRET and may_interpret()):
            return False
        _, interpretable, options = self._make
        if options.get("no_cpython_wrapper"):  # interpreted at any size
            return True
        return bool(interpretable) and is_small(interpretable, args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.load(), name)

    def __reduce__(self) -> Any:
        return self.load().__reduce__()


def _load_kernels() -> None:
    """Import numba, create all kernels, and replace their placeholders in all modules."""
    with _Deferred.lock:
        outer, _Deferred.loading_thread = _Deferred.loading_thread, threading.get_ident()
        try:
            _replace_placeholders()
        finally:
            _Deferred.loading_thread = outer


def _replace_placeholders() -> None:
    from ttt_envs.core.kernels import make_kernel

    pending, _Deferred.pending = _Deferred.pending or [], None
    try:
        for deferred in pending:
            if deferred._kernel is None:
                deferred._kernel = make_kernel(*deferred._make)
        packages = {deferred.__module__.partition(".")[0] for deferred in pending}.union(PACKAGES)
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in packages:
                for key, value in list(vars(module).items()):
                    if isinstance(value, _Deferred):
                        setattr(module, key, value._kernel)
    except BaseException:  # such as an interrupt: the next call goes on
        _Deferred.pending = pending
        raise


def remaining_compile_s() -> float | None:
    """Return the estimated seconds until the kernel that is being compiled is ready, at least 1; None without one."""
    if _Deferred.pending is not None:  # numba is not imported yet
        return None
    from ttt_envs.core import kernels

    return kernels.remaining_compile_s()


def estimate_compile_s(functions: Iterable[Callable[..., Any]]) -> float:
    """Return the estimated seconds to compile kernels and those that they call, except what is compiled or cached."""
    if _Deferred.pending is not None:
        _load_kernels()
    return sum(getattr(function, "estimate_compile_s", float)() for function in functions)


def kernel(function: Function, interpretable: Interpretable = False, **options: Any) -> Function:
    """Return a kernel compiled with ``options`` of numba, or interpreted, see :mod:`ttt_envs.core.kernels`.

    Args:
        function: the source; if ``interpretable``, plain Python gives bit-identical results.
        interpretable: whether the size of the arrays bounds the time of a call, so that calls on small arrays may be
            interpreted; or a function of the call's arguments that returns a bound on its elementary steps.
        options: of ``numba.njit``.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return function
    add_source(function)
    if _Deferred.pending is not None:
        return cast(Function, _Deferred(function, interpretable, options))
    from ttt_envs.core.kernels import make_kernel

    return cast(Function, make_kernel(function, interpretable, options))


def compiled(function: Function) -> Function:
    """Decorate a kernel for Python callers: calls on small arrays are interpreted until compiling pays.

    Like all kernels without *allocating* in the decorator's name, it makes no arrays and is compiled without numba's
    reference counting. Otherwise numba counts references at every call, even an inlined one, and for every array taken
    from a tuple; that takes longer than a function of a few nanoseconds, in execution and compilation.
    """
    return kernel(function, interpretable=True)


def compiled_allocating(function: Function) -> Function:
    """Like :func:`compiled`, for a kernel that makes arrays."""
    return kernel(function, interpretable=True, _nrt=True)


def compiled_at_once(function: Function) -> Function:
    """Decorate a kernel that may take long on small arrays: it is compiled at its first call."""
    return kernel(function)


def compiled_at_once_allocating(function: Function) -> Function:
    """Like :func:`compiled_at_once`, for a kernel that makes arrays."""
    return kernel(function, _nrt=True)


def compiled_nogil(function: Function) -> Function:
    """Like :func:`compiled_at_once`, but the kernel releases the GIL."""
    return kernel(function, nogil=True)


def compiled_nogil_bounded(count_steps: Callable[..., int]) -> Callable[[Function], Function]:
    """Like :func:`compiled_nogil`; calls with a small bound ``count_steps`` on elementary steps are interpreted."""
    return functools.partial(kernel, interpretable=count_steps, nogil=True)


def compiled_nogil_allocating(function: Function) -> Function:
    """Like :func:`compiled_nogil`, for a kernel that makes arrays."""
    return kernel(function, nogil=True, _nrt=True)


def compiled_nogil_small(function: Function) -> Function:
    """Like :func:`compiled`, but the kernel releases the GIL, which takes some 50 ns per call."""
    return kernel(function, interpretable=True, nogil=True)


def compiled_nogil_small_allocating(function: Function) -> Function:
    """Like :func:`compiled_nogil_small`, for a kernel that makes arrays."""
    return kernel(function, interpretable=True, nogil=True, _nrt=True)


def inlined(function: Function) -> Function:
    """Decorate a kernel inlined into other kernels. A call from Python is always interpreted.

    It has no wrapper for Python callers, which would take a sixth of the compile time.
    """
    return kernel(function, forceinline=True, no_cpython_wrapper=True)


def inlined_public(function: Function) -> Function:
    """Decorate a kernel that is inlined into other kernels and can be called from Python."""
    return kernel(function, interpretable=True, forceinline=True)


int64 = cast(Callable[[Any], int], np.int64)
"""in kernels: converts to int64, so that callees are compiled for one integer type only"""
int8 = cast(Callable[[Any], int], np.int8)
"""in kernels: converts to int8, the type of cells"""
