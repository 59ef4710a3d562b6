"""Versions of packages and revision of the code, on which results depend."""

from __future__ import annotations

import platform
import subprocess
from contextlib import suppress
from importlib import metadata
from pathlib import Path

PACKAGES = (
    "ttt_envs",
    "numpy",
    "scipy",
    "numba",
    "gymnasium",
    "pettingzoo",
    "open_spiel",
    "tensorflow",
    "stable_baselines3",
    "sb3_contrib",
    "torch",
)
"""Packages on which results depend."""


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of those :data:`PACKAGES` and others that are installed."""
    result = {"python": platform.python_version()}
    for package in (*PACKAGES, *packages):
        # an extra, this package in a checkout, or no name
        with suppress(metadata.PackageNotFoundError, ValueError):
            result[package] = metadata.version(package)
    return result


def make_provenance() -> dict[str, str]:
    """Return the causes of stored results: versions of packages, and of the code that determines
    them as ``code``.
    """
    from ttt_eval.store.result_store import RESULT_VERSION

    return {**versions(), "code": str(RESULT_VERSION)}


def revision() -> str | None:
    """Return the git revision of this code, if it is a checkout and there is git."""
    root = Path(__file__).resolve().parents[2]
    command = ["git", "rev-parse", "HEAD"]
    # an installed copy may be in the checkout of another project, in its virtual environment
    if (root / ".git").exists():
        with suppress(OSError, subprocess.CalledProcessError):
            return subprocess.check_output(
                command, cwd=root, stderr=subprocess.DEVNULL, encoding="utf-8"
            ).strip()
    return None
