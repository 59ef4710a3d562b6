"""Imports of TensorFlow and torch in an order in which both work in one process, with few lines of log."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from contextlib import suppress


def avoid_triton_crash() -> None:
    """Make TensorFlow and torch safe in one process; call it before importing either. TensorFlow logs errors only.

    torch's packages for Linux bring triton, which torch imports when it makes the first optimizer. TensorFlow and
    triton each contain LLVM. A process that loads triton after TensorFlow ends by a segmentation fault (TensorFlow
    2.21, triton 3.7); the other order works. So triton is imported here. If TensorFlow is loaded already, triton is
    instead marked as not installed: torch needs it only to compile code for GPUs.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if "triton" in sys.modules or importlib.util.find_spec("tensorflow") is None:
        return
    if "tensorflow" in sys.modules:
        sys.modules["triton"] = None  # type: ignore[assignment]  # an import of it raises ImportError
    else:
        with suppress(ImportError):  # torch's CPU builds have no triton, and nothing crashes
            importlib.import_module("triton")
