"""Types of hyperparameters with their admissible values, and the check of a value against its type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

import numpy as np

from ttt_envs.core.threads import MAX_THREADS, Threads


@dataclass(frozen=True)
class Range:
    """Limits of a number, for ``Annotated``. Infinity and NaN are always outside."""

    low: float
    high: float = math.inf
    above: bool = False
    """Whether ``low`` itself is outside."""

    def admits(self, value: float) -> bool:
        """Return whether a number is within the limits."""
        return (self.low < value if self.above else self.low <= value) and value <= self.high and value < math.inf

    def __str__(self) -> str:
        if self.above:
            return f"above {self.low:,}" + (f" and at most {self.high:,}" if self.high < math.inf else "")
        return f"{self.low:,} or more" if self.high == math.inf else f"{self.low:,} to {self.high:,}"


@dataclass(frozen=True)
class Layers:
    """Limits of the numbers of units of hidden layers, for ``Annotated``."""

    layers: int
    units: int

    def admits(self, value: Any) -> bool:
        """Return whether a tuple has an admissible length, of admissible integers."""
        sizes = isinstance(value, tuple) and all(type(n) is int and 1 <= n <= self.units for n in value)
        return sizes and 1 <= len(value) <= self.layers

    def __str__(self) -> str:
        return f"1 to {self.layers} layers of 1 to {self.units} units"


Fraction = Annotated[float, Range(0, 1)]
Positive = Annotated[float, Range(0, above=True)]
NonNegative = Annotated[float, Range(0)]
PositiveInt = Annotated[int, Range(1)]
NonNegativeInt = Annotated[int, Range(0)]


class _NumProcesses:
    def admits(self, value: int) -> bool:
        return value == -1 or value >= 1

    def __str__(self) -> str:
        return "-1 (one for each core), 1 or more"


NumProcesses = Annotated[int, _NumProcesses()]


class _NumThreads:
    def admits(self, value: Any) -> bool:
        return value == "auto" or (type(value) is int and 1 <= value <= MAX_THREADS)

    def __str__(self) -> str:
        return f"auto (cores / jobs), or 1 to {MAX_THREADS:,}"


NumThreads = Annotated[Threads, _NumThreads()]

_KINDS: Mapping[type, tuple[tuple[type, ...], str]] = {
    int: ((int, np.integer), "a whole number"),
    float: ((int, float, np.integer, np.floating), "a number"),
    bool: ((bool, np.bool_), "true or false"),
}


def describe_mismatch(value: Any, hint: Any) -> str:
    """Return the admissible values in words if a value does not fit a type hint, else "".

    16.0, as a file may have it, is not an integer, and true is not a number.
    """
    if type(None) in get_args(hint):
        if value is None:
            return ""
        hint = next(arm for arm in get_args(hint) if arm is not type(None))
    kind, *limits = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if kind in _KINDS:
        admissible, words = _KINDS[kind]
        if not isinstance(value, admissible) or (isinstance(value, bool) and kind is not bool):
            return words
    if get_origin(kind) is Literal and value not in get_args(kind):
        *most, last = get_args(kind)
        return f"{', '.join(most)} or {last}"
    return next((str(limit) for limit in limits if not limit.admits(value)), "")
