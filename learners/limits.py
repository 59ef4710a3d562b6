"""Types of hyperparameters with their admissible values, and the check of a value against its type."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import numpy as np

from ttt_envs.core.work import MAX_THREADS, Threads


class Limit(NamedTuple):
    """Admissible values, for ``Annotated``."""

    words: str
    """what they are, after "choose" """
    admits: Callable[[Any], bool]


def number_range(low: float, high: float = math.inf, *, above: bool = False) -> Limit:
    """Return the limits of a number; ``above``: without ``low`` itself. Infinity and NaN are always outside."""
    first = f"above {low:,}" if above else f"{low:,} or more"
    words = first if high == math.inf else f"above {low:,} and at most {high:,}" if above else f"{low:,} to {high:,}"
    return Limit(words, lambda value: low <= value <= high and value < math.inf and not (above and value == low))


def layer_sizes(most: int, units: int) -> Limit:
    """Return the limits of the numbers of units of hidden layers."""

    def admits(sizes: Any) -> bool:
        return (
            isinstance(sizes, tuple)
            and 1 <= len(sizes) <= most
            and all(type(n) is int and 1 <= n <= units for n in sizes)
        )

    return Limit(f"1 to {most} layers of 1 to {units} units", admits)


Fraction = Annotated[float, number_range(0, 1)]
Positive = Annotated[float, number_range(0, above=True)]
NonNegative = Annotated[float, number_range(0)]
PositiveInt = Annotated[int, number_range(1)]
NonNegativeInt = Annotated[int, number_range(0)]
NumProcesses = Annotated[int, Limit("-1 (one for each core), 1 or more", lambda count: count == -1 or count >= 1)]
NumThreads = Annotated[
    Threads,
    Limit(
        f"auto (cores / jobs), or 1 to {MAX_THREADS:,}",
        lambda count: count == "auto" or (type(count) is int and 1 <= count <= MAX_THREADS),
    ),
]

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
    return next((limit.words for limit in limits if not limit.admits(value)), "")
