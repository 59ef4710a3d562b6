"""Searches and AlphaZero loops with planted errors: right ones, of which texts are replaced."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import right_loop
import right_search

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples.checks.planting import plant
from ttt_envs.core.files import read_table

ERRORS: Mapping[str, Any] = {
    error: {"families": ["puct", "uct"], "changes": [], "loop_changes": [], "harmless": False} | row
    for error, row in read_table(__file__).items()
}
"""Fields of the errors by name; see the file of the data."""
FAMILIES: Mapping[str, list[str]] = {
    family: [error for error, row in ERRORS.items() if family in row["families"]]
    for family in ("puct", "uct", "loop")
}
"""Names of errors by what has them."""


def _plant(right: ModuleType, error: str, kind: str) -> dict[str, Any]:
    return plant(inspect.getsource(right), ERRORS[error][kind] if error else [])


def plant_search(error: str, rule: str = "puct") -> right_search.PlainSearch:
    """Return a search with an error, "" for none."""
    return _plant(right_search, error, "changes")["PlainSearch"](rule)


def plant_loop(error: str) -> right_loop.Loop:
    """Return an AlphaZero loop with an error in itself or in its search, "" for none."""
    return _plant(right_loop, error, "loop_changes")["Loop"](plant_search(error))
