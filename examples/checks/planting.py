"""Errors that are planted in right code: texts of its source are replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def plant(
    source: str, changes: Sequence[Sequence[str]], names: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Run Python code in which texts are replaced, and return the names that it then has.

    Args:
        source: the right code.
        changes: pairs of an old text and a new one.
        names: what the code can use.

    Raises:
        ValueError: an old text does not occur exactly once.
    """
    for old, new in changes:
        if source.count(old) != 1:
            raise ValueError(f"{old!r} occurs {source.count(old)} times")
        source = source.replace(old, new)
    scope = {"__name__": __name__, **(names or {})}
    exec(source, scope)
    return scope
