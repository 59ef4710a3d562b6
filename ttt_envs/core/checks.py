"""Checks of arguments, and hints for mistyped names."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["Refusal", "check_range"]

Item = TypeVar("Item")
DATA_PROBLEMS = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RecursionError,
)
"""Exceptions that reading data of another shape raises."""
MAX_PROBLEM = 400
"""Maximum number of characters of a message about a file, and of a position that a message quotes.
"""


class Refusal(ValueError):  # noqa: N818  # says what happened
    """A caller's mistake. Its message, one sentence with value, rule and remedy, is all that a
    command prints.
    """


class TypeRefusal(Refusal, TypeError):  # noqa: N818  # as above
    """An argument of the wrong type."""


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise ValueError unless ``value`` is one of the choices."""
    if value not in choices:
        raise Refusal(f"{name}={value!r} is not known: choose {', '.join(map(repr, choices))}")


def check_properties(owner: object, *names: str) -> None:
    """Raise early what properties of an object raise; cached ones keep their values."""
    for name in names:
        getattr(owner, name)


def is_whole(value: object) -> bool:
    """Return whether a value is an integer of Python or NumPy; truth values are none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def check_whole(name: str, value: object, example: int) -> None:
    """Raise TypeError unless ``value`` is a whole number; ``example`` is one for the message."""
    if not is_whole(value):
        raise TypeRefusal(
            f"{name}={value!r} is not a whole number: write for example {name}={example}"
        )


def check_range(
    name: str,
    value: float | None,
    low: float,
    high: float = math.inf,
    problem: str = "is out of range",
    hint: str = "",
    *,
    above: bool = False,
) -> None:
    """Raise ValueError unless a number is finite and in ``low`` to ``high``; None passes, which
    stands for no number.

    Args:
        name: of the number.
        value: the number.
        low, high: the smallest and the largest number.
        problem: what is wrong with another number, for the message.
        hint: follows the range in the message.
        above: whether ``low`` itself is too small.
    """
    if value is None or (
        low <= value <= high and value < math.inf and not (above and value == low)
    ):
        return
    choices = f"{low:,} or more"
    if high < math.inf:
        choices = f"{low:,} to {high:,}"
    if above:
        maximum = f", up to {high:,}" if high < math.inf else ""
        choices = f"a number above {low:,}{maximum}"
    raise Refusal(f"{name}={value} {problem}: choose {choices}{hint}")


def truncate(value: object, max_length: int = 80) -> str:
    """Return a value as text of at most ``max_length`` characters; a longer text ends in
    ``...``.
    """
    text = str(value)
    return text if len(text) <= max_length else f"{text[: max_length - 3]}..."


def quote(value: object) -> str:
    """Return any value, such as one of a file, in ASCII and short enough for a message."""
    return truncate(ascii(value), 60)


def escape_unprintable(text: str, keep: str = "") -> str:
    """Replace line breaks and other unprintable characters by their escapes, except those in
    ``keep``.

    Messages and tables quote names of files and texts in them, which may hold characters that a
    terminal obeys, or that are invalid in SVG.
    """
    return "".join(
        letter if letter.isprintable() or letter in keep else ascii(letter)[1:-1] for letter in text
    )


@contextmanager
def name_place(name: str, problems: tuple[type[Exception], ...] = DATA_PROBLEMS) -> Iterator[None]:
    """Put a place, such as a file and a line, before the message of a problem with data.

    Raises:
        ValueError: one of these problems.
    """
    try:
        yield
    except problems as problem:
        reason = str(problem).partition("\n")[0] or type(problem).__name__
        if isinstance(problem, KeyError):
            reason = f"it has no {problem}"
        raise Refusal(f"{name}: {truncate(reason, MAX_PROBLEM)}") from None


def closest_names(name: str, names: Iterable[str]) -> str:
    """Return the hint after an unknown name: the closest known one, or all; case, ``-`` and ``_``
    are the same.
    """
    choices = {choice.lower().replace("_", "-"): choice for choice in sorted(names, reverse=True)}
    matches = difflib.get_close_matches(name.lower().replace("_", "-"), choices, 1, 0.5)
    if matches:
        return f"did you mean {choices[matches[0]]!r}?"
    return f"choose one of {', '.join(map(repr, sorted(choices.values())))}"


def find_named(kind: str, name: str, objects: Mapping[str, Item]) -> Item:
    """Return the object with a name.

    Args:
        kind: of the objects, for the message.
        name: the name.
        objects: all objects, by name.

    Raises:
        ValueError: there is none; the message gives the closest name.
    """
    if name not in objects:
        raise Refusal(f"there is no {kind} {name[:80]!r}: {closest_names(name[:80], objects)}")
    return objects[name]
