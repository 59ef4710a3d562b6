"""Kernels as plain Python, which needs no numba: their sources, with calls to the sources of other kernels."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np

Interpretable = bool | Callable[..., int]
"""see :func:`ttt_envs.core.jit.kernel`"""

MAX_INTERPRETED_ELEMENTS = 1 << 18
"""Maximum number of array elements, over all arguments, of a call that is interpreted."""
MAX_INTERPRETED_STEPS = 1 << 16
"""Maximum number of elementary steps of an interpreted call, such as cell reads, for kernels that bound them."""
CAN_INTERPRET = np.lib.NumpyVersion(np.__version__) >= "2.0.0"
"""Whether results equal those of machine code; before numpy 2, types of Python and numpy numbers combine otherwise."""

_sources: set[types.FunctionType] = set()
_functions: dict[types.FunctionType, types.FunctionType] = {}  # source -> its interpreted function
_namespaces: dict[str, dict[str, Any]] = {}
_lock = threading.RLock()


def add_source(function: Callable[..., Any]) -> None:
    """Declare the source of a kernel, before other sources call the kernel, an object with ``__wrapped__``."""
    assert isinstance(function, types.FunctionType)
    _sources.add(function)


def is_small(interpretable: Interpretable, args: tuple[Any, ...]) -> bool:
    """Return whether a call is short enough for the interpreter; ``interpretable`` is ``interpreted`` of ``kernel``."""
    steps = interpretable(*args) if callable(interpretable) else 0
    return count_elements(args) <= MAX_INTERPRETED_ELEMENTS and steps <= MAX_INTERPRETED_STEPS


def count_elements(args: tuple[Any, ...]) -> int:
    """Count the elements of all arrays among the arguments, including arrays in tuples."""
    return sum(
        arg.size if isinstance(arg, np.ndarray) else count_elements(arg) if isinstance(arg, tuple) else 0
        for arg in args
    )


def interpret(source: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call the source of a kernel as plain Python; results have the types that machine code returns."""
    assert isinstance(source, types.FunctionType)
    with np.errstate(all="ignore"):  # kernels compute modulo 2**64 and divide by 0 on purpose
        return _to_python(_interpreted(source)(*args))


def _to_python(result: Any) -> Any:
    """Convert numpy scalars to Python scalars, as numba does with return values."""
    if isinstance(result, np.generic):
        return result.item()
    return tuple(map(_to_python, result)) if type(result) is tuple else result


def _interpreted(source: types.FunctionType) -> types.FunctionType:
    """Return the source of a kernel as a Python function that calls the sources of other kernels.

    Machine code must not be mixed in, because it returns unsigned 64-bit integers as ``int``.
    """
    with _lock:  # no thread gets a namespace that is not filled yet
        return _functions.get(source) or _make_function(source)


def _make_function(source: types.FunctionType) -> types.FunctionType:
    namespace = _interpreted_globals(source.__module__)
    made = types.FunctionType(source.__code__, namespace, source.__name__, source.__defaults__, source.__closure__)
    return _functions.setdefault(source, made)


def _interpreted_globals(module: str) -> dict[str, Any]:
    """Return the globals of a module, with kernels replaced by their sources."""
    if module not in _namespaces:
        found = _namespaces[module] = dict(vars(sys.modules[module]))  # stored before it is filled: imports are cyclic
        for name, value in list(found.items()):
            source = getattr(value, "__wrapped__", None)
            if isinstance(source, types.FunctionType) and source in _sources:
                found[name] = _functions.get(source) or _make_function(source)
    return _namespaces[module]
