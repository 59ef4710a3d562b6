"""Arrays of records, whose fields a class declares: kernels read and write them by name."""

from __future__ import annotations

import typing
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Records = NDArray[Any]
"""an array with the fields of a class"""


def records(kind: type, shape: tuple[int, ...]) -> Records:
    """Return zeros with the fields that a class declares, usable in kernels and in plain Python.

    A field is a number, or an array of a fixed shape, such as ``Annotated[Int64Array, np.int64, (2,
    3)]``. A kernel takes a record as one pointer, but an array as seven numbers or more, which a
    recursion copies at every call.
    """
    return np.zeros(shape, _record_dtype(kind))


@cache
def _record_dtype(kind: type) -> np.dtype[Any]:
    hints = typing.get_type_hints(kind, include_extras=True).items()
    fields = [
        (name, *getattr(hint, "__metadata__", (np.int64 if hint is int else hint,)))
        for name, hint in hints
    ]
    return np.dtype((np.record, np.dtype(fields, align=True)))
