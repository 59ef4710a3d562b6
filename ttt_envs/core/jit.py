"""Decorators for numba kernels, the types that kernels share, and the cache of machine code.

The source of a kernel is plain Python and gives bit-identical results when interpreted. Compiling a
kernel takes 0.1 to 7 seconds; many callers, such as a first game, need only a few calls on small
arrays, which take milliseconds. So calls on small arrays are interpreted until they have taken 0.1
seconds, or 0.3 before the first compilation, which imports numba; then the kernel is compiled.
Short workloads, such as the exploitability of a policy on 3 x 3, thus compile nothing. A compiled
kernel replaces its placeholder in all modules, so that Python calls numba directly.
``NUMBA_DISABLE_JIT=1`` runs the same source as plain Python.

Machine code is cached in a folder named by a hash of the sources of the kernel's package and of
those that it imports, because numba's cache does not see edits of callees in other files: an edit
compiles all kernels of these packages.
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
import threading
import time
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, TypeVar, cast, overload

import numpy as np
import platformdirs
from numpy.typing import NDArray

from ttt_envs.core.packages import PACKAGES, ROOT, environment_variables
from ttt_envs.version import __version__

Int8Array = NDArray[np.int8]
BoolArray = NDArray[np.bool_]
UInt8Array = NDArray[np.uint8]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
UInt64Array = NDArray[np.uint64]
Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])

INTERPRET = "TTT_ENVS_INTERPRET"
"""Environment variable: 0 compiles every kernel at its first call, however small."""
NOTICE = "TTT_ENVS_COMPILE_NOTICE"
"""Environment variable: 0 disables the compile notice."""
MAX_INTERPRETED_ELEMENTS = 1 << 18
"""Maximum number of array elements, over all arguments, of a call that is interpreted."""
MAX_INTERPRETED_S = 0.1
"""CPU seconds that calls of a kernel may spend in the interpreter before it is compiled."""
MAX_INTERPRETED_S_WITHOUT_NUMBA = 0.3
"""the same while numba is not imported: its import and the first compilation take half a second
more
"""
CAN_INTERPRET = np.lib.NumpyVersion(np.__version__) >= "2.0.0"
"""Whether results equal those of machine code; before numpy 2, types of Python and numpy numbers
combine otherwise.
"""
MAX_FOLDERS = 4
"""Maximum number of folders of machine code of a package, each for one state of the sources."""

_log = logging.getLogger("ttt_envs")
_start = time.time()

int64 = cast(Callable[[float | np.uint64], int], np.int64)
"""in kernels: converts to int64, so that callees are compiled for one integer type only"""
int8 = cast(Callable[[float | np.uint64], int], np.int8)
"""in kernels: converts to int8, the type of cells"""


# --------------------------------------------------------------------------------------------------
# Decorators


@overload
def kernel(function: Function) -> Function: ...
@overload
def kernel(
    *, interpreted: bool = True, allocates: bool = False, **options: object
) -> Callable[[Function], Function]: ...
def kernel(
    function: Any = None, *, interpreted: bool = True, allocates: bool = False, **options: object
) -> Any:
    """Decorate a kernel for Python callers.

    Args:
        function: the source.
        interpreted: whether the size of the arrays bounds the time of a call, so that calls on
            small arrays may be interpreted.
        allocates: whether the kernel makes arrays. The others are compiled without numba's
            reference counting: it counts at every call, even an inlined one, and for every array
            taken from a tuple, which takes longer than a function of a few nanoseconds, in
            execution and compilation.
        options: of ``numba.njit``, such as ``nogil=True``, which takes some 50 ns per call.
    """
    if function is None:
        return functools.partial(kernel, interpreted=interpreted, allocates=allocates, **options)
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return function
    options |= {"error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": allocates}
    return Kernel(function, interpreted, options)


def inlined(function: Function) -> Function:
    """Decorate a kernel inlined into other kernels. A call from Python is interpreted, however
    large.

    It has no wrapper for Python callers, which would take a sixth of the compile time, and is
    compiled to machine code as a part of its callers only.
    """
    return kernel(forceinline=True, no_cpython_wrapper=True)(function)


def pasted(function: Function) -> Function:
    """Like :func:`inlined`, for a kernel with one caller or a small one: it is compiled as a part
    of its callers only.

    That takes less time where arguments are many, such as the arrays of a tuple; but a test whether
    an argument is None removes no code.
    """
    return kernel(inline="always", no_cpython_wrapper=True)(function)


# --------------------------------------------------------------------------------------------------
# When to compile


def compile_at_once() -> AbstractContextManager[None]:
    """Compile kernels at their first call within this context, in this process and in child
    processes.

    For workloads long enough to repay compilation, and for measurements.
    """
    return environment_variables({INTERPRET: "0"})


class Kernel:
    """The placeholder of a kernel, which interprets calls, or compiles the kernel and is replaced
    by its dispatcher.
    """

    def __init__(
        self, function: types.FunctionType, interpreted: bool, options: dict[str, object]
    ) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.interpreted = interpreted and CAN_INTERPRET
        self.targetoptions = options
        self.has_wrapper = "no_cpython_wrapper" not in options
        """whether Python can call the machine code; if not, only kernels do"""
        self._package = function.__module__.partition(".")[0]
        self._dispatcher: Any = None
        self._is_replaced = False
        self._interpreted_s = 0.0

    def __call__(self, *args: object) -> Any:
        """Run the kernel."""
        if self._is_replaced:  # the caller has kept this object
            return self._dispatcher(*args)
        if self.has_wrapper and not self._pays_to_interpret(args):
            return self._compile(args)(*args)
        start = time.thread_time()
        try:
            return interpret(self.py_func, args)
        finally:
            self._interpreted_s += time.thread_time() - start

    def _pays_to_interpret(self, args: tuple[object, ...]) -> bool:
        if not self.interpreted or self._is_cached or os.environ.get(INTERPRET, "1") == "0":
            return False
        max_s = MAX_INTERPRETED_S if "numba" in sys.modules else MAX_INTERPRETED_S_WITHOUT_NUMBA
        return self._interpreted_s < max_s and count_elements(args) <= MAX_INTERPRETED_ELEMENTS

    @functools.cached_property
    def _is_cached(self) -> bool:
        """Whether there is machine code of this kernel in the cache."""
        source = Path(self.py_func.__code__.co_filename)
        folder = package_folder(self._package)
        files = f"{source.parent.name}_*/{source.stem}.{self.py_func.__qualname__}-*.nbi"
        return folder is not None and any(folder.glob(files))

    @property
    def _numba_type_(self) -> Any:
        """The type of this object as a global of another kernel."""
        return self.dispatcher._numba_type_

    @property
    def dispatcher(self) -> Any:
        """The function of numba, which compiles itself for the arguments of calls, and caches
        machine code.
        """
        numba: Any = importlib.import_module("numba")
        with _lock:
            if self._dispatcher is None:
                options = self.targetoptions
                folder = package_folder(self._package)
                if not self.has_wrapper:
                    options = {**options, "pipeline_class": _part_compiler()}
                    folder = None
                users_folder = numba.config.CACHE_DIR
                numba.config.CACHE_DIR = str(folder or "")
                try:
                    self._dispatcher = numba.njit(cache=folder is not None, **options)(self.py_func)
                finally:
                    numba.config.CACHE_DIR = users_folder
                if "forceinline" in self.targetoptions:
                    self._dispatcher.get_call_template = self._call_template
                _dispatchers.append(self._dispatcher)
            return self._dispatcher

    def _call_template(self, args: tuple[object, ...], keywords: dict[str, object]) -> Any:
        """Return what numba calls in another kernel: code is compiled once for all constants, and
        inlined for each.
        """
        types_without_values = tuple(map(importlib.import_module("numba").types.unliteral, args))
        return type(self._dispatcher).get_call_template(
            self._dispatcher, types_without_values, keywords
        )

    def _compile(self, args: tuple[object, ...]) -> Callable[..., object]:
        """Return the dispatcher with machine code for arguments of these types, after it has
        replaced this object.

        A thread compiles, because no handler of signals runs there: LLVM calls numba's Python code
        from C, where an interrupt is printed and dropped, and numba then lacks the code that it was
        about to note.
        """
        import numba

        if not self._is_cached and os.environ.get(NOTICE, "1") != "0":
            os.environ[NOTICE] = "0"  # child processes say nothing
            remedy = "set NUMBA_CACHE_DIR to another"
            if is_edited(package_sources(self._package)):
                remedy = "a source file is newer than this process, so start it again"
            place = kernel_folder() if package_folder(self._package) else f"no folder: {remedy}"
            _log.warning("compiling for this processor; machine code is cached in %s", place)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(self.compile_for, tuple(map(numba.typeof, args))).result()
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in (*PACKAGES, self._package):
                for key, value in list(vars(module).items()):
                    if value is self:
                        setattr(module, key, self.dispatcher)
        self._is_replaced = True
        return cast(Callable[..., object], self.dispatcher)

    def compile_for(self, signature: tuple[object, ...]) -> None:
        """Compile the kernel for arguments of these types of numba."""
        is_collecting = gc.isenabled()
        gc.disable()  # compiling makes millions of objects, and little garbage
        try:
            self.dispatcher.compile(signature)
        except (
            EOFError,
            UnpicklingError,
        ):  # a crash has cut off a file: numba would raise in every process
            for folder in filter(None, map(package_folder, {*PACKAGES, self._package})):
                shutil.rmtree(folder, ignore_errors=True)
            self.dispatcher.compile(signature)
        except OSError:  # such as a full disk: go on without the cache
            for dispatcher in _dispatchers:
                dispatcher._cache.disable()
            self.dispatcher.compile(signature)
        finally:
            if is_collecting:
                gc.enable()


@functools.cache
def _part_compiler() -> Any:
    """Return numba's compiler without machine code, which of inlined kernels nobody calls."""
    libraries: Any = importlib.import_module("numba.core.codegen")
    compiler: Any = importlib.import_module("numba.core.compiler")

    class Part(libraries.JITCodeLibrary):  # type: ignore[misc]  # numba has no types
        """Optimised code for callers."""

        codegen = types.SimpleNamespace(set_env=lambda *_: None)
        """for Python objects, which kernels do not use"""

        def _finalize_final_module(self) -> None:
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            """Return no address."""
            return 0

    def begin(typing: Any, target: Any, _: None, *settings: object) -> Any:
        part: Any = Part
        return compiler.Compiler(typing, target, part(target.codegen(), "inlined"), *settings)

    return begin


_dispatchers: list[Any] = []
_lock = threading.RLock()


# --------------------------------------------------------------------------------------------------
# Kernels as plain Python: their sources, with calls to the sources of other kernels

_functions: dict[types.FunctionType, types.FunctionType] = {}  # source -> its interpreted function
_namespaces: dict[str, dict[str, Any]] = {}


def count_elements(args: tuple[object, ...]) -> int:
    """Count the elements of all arrays among the arguments, including arrays in tuples."""
    return sum(
        count_elements(arg) if isinstance(arg, tuple) else getattr(arg, "size", 0) for arg in args
    )


def interpret(source: types.FunctionType, args: tuple[object, ...]) -> Any:
    """Call the source of a kernel as plain Python; results have the types that machine code
    returns.
    """
    with np.errstate(all="ignore"):  # kernels compute modulo 2**64 and divide by 0 on purpose
        return _to_python(_interpreted(source)(*args))


def _to_python(result: object) -> object:
    """Convert numpy scalars to Python scalars, as numba does with return values."""
    if isinstance(result, np.generic):
        return result.item()
    return tuple(map(_to_python, result)) if type(result) is tuple else result


def _interpreted(source: types.FunctionType) -> types.FunctionType:
    """Return the source of a kernel as a Python function whose globals have the sources of kernels
    in their place.

    Machine code must not be mixed in, because it returns unsigned 64-bit integers as ``int``.
    """
    with _lock:  # no thread gets a namespace that is not filled yet
        if source not in _functions:
            namespace = _namespaces.setdefault(source.__module__, {})
            # stored before the namespace is filled: calls may be cyclic
            _functions[source] = types.FunctionType(
                source.__code__,
                namespace,
                source.__name__,
                source.__defaults__,
                source.__closure__,
            )
            if not namespace:
                namespace.update(vars(sys.modules[source.__module__]))
                for name, value in list(namespace.items()):
                    if hasattr(value, "targetoptions"):  # a kernel, compiled or not
                        namespace[name] = _interpreted(value.py_func)
        return _functions[source]


# --------------------------------------------------------------------------------------------------
# The cache


def kernel_folder() -> Path:
    """Return the cache folder for machine code.

    It is ``NUMBA_CACHE_DIR``, if set; in a checkout ``.cache/numba``; else in the user's cache
    folder.
    """
    root = (
        ROOT / ".cache"
        if (ROOT / "setup.cfg").is_file()
        else platformdirs.user_cache_path("ttt_envs")
    )
    return Path(os.environ.get("NUMBA_CACHE_DIR") or root / "numba")


def package_sources(package: str) -> list[Path]:
    """Return the sources that the kernels of a package depend on: its own, and those of the
    packages below it.
    """
    packages = PACKAGES[: PACKAGES.index(package) + 1] if package in PACKAGES else PACKAGES
    return [source for name in packages for source in sorted((ROOT / name).rglob("*.py"))]


def is_edited(sources: list[Path]) -> bool:
    """Return whether a source is newer than this process: perhaps it has been edited since it was
    imported.
    """
    return any(source.stat().st_mtime > _start for source in sources)


@functools.cache
def package_folder(package: str) -> Path | None:
    """Return the folder of the machine code of a package, for the present sources of ours; None for
    no cache.
    """
    sources = package_sources(package)
    name = package if package in PACKAGES else PACKAGES[-1]
    if is_edited(sources):
        return None
    digest = hashlib.sha256(
        b"".join([__version__.encode(), *(source.read_bytes() for source in sources)])
    )
    folder = kernel_folder() / f"{name}-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        folders = sorted(folder.parent.glob(f"{name}-*"), key=lambda path: path.stat().st_mtime)
        for path in folders[:-MAX_FOLDERS]:
            shutil.rmtree(path, ignore_errors=True)
    except OSError:  # not writable
        return None
    return folder
