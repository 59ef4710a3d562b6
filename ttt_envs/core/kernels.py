"""Kernels as numba dispatchers: interpreted until compiling pays, and cached on disk by a fingerprint of dependencies.

Imported at the first call of any kernel, because numba takes a quarter of a second to import.

*Two tiers.* The source of a kernel is plain Python and gives bit-identical results when interpreted. Compiling a kernel
takes 0.1 to 7 seconds; many callers, such as a first game, need only a few calls on small arrays, which take
milliseconds. So calls on small arrays are interpreted until they have taken half of the estimated compile time; then
the kernel is compiled. Long workloads thus take at most half a compile time more than with immediate compilation (plus
the length of one call), and short ones compile nothing. numba calls a compiled kernel directly, without extra cost.

*The cache.* Machine code is stored per kernel and is valid as long as the fingerprint: a hash of the kernel's bytecode,
of the constants it reads and, recursively, of the kernels it calls. An edit recompiles only the changed kernels and
their callers.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import logging
import os
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, cast

import numba
import numpy as np
from numba.core import config as numba_config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, NullCache
from numba.core.compiler import Compiler, Flags
from numba.core.compiler_machinery import PassManager
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes

from ttt_envs.core.interpreter import CAN_INTERPRET, interpret, is_small
from ttt_envs.core.jit_settings import NOTICE, Interpretable, kernel_folder, may_interpret
from ttt_envs.core.package_conflicts import PACKAGES

INTERPRETED_SHARE = 0.5
"""Share of the estimated compile time that calls of a kernel may spend in the interpreter before it is compiled."""
COMPILE_S, COMPILE_S_PER_BYTE = 0.1, 0.0006
"""Estimated compile time in seconds: for each kernel, and for each byte of its bytecode (AMD EPYC, family 25)."""
NOTICE_S = 1.0
"""Estimated compile time of a process, in seconds, above which a notice is logged."""
MAX_AGE_S = 60 * 86400
"""Age in seconds after which unused machine code is deleted."""

_log = logging.getLogger("ttt_envs")
_DAMAGED = (OSError, EOFError, UnpicklingError, ValueError, TypeError, LookupError, AttributeError, ImportError)


class _Flags(Flags):
    """numba's flags with the same equality, cheaper.

    numba compares flags at every lookup of a function's implementation, several thousand times for each kernel, and
    reads all of them one by one for it, which took a twentieth of the compile time.
    """

    def __hash__(self) -> int:
        return _HASH_OF_FLAGS

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Flags):
            return NotImplemented
        return self._values == other._values or _DEFAULTS | self._values == _DEFAULTS | other._values


_HASH_OF_FLAGS = hash(Flags())
_DEFAULTS = Flags().values()


class _Compiler(Compiler):
    """numba's compiler with :class:`_Flags`, without the passes that kernels do not need."""

    def __init__(
        self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any, flags: Flags, locals: Any
    ) -> None:
        super().__init__(typingctx, targetctx, library, args, return_type, _Flags(flags), locals)

    def define_pipelines(self) -> list[PassManager]:
        """Return numba's passes except those for closures, comprehensions and expressions of whole arrays."""
        pipelines: list[PassManager] = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [one for one in pipeline.passes if one[0] not in (InlineClosureLikes, NopythonRewrites)]
            pipeline.finalize()
        return pipelines


class Kernel(CPUDispatcher):
    """A compiled function of this package.

    numba calls a matching overload from C; ``_compile_for_args`` runs only if there is none. It may return any
    callable, which numba then calls in place of machine code.
    """

    interpretable: Interpretable = False
    """Whether calls on small arrays may be interpreted; or a function that bounds the elementary steps of a call."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cache: NullCache | KernelCache
        self._budget_s: float | None = None  # None: not computed yet
        self._interpreted_s = 0.0

    def _compile_for_args(self, *args: Any, **kwargs: Any) -> Any:
        if not self.has_wrapper:
            return self._interpret if may_interpret() else self._callable
        if self.interpretable and not kwargs and not self.overloads and self._pays_to_interpret(args):
            return self._interpret
        compile_for_args: Callable[..., Any] = getattr(super(), "_compile_for_args")  # noqa: B009  # unknown to mypy
        return compile_for_args(*args, **kwargs)

    @property
    def has_wrapper(self) -> bool:
        """Whether Python can call the machine code; if not, only kernels do, and Python calls are interpreted."""
        return not self.targetoptions.get("no_cpython_wrapper")

    @functools.cached_property
    def _callable(self) -> Kernel:
        """The same kernel with a wrapper for Python callers."""
        options = {**self.targetoptions, "no_cpython_wrapper": False}
        return Kernel(self.py_func, targetoptions=options, pipeline_class=_Compiler)

    def add_overload(self, compiled: Any) -> None:
        """Store machine code; C may call it only if it has a wrapper."""
        if self.has_wrapper:
            super().add_overload(compiled)
        else:
            self.overloads[tuple(compiled.signature.args)] = compiled

    def compile(self, signature: Any) -> Any:
        """Return the machine code for a signature, from memory, from the cache, or compiled now."""
        self.open_cache()
        if not self.overloads and not self.is_cached():
            _compiling.expect(self)
        with _compiling:
            return super().compile(signature)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the function that numba calls from another kernel for arguments of these types.

        Inlined code is specialized for constants anyway, so it is compiled once for all values of a type.
        """
        if self.targetoptions.get("forceinline"):
            args = tuple(map(numba.types.unliteral, args))
        return super().get_call_template(args, kws)

    def open_cache(self) -> None:
        """Open the disk cache; deferred until the kernels called by this one are defined."""
        if isinstance(self._cache, NullCache) and (folder := kernel_folder()) is not None:
            self._cache = KernelCache(self.py_func, folder, self.fingerprint, "" if self.has_wrapper else "-inlined")

    def is_cached(self) -> bool:
        """Return whether the cache holds machine code of this kernel."""
        self.open_cache()
        return isinstance(self._cache, KernelCache) and self._cache.is_filled()

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of all dependencies of the machine code, except the versions of Python and numba and the processor."""
        self.__dict__["fingerprint"] = f"recursive call of {self.py_func.__qualname__}"  # read by a recursive call
        parts = [repr(sorted(self.targetoptions.items(), key=str)), *_describe_function(self.py_func)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def callees(self) -> Iterator[Kernel]:
        """Return the kernels that this one calls directly."""
        return (value for value in _globals_read(self.py_func).values() if isinstance(value, Kernel))

    def estimate_compile_s(self) -> float:
        """Return the estimated seconds to compile this kernel and its callees, except cached ones."""
        found: set[Kernel] = set()
        waiting = [self]
        while waiting:
            kernel = waiting.pop()
            if kernel not in found and not kernel.overloads and not kernel.is_cached():
                found.add(kernel)
                waiting += kernel.callees()
        return sum(COMPILE_S + COMPILE_S_PER_BYTE * len(kernel.py_func.__code__.co_code) for kernel in found)

    def _pays_to_interpret(self, args: tuple[Any, ...]) -> bool:
        if self._budget_s is None:
            self._budget_s = 0.0 if self.is_cached() else INTERPRETED_SHARE * self.estimate_compile_s()
        if self._interpreted_s >= self._budget_s or not may_interpret():
            return False
        return is_small(self.interpretable, args)

    def _interpret(self, *args: Any) -> Any:
        """Call the source as plain Python; results have the types that machine code returns."""
        start = time.perf_counter()
        try:
            return interpret(self.py_func, args)
        finally:
            self._interpreted_s += time.perf_counter() - start


# ---------------------------------------------------------------------------------------------------------------------
# The cache


def _globals_read(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the globals that a function reads, name -> value, sorted by name."""
    names: set[str] = set()
    codes = [function.__code__]
    for code in codes:
        names.update(code.co_names)
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return {name: function.__globals__[name] for name in sorted(names) if name in function.__globals__}


def _describe_function(function: Callable[..., Any]) -> Iterator[str]:
    """Return lines that change with the meaning of a function, but not with comments, line numbers or the docstring."""
    codes = [function.__code__]
    for code in codes:
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        constants = [
            constant
            for constant in code.co_consts
            if not isinstance(constant, types.CodeType)
            and not (isinstance(constant, str) and constant == function.__doc__)
        ]
        yield repr((code.co_name, code.co_varnames, code.co_names, code.co_freevars, constants, function.__defaults__))
        yield code.co_code.hex()
    for name, value in _globals_read(function).items():
        yield f"{name} = {_describe_value(value)}"
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield f"{name} = {_describe_value(cell.cell_contents)}"


def _describe_value(value: Any) -> str:
    """Return a text that changes with a value that a kernel reads.

    Raises:
        TypeError: the kind of value is not supported.
    """
    if isinstance(value, Kernel):
        return value.fingerprint
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_describe_value, value))})"
    if isinstance(value, (bool, int, float, str, bytes, type(None), np.generic)):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] not in PACKAGES:
        return f"module {value.__name__}"
    if callable(value):  # a function of numpy or math, or a class
        module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", repr(value))
        return f"{module}.{name} {getattr(value, '_fields', '')}"
    raise TypeError(f"a kernel reads {value!r:.100}: import its parts by name, or extend _describe_value to this type")


class _Files(CompileResultCacheImpl):
    """File names for the machine code of one kernel; replaces numba's search for a folder."""

    def __init__(self, function: Callable[..., Any], folder: Path, kind: str) -> None:
        self._locator, self._folder, self._lineno = self, folder, function.__code__.co_firstlineno
        self._py_file = function.__code__.co_filename
        version = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}-{numba.__version__}"
        self._filename_base = f"{function.__module__}.{function.__qualname__}{kind}-{version}"

    def ensure_cache_path(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)


class KernelCache(FunctionCache):
    """The machine code of one kernel in a folder, valid for one fingerprint.

    Damaged files are treated as absent, and a full or read-only disk as no cache.
    """

    def __init__(self, function: Callable[..., Any], folder: Path, fingerprint: str, kind: str) -> None:
        self._name, self._py_func = repr(function), function
        self._impl = _Files(function, folder, kind)
        self._cache_path = str(folder)
        self._cache_file = IndexDataCacheFile(self._cache_path, self._impl.filename_base, fingerprint)
        self.enable()

    def is_filled(self) -> bool:
        """Return whether there is machine code for this fingerprint."""
        try:
            return bool(self._cache_file._load_index())
        except _DAMAGED:
            return False

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return machine code for a signature, None if there is none."""
        try:
            return super().load_overload(signature, target_context)
        except _DAMAGED:
            with contextlib.suppress(OSError):
                self._cache_file.flush()  # otherwise a damaged index would keep new machine code from being stored
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Store machine code if possible."""
        try:
            super().save_overload(signature, compiled)
            _delete_unused(self._impl._folder)
        except _DAMAGED:
            return


@functools.cache
def _delete_unused(folder: Path) -> None:
    """Delete machine code neither written nor read for a long time, once per process."""
    oldest = time.time() - MAX_AGE_S
    for file in folder.glob("*.nb[ic]"):
        status = file.stat()
        if max(status.st_mtime, status.st_atime) < oldest:
            file.unlink(missing_ok=True)


# ---------------------------------------------------------------------------------------------------------------------
# Compiling


class _Compiling:
    """Context of compilations: logs one notice per process tree and pauses garbage collection.

    A compilation creates millions of objects, hardly any of which become garbage before it ends; collection would take
    a tenth of the time.

    LLVM calls numba's Python code from C, where an interrupt is printed and dropped, and numba then lacks the code that
    it was about to note. Such an interrupt is raised at the end, in place of what follows from it.
    """

    def __init__(self) -> None:
        self._depth = 0  # kernels being compiled, in all threads; the estimate of a kernel includes its callees
        self._lock = threading.Lock()
        self._collects_garbage = False
        self._expected_s = 0.0
        self._ends: float | None = None
        self._main_depth = 0  # kernels being compiled in the main thread, which alone is interrupted
        self._dropped_interrupt = False
        self._unraisablehook = sys.unraisablehook

    def expect(self, kernel: Kernel) -> None:
        """Add the compile time of a kernel to the estimate, and log the notice if it becomes long."""
        if self._depth:
            return
        seconds = kernel.estimate_compile_s()
        self._expected_s += seconds
        self._ends = time.monotonic() + seconds
        if self._expected_s > NOTICE_S and os.environ.get(NOTICE, "1") != "0":
            os.environ[NOTICE] = "0"
            folder = kernel_folder()
            kept = f"once: machine code is cached in {folder}" if folder else "in every process: no folder is writable"
            _log.warning("compiling for this processor, %s", kept)

    def remaining_s(self) -> float | None:
        """Return the estimated seconds until the present compilation ends, at least 1; None if nothing compiles."""
        ends = self._ends
        return None if ends is None or not self._depth else max(1.0, ends - time.monotonic())

    def __enter__(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._collects_garbage = gc.isenabled()
                gc.disable()
            self._depth += 1
        if threading.current_thread() is threading.main_thread():
            if self._main_depth == 0:
                self._unraisablehook, sys.unraisablehook = sys.unraisablehook, self._note_dropped
            self._main_depth += 1

    def _note_dropped(self, dropped: sys.UnraisableHookArgs) -> None:
        """Note an interrupt that has been dropped, and print other exceptions as before."""
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            self._dropped_interrupt = True
        else:
            self._unraisablehook(dropped)

    def __exit__(self, *problem: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._ends = None
                if self._collects_garbage:
                    gc.enable()
        if threading.current_thread() is threading.main_thread():
            self._main_depth -= 1
            if self._main_depth == 0:
                sys.unraisablehook = self._unraisablehook
            if self._dropped_interrupt:
                self._dropped_interrupt = False
                raise KeyboardInterrupt from None


_compiling = _Compiling()
remaining_compile_s = _compiling.remaining_s


def make_kernel(
    function: Callable[..., Any], interpretable: Interpretable, options: dict[str, Any]
) -> Callable[..., Any]:
    """Return a kernel for a function, or the function itself if numba is switched off."""
    if getattr(numba_config, "DISABLE_JIT", 0):
        return function
    target: dict[str, Any] = {"nopython": True, "boundscheck": None, "error_model": "numpy", "no_cfunc_wrapper": True}
    target |= {"_nrt": False} | options
    kernel = Kernel(function, targetoptions=target, pipeline_class=_Compiler)
    kernel.interpretable = interpretable if CAN_INTERPRET else False
    return cast(Callable[..., Any], kernel)
