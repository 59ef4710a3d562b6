"""Processes of Python that are started by a command line."""

from __future__ import annotations

import os
from pathlib import Path


def subprocess_environment() -> dict[str, str]:
    """Return the environment of a process of Python that imports the same packages, installed or in a checkout."""
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
