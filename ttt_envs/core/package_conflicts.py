"""Detects folders and distributions of others that hide or have overwritten this project's packages.

``baselines`` and ``learners`` are also other projects' distributions on the package index, and an installer overwrites
files of the same name without a warning. So each package marks itself in its ``__init__``.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

PACKAGES = ("ttt_envs", "baselines", "learners", "ttt_eval", "ttt_apps")
MARKER = b"__ttt_envs__ = True"
ROOT = Path(__file__).resolve().parents[2]
"""Folder of the imported packages: a checkout, or ``site-packages``."""


def find_conflict() -> str | None:
    """Return a sentence on the first package that is not this project's, with the remedy; None if all are."""
    for package in PACKAGES:
        spec, own = importlib.util.find_spec(package), ROOT / package / "__init__.py"
        place = own if spec is None else spec.origin or next(iter(spec.submodule_search_locations or ()), "")
        if Path(place).resolve() != own or MARKER not in own.read_bytes():
            return (
                f"{place} is not the package {package} of ttt_envs: run from another folder, or install ttt_envs in an "
                f"environment of its own"
            )
    return None
