"""Decorators for numba kernels, the types that kernels share, and the cache of machine code.

The source of a kernel is plain Python and gives bit-identical results when interpreted. Compiling a kernel takes 0.1 to
7 seconds; many callers, such as a first game, need only a few calls on small arrays, which take milliseconds. So calls
on small arrays are interpreted until they have taken half of the estimated compile time; then the kernel is compiled.
Long workloads thus take at most half a compile time more than with immediate compilation, and short ones compile
nothing and do not import numba, which takes a quarter of a second. A compiled kernel replaces its placeholder in all
modules, so that Python calls numba directly. ``NUMBA_DISABLE_JIT=1`` runs the same source as plain Python.

Machine code is cached in a folder named by a hash of the sources of the kernel's package and of those that it imports,
because numba's cache does not see edits of callees in other files: an edit compiles all kernels of these packages.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import importlib
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, TypeVar, cast, overload

import numpy as np
import platformdirs
from numpy.typing import NDArray

from ttt_envs.core.interpreter import CAN_INTERPRET, Interpretable, add_source, interpret, is_small
from ttt_envs.core.package_conflicts import PACKAGES, ROOT
from ttt_envs.core.subprocesses import environment_variables
from ttt_envs.version import __version__

Int8Array = NDArray[np.int8]
BoolArray = NDArray[np.bool_]
UInt8Array = NDArray[np.uint8]
Int32Array = NDArray[np.int32]
UInt32Array = NDArray[np.uint32]
Int64Array = NDArray[np.int64]
UInt64Array = NDArray[np.uint64]
Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])

INTERPRET, NOTICE = "TTT_ENVS_INTERPRET", "TTT_ENVS_COMPILE_NOTICE"
"""Environment variables. 0 compiles every kernel at its first call, however small; 0 disables compile notices."""
INTERPRETED_SHARE = 0.5
"""Share of the estimated compile time that calls of a kernel may spend in the interpreter before it is compiled."""
COMPILE_S, COMPILE_S_PER_BYTE = 0.1, 0.0006
"""Estimated compile time in seconds: for each kernel, and for each byte of its bytecode (AMD EPYC, family 25)."""
NOTICE_S = 1.0
"""Estimated compile time of a process, in seconds, above which a notice is logged."""
MAX_FOLDERS = 4
"""Maximum number of folders of machine code of a package, each for one state of the sources."""

_log = logging.getLogger("ttt_envs")
_CACHE_ERRORS = (OSError, EOFError, UnpicklingError, ValueError, TypeError, LookupError, AttributeError, ImportError)
_start = time.time()

int64 = cast(Callable[[Any], int], np.int64)
"""in kernels: converts to int64, so that callees are compiled for one integer type only"""
int8 = cast(Callable[[Any], int], np.int8)
"""in kernels: converts to int8, the type of cells"""


# ---------------------------------------------------------------------------------------------------------------------
# Decorators


@overload
def kernel(function: Function) -> Function: ...
@overload
def kernel(
    *, interpreted: Interpretable = True, allocates: bool = False, **options: Any
) -> Callable[[Function], Function]: ...
def kernel(function: Any = None, *, interpreted: Interpretable = True, allocates: bool = False, **options: Any) -> Any:
    """Decorate a kernel for Python callers.

    Args:
        function: the source.
        interpreted: whether the size of the arrays bounds the time of a call, so that calls on small arrays may be
            interpreted; or a function of the call's arguments that returns a bound on its elementary steps.
        allocates: whether the kernel makes arrays. The others are compiled without numba's reference counting: it
            counts at every call, even an inlined one, and for every array taken from a tuple, which takes longer than a
            function of a few nanoseconds, in execution and compilation.
        options: of ``numba.njit``, such as ``nogil=True``, which takes some 50 ns per call.
    """
    if function is None:
        return functools.partial(kernel, interpreted=interpreted, allocates=allocates, **options)
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return function
    return Kernel(function, interpreted, {"_nrt": allocates, **options})


def inlined(function: Function) -> Function:
    """Decorate a kernel inlined into other kernels. A call from Python is interpreted, however large.

    It has no wrapper for Python callers, which would take a sixth of the compile time.
    """
    return kernel(forceinline=True, no_cpython_wrapper=True)(function)


def pasted(function: Function) -> Function:
    """Like :func:`inlined`, for a kernel with one caller or a small one: it is compiled as a part of its callers only.

    That takes less time where arguments are many, such as the arrays of a tuple; but a test whether an argument is None
    removes no code.
    """
    return kernel(inline="always", no_cpython_wrapper=True)(function)


# ---------------------------------------------------------------------------------------------------------------------
# When to compile


_thread = threading.local()


@contextmanager
def compile_at_once_in_thread() -> Iterator[None]:
    """Compile kernels at their first call within this context, in this thread only: others may still interpret."""
    before, _thread.compiles_at_once = getattr(_thread, "compiles_at_once", False), True
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


def is_compiling() -> bool:
    """Return whether a thread compiles a kernel now, for which others have to wait."""
    return bool(_under_way)


class Kernel:
    """The placeholder of a kernel, which interprets calls, or compiles the kernel and is replaced by its dispatcher."""

    def __init__(self, function: Callable[..., Any], interpreted: Interpretable, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        add_source(function)
        self.py_func = cast(types.FunctionType, function)
        self.interpreted = interpreted if CAN_INTERPRET else False
        self.targetoptions = options
        self.has_wrapper = "no_cpython_wrapper" not in options
        """whether Python can call the machine code; if not, only kernels do"""
        self._package = function.__module__.partition(".")[0]
        self._dispatcher: Any = None
        self._is_replaced = False
        self._interpreted_s = 0.0

    def __call__(self, *args: Any) -> Any:
        """Run the kernel."""
        if self._is_replaced or not self._pays_to_interpret(args):
            return self.compiled(args)(*args)
        start = time.thread_time()
        try:
            return interpret(self.py_func, args)
        finally:
            self._interpreted_s += time.thread_time() - start

    def _pays_to_interpret(self, args: tuple[Any, ...]) -> bool:
        if not self.interpreted or not self.has_wrapper:
            return bool(self.interpreted)
        if getattr(_thread, "compiles_at_once", False) or os.environ.get(INTERPRET, "1") == "0":
            return False
        return self._interpreted_s < self._budget_s and is_small(self.interpreted, args)

    @functools.cached_property
    def _budget_s(self) -> float:
        return INTERPRETED_SHARE * self.estimate_compile_s()

    def estimate_compile_s(self) -> float:
        """Return the estimated seconds to compile this kernel and its callees, except what is compiled or cached."""
        kernels: set[Kernel] = set()
        waiting: list[Any] = [self]
        while waiting:
            kernel = waiting.pop()
            if isinstance(kernel, Kernel) and kernel not in kernels and not kernel._is_ready():
                kernels.add(kernel)
                waiting += [kernel.py_func.__globals__.get(name) for name in kernel.py_func.__code__.co_names]
        return sum(COMPILE_S + COMPILE_S_PER_BYTE * len(kernel.py_func.__code__.co_code) for kernel in kernels)

    def _is_ready(self) -> bool:
        source = Path(self.py_func.__code__.co_filename)
        name = source.parent.name, f"{source.stem}.{self.py_func.__qualname__}"
        return bool(self._dispatcher and self._dispatcher.overloads) or name in _cached_names(self._package)

    @property
    def _numba_type_(self) -> Any:
        """The type of this object as a global of another kernel."""
        return self.dispatcher._numba_type_

    @property
    def dispatcher(self) -> Any:
        """The function of numba, which compiles itself for the arguments of calls."""
        with _lock:
            if self._dispatcher is None:
                self._dispatcher = _dispatcher(self.py_func, self.targetoptions, _folder(self._package))
            return self._dispatcher

    def compiled(self, args: tuple[Any, ...]) -> Callable[..., Any]:
        """Return a function with machine code for arguments of these types."""
        if self._is_replaced or not self.has_wrapper:
            return cast(Callable[..., Any], self._dispatcher if self._is_replaced else self.py_func)
        import numba

        signature = tuple(map(numba.typeof, args))
        with _compiling(self):
            try:
                self.dispatcher.compile(signature)
            except _CACHE_ERRORS as problem:
                _give_up_cache(None if isinstance(problem, OSError) else _folder(self._package))
                self.dispatcher.compile(signature)
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in (*PACKAGES, self._package):
                for key, value in list(vars(module).items()):
                    if value is self:
                        setattr(module, key, self.dispatcher)
        self._is_replaced = True
        return cast(Callable[..., Any], self.dispatcher)


_under_way: list[Kernel] = []
"""the kernels that threads compile now"""
_lock = threading.RLock()


class _Compilation:
    """What this process has compiled, and with which dispatchers."""

    expected_s = 0.0
    dispatchers: list[Any] = []  # noqa: RUF012  # shared on purpose
    caches = True


def _dispatcher(function: Callable[..., Any], options: dict[str, Any], folder: Path | None) -> Any:
    """Return numba's dispatcher for a kernel, which caches machine code in a folder, if given."""
    numba: Any = importlib.import_module("numba")
    options = {"error_model": "numpy", "no_cfunc_wrapper": True, "cache": folder is not None} | options
    with _lock:
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
        try:
            made = numba.njit(**options)(function)
        finally:
            numba.config.CACHE_DIR = before
        _Compilation.dispatchers.append(made)
    return made


@contextmanager
def _compiling(kernel: Kernel) -> Iterator[None]:
    """Log one notice per process tree, and compile a kernel without collecting garbage.

    LLVM calls numba's Python code from C, where an interrupt is printed and dropped, and numba then lacks the code that
    it was about to note. Such an interrupt is raised at the end, in place of what follows from it.
    """
    _Compilation.expected_s += kernel.estimate_compile_s()
    if _Compilation.expected_s > NOTICE_S and os.environ.get(NOTICE, "1") != "0":
        os.environ[NOTICE] = "0"
        folder = kernel_folder()
        kept = f"once: machine code is cached in {folder}" if folder else "in every process: no folder is writable"
        _log.warning("compiling for this processor, %s", kept)
    interrupts: list[object] = []
    hook, in_main = sys.unraisablehook, threading.current_thread() is threading.main_thread()

    def note(dropped: sys.UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            interrupts.append(dropped)
        else:
            hook(dropped)

    _under_way.append(kernel)
    if in_main:
        sys.unraisablehook = note
    try:
        with pause_garbage_collection():
            yield
    finally:
        _under_way.remove(kernel)
        if in_main:
            sys.unraisablehook = hook
        if interrupts:
            raise KeyboardInterrupt from None


# ---------------------------------------------------------------------------------------------------------------------
# The cache


@functools.cache
def kernel_folder() -> Path | None:
    """Return the cache folder for machine code: the first writable one, None if there is none.

    In order: ``NUMBA_CACHE_DIR``, if set; in a checkout ``.cache/numba``; the user's cache folder.
    """
    named = os.environ.get("NUMBA_CACHE_DIR")
    checkout = [ROOT / ".cache" / "numba"] if (ROOT / "setup.cfg").is_file() else []
    for folder in [Path(named)] if named else [*checkout, platformdirs.user_cache_path("ttt_envs") / "numba"]:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    return None


@functools.cache
def _folder(name: str) -> Path | None:
    """Return the folder of the machine code of a package, for the present sources of ours; None for no cache."""
    root = kernel_folder()
    packages = PACKAGES[: PACKAGES.index(name) + 1] if name in PACKAGES else PACKAGES
    digest = hashlib.sha256(__version__.encode())
    for package in packages:
        for source in sorted((ROOT / package).rglob("*.py")):
            if source.stat().st_mtime > _start:
                return None  # it has perhaps been edited since it was imported
            digest.update(source.read_bytes())
    if root is None or not _Compilation.caches:
        return None
    folder = root / f"{packages[-1]}-{digest.hexdigest()[:16]}"
    with suppress(OSError):
        if not folder.is_dir():
            folder.mkdir(exist_ok=True)
            older = sorted(root.glob(f"{packages[-1]}-*"), key=lambda path: path.stat().st_mtime)
            for path in older[:-MAX_FOLDERS]:
                shutil.rmtree(path, ignore_errors=True)
        os.utime(folder)
    return folder


@functools.cache
def _cached_names(package: str) -> frozenset[tuple[str, str]]:
    """Return the folders and names of the functions for which numba has stored machine code."""
    folder = _folder(package)
    files = [] if folder is None else folder.glob("*/*.nbi")
    return frozenset((file.parent.name.rpartition("_")[0], file.name.rpartition("-")[0]) for file in files)


def _give_up_cache(damaged: Path | None) -> None:
    """Go on without the cache in this process, after a damaged file or with a full disk; delete a damaged folder."""
    _Compilation.caches = False
    _folder.cache_clear()
    for dispatcher in _Compilation.dispatchers:
        dispatcher._cache.disable()
    if damaged is not None:
        shutil.rmtree(damaged, ignore_errors=True)
