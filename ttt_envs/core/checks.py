"""Checks of arguments, and hints for mistyped names."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

MIN_PREFIX = 3
"""Minimum length, in characters, of a prefix that means the whole name."""

Class = TypeVar("Class", bound=type[Any])


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise ValueError unless ``value`` is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not known: choose {', '.join(map(repr, choices))}")


def truncate(value: object, most: int = 80) -> str:
    """Return a value as text of at most ``most`` characters; a longer text ends in ``...``."""
    text = str(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def quote(value: object) -> str:
    """Return any value, such as one of a file, in ASCII and short enough for a message."""
    return truncate(ascii(value), 60)


def closest_names(name: str, known: Iterable[str]) -> str:
    """Return the hint after an unknown name: the closest known one, or all of them."""
    known = sorted(known)
    near = closest_name(name, known)
    return f"did you mean {near!r}?" if near else f"choose one of {', '.join(map(repr, known))}"


def closest_name(name: str, known: Iterable[str], similarity: float = 0.5) -> str | None:
    """Return the known name closest to ``name``, None if none is close; case, ``-`` and ``_`` make no difference.

    A name that is the beginning of one known name alone means that one.
    """
    plain = {_plain(other): other for other in sorted(known, reverse=True)}
    longer = [other for other in plain if other.startswith(_plain(name))] if len(name) >= MIN_PREFIX else []
    near = longer if len(longer) == 1 else difflib.get_close_matches(_plain(name), plain, 1, similarity)
    return plain[near[0]] if near else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def check_argument_names(hints: Mapping[str, str]) -> Callable[[Class], Class]:
    """Decorate a class, whose ``__init__`` then names the closest argument for an unknown one.

    The message contains Python's own words, in which other libraries look for an argument that they may leave out.

    Args:
        hints: names that it does not have -> advice, where the closest name is of no help.
    """

    def decorate(kind: Class) -> Class:
        init: Callable[..., None] = kind.__init__
        known = list(inspect.signature(init).parameters)[1:]

        @functools.wraps(init)
        def checked(self: Any, *args: Any, **kwargs: Any) -> None:
            wrong = [
                f"an unexpected keyword argument {name!r}: {hints.get(name) or closest_names(name, known)}"
                for name in kwargs
                if name not in known
            ]
            if wrong:
                raise TypeError(f"{kind.__name__}.__init__() got {', and '.join(wrong)}")
            init(self, *args, **kwargs)

        kind.__init__ = checked
        return kind

    return decorate
