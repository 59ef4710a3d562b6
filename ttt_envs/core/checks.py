"""Checks of arguments, and hints for mistyped names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MIN_PREFIX = 3
"""Minimum length, in characters, of a prefix that means the whole name."""


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
