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
    """Return zeros with the fields that a class declares, usable in kernels and in plain Python."""
    return np.zeros(shape, _record_dtype(kind))


@cache
def _record_dtype(kind: type) -> np.dtype[Any]:
    numbers = {int: np.int64, float: np.float64}
    fields = [(name, numbers.get(number, number)) for name, number in typing.get_type_hints(kind).items()]
    return np.dtype((np.record, np.dtype(fields, align=True)))
