"""Imports of TensorFlow and torch: without what they write, and in an order in which both work in one process."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def without_chatter() -> Iterator[None]:
    """What is written to the standard error inside is dropped, unless it ends in an exception.

    TensorFlow's libraries tell there of graphics cards that they did not find, past Python and any setting.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # for what comes later
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        except BaseException:
            said.seek(0)
            os.write(kept, said.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


def avoid_triton_crash() -> None:
    """Make TensorFlow and torch safe in one process; to be called before either is imported for our own use.

    torch's packages for Linux bring triton, which torch imports when the first optimizer is made. TensorFlow and triton
    each contain LLVM, and where triton is loaded after TensorFlow the process ends by a segmentation fault (TensorFlow
    2.21, triton 3.7); in the other order both work. So triton is imported here. Where TensorFlow is loaded already,
    torch is told instead that triton is not installed: it compiles code for graphics cards with it, and nothing else.
    """
    if "triton" in sys.modules or importlib.util.find_spec("tensorflow") is None:
        return
    if "tensorflow" in sys.modules:
        sys.modules["triton"] = None  # type: ignore[assignment]  # an import of it raises ImportError
    else:
        with suppress(ImportError):  # without triton, as in torch's CPU builds, nothing crashes
            importlib.import_module("triton")
