"""Checks of arguments."""

from __future__ import annotations


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise ValueError unless ``value`` is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not known: choose {', '.join(map(repr, choices))}")
