"""Libraries that talk while they are imported."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


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
