"""Imports of TensorFlow and torch without their log output, and in an order in which both work in one process."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def silence_native_output() -> Iterator[None]:
    """Discard output to the standard error inside the context.

    TensorFlow's native libraries report missing GPUs there, which neither Python nor any setting can suppress.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # for later output
    stderr_copy = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr_copy, 2)
        os.close(stderr_copy)


def avoid_triton_crash() -> None:
    """Make TensorFlow and torch safe in one process; call it before importing either.

    torch's packages for Linux bring triton, which torch imports when it makes the first optimizer. TensorFlow and
    triton each contain LLVM. A process that loads triton after TensorFlow ends by a segmentation fault (TensorFlow
    2.21, triton 3.7); the other order works. So triton is imported here. If TensorFlow is loaded already, triton is
    instead marked as not installed: torch needs it only to compile code for GPUs.
    """
    if "triton" in sys.modules or importlib.util.find_spec("tensorflow") is None:
        return
    if "tensorflow" in sys.modules:
        sys.modules["triton"] = None  # type: ignore[assignment]  # an import of it raises ImportError
    else:
        with suppress(ImportError):  # torch's CPU builds have no triton, and nothing crashes
            importlib.import_module("triton")
