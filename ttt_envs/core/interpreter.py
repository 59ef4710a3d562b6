"""Kernels as plain Python, which needs no numba: their sources, with calls to the sources of other kernels."""

from __future__ import annotations

import sys
import threading
import types
from typing import Any

import numpy as np

MAX_INTERPRETED_ELEMENTS = 1 << 18
"""Maximum number of array elements, over all arguments, of a call that is interpreted."""
CAN_INTERPRET = np.lib.NumpyVersion(np.__version__) >= "2.0.0"
"""Whether results equal those of machine code; before numpy 2, types of Python and numpy numbers combine otherwise."""

_functions: dict[types.FunctionType, types.FunctionType] = {}  # source -> its interpreted function
_namespaces: dict[str, dict[str, Any]] = {}
_lock = threading.RLock()


def count_elements(args: tuple[Any, ...]) -> int:
    """Count the elements of all arrays among the arguments, including arrays in tuples."""
    return sum(
        arg.size if isinstance(arg, np.ndarray) else count_elements(arg) if isinstance(arg, tuple) else 0
        for arg in args
    )


def interpret(source: types.FunctionType, args: tuple[Any, ...]) -> Any:
    """Call the source of a kernel as plain Python; results have the types that machine code returns."""
    with np.errstate(all="ignore"):  # kernels compute modulo 2**64 and divide by 0 on purpose
        return _to_python(_interpreted(source)(*args))


def _to_python(result: Any) -> Any:
    """Convert numpy scalars to Python scalars, as numba does with return values."""
    if isinstance(result, np.generic):
        return result.item()
    return tuple(map(_to_python, result)) if type(result) is tuple else result


def _interpreted(source: types.FunctionType) -> types.FunctionType:
    """Return the source of a kernel as a Python function whose globals have the sources of kernels in their place.

    Machine code must not be mixed in, because it returns unsigned 64-bit integers as ``int``.
    """
    with _lock:  # no thread gets a namespace that is not filled yet
        if source not in _functions:
            namespace = _namespaces.setdefault(source.__module__, {})
            code, name = source.__code__, source.__name__
            # stored before the namespace is filled: calls may be cyclic
            _functions[source] = types.FunctionType(code, namespace, name, source.__defaults__, source.__closure__)
            if not namespace:
                namespace.update(vars(sys.modules[source.__module__]))
                for name, value in list(namespace.items()):
                    if hasattr(value, "targetoptions"):  # a kernel, compiled or not
                        namespace[name] = _interpreted(value.py_func)
        return _functions[source]
